//! Files beneath a directory, without following links.
//!
//! The directory is held open, and every entry on the way to a file is opened by its name without following links. A
//! directory that is replaced by a link meanwhile leads nowhere.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::limit::{FileKind, check, read_stream};

/// A directory that is held open.
#[derive(Debug)]
pub struct Beneath {
    path: PathBuf,
    directory: OwnedFd,
}

/// A file beneath a directory, which need not exist.
#[derive(Debug)]
pub struct BeneathFile<'b> {
    root: &'b Beneath,
    /// The directories between the root and the file.
    directories: Vec<OsString>,
    name: OsString,
}

/// A path that leads out of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside;

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path is not beneath the working directory")
    }
}

impl std::error::Error for Outside {}

/// The flag of a directory that is only named or entered, which needs no right to list it.
#[cfg(target_os = "linux")]
const TO_NAME: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const TO_NAME: OFlags = OFlags::RDONLY;

/// Opens a directory by its real path, only to name it: no entry on the way may be a link. A path that was real once and
/// is not any more is refused with [`io::ErrorKind::NotADirectory`].
pub fn open_real(path: &Path) -> io::Result<OwnedFd> {
    let flags = TO_NAME | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(CWD, "/", flags, Mode::empty())?;
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    for part in parts {
        let Component::Normal(name) = part else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path contains `..`"));
        };
        directory = openat(&directory, name, flags, Mode::empty())?;
    }
    Ok(directory)
}

impl Beneath {
    /// Opens a directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_real(&directory.canonicalize()?)
    }

    /// Opens a directory by its real path: no entry on the way may be a link.
    pub fn open_real(path: &Path) -> io::Result<Self> {
        Self::at(path, open_real(path)?)
    }

    /// Takes a directory that was opened by its real path.
    pub fn at(path: &Path, directory: OwnedFd) -> io::Result<Self> {
        let directory = openat(directory, ".", directory_flags(), Mode::empty())?;
        Ok(Self { path: path.to_owned(), directory })
    }

    /// Returns the real path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that a path leads to. A path that is relative starts in the directory.
    pub fn file(&self, given: &Path) -> Result<BeneathFile<'_>, Outside> {
        let below = self.real(given)?;
        let mut names: Vec<OsString> = below.iter().map(OsStr::to_owned).collect();
        let name = names.pop().ok_or(Outside)?;
        Ok(BeneathFile { root: self, directories: names, name })
    }

    /// Returns a path without links from the directory, for the entries that exist.
    fn real(&self, given: &Path) -> Result<PathBuf, Outside> {
        let given = self.path.join(given);
        let mut missing = Vec::new();
        for ancestor in given.ancestors() {
            if let Ok(mut real) = ancestor.canonicalize() {
                real.extend(missing.iter().rev());
                return real.strip_prefix(&self.path).map(Path::to_owned).map_err(|_| Outside);
            }
            match ancestor.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name),
                _ => return Err(Outside),
            }
        }
        Err(Outside)
    }
}

