//! Systems without subreapers: what left the agent's process group is not found again.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Returns the running program.
pub fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// There is no such thing here.
pub fn adopt_orphans() -> nix::Result<()> {
    Ok(())
}

/// There is no such thing here; the guardian ends what it holds.
pub fn end_with_parent() -> nix::Result<()> {
    Ok(())
}

/// Returns when a child has ended, and how. It is reaped, because nothing else says that it has.
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

/// Nothing says who descends from whom; the guardian ends the agent's group.
pub fn descendants(_ancestor: Pid) -> Vec<Pid> {
    Vec::new()
}

/// Nothing says what stands in another process's environment.
pub fn using(_private_dir: &Path) -> Vec<Pid> {
    Vec::new()
}

/// Nothing says what another process was started as.
pub fn is_keeper(_pid: Pid) -> bool {
    false
}

/// There is no shorter path than its own here.
pub fn at_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    act(path)
}

/// Pipes have one size here.
pub fn widen(_pipe: impl AsFd) {}
