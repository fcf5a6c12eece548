//! Sessions of opencode: the database `~/.local/share/opencode/opencode.db`, or, before version 1.2, the files in
//! `storage` beside it.
//!
//! A database holds all sessions. It is read from a private copy, so that nothing is written beside it. A path to a
//! database names the session in it that changed last; another one is named by its id.

mod conversation;
mod copy;
mod database;
mod entries;
mod reader;
mod storage;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use convoke_source::record::change_and_size;
use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};

use self::store::{SessionRow, Store};

/// The sessions of opencode.
#[derive(Debug)]
pub struct OpencodeSessions;

const PROGRAM: &str = "opencode";

impl SessionSource for OpencodeSessions {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn resume_command(&self) -> Option<&'static str> {
        Some("opencode --session")
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        let data = home.moved("XDG_DATA_HOME", ".local/share").join(PROGRAM);
        let chosen = (home.variable)("OPENCODE_DB").filter(|value| !value.is_empty());
        let places = match chosen {
            Some(chosen) if chosen == ":memory:" => Ok(Vec::new()),
            // An absolute path takes the place of the directory.
            Some(chosen) => Ok(vec![data.join(chosen)]),
            None => databases(&data),
        };
        let mut places = match places {
            Ok(places) => places,
            Err(error) => return found(Err(SourceError::read(&data)(error))),
        };
        places.push(data.join("storage"));
        // What a newer version has taken into its database is still where it was.
        let mut known = HashSet::new();
        for place in places.into_iter().filter(|place| place.exists()) {
            match sessions_in(&place) {
                Ok(sessions) => {
                    let new = sessions.into_iter().filter(|it| known.insert(it.id.clone()));
                    new.for_each(|session| found(Ok(session)));
                }
                Err(error) => found(Err(error)),
            }
        }
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        if let Some((storage, id)) = storage::session_at(path) {
            return Ok(sessions_in(&storage)?.into_iter().find(|session| session.id == id));
        }
        let places = if path.is_dir() {
            let mut places = databases(path).map_err(SourceError::read(path))?;
            let is_storage = path.join("session").is_dir() && path.join("message").is_dir();
            places.push(if is_storage { path.to_owned() } else { path.join("storage") });
            places
        } else if copy::is_database(path) {
            vec![path.to_owned()]
        } else {
            return Ok(None);
        };
        let mut latest: Option<FoundSession> = None;
        for place in places.into_iter().filter(|place| place.exists()) {
            let sessions = match sessions_in(&place) {
                // Another program's database.
                Err(SourceError::Format { .. }) if !path.is_dir() && !is_named(path) => {
                    return Ok(None);
                }
                sessions => sessions?,
            };
            let all = sessions.into_iter().chain(latest.take());
            latest = all.max_by_key(|session| session.changed_at);
        }
        Ok(latest)
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::new(session, kept)))
    }
}

/// Returns the databases in a directory: one for each channel of releases.
fn databases(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| is_named(path)).collect();
    paths.sort();
    Ok(paths)
}

/// Returns whether a file has the name of one of the program's databases.
fn is_named(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let channel = name.strip_prefix(PROGRAM).and_then(|rest| rest.strip_suffix(".db"));
    channel.is_some_and(|channel| channel.is_empty() || channel.starts_with('-'))
}

/// Returns the sessions of a database or of a directory of files.
fn sessions_in(place: &Path) -> Result<Vec<FoundSession>, SourceError> {
    let store = Store::open(place)?;
    let sizes = store::files(place).into_iter().filter_map(|file| change_and_size(&file).ok());
    let bytes = sizes.map(|(_, bytes)| bytes).sum();
    let session = |row: SessionRow| FoundSession {
        program: PROGRAM,
        path: row.file.clone().unwrap_or_else(|| place.to_owned()),
        files: row.file.map_or_else(|| store::files(place), |file| vec![file]),
        id: row.id,
        cwd: Some(row.directory).filter(|directory| !directory.is_empty()),
        changed_at: row.updated_at,
        bytes,
        parent: row.parent,
    };
    Ok(store.roots()?.into_iter().map(session).collect())
}
