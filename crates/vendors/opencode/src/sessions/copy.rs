//! A private copy of a database.
//!
//! Even a connection that only reads creates files beside a database, and a lock may disturb the program. A copy does
//! neither. The write-ahead log belongs to it: what was written last is only there.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use convoke_source::lines::open_file;
use tempfile::TempDir;

/// The number of times that a database is copied until it does not change meanwhile.
const TRIES: usize = 5;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// A private copy of a database, which is removed when it is dropped.
#[derive(Debug)]
pub struct Copy {
    directory: TempDir,
    /// Whether the database changed while it was copied.
    pub is_disturbed: bool,
}

/// What tells whether a database has changed: the sizes and times of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp([Option<(u64, SystemTime)>; 2]);

impl Stamp {
    /// Returns the stamp of a database and its log.
    pub fn of(database: &Path) -> io::Result<Self> {
        let stamp = |path: &Path| match path.metadata() {
            Ok(metadata) => Ok(Some((metadata.len(), metadata.modified()?))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        Ok(Self([stamp(database)?, stamp(&log_of(database))?]))
    }
}

impl Copy {
    /// Copies a database and its log into a directory that only this user can open.
    pub fn of(database: &Path) -> io::Result<Self> {
        // The directory has mode 700.
        let directory = tempfile::Builder::new().prefix("convoke-sessions-").tempdir()?;
        let mut copy = Self { directory, is_disturbed: true };
        for _ in 0..TRIES {
            let before = Stamp::of(database)?;
            copy_file(database, &copy.path())?;
            match copy_file(&log_of(database), &log_of(&copy.path())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    File::create(log_of(&copy.path()))?;
                }
                copied => copied?,
            }
            copy.is_disturbed = Stamp::of(database)? != before;
            if !copy.is_disturbed {
                break;
            }
        }
        Ok(copy)
    }

    /// Returns the path of the copied database.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("copy.db")
    }
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = open_file(from)?;
    io::copy(&mut from, &mut File::create(to)?).map(|_| ())
}

/// Returns the path of a database's write-ahead log.
pub fn log_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Returns whether a file is a database, by its first bytes.
pub fn is_database(path: &Path) -> bool {
    let mut start = [0; 16];
    let read = open_file(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *MAGIC
}
