//! Sessions of Gemini CLI: `~/.gemini/tmp/<project>/chats`.
//!
//! A file is a list of changes to one list of messages. Two sessions that begin in one minute may share a file, and a
//! session that is resumed in another minute leaves a second file without content: files are grouped by the session's
//! id. Sub-agents have files of their own in a directory that is named after the session.

mod conversation;
mod entries;
mod files;
mod reader;
#[cfg(test)]
mod tests;

use std::path::Path;

use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};

/// The sessions of Gemini CLI.
#[derive(Debug)]
pub struct GeminiSessions;

const PROGRAM: &str = "gemini";

impl SessionSource for GeminiSessions {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn resume_command(&self) -> Option<&'static str> {
        Some("gemini --resume")
    }

    fn provider(&self) -> Option<&'static str> {
        Some("google")
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        files::list(&home.moved("GEMINI_CLI_HOME", "").join(".gemini"), found);
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        files::at(path)
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::new(session, kept)))
    }
}
