//! Sessions of Claude Code: `projects/<directory>/<session>.jsonl`, and the files of its sub-agents.
//!
//! Since 2.1.325 the program logs each request with the hashes of its messages ([`request_log`]): a window whose hashes
//! agree is exact. Before, the conversation is found by walking from an answer to the records before it ([`tree`]), and
//! what the program added to it is in no file.

mod canonical;
mod conversation;
mod hand_out;
mod list;
mod messages;
mod person;
mod reader;
mod record;
mod request_log;
mod seen;
mod shapes;
#[cfg(test)]
mod tests;
mod tool_result;
mod tree;
mod usage;

use std::path::Path;

use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};

/// The name of the program.
const PROGRAM: &str = "claude";

/// The sessions of Claude Code.
#[derive(Debug)]
pub struct ClaudeSessions;

impl SessionSource for ClaudeSessions {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn resume_command(&self) -> Option<&'static str> {
        Some("claude --resume")
    }

    fn provider(&self) -> Option<&'static str> {
        Some("anthropic")
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        list::list(home, found);
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        list::at(path)
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        convoke_source::lines::open_file(&session.path)
            .map_err(SourceError::read(&session.path))?;
        Ok(Box::new(reader::Reader::new(session, kept)))
    }
}
