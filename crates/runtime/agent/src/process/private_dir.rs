//! Private temporary directories, removed even after a crash.
//!
//! Each contains a file with a known text that its creator keeps locked. A directory whose lock is free was left behind and
//! is removed when the next one is created. The name and the mode of a directory prove nothing: the user's own may have
//! the same.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_core::figures::hexadecimal;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::platform;

const PREFIX: &str = "convoke-";
const LOCK: &str = "lock";
const USUAL_TEMP_ROOT: &str = "/tmp";
/// The text of the lock file, by which a directory is known as one of Convoke.
pub(super) const MARK: &[u8] =
    b"a private directory of Convoke: removed when this file is not locked\n";
/// The age after which an empty directory is removed. Its creator was killed before it made the lock file.
const UNLOCKED_AGE: Duration = Duration::from_hours(24);
/// The number of characters after the prefix, in random names and in names derived from a key.
const RANDOM_LENGTH: usize = 6;
const KEYED_LENGTH: usize = 16;

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
        let created = Self::new(root, PREFIX, RANDOM_LENGTH);
        sweep_in_background(root);
        created
    }

    /// Creates a directory with the same path for the same key. A program may tell its model the path of its
    /// home, and another path would change a prefix that the provider has cached.
    ///
    /// If the path is in use by another process or user, the name is random.
    pub fn create_for(root: &Path, key: &str) -> io::Result<Self> {
        let created = Self::keyed(root, key);
        sweep_in_background(root);
        created
    }

    fn keyed(root: &Path, key: &str) -> io::Result<Self> {
        let digest = hexadecimal(&Sha256::digest(key));
        let name = format!("{PREFIX}{}", &digest[..KEYED_LENGTH]);
        for _ in 0..2 {
            match Self::new(root, &name, 0) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Some(abandoned) = Abandoned::claim(root.join(&name)) else { break };
                    abandoned.remove();
                }
                created => return created,
            }
        }
        Self::new(root, PREFIX, RANDOM_LENGTH)
    }

    fn new(root: &Path, prefix: &str, random: usize) -> io::Result<Self> {
        let owner_only = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).rand_bytes(random).permissions(owner_only);
        let dir = builder.tempdir_in(root)?;
        let lock = locked_file(dir.path())?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Creates the lock file. It is locked before it gets its name, so that a directory in use never looks
/// abandoned.
fn locked_file(dir: &Path) -> io::Result<File> {
    let draft = dir.join(".lock");
    let mut file = File::create_new(&draft)?;
    file.try_lock().map_err(io::Error::from)?;
    file.write_all(MARK)?;
    std::fs::rename(draft, dir.join(LOCK))?;
    Ok(file)
}

/// Returns whether a directory has the name of a private one.
pub(super) fn is_private_dir(dir: &Path) -> bool {
    dir.file_name().and_then(|name| name.to_str()).is_some_and(is_private_name)
}

