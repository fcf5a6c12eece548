//! The working directory of a program: the one that was checked, and no other that takes its path.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use convoke_files::beneath::{Beneath, open_real};
use serde::{Deserialize, Serialize};

use crate::sandbox::FilePath;

/// A directory by its real path, and its identity when it was opened. It is never looked up through links, and it is
/// opened again only as the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingDirectory {
    path: FilePath,
    device: u64,
    inode: u64,
}

impl WorkingDirectory {
    /// Opens a directory by its real path; no entry on the way may be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (_, (device, inode)) = identified(path)?;
        Ok(Self { path: path.into(), device, inode })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.path.as_path()
    }

    /// Opens the directory again. Fails if another one is there.
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        let (directory, identity) = identified(self.path())?;
        if identity == (self.device, self.inode) {
            return Ok(directory);
        }
        Err(not_real(self.path(), &io::Error::from(io::ErrorKind::NotADirectory)))
    }

    /// Opens the directory again, to find files beneath it.
    pub(crate) fn beneath(&self) -> io::Result<Beneath> {
        Beneath::at(self.path(), self.reopen()?)
    }
}

fn identified(path: &Path) -> io::Result<(OwnedFd, (u64, u64))> {
    let found = || {
        let directory = File::from(open_real(path)?);
        let metadata = directory.metadata()?;
        Ok((directory.into(), (metadata.dev(), metadata.ino())))
    };
    found().map_err(|error| not_real(path, &error))
}

/// Explains why a working directory cannot be opened.
fn not_real(cwd: &Path, error: &io::Error) -> io::Error {
    let shown = cwd.display();
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("the working directory `{shown}` does not exist"),
        io::ErrorKind::NotADirectory => format!(
            "the working directory `{shown}` is not the directory that it was: it was replaced, or a link is on its path"
        ),
        _ => format!("the working directory `{shown}` cannot be opened: {error}"),
    };
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_opened_again_only_as_the_same_one() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().canonicalize().unwrap().join(name);
        for name in ["sub", "other"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let sub = WorkingDirectory::open(&at("sub")).unwrap();
        assert!(sub.reopen().is_ok() && sub.beneath().is_ok());
        std::fs::rename(at("sub"), at("moved")).unwrap();
        assert_eq!(sub.reopen().unwrap_err().kind(), io::ErrorKind::NotFound);
        let refused = || {
            assert_eq!(sub.reopen().unwrap_err().kind(), io::ErrorKind::NotADirectory);
            assert!(sub.beneath().is_err());
        };
        std::os::unix::fs::symlink("moved", at("sub")).unwrap();
        refused();
        std::fs::remove_file(at("sub")).unwrap();
        std::fs::rename(at("other"), at("sub")).unwrap();
        refused();
    }
}
