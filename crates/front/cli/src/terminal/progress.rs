//! A line on the terminal that tells what long work does, and for how long.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use super::filter::clear_line;
use super::{is_quiet, stderr};

/// The time before the line appears, and between two of its states.
const INTERVAL: Duration = Duration::from_millis(500);

/// The line, which is gone when this is dropped. Nothing is shown where standard error is no terminal.
pub struct ProgressLine(Option<(SyncSender<String>, JoinHandle<()>)>);

impl ProgressLine {
    /// Begins a line: what is done, in the form `measuring claude`.
    pub fn begin(what: impl Into<String>) -> Self {
        if !stderr().is_terminal() || is_quiet() {
            return Self(None);
        }
        let (sender, receiver) = sync_channel(1);
        let mut what = what.into();
        let line = spawn(move || {
            let began = Instant::now();
            let mut is_shown = false;
            loop {
                match receiver.recv_timeout(INTERVAL) {
                    Ok(next) => what = next,
                    Err(RecvTimeoutError::Timeout) => {
                        is_shown = true;
                        let (seconds, mut out) = (began.elapsed().as_secs(), stderr());
                        let _ = write!(out, "{}{what}, {seconds} s", clear_line());
                        let _ = out.flush();
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if is_shown {
                let mut out = stderr();
                let _ = write!(out, "{}", clear_line());
                let _ = out.flush();
            }
        });
        Self(Some((sender, line)))
    }

    /// Changes what is done.
    pub fn set(&self, what: impl FnOnce() -> String) {
        if let Self(Some((sender, _))) = self {
            // A line that is behind shows the next one.
            let _ = sender.try_send(what());
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((sender, line)) = self.0.take() {
            drop(sender);
            // The line shows nothing else; its end is all that matters.
            let _ = line.join();
        }
    }
}