/// Returns whether a name is one that a private directory gets. Those of the user's own may begin in the same way.
fn is_private_name(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    [RANDOM_LENGTH, KEYED_LENGTH].contains(&rest.len())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether a path in a text is in a private directory, of this turn or another.
pub(crate) fn is_private_path(path: &str) -> bool {
    path.split('/').skip(1).any(is_private_name)
}

/// Returns the private directories of other turns, and the pattern for future ones.
pub(crate) fn other_private_dirs(root: &Path, own: &[&Path]) -> Vec<PathBuf> {
    let is_other = |dir: &PathBuf| is_private_dir(dir) && !own.contains(&dir.as_path());
    entries(root).filter(is_other).chain([root.join(PREFIX)]).collect()
}

fn sweep_in_background(root: &Path) {
    let root = root.to_owned();
    std::thread::spawn(move || sweep(&root));
}

/// Removes this user's abandoned private directories, and kills processes that still use them.
pub fn sweep(root: &Path) {
    let abandoned = entries(root).filter(|dir| is_private_dir(dir)).filter_map(Abandoned::claim);
    abandoned.for_each(Abandoned::remove);
}

fn entries(root: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// A private directory that its creator left behind.
pub(super) struct Abandoned {
    dir: PathBuf,
    proof: Proof,
}

/// Why a directory is one that Convoke left.
enum Proof {
    /// It has the marked lock file, which is held: no other process removes the directory or takes its path.
    Mark { _lock: File },
    /// None; it is only removed as long as nothing is in it.
    Empty,
}

impl Abandoned {
    /// Claims a directory; `None` if it is in use.
    pub(super) fn claim(dir: PathBuf) -> Option<Self> {
        let metadata = own_private_dir(&dir)?;
        if let Some(file) = open_lock(&dir) {
            file.try_lock().ok()?;
            return Self::locked(dir, file);
        }
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        let is_old = age.is_some_and(|age| age > UNLOCKED_AGE);
        (is_old && entries(&dir).next().is_none()).then_some(Self { dir, proof: Proof::Empty })
    }

    /// Waits until the creator of a directory releases it, and claims it; `None` if the creator removed it. The lock file
    /// was opened when it was in use.
    pub(super) fn claim_when_released(dir: PathBuf, lock: &File) -> Option<Self> {
        let lock = lock.try_clone().ok()?;
        lock.lock().ok()?;
        own_private_dir(&dir)?;
        Self::locked(dir, lock)
    }

    /// Returns the directory of a lock file that this process holds.
    fn locked(dir: PathBuf, lock: File) -> Option<Self> {
        if !is_marked(&lock) {
            return None;
        }
        // Since the file was opened, another process may have removed the directory and created it again.
        let (held, there) = (lock.metadata().ok()?, dir.join(LOCK).symlink_metadata().ok()?);
        let is_same = (held.dev(), held.ino()) == (there.dev(), there.ino());
        is_same.then_some(Self { dir, proof: Proof::Mark { _lock: lock } })
    }

    /// Removes the directory, and kills the processes that still use it.
    pub(super) fn remove(self) {
        if matches!(self.proof, Proof::Empty) {
            let _ = std::fs::remove_dir(&self.dir);
            return;
        }
        for pid in platform::using(&self.dir) {
            // The process may have ended already.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns the metadata of a directory that may be a private one of this user.
fn own_private_dir(dir: &Path) -> Option<Metadata> {
    let metadata = dir.symlink_metadata().ok()?;
    // A private directory is for its user alone from the beginning; one that others can read is somebody's own.
    let is_private = metadata.mode() & 0o777 == 0o700 && is_private_dir(dir);
    let is_own = metadata.uid() == nix::unistd::geteuid().as_raw();
    (metadata.is_dir() && is_private && is_own).then_some(metadata)
}

/// Opens the lock file of a directory, which an agent may have replaced by anything.
pub(super) fn open_lock(dir: &Path) -> Option<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(dir.join(LOCK)).ok()
}

/// Returns whether a lock file is one of Convoke.
fn is_marked(file: &File) -> bool {
    let mut text = [0; MARK.len()];
    file.read_exact_at(&mut text, 0).is_ok() && text == MARK
}

/// Returns the parent of private directories: the user's directory for temporary files.
pub fn temp_root() -> PathBuf {
    temp_root_of(std::env::temp_dir())
}

fn temp_root_of(mut root: PathBuf) -> PathBuf {
    // An empty `TMPDIR` counts as none, as for other programs.
    if root.as_os_str().is_empty() {
        root = USUAL_TEMP_ROOT.into();
    }
    // `TMPDIR` may be relative, but is compared with real paths.
    std::path::absolute(&root).unwrap_or(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(path: &Path) -> PathBuf {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        path.to_owned()
    }

    #[test]
    fn an_empty_variable_names_no_root_of_temporary_files() {
        assert_eq!(temp_root_of(PathBuf::new()), Path::new("/tmp"));
        assert_eq!(temp_root_of("sub".into()), std::env::current_dir().unwrap().join("sub"));
    }

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
        let held = PrivateDir::new(root.path(), PREFIX, RANDOM_LENGTH).unwrap();
        let make = |name: &str| private(&root.path().join(name));
        // The kernel releases the lock of a killed process.
        let left = make("convoke-left00");
        std::fs::write(left.join(LOCK), MARK).unwrap();
        std::fs::create_dir(left.join("tmp")).unwrap();
        let (being_made, foreign) = (make("convoke-new000"), make("other"));
        let old = make("convoke-old000");
        let long_ago = std::time::SystemTime::now() - 2 * UNLOCKED_AGE;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();
        let link = root.path().join("convoke-link00");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        std::fs::write(foreign.join(LOCK), MARK).unwrap();
        let (notes, backup) = (make("convoke-notes"), make("convoke-backup"));
        std::fs::set_permissions(&backup, Permissions::from_mode(0o755)).unwrap();
        for dir in [&notes, &backup] {
            std::fs::write(dir.join(LOCK), MARK).unwrap();
        }

        sweep(root.path());
        assert!(notes.exists() && backup.exists());
        assert!(!left.exists() && !old.exists());
        assert!(held.path().exists() && being_made.exists() && foreign.exists());
        assert!(link.symlink_metadata().is_ok());
    }

    /// With a umask of 077, every directory of the user has the mode of a private one.
    #[test]
    fn a_directory_of_the_user_that_is_named_like_a_private_one_stays() {
        let root = tempfile::tempdir().unwrap();
        let long_ago = std::time::SystemTime::now() - 3 * UNLOCKED_AGE;
        let make = |name: &str, file: &str, text: &[u8]| {
            let dir = private(&root.path().join(name));
            std::fs::write(dir.join(file), text).unwrap();
            File::open(&dir).unwrap().set_modified(long_ago).unwrap();
            dir.join(file)
        };
        let kept = [
            make("convoke-backup", "notes", b"text"),
            make("convoke-locks0", LOCK, b""),
            make("convoke-locks1", LOCK, b"4711\n"),
            make("convoke-0123456789abcdef", ".hidden", b"text"),
        ];
        sweep(root.path());
        for file in &kept {
            assert!(file.exists(), "{}", file.display());
        }
        // A file that is put in meanwhile keeps an empty one.
        let dir = private(&root.path().join("convoke-empty0"));
        File::open(&dir).unwrap().set_modified(long_ago).unwrap();
        let claimed = Abandoned::claim(dir.clone()).unwrap();
        std::fs::write(dir.join("new"), "").unwrap();
        claimed.remove();
        assert!(dir.join("new").exists());
    }

    #[test]
    fn a_key_decides_the_path_unless_it_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let create = |key: &str| PrivateDir::keyed(root.path(), key).unwrap();
        let first = create("session-ana");
        let path = first.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(is_private_path(path.to_str().unwrap()));
        let (other, second) = (create("session-ben"), create("session-ana"));
        assert!(other.path() != path && second.path() != path && second.path().exists());
        drop(first);
        assert!(!path.exists());
        assert_eq!(create("session-ana").path(), path);

        // A directory left by a killed process is removed first.
        private(&path);
        std::fs::write(path.join("left"), "").unwrap();
        std::fs::write(path.join(LOCK), MARK).unwrap();
        let again = create("session-ana");
        assert!(again.path() == path && !path.join("left").exists());
        drop(again);
        // A path that is not a private directory is left alone, and so is a directory that is being created or
        // removed.
        std::os::unix::fs::symlink(root.path(), &path).unwrap();
        assert_ne!(create("session-ana").path(), path);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_ne!(create("session-ana").path(), path);
        assert!(path.exists());
    }

    #[test]
    fn a_claimed_directory_is_claimed_once() {
        let root = tempfile::tempdir().unwrap();
        let dir = private(&root.path().join("convoke-left00"));
        std::fs::write(dir.join(LOCK), MARK).unwrap();
        let claimed = Abandoned::claim(dir.clone()).unwrap();
        assert!(Abandoned::claim(dir.clone()).is_none());
        claimed.remove();
        assert!(!dir.exists());
        // A file in its place that is never written does not keep the claim waiting.
        private(&dir);
        nix::unistd::mkfifo(&dir.join(LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Abandoned::claim(dir).is_none());
    }
}
