//! Private temporary directories, removed even after a crash.
//!
//! Each contains a file that its creator keeps locked. A directory whose lock is free was left behind and is removed
//! when the next one is created.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use super::platform;

const PREFIX: &str = "convoke-";
const LOCK: &str = "lock";
/// The age after which a directory without a lock file is removed: its creator was killed, or an older version.
const UNLOCKED_AGE: Duration = Duration::from_hours(24);

/// A directory that is removed when this is dropped, or by the next process after a crash.
#[derive(Debug)]
pub struct PrivateDir {
    dir: TempDir,
    /// Released after the directory is removed.
    _lock: File,
}

impl PrivateDir {
    /// Creates a directory that only this user can read. Removes abandoned ones in the background.
    pub fn create(root: &Path) -> io::Result<Self> {
        let swept = root.to_owned();
        std::thread::spawn(move || sweep(&swept));
        Self::new(root)
    }

    fn new(root: &Path) -> io::Result<Self> {
        let owner_only = Permissions::from_mode(0o700);
        let dir =
            tempfile::Builder::new().prefix(PREFIX).permissions(owner_only).tempdir_in(root)?;
        let lock = locked_file(dir.path())?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Creates the lock file. It is locked before it gets its name, so that no directory in use looks abandoned.
fn locked_file(dir: &Path) -> io::Result<File> {
    let draft = dir.join(".lock");
    let file = File::create_new(&draft)?;
    file.try_lock().map_err(io::Error::from)?;
    std::fs::rename(draft, dir.join(LOCK))?;
    Ok(file)
}

/// Returns whether a directory has the name of a private one.
pub(super) fn is_private_dir(dir: &Path) -> bool {
    dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
}

/// Returns the private directories of other turns, and the pattern for future ones.
pub(crate) fn other_private_dirs(root: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let others = entries.map(|entry| entry.path()).filter(|dir| is_private_dir(dir) && dir != own);
    others.chain([root.join(PREFIX)]).collect()
}

/// Removes this user's abandoned private directories, and kills processes that still use them.
pub fn sweep(root: &Path) {
    for dir in left_behind(root) {
        for pid in platform::using(&dir) {
            // The process may have ended already.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = std::fs::remove_dir_all(&dir);
    }
}

fn left_behind(root: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|dir| is_private_dir(dir) && is_left_behind(dir))
}

/// Returns whether a directory is abandoned.
pub(super) fn is_left_behind(dir: &Path) -> bool {
    let Ok(metadata) = dir.symlink_metadata() else { return false };
    if !metadata.is_dir() || metadata.uid() != nix::unistd::geteuid().as_raw() {
        return false;
    }
    if let Ok(file) = File::open(dir.join(LOCK)) {
        return file.try_lock().is_ok();
    }
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > UNLOCKED_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_directory_is_for_this_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let dir = PrivateDir::create(root.path()).unwrap();
        assert!(is_private_dir(dir.path()) && !is_private_dir(root.path()));
        assert_eq!(dir.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let held = PrivateDir::new(root.path()).unwrap();
        let make = |name: &str| {
            let dir = root.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            dir
        };
        // The kernel releases the lock of a killed process.
        let left = make("convoke-left");
        std::fs::write(left.join(LOCK), "").unwrap();
        std::fs::create_dir(left.join("tmp")).unwrap();
        let (being_made, foreign) = (make("convoke-new"), make("other"));
        let old = make("convoke-old");
        let long_ago = std::time::SystemTime::now() - 2 * UNLOCKED_AGE;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();
        let link = root.path().join("convoke-link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        std::fs::write(foreign.join(LOCK), "").unwrap();

        sweep(root.path());
        assert!(!left.exists() && !old.exists());
        assert!(held.path().exists() && being_made.exists() && foreign.exists());
        assert!(link.symlink_metadata().is_ok());
    }
}
