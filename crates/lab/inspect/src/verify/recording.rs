//! A tree of files that records the files that are read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use convoke_files::{EntryKind, Files, Head};
use sha2::{Digest, Sha256};

/// Records every file that is read, with a hash of its content.
pub(super) struct Recording<'a> {
    files: &'a (dyn Files + Sync),
    read: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl<'a> Recording<'a> {
    pub fn new(files: &'a (dyn Files + Sync)) -> Self {
        Self { files, read: Mutex::default() }
    }

    /// Returns the files that were read, each with a hash of its content.
    pub fn read(self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.read.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for Recording<'_> {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.files.entry_kind(path)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.files.kind(path)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let head = self.files.read_head(path, limit)?;
        // A reading of no bytes only asks for the size.
        if !head.bytes.is_empty() {
            let hash = Sha256::digest(&head.bytes).to_vec();
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.insert(path.to_owned(), hash);
        }
        Ok(head)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.files.names(directory)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.canonicalize(path)
    }

    fn identity(&self, path: &Path) -> io::Result<OsString> {
        self.files.identity(path)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        self.files.entries(directory)
    }

    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.files.listing(directory)
    }
}
