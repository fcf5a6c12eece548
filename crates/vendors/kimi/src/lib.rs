//! Kimi Code: `~/.kimi-code/sessions/wd_<name>_<hash>/<session>/agents/<agent>/wire.jsonl`, a log of what its agent did.
//!
//! The log names each request, and holds the system text, the tools and the messages.

mod reader;

use std::path::Path;

use convoke_source::lines::beginning;
use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError, files};
use convoke_vendor::Vendor;
use serde_json::Value;

/// The name of the program.
const PROGRAM: &str = "kimi";
/// The file of an agent's log.
const LOG: &str = "wire.jsonl";
/// The agent that a person talks to.
const MAIN: &str = "main";
/// The largest file that tells about a session, and how much of a log is read to know it.
const MAX_HEAD: u64 = 64 << 10;

/// Kimi Code.
#[derive(Debug)]
pub struct Kimi;

impl Vendor for Kimi {
    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&Kimi)
    }
}

impl SessionSource for Kimi {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        let sessions = home.moved("KIMI_CODE_HOME", ".kimi-code").join("sessions");
        let mut each = |project: &Path| -> Result<(), SourceError> {
            for directory in files::directories(project)? {
                session(&directory).transpose().into_iter().for_each(&mut *found);
            }
            Ok(())
        };
        let listed = files::directories(&sessions);
        let failed = listed.map(|it| it.iter().filter_map(|it| each(it).err()).collect::<Vec<_>>());
        failed.unwrap_or_else(|error| vec![error]).into_iter().for_each(|it| found(Err(it)));
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        if path.is_dir() {
            return session(path);
        }
        if !path.is_file() || !is_log(path)? {
            return Ok(None);
        }
        let directory = path.ancestors().nth(3);
        let of_session = directory.map(session).transpose()?.flatten();
        if let Some(found) = of_session.filter(|it| it.files.iter().any(|file| file == path)) {
            return Ok(Some(found));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        files::found(PROGRAM, name, path, None).map(Some)
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::open(session, kept)?))
    }
}

/// Returns whether a file is a log, by its first record.
fn is_log(path: &Path) -> Result<bool, SourceError> {
    let bytes = beginning(path, MAX_HEAD).map_err(SourceError::read(path))?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head: Value = serde_json::from_slice(line).unwrap_or_default();
    Ok(head["type"] == "metadata" && head["protocol_version"].is_string())
}

/// Returns the session in a directory, with the logs of its agents.
fn session(directory: &Path) -> Result<Option<FoundSession>, SourceError> {
    let mut logs = Vec::new();
    for agent in files::directories(&directory.join("agents"))? {
        let log = agent.join(LOG);
        if log.is_file() {
            let is_main = agent.ends_with(MAIN);
            logs.insert(if is_main { 0 } else { logs.len() }, log);
        }
    }
    let Some(first) = logs.first() else { return Ok(None) };
    let state = beginning(&directory.join("state.json"), MAX_HEAD).unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    let cwd = state["cwd"].as_str().map(str::to_owned);
    let name = || directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = state["id"].as_str().map_or_else(name, str::to_owned);
    let mut found = files::found(PROGRAM, id, first, cwd)?;
    for log in logs.into_iter().skip(1) {
        let more = files::found(PROGRAM, String::new(), &log, None)?;
        found.bytes += more.bytes;
        found.changed_at = found.changed_at.max(more.changed_at);
        found.files.push(log);
    }
    Ok(Some(found))
}