impl BeneathFile<'_> {
    /// Returns the path, without links when it was looked up.
    pub fn path(&self) -> PathBuf {
        let mut path = self.root.path.clone();
        path.extend(&self.directories);
        path.join(&self.name)
    }

    /// Reads the file within the limit of a kind; `None` if it does not exist.
    pub fn read(&self, kind: FileKind) -> io::Result<Option<Vec<u8>>> {
        let directory = match self.directory(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        // Looked at before it is opened: opening a device may have effects.
        if self.stat(&directory)?.is_none() {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory, &self.name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        check_regular(&found)?;
        let path = self.path();
        check(&path, kind, u64::try_from(found.st_size).unwrap_or(0))?;
        read_stream(File::from(file), &path, kind).map(Some)
    }

    /// Replaces the file as a whole, or creates it with the directories on its way.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let directory = self.directory(true)?;
        let found = self.stat(&directory)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let draft = format!(".convoke-{}-{number}.tmp", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&directory, &draft, flags, Mode::from_raw_mode(0o666))?;
        let mode = found.map(|found| Mode::from_raw_mode(found.st_mode & 0o7777));
        let mode = mode.map_or(Ok(()), |mode| fchmod(&file, mode));
        let written = mode.map_err(io::Error::from).and_then(|()| {
            File::from(file).write_all(bytes)?;
            Ok(renameat(&directory, &draft, &directory, &self.name)?)
        });
        if written.is_err() {
            let _ = unlinkat(&directory, &draft, AtFlags::empty());
        }
        written
    }

    /// Opens the directory of the file.
    fn directory(&self, creates: bool) -> io::Result<OwnedFd> {
        let mut directory = openat(&self.root.directory, ".", directory_flags(), Mode::empty())?;
        for name in &self.directories {
            if creates {
                match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            directory = openat(&directory, name, directory_flags(), Mode::empty())?;
        }
        Ok(directory)
    }

    /// Returns the file of the name; `None` if there is none.
    fn stat(&self, directory: &OwnedFd) -> io::Result<Option<Stat>> {
        match statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => check_regular(&found).map(|()| Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Rejects everything but regular files: a pipe or a device could block.
fn check_regular(found: &Stat) -> io::Result<()> {
    let why = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "it is a directory",
        _ => "it is not a regular file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn read(root: &Beneath, path: &str) -> io::Result<Option<Vec<u8>>> {
        root.file(Path::new(path)).unwrap().read(FileKind::Pointer)
    }

    #[test]
    fn files_are_read_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let root = Beneath::open(dir.path()).unwrap();
        let file = root.file(Path::new("new/deep/a.txt")).unwrap();
        assert_eq!(file.read(FileKind::Pointer).unwrap(), None);
        file.write(b"one").unwrap();
        assert_eq!(file.read(FileKind::Pointer).unwrap().as_deref(), Some(&b"one"[..]));
        let path = dir.path().join("new/deep/a.txt");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        std::fs::hard_link(&path, dir.path().join("other")).unwrap();
        root.file(&path).unwrap().write(b"two").unwrap();
        assert_eq!(read(&root, "other").unwrap().unwrap(), b"one");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
        let names = std::fs::read_dir(dir.path().join("new/deep")).unwrap();
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn no_path_leads_outside() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("in");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        symlink(dir.path(), inside.join("up")).unwrap();
        symlink("sub", inside.join("link")).unwrap();
        symlink(dir.path().join("planted"), inside.join("dangling")).unwrap();
        let root = Beneath::open(&inside).unwrap();
        for path in ["../secret", "/etc/passwd", "up/secret", "up/new", "sub/../../secret", "", "."]
        {
            assert_eq!(root.file(Path::new(path)).unwrap_err(), Outside, "{path}");
        }
        assert!(root.file(Path::new("no/../../secret")).is_err());
        root.file(Path::new("link/x")).unwrap().write(b"x").unwrap();
        assert_eq!(read(&root, "sub/x").unwrap().unwrap(), b"x");
        // A link that leads to nothing is not followed either.
        assert!(root.file(Path::new("dangling")).unwrap().write(b"x").is_err());
        assert!(!dir.path().join("planted").exists());
    }

    #[test]
    fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        for path in [inside.join("sub/a"), outside.join("a")] {
            std::fs::write(path, "x").unwrap();
        }
        let root = Beneath::open(&inside).unwrap();
        let (file, new) =
            (root.file(Path::new("sub/a")).unwrap(), root.file(Path::new("sub/new")).unwrap());
        std::fs::rename(inside.join("sub"), inside.join("moved")).unwrap();
        symlink(&outside, inside.join("sub")).unwrap();
        assert!(file.read(FileKind::Pointer).is_err() && file.write(b"y").is_err());
        assert!(new.write(b"y").is_err());
        assert_eq!(std::fs::read(outside.join("a")).unwrap(), b"x");
        assert!(!outside.join("new").exists());
    }

    #[test]
    fn a_real_path_leads_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        symlink("a", root.join("link")).unwrap();
        assert!(open_real(&root.join("a/b")).is_ok());
        let kind = |path: &str| open_real(&root.join(path)).unwrap_err().kind();
        for path in ["link", "link/b", "a/file"] {
            assert_eq!(kind(path), io::ErrorKind::NotADirectory, "{path}");
        }
        assert_eq!(kind("a/none"), io::ErrorKind::NotFound);
        assert_eq!(kind("a/../a"), io::ErrorKind::InvalidInput);
        assert_eq!(open_real(Path::new("a")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(Beneath::open_real(&root.join("link/b")).is_err());
        assert!(Beneath::open(&root.join("link/b")).is_ok());
    }

    #[test]
    fn only_regular_files_of_a_fitting_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = Beneath::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        assert!(read(&root, "sub").is_err());
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        assert!(read(&root, "socket").is_err());
        assert!(root.file(Path::new("socket")).unwrap().write(b"x").is_err());
        std::fs::write(dir.path().join("large"), vec![b'x'; (64 << 10) + 1]).unwrap();
        let refused = read(&root, "large").unwrap_err();
        assert!(crate::TooLarge::from_error(&refused).is_some(), "{refused}");
    }
}
