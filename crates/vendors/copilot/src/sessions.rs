//! Sessions of Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`.
//!
//! A file is a log of events, those of sub-agents among them. A record of the tokens stands before each answer and marks
//! the request.

mod agent;
mod entries;
mod reader;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use convoke_source::lines::beginning;
use convoke_source::record::{change_and_size, text};
use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};
use serde_json::Value;

/// The sessions of Copilot CLI.
#[derive(Debug)]
pub struct CopilotSessions;

const PROGRAM: &str = "copilot";
const EVENTS: &str = "events.jsonl";
/// The part of a file in which its first event is looked for, in bytes.
const BEGINNING: u64 = 64 << 10;

impl SessionSource for CopilotSessions {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn resume_command(&self) -> Option<&'static str> {
        Some("copilot --resume")
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        let directory = home.moved("COPILOT_HOME", ".copilot").join("session-state");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return found(Err(SourceError::read(&directory)(error))),
        };
        for session in entries.flatten() {
            // Older versions stored a file, newer ones a directory.
            let path = session.path();
            let is_file = path.extension().is_some_and(|it| it == "jsonl");
            let events = if is_file { path } else { path.join(EVENTS) };
            match found_session(&events) {
                Ok(session) => session.into_iter().for_each(|session| found(Ok(session))),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) => {}
                Err(error) => found(Err(SourceError::read(&events)(error))),
            }
        }
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        let events = if path.is_dir() { path.join(EVENTS) } else { path.to_owned() };
        match found_session(&events) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => Ok(None),
            found => found.map_err(SourceError::read(&events)),
        }
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::open(session, kept)?))
    }
}

/// Returns the session of a file, if its first event is the start of one.
fn found_session(events: &Path) -> io::Result<Option<FoundSession>> {
    let bytes = beginning(events, BEGINNING)?;
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let start = serde_json::from_slice::<Value>(first).unwrap_or_default();
    let data = &start["data"];
    let id = text(data, "sessionId");
    if start["type"] != "session.start" || id.is_empty() {
        return Ok(None);
    }
    let (changed_at, bytes) = change_and_size(events)?;
    let cwd = data["context"]["cwd"].as_str().map(str::to_owned);
    // A copy of a session's directory is another session.
    let is_events = events.file_name() == Some(OsStr::new(EVENTS));
    let name = events.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let id = name.filter(|name| is_events && name.len() == id.len()).unwrap_or(id);
    Ok(Some(FoundSession {
        program: PROGRAM,
        id: id.to_owned(),
        path: events.to_owned(),
        files: vec![events.to_owned()],
        cwd,
        changed_at,
        bytes,
        parent: data["detachedFromSpawningParentSessionId"].as_str().map(str::to_owned),
    }))
}
