//! Linux: orphans come to the guardian, and `/proc` says who descends from whom.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::guardian::KEEPER;

/// Returns the running program: the file itself, also when another was installed over its name.
#[expect(clippy::unnecessary_wraps, reason = "other systems may not know")]
pub fn this_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// Makes a pipe hold as much as it may. A program that exits without flushing its output, as some do,
/// loses less of it when its reader is slow.
pub fn widen(pipe: impl AsFd) {
    // A system that grants less leaves the pipe as it was, and that works too.
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(1 << 20));
}

/// The most bytes of a path in the address of a socket.
const SOCKET_PATH: usize = 107;

/// Does something with a short path to a file, however long its own is: a temporary directory may lie
/// deeper than the address of a socket can say.
pub fn at_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    // Not every sandbox has a /proc, so that only what needs it goes that way.
    if path.as_os_str().len() <= SOCKET_PATH {
        return act(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return act(path);
    };
    let directory = fs::File::open(parent)?;
    act(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

/// Makes orphans among our descendants our children, whatever session they are in.
pub fn adopt_orphans() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Makes this process end when its parent does.
pub fn end_with_parent() -> nix::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)
}

/// Returns when a child has ended, and leaves it to be reaped: as long as nobody has, its number is
/// nobody else's. Other children are reaped as they end, so that none stays a zombie.
pub fn wait_for_end(child: Pid) -> Option<ExitStatus> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        let ended = match waitid(Id::All, look) {
            Ok(status) => status.pid(),
            Err(Errno::EINTR) => continue,
            // A signal that has no name here ended one of them.
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

/// Returns every process of this user whose temporary directory is this one, or lies below it: what a
/// guardian that was itself killed can no longer end.
pub fn using(private_dir: &Path) -> Vec<Pid> {
    let is_within = |variable: &[u8]| {
        let value = variable.strip_prefix(b"TMPDIR=").map(OsStr::from_bytes);
        value.is_some_and(|value| Path::new(value).starts_with(private_dir))
    };
    let uses = |pid: &i32| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel bounds what it says of a process"
        )]
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(is_within)
    };
    all_pids().filter(uses).map(Pid::from_raw).collect()
}

/// Returns whether a process is a keeper, which ends what it holds, and then itself.
pub fn is_keeper(pid: Pid) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the kernel bounds what it says of a process")]
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|&byte| byte == 0).nth(1) == Some(KEEPER.as_bytes())
}

fn all_pids() -> impl Iterator<Item = i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns every living process that descends from `ancestor`. Costs one small file per process of the
/// machine.
pub fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all_pids() {
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel bounds what it says of a process"
        )]
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

/// Reads the parent from a `stat` line, and whether the process still runs.
fn parent_and_alive(stat: &str) -> Option<(i32, bool)> {
    // The name stands in parentheses and may hold some itself.
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
