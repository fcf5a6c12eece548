//! Writes files whole.
//!
//! The content is written beside the file and gets its name when it is complete. A failure, for example a full disk,
//! leaves no part of it, and a reader finds the old content or the new.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// A file that has no name yet. Dropping it removes it.
#[derive(Debug)]
pub struct Draft {
    file: File,
    /// Its path until it is complete.
    beside: PathBuf,
    path: PathBuf,
}

impl Draft {
    /// Creates an empty draft of a file, with the permissions of `mode` that the user's mask leaves.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let beside = path.with_file_name(beside(number));
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(mode).open(&beside) {
                // A killed process left it. Its id may be that of this process, in a container for example.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => return Ok(Self { file: file?, beside, path: path.to_owned() }),
            }
        }
    }

    /// Creates an empty draft of a file that must not exist yet.
    pub fn create_new(path: &Path, mode: u32) -> io::Result<Self> {
        match path.symlink_metadata() {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => Self::create(path, mode),
        }
    }

    /// Gives the file its name. Fails if a file of that name exists.
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        match renameat_with(CWD, &self.beside, CWD, &self.path, RenameFlags::NOREPLACE) {
            // The file system cannot do that.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::hard_link(&self.beside, &self.path)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Gives the file its name, in place of a file of that name.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)
    }

    /// Gives the file another name than it was meant to have, in the same directory, in place of a file of that name.
    pub fn replace_as(mut self, name: &OsStr) -> io::Result<()> {
        self.path.set_file_name(name);
        self.replace()
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It has been renamed, unless something failed.
        let _ = fs::remove_file(&self.beside);
    }
}

/// Returns the name of this process's draft with a number.
fn beside(number: u64) -> String {
    format!(".convoke-{}-{number}", std::process::id())
}

/// Writes a new file whole. Fails if a file of that name exists.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut draft = Draft::create_new(path, mode)?;
    draft.write_all(bytes)?;
    draft.publish()
}

/// Writes a file whole, in place of a file of that name. A link is replaced and not followed.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut draft = Draft::create(path, mode)?;
    draft.write_all(bytes)?;
    draft.replace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_a_dropped_draft_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        let mut draft = Draft::create(&path, 0o644).unwrap();
        draft.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(draft);
        assert_eq!(names(directory.path()), Vec::<String>::new());
        write_new(&path, b"whole", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(directory.path()), ["a.toml"]);
    }

    #[test]
    fn a_new_file_replaces_none_and_another_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        write_new(&path, b"one", 0o600).unwrap();
        let error = write_new(&path, b"two", 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_draft_that_a_killed_process_of_the_same_id_left_hinders_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let left: Vec<_> = (0..64).map(|number| directory.path().join(beside(number))).collect();
        for left in &left {
            fs::write(left, b"half").unwrap();
        }
        let path = directory.path().join("a");
        write_new(&path, b"whole", 0o600).unwrap();
        replace(&path, b"whole again", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole again");
        // They may be drafts of a process in another container.
        assert!(left.iter().all(|left| fs::read(left).unwrap() == b"half"));
        assert_eq!(names(directory.path()).len(), left.len() + 1);
    }
}
