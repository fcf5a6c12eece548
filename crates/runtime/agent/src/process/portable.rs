//! Systems without subreapers: processes that leave the agent's process group are not found.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Returns the running program.
pub fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Not supported here.
pub fn adopt_orphans() -> nix::Result<()> {
    Ok(())
}

/// Not supported here.
pub fn end_with_parent() -> nix::Result<()> {
    Ok(())
}

/// Waits for a child and reaps it.
pub fn wait_for_end(child: Pid) -> Option<ExitStatus> {
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, code)) => return Some(ExitStatus::from_raw(code << 8)),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                return Some(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Waits until a child has ended.
pub fn wait_unreaped(child: Pid) {
    let _ = waitpid(child, None);
}

/// Processes whose end cannot be waited for here.
#[derive(Debug)]
pub struct Ending(Vec<Pid>);

impl Ending {
    pub fn watch(pids: Vec<Pid>) -> Self {
        Self(pids)
    }

    pub fn pids(&self) -> &[Pid] {
        &self.0
    }

    /// Pauses, so that the next look at the children finds more of them ended.
    pub fn wait(self, limit: Duration) {
        std::thread::sleep(limit.min(Duration::from_millis(10)));
    }
}

/// Not supported here; the guardian kills the agent's process group.
pub fn descendants(_ancestor: Pid) -> Vec<Pid> {
    Vec::new()
}

/// Not supported here.
pub fn using(_private_dir: &Path) -> Vec<Pid> {
    Vec::new()
}

/// Not supported here.
pub fn is_keeper(_pid: Pid) -> bool {
    false
}

/// Uses the path itself.
pub fn at_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    act(path)
}

/// Not supported here.
pub fn widen(_pipe: impl AsFd) {}
