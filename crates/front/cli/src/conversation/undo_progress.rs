//! The progress of an undo or a merge on a terminal.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use convoke_changes::Progress;

use crate::terminal::{clear_line, stderr};

/// The time before the first line, and between two.
const INTERVAL: Duration = Duration::from_millis(200);

/// Returns a report of progress in one line of standard error, if that is a terminal.
pub fn progress() -> Progress {
    if !stderr().is_terminal() {
        return Progress::default();
    }
    let shown = Mutex::new((Instant::now(), false));
    Progress::new(move |done, all| {
        let Ok(mut shown) = shown.lock() else { return };
        let (last, is_shown) = &mut *shown;
        let is_last = done >= all;
        if !is_last && last.elapsed() < INTERVAL || is_last && !*is_shown {
            return;
        }
        (*last, *is_shown) = (Instant::now(), !is_last);
        let percent = done * 100 / all.max(1);
        let text = if is_last { String::new() } else { format!("changing files, {percent} %") };
        let mut out = stderr();
        let _ = write!(out, "{}{text}", clear_line());
        let _ = out.flush();
    })
}
