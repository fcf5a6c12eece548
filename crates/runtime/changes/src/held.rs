//! A recorded directory that is held open. It is opened once, by its real path and through no link, and everything in it is
//! reached through that descriptor: what takes its place meanwhile is neither recorded nor changed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use convoke_files::beneath::open_real;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::entry::NAMED;
use crate::error::ChangesError;

/// A directory, or the place of one that is gone.
#[derive(Debug, Clone)]
pub(crate) struct HeldDirectory {
    root: PathBuf,
    descriptor: Option<Arc<OwnedFd>>,
}

impl HeldDirectory {
    /// Opens a directory by its real path. Fails if a link or a file has taken its place, or that of a directory above it.
    pub(crate) fn open(directory: &Path) -> Result<Self, ChangesError> {
        open_real(directory).map(|it| Self::of(directory, it)).map_err(refusal(directory))
    }

    /// Opens a directory by its real path, and creates what is missing on the way.
    pub(crate) fn create(directory: &Path) -> Result<Self, ChangesError> {
        create_real(directory).map(|it| Self::of(directory, it)).map_err(refusal(directory))
    }

    /// Returns the place of a directory that is gone: there is nothing, and nothing can be created. A file of the store
    /// stands for it.
    pub(crate) fn gone(file: &Path) -> Self {
        Self { root: file.join("gone"), descriptor: None }
    }

    fn of(directory: &Path, descriptor: OwnedFd) -> Self {
        Self { root: root_of(directory, &descriptor), descriptor: Some(Arc::new(descriptor)) }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.descriptor.is_none()
    }

    /// Returns the path that leads to the directory through its descriptor. It is valid in this process, as long as the
    /// directory is held.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

/// With a dot at its end the path names the directory and not the link to it.
#[cfg(target_os = "linux")]
fn root_of(_directory: &Path, descriptor: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}/.", descriptor.as_raw_fd()))
}

/// No path leads through a descriptor here.
#[cfg(not(target_os = "linux"))]
fn root_of(directory: &Path, _descriptor: &OwnedFd) -> PathBuf {
    directory.to_owned()
}

fn create_real(directory: &Path) -> io::Result<OwnedFd> {
    let flags = NAMED | OFlags::NOFOLLOW;
    let mut opened = openat(CWD, "/", flags, Mode::empty())?;
    for part in directory.components() {
        let name = match part {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not real")),
        };
        opened = match openat(&opened, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                mkdirat(&opened, name, Mode::from_raw_mode(0o777))?;
                openat(&opened, name, flags, Mode::empty())?
            }
            found => found?,
        };
    }
    Ok(opened)
}

fn refusal(directory: &Path) -> impl FnOnce(io::Error) -> ChangesError {
    move |error| {
        let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if is_link || error.kind() == io::ErrorKind::NotADirectory {
            return ChangesError::Replaced { path: directory.to_owned() };
        }
        ChangesError::io(directory)(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_held_directory_is_reached_when_something_else_has_its_path() {
        let place = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(place.path()).unwrap();
        let (directory, other) = (at.join("directory"), at.join("other"));
        fs::create_dir_all(&other).unwrap();
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("f"), "ours").unwrap();
        fs::write(other.join("f"), "theirs").unwrap();
        let held = HeldDirectory::open(&directory).unwrap();
        fs::rename(&directory, at.join("moved")).unwrap();
        symlink(&other, &directory).unwrap();
        assert_eq!(fs::read_to_string(held.root().join("f")).unwrap(), "ours");
        assert!(fs::symlink_metadata(held.root()).unwrap().is_dir());
        for refused in [
            HeldDirectory::open(&directory),
            HeldDirectory::create(&directory),
            HeldDirectory::create(&directory.join("below")),
        ] {
            assert!(matches!(refused, Err(ChangesError::Replaced { .. })), "{refused:?}");
        }
        assert!(!other.join("below").exists());
        let created = HeldDirectory::create(&at.join("new/below")).unwrap();
        fs::write(created.root().join("f"), "").unwrap();
        assert!(at.join("new/below/f").exists());
        let gone = HeldDirectory::gone(&at.join("moved/f"));
        assert!(fs::create_dir_all(gone.root()).is_err() && gone.is_gone());
    }
}
