//! Linux: subreapers, parent-death signals and `/proc`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::guardian::KEEPER;

/// Returns the running program, even if its file was replaced.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub fn this_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Enlarges the buffer of a pipe, so that a program that exits without flushing loses less output to a slow
/// reader.
pub fn widen(pipe: impl AsFd) {
    // If the system refuses, the default size works too.
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(1 << 20));
}

/// The maximum length of a socket path.
const SOCKET_PATH: usize = 107;

/// Calls a function with a short path to a file, because the path of a temporary directory may be too long for
/// a socket address.
pub fn at_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    // Not every sandbox has /proc, so it is used only for long paths.
    if path.as_os_str().len() <= SOCKET_PATH {
        return act(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return act(path);
    };
    let directory = fs::File::open(parent)?;
    act(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

/// Makes this process the subreaper of its descendants.
pub fn adopt_orphans() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Kills this process when its parent ends.
pub fn end_with_parent() -> nix::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)
}

/// Waits until a child has ended without reaping it, so that its process id is not reused. Other children are
/// reaped as they end.
pub fn wait_for_end(child: Pid) -> Option<ExitStatus> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        let ended = match waitid(Id::All, look) {
            Ok(status) => status.pid(),
            Err(Errno::EINTR) => continue,
            // An unknown signal killed a child.
            Err(Errno::EINVAL) => None,
            Err(_) => return None,
        };
        let is_over = || {
            let look = look | WaitPidFlag::WNOHANG;
            !matches!(waitid(Id::Pid(child), look), Ok(WaitStatus::StillAlive))
        };
        match ended {
            Some(pid) if pid != child => drop(waitpid(pid, Some(WaitPidFlag::WNOHANG))),
            None if !is_over() => drop(waitpid(None, Some(WaitPidFlag::WNOHANG))),
            _ => return None,
        }
    }
}

/// Waits until a child has ended, without reaping it.
pub fn wait_unreaped(child: Pid) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    // An error other than an interruption means that there is nothing to wait for.
    while waitid(Id::Pid(child), look) == Err(Errno::EINTR) {}
}

/// Processes whose end can be waited for, although they are not all children of this one.
#[derive(Debug)]
pub struct Ending {
    pids: Vec<Pid>,
    /// Of those that have not ended yet.
    descriptors: Vec<OwnedFd>,
}

impl Ending {
    /// The pause where the kernel cannot tell when a process ends, and before a list of processes that missed one is read
    /// again.
    const PAUSE: Duration = Duration::from_millis(1);

    /// Opens the processes, before anything is done to them.
    pub fn watch(pids: Vec<Pid>) -> Self {
        let open = |pid: &Pid| pidfd_open(rustix_pid(*pid)?, PidfdFlags::empty()).ok();
        let descriptors = pids.iter().filter_map(open).collect();
        Self { pids, descriptors }
    }

    pub fn pids(&self) -> &[Pid] {
        &self.pids
    }

    /// Waits until all of them have ended, or the time is over.
    pub fn wait(mut self, limit: Duration) {
        if self.descriptors.is_empty() {
            thread::sleep(Self::PAUSE.min(limit));
        }
        let end = Instant::now() + limit;
        while !self.descriptors.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let mut ready: Vec<PollFd<'_>> =
                self.descriptors.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
            let left_time = Timespec::try_from(left).ok();
            match poll(&mut ready, left_time.as_ref()) {
                Ok(1..) | Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return,
            }
            let has_ended: Vec<bool> = ready.iter().map(|it| !it.revents().is_empty()).collect();
            let mut has_ended = has_ended.into_iter();
            self.descriptors.retain(|_| !has_ended.next().unwrap_or(false));
        }
    }
}

fn rustix_pid(pid: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(pid.as_raw())
}

/// Returns this user's processes whose temporary directory is this one or below it: those that a killed
/// guardian left behind.
pub fn using(private_dir: &Path) -> Vec<Pid> {
    let is_within = |variable: &[u8]| {
        let value = variable.strip_prefix(b"TMPDIR=").map(OsStr::from_bytes);
        value.is_some_and(|value| Path::new(value).starts_with(private_dir))
    };
    let uses = |pid: &i32| {
        #[expect(clippy::disallowed_methods, reason = "the kernel limits the size")]
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(is_within)
    };
    all_pids().filter(uses).map(Pid::from_raw).collect()
}

/// Returns whether a process is a keeper.
pub fn is_keeper(pid: Pid) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the kernel limits the size")]
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|&byte| byte == 0).nth(1) == Some(KEEPER.as_bytes())
}

fn all_pids() -> impl Iterator<Item = i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the living descendants of `ancestor`. Reads one small file per process of the machine.
pub fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all_pids() {
        #[expect(clippy::disallowed_methods, reason = "the kernel limits the size")]
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Some((parent, true)) = parent_and_alive(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut ancestors = vec![ancestor.as_raw()];
    while let Some(parent) = ancestors.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.push(Pid::from_raw(pid));
            ancestors.push(pid);
        }
    }
    found
}

/// Parses the parent of a process from a `stat` line, and whether it is alive.
fn parent_and_alive(stat: &str) -> Option<(i32, bool)> {
    // The name is in parentheses and may itself contain parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((parent, !matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_parent() {
        assert_eq!(parent_and_alive("7 (a) S 1 (b) R 42 7 7"), Some((42, true)));
        assert_eq!(parent_and_alive("7 (sh) Z 42 7"), Some((42, false)));
    }
}
