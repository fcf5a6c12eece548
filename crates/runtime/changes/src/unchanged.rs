//! The quick look at a directory: which of its known directories changed since the last manifest.
//!
//! Every known directory is opened once and its files are checked from there, by several threads: most of the time is
//! spent in the kernel, on a path and on the caches of files. The look only compares; the scan lists and asks about what
//! it returns.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};

use crate::entry::NAMED;
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::manifest::{Directory, Manifest};
use crate::tree_path::TreePath;

/// The files and directories that are worth another thread.
const ENTRIES_OF_THREAD: u64 = 5_000;
/// The maximum number of threads. May exceed the number of cores, for slow file systems.
const MAX_THREADS: u64 = 8;
/// The directories that a thread takes at a time.
const BATCH: usize = 8;

/// Returns the directories of a manifest that differ from it, or may: one that is gone, has other names in it, or has a file
/// whose status differs or does not decide it.
pub(crate) fn changed_directories<'a>(
    root: &Path,
    manifest: &'a Manifest,
    deadline: Deadline,
) -> Result<HashSet<&'a TreePath>, ChangesError> {
    let directories: Vec<(&TreePath, &Directory)> =
        manifest.directories.iter().map(|(path, directory)| (path, &**directory)).collect();
    let top = openat(CWD, root, NAMED, Mode::empty());
    let top = top.map_err(|error| ChangesError::io(root)(error.into()))?;
    let next = AtomicUsize::new(0);
    let look = || {
        let mut changed = Vec::new();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(rest) = directories.get(from..).filter(|rest| !rest.is_empty()) else {
                return Ok(changed);
            };
            deadline.check()?;
            let batch = rest.iter().take(BATCH);
            let differs = batch.filter(|(path, known)| !is_unchanged(&top, path, known));
            changed.extend(differs.map(|(path, _)| *path));
        }
    };
    let threads = (manifest.len() / ENTRIES_OF_THREAD).min(MAX_THREADS);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(look)).collect();
        let mut changed: HashSet<&TreePath> = look()?.into_iter().collect();
        for other in others {
            match other.join() {
                Ok(found) => changed.extend(found?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(changed)
    })
}

fn is_unchanged(top: &OwnedFd, path: &TreePath, known: &Directory) -> bool {
    // A directory above that is a link now is a change of its own, and the scan does not come here.
    let name = if path.is_root() { b"." } else { path.as_bytes() };
    let Ok(directory) = openat(top, name, NAMED | OFlags::NOFOLLOW, Mode::empty()) else {
        return false;
    };
    fstat(&directory).is_ok_and(|stat| known.has_status(&stat))
        && known.files.iter().all(|(name, entry)| {
            statat(&directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| entry.has_status(&stat))
        })
}
