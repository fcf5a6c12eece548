//! A program that its user starts as their own: in their terminal, with their environment and rights.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, kill_process, waitpid,
};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{self, SignalKind};

/// A program that its user starts as their own.
#[derive(Debug)]
pub struct OwnProgram {
    /// The name that the user typed.
    pub name: OsString,
    pub path: PathBuf,
    pub args: Vec<OsString>,
    /// The variables that point it to a relay. Those of this process are not changed.
    pub variables: Vec<(OsString, OsString)>,
}

/// The end of such a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEnd {
    /// It exited with a code.
    Exited(u8),
    /// A signal ended it.
    Killed(i32),
}

impl OwnEnd {
    /// Returns the exit code that a shell would report.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(signal).unwrap_or(127).saturating_add(128),
        }
    }
}

/// Starts a program as its user would, and waits for its end.
///
/// The program is in the process group of this process and has its terminal, so that keys, resizing and job control reach
/// it without a detour. This process ignores what the terminal's keys would do to it, and passes on what was sent to it
/// alone. What this process was started to ignore stays ignored in both.
pub async fn own(program: OwnProgram) -> io::Result<OwnEnd> {
    let ignored = IgnoredSignals::of_process();
    // The terminal sends these to the program too. The handlers end with `exec`, so that they are the program's to handle.
    let _keys = [
        ignored.unless(Signal::INT, SignalKind::interrupt())?,
        ignored.unless(Signal::QUIT, SignalKind::quit())?,
    ];
    let mut ends = ignored.unless(Signal::TERM, SignalKind::terminate())?;
    let mut hang_ups = ignored.unless(Signal::HUP, SignalKind::hangup())?;
    let OwnProgram { name, path, args, variables } = program;
    let child = Command::new(path).arg0(name).args(args).envs(variables).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the program has no process id"))?;
    let mut waiting = tokio::task::spawn_blocking(move || wait(pid));
    loop {
        let signal = tokio::select! {
            biased;
            ended = &mut waiting => return ended.map_err(io::Error::other)?,
            () = received(&mut ends) => Signal::TERM,
            () = received(&mut hang_ups) => Signal::HUP,
        };
        // An error means that it has ended, which the wait reports.
        let _ = kill_process(pid, signal);
    }
}

/// Waits for a signal; forever if it is not handled.
async fn received(signal: &mut Option<unix::Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// The time in which a signal reaches all processes of a group.
const GROUP_SIGNAL: Duration = Duration::from_millis(20);

/// Waits for the end of a program. If it stops itself, this process stops too: the shell waits for this process alone.
fn wait(pid: Pid) -> io::Result<OwnEnd> {
    let mut next = None;
    loop {
        let status = match next.take() {
            Some(status) => status,
            None => match waited(pid, WaitOptions::UNTRACED)? {
                Some(status) => status,
                None => continue,
            },
        };
        if let Some(signal) = status.terminating_signal() {
            return Ok(OwnEnd::Killed(signal));
        }
        if let Some(code) = status.exit_status() {
            return Ok(OwnEnd::Exited(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        if !status.stopped() || !has_terminal() {
            continue;
        }
        // A key that stops the whole group stopped this process too, and when it runs again, so does the program.
        std::thread::sleep(GROUP_SIGNAL);
        let polled = WaitOptions::CONTINUED | WaitOptions::NOHANG;
        next = waited(pid, polled)?;
        if next.is_none() {
            kill_process(getpid(), Signal::STOP)?;
            // Here this process was continued, perhaps alone.
            std::thread::sleep(GROUP_SIGNAL);
            next = waited(pid, polled)?;
            if next.is_none() {
                let _ = kill_process(pid, Signal::CONT);
            }
        }
    }
}

fn waited(pid: Pid, options: WaitOptions) -> io::Result<Option<WaitStatus>> {
    match waitpid(Some(pid), options) {
        Ok(found) => Ok(found.map(|(_, status)| status)),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether this process is in the foreground of a terminal, whose shell continues it as a whole.
#[expect(clippy::disallowed_methods, reason = "nothing is written to them")]
fn has_terminal() -> bool {
    let own = Some(getpgrp());
    let foreground =
        [tcgetpgrp(io::stdin()).ok(), tcgetpgrp(io::stdout()).ok(), tcgetpgrp(io::stderr()).ok()];
    foreground.contains(&own)
}

/// The signals that this process was started to ignore, as by `nohup`, one bit for each.
struct IgnoredSignals(u64);

impl IgnoredSignals {
    /// Reads them where the system shows them; elsewhere none is known.
    #[expect(clippy::disallowed_methods, reason = "the kernel limits the size")]
    fn of_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    /// Handles a signal, unless it is ignored: a handler would make the program handle it too.
    fn unless(&self, signal: Signal, kind: SignalKind) -> io::Result<Option<unix::Signal>> {
        let is_ignored = self.0 & (1 << (signal.as_raw() - 1)) != 0;
        if is_ignored { Ok(None) } else { unix::signal(kind).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(script: &str) -> OwnEnd {
        let program = OwnProgram {
            name: "sh".into(),
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            variables: vec![("CODE".into(), "7".into())],
        };
        own(program).await.unwrap()
    }

    #[tokio::test]
    async fn the_end_of_a_program_is_its_code_or_its_signal() {
        assert_eq!(ended("exit $CODE").await.code(), 7);
        assert_eq!(ended("kill -TERM $$").await, OwnEnd::Killed(15));
        assert_eq!(ended("kill -KILL $$").await.code(), 137);
        // A signal without a name.
        assert_eq!(ended("kill -40 $$").await.code(), 168);
    }

    #[tokio::test]
    async fn a_program_that_is_missing_is_an_error() {
        let (path, name) = ("/nonexistent/claude".into(), "claude".into());
        let missing = OwnProgram { name, path, args: Vec::new(), variables: Vec::new() };
        assert_eq!(own(missing).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
