//! A private index of the sessions of other programs: what was counted in them, and the words that were said.
//!
//! A session is read again when its files have another size or time. The index can be removed at any time: it is made again.

mod figures;
mod said;

use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_redact::Redactor;
use convoke_source::FoundSession;
use rusqlite::{Connection, ErrorCode, Transaction, params};

/// The version of the tables. An index of an older version is made anew.
const VERSION: i64 = 1;
/// How long another process may write.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The index of a user's sessions.
#[derive(Debug)]
pub struct Index {
    database: Connection,
    path: PathBuf,
    /// What removes secrets before words are stored.
    redactor: Redactor,
}

/// The index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("cannot use the index {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot use the index {}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("the index {} was made by a newer version of Convoke", .0.display())]
    Newer(PathBuf),
}

/// What distinguishes a session from others.
type Key = (String, String, Vec<u8>);

/// What is known of a session.
#[derive(Debug, Clone)]
struct Known {
    number: i64,
    figures: Option<String>,
    words: Option<String>,
}

impl Index {
    /// Opens the index in a file, or makes it. One that is damaged or of an older version is made anew.
    pub fn open(path: &Path, redactor: Redactor) -> Result<Self, IndexError> {
        match Self::open_as_it_is(path, redactor.clone()) {
            Err(IndexError::Database { source, .. }) if is_damaged(&source) => {}
            Ok(index) if index.version()? == VERSION => return Ok(index),
            Ok(index) if index.version()? > VERSION => {
                return Err(IndexError::Newer(path.to_owned()));
            }
            Ok(index) => drop(index),
            Err(error) => return Err(error),
        }
        for ending in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(ending);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(IndexError::File { path: path.to_owned(), source: error });
                }
                _ => {}
            }
        }
        Self::open_as_it_is(path, redactor)
    }

    /// Opens the database. A new one gets its tables.
    fn open_as_it_is(path: &Path, redactor: Redactor) -> Result<Self, IndexError> {
        let file_error = |source| IndexError::File { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(file_error)?;
        }
        // SQLite gives its other files the same mode.
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        options.open(path).map_err(file_error)?;
        let failed = |source| IndexError::Database { path: path.to_owned(), source };
        let mut database = Connection::open(path).map_err(failed)?;
        database.busy_timeout(MAX_WAIT).map_err(failed)?;
        database
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;",
            )
            .map_err(failed)?;
        let making = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let making = making.map_err(failed)?;
        let is_new = "SELECT count(*) = 0 FROM sqlite_schema";
        if making.query_row(is_new, [], |row| row.get(0)).map_err(failed)? {
            making.execute_batch(include_str!("index.sql")).map_err(failed)?;
            making.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        }
        making.commit().map_err(failed)?;
        Ok(Self { database, path: path.to_owned(), redactor })
    }

    fn version(&self) -> Result<i64, IndexError> {
        let version = self.database.query_row("PRAGMA user_version", [], |row| row.get(0));
        version.map_err(|error| self.failed(error))
    }

    /// Removes what the index has of a session, and does not take it up again.
    pub fn forget(&mut self, session: &FoundSession) -> Result<bool, IndexError> {
        let path = self.path.clone();
        forget(&mut self.database, session).map_err(|source| IndexError::Database { path, source })
    }

    /// Removes what the index has of sessions that are not there any more.
    pub fn prune(&mut self, present: &[FoundSession]) -> Result<(), IndexError> {
        let path = self.path.clone();
        prune(&mut self.database, present).map_err(|source| IndexError::Database { path, source })
    }

    /// Returns whether a person had a session removed.
    pub fn is_forgotten(&self, session: &FoundSession) -> Result<bool, IndexError> {
        let query = "SELECT count(*) > 0 FROM forgotten WHERE program = ?1 AND id = ?2";
        let row = params![session.program, session.id];
        let found = self.database.query_row(query, row, |row| row.get(0));
        found.map_err(|error| self.failed(error))
    }

    /// Takes up a session again that was removed.
    pub fn remember(&mut self, session: &FoundSession) -> Result<(), IndexError> {
        let statement = "DELETE FROM forgotten WHERE program = ?1 AND id = ?2";
        let done = self.database.execute(statement, params![session.program, session.id]);
        done.map(drop).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: rusqlite::Error) -> IndexError {
        IndexError::Database { path: self.path.clone(), source }
    }
}

fn prune(database: &mut Connection, present: &[FoundSession]) -> rusqlite::Result<()> {
    let mut gone = known(database)?;
    for session in present {
        gone.remove(&key(session));
    }
    if gone.is_empty() {
        return Ok(());
    }
    let transaction = database.transaction()?;
    for known in gone.values() {
        remove_words(&transaction, known.number)?;
        transaction.execute("DELETE FROM session WHERE number = ?1", [known.number])?;
    }
    transaction.commit()?;
    clean(database)
}

fn forget(database: &mut Connection, session: &FoundSession) -> rusqlite::Result<bool> {
    let transaction = database.transaction()?;
    let query = "SELECT number FROM session WHERE program = ?1 AND id = ?2";
    let numbers: Vec<i64> = transaction
        .prepare(query)?
        .query_map(params![session.program, session.id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for number in &numbers {
        remove_words(&transaction, *number)?;
        transaction.execute("DELETE FROM session WHERE number = ?1", [number])?;
    }
    transaction.execute(
        "INSERT OR IGNORE INTO forgotten (program, id) VALUES (?1, ?2)",
        params![session.program, session.id],
    )?;
    transaction.commit()?;
    if !numbers.is_empty() {
        clean(database)?;
    }
    Ok(!numbers.is_empty())
}

/// Leaves nothing of what was removed in free pages.
fn clean(database: &Connection) -> rusqlite::Result<()> {
    database.execute_batch(
        "INSERT INTO said (said) VALUES ('optimize'); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);",
    )
}

fn remove_words(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "DELETE FROM said WHERE rowid IN (SELECT number FROM part WHERE session = ?1)",
        [session],
    )?;
    transaction.execute("DELETE FROM part WHERE session = ?1", [session])?;
    Ok(())
}

/// Returns what is known of all sessions.
fn known(database: &Connection) -> rusqlite::Result<HashMap<Key, Known>> {
    let mut statement =
        database.prepare("SELECT program, id, path, number, figures, words FROM session")?;
    let rows = statement.query_map([], |row| {
        let key = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((key, Known { number: row.get(3)?, figures: row.get(4)?, words: row.get(5)? }))
    })?;
    rows.collect()
}

/// Returns the number of a session, which is new or was known before.
fn number(transaction: &Transaction<'_>, session: &FoundSession) -> rusqlite::Result<i64> {
    transaction.query_row(
        "INSERT INTO session (program, id, path) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET id = excluded.id RETURNING number",
        params![session.program, session.id, session.path.as_os_str().as_bytes()],
        |row| row.get(0),
    )
}

fn key(session: &FoundSession) -> Key {
    let path = session.path.as_os_str().as_bytes().to_vec();
    (session.program.to_owned(), session.id.clone(), path)
}

/// Returns the state of a session's files.
fn state(session: &FoundSession) -> String {
    format!("{}:{}:{}", session.files.len(), session.bytes, session.changed_at.0)
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

#[cfg(test)]
mod tests;
