//! File access: [`Files`] reads a tree of files, and every read has a limit.
//!
//! [`Disk`] is the real file system; [`MemoryTree`] is a tree with links, modes and unreadable entries
//! that needs no disk. Both answer with the same errors, so that rules that depend on *why* a file could
//! not be read hold in each. [`FileKind`] says how large a file may be.
//!
//! # Modules
//!
//! All file access: the real file system (`disk`) or a tree in memory (`memory`), behind one trait. Nothing is read without a limit:
//! `limit` has the maximum size of each kind of file, `yaml` rejects YAML that is too deeply nested to parse, `json` removes comments
//! from JSON. `git` recognises repositories, and `git_config` reads their configuration as git does. `failpoint` ends the process at
//! the n-th write, or makes a task panic, for tests; `clock` is the time now. `draft` writes a file whole: under another name until it is
//! complete. `beneath` reads and writes files below a directory, following no link out of it.
//!
//! # Invariants
//!
//! - Files are read whole only through `Files::read` with their kind; a file over its limit is a diagnostic with
//!   its size and the limit (`crates/runtime/files/src/tests.rs:
//!   a_file_over_the_limit_of_its_kind_is_refused_with_its_size_and_the_limit`).

#[cfg(unix)]
pub mod beneath;
pub mod clock;
mod disk;
#[cfg(unix)]
pub mod draft;
pub mod failpoint;
pub mod git;
mod git_config;
pub mod json;
pub mod limit;
mod memory;
pub mod yaml;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use disk::{Disk, OpenedFile};
pub use git_config::{GitSetting, GitSettings, git_settings};
pub use limit::{FileKind, TooLarge};
pub use memory::MemoryTree;

/// The kind of an entry.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; only [`Files::entry_kind`] answers this.
    Symlink,
    /// A pipe, a socket or a device, which is never read.
    Special,
}

/// The start of a file, and how long the whole is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The bytes that were read.
    pub bytes: Vec<u8>,
    /// The size of the whole file in bytes.
    pub size: u64,
}

/// A directory that was looked into: its entries, and the head of one file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookedInto {
    /// The entries, as of [`Files::entries`].
    pub entries: Vec<(OsString, EntryKind)>,
    /// The head of the file; `None` if there is no regular file of that name, or it cannot be read.
    pub head: Option<Head>,
}

/// Read access to a tree of files. Paths are absolute.
pub trait Files {
    /// Returns the kind of an entry, without following a link in the last component.
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind>;

    /// Returns the kind of entry at a path, links followed.
    fn kind(&self, path: &Path) -> io::Result<EntryKind>;

    /// Reads at most `limit` bytes from the start of a regular file, links followed.
    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head>;

    /// Returns the names in a directory, sorted.
    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>>;

    /// Returns the path without links, `.` and `..`.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns what all paths of one file have in common, links followed: where there are hard links, not the path without
    /// links.
    fn identity(&self, path: &Path) -> io::Result<OsString> {
        self.canonicalize(path).map(PathBuf::into_os_string)
    }

    /// Returns the entries of a directory with their kinds, sorted by name; links are not followed.
    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        let names = self.names(directory)?.into_iter();
        let entry = |name: OsString| {
            let kind = self.entry_kind(&directory.join(&name)).ok()?;
            Some((name, kind))
        };
        Ok(names.filter_map(entry).collect())
    }

    /// Returns the names in a directory in the order of the file system, or sorted if it has no order.
    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.names(directory)
    }

    /// Lists directories and reads the head of the file `name` in each, at most `limit` bytes, where that is faster than
    /// one after the other. Returns what was found for the first of them: all, some or none.
    fn look_into(
        &self,
        _directories: &[PathBuf],
        _name: &str,
        _limit: u64,
    ) -> Vec<Option<LookedInto>> {
        Vec::new()
    }

    /// Reads a whole regular file, links followed. One over the limit of its kind is refused with
    /// [`TooLarge`], an error of the kind [`io::ErrorKind::FileTooLarge`].
    fn read(&self, path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
        limit::check(path, kind, self.read_head(path, 0)?.size)?;
        let head = self.read_head(path, kind.limit() + 1)?;
        // A file may have grown since, and some have no size.
        limit::check(path, kind, head.bytes.len() as u64)?;
        Ok(head.bytes)
    }

    /// Reads a whole file that must be UTF-8, within the limit of its kind.
    fn read_text(&self, path: &Path, kind: FileKind) -> io::Result<String> {
        limit::text(self.read(path, kind)?)
    }
}

/// Joins a path to a base and removes `.` and `..` by their spelling alone.
pub fn absolute(base: &Path, path: &Path) -> PathBuf {
    use std::path::Component;
    let mut joined = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
