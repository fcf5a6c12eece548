//! What both forms of storage offer: sessions, and their messages in order.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_source::record::Parsed;
use convoke_source::{Report, SourceError};
use serde_json::Value;

use super::copy::log_of;
use super::database::Database;
use super::storage::Storage;

/// A session.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    pub id: String,
    pub parent: Option<String>,
    pub directory: String,
    pub title: String,
    pub version: String,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// Its own file, where it has one.
    pub file: Option<PathBuf>,
}

/// A message and its parts, in order.
#[derive(Debug)]
pub struct MessageRow {
    pub id: String,
    pub session_id: String,
    pub created_at: Millis,
    pub place: Place,
    pub data: Value,
    pub parts: Vec<PartRow>,
    /// Whether a part could not be read.
    pub is_incomplete: bool,
}

/// A part of a message.
#[derive(Debug)]
pub struct PartRow {
    pub id: String,
    pub place: Place,
    pub data: Value,
}

/// A place in which sessions are stored.
#[derive(Debug)]
pub enum Store {
    Database(Box<Database>),
    Files(Storage),
}

impl Store {
    /// Opens a database, or a directory of files.
    pub fn open(place: &Path) -> Result<Self, SourceError> {
        if place.is_dir() {
            return Ok(Self::Files(Storage::new(place)));
        }
        Database::open(place).map(|database| Self::Database(Box::new(database)))
    }

    /// Returns the sessions that no other session started.
    pub fn roots(&self) -> Result<Vec<SessionRow>, SourceError> {
        match self {
            Self::Database(database) => database.roots(),
            Self::Files(storage) => storage.roots(),
        }
    }

    /// Returns a session and those that it started, itself first.
    pub fn tree(&self, id: &str) -> Result<Vec<SessionRow>, SourceError> {
        match self {
            Self::Database(database) => database.tree(id),
            Self::Files(storage) => storage.tree(id),
        }
    }

    /// Visits the messages of sessions, in the order of their times.
    pub fn messages(
        &self,
        sessions: &[SessionRow],
        report: &mut Report,
        visit: &mut dyn FnMut(MessageRow, &mut Report) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        match self {
            Self::Database(database) => database.messages(sessions, report, visit),
            Self::Files(storage) => {
                storage.messages(sessions, report, visit);
                Ok(())
            }
        }
    }
}

/// Returns the files of a database.
pub fn files(place: &Path) -> Vec<PathBuf> {
    let log = log_of(place);
    let mut files = vec![place.to_owned()];
    files.extend(log.exists().then_some(log));
    files
}

/// Returns a record that could be parsed; what could not is counted.
pub fn parsed(parsed: Parsed, place: &Place, report: &mut Report) -> Option<Value> {
    report.records += 1;
    match parsed {
        Parsed::Value(value) => return Some(value),
        Parsed::TooLarge => report.too_large += 1,
        Parsed::Broken(problem) => report.broken(place.clone(), &problem),
    }
    None
}
