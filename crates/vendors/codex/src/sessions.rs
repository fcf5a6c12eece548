//! The sessions that Codex stores: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl` in its directory, a file for each
//! thread. A sub-agent's thread belongs to the session that started it; a fork leaves its history in its parent's file.

mod conversation;
mod events;
mod head;
mod item;
mod json;
mod patch;
mod person;
mod place;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod thread;

use std::path::Path;

use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};

use self::place::Candidate;

/// The name of the program.
const PROGRAM: &str = "codex";

/// The sessions of Codex.
#[derive(Debug)]
pub struct CodexSessions;

impl SessionSource for CodexSessions {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn resume_command(&self) -> Option<&'static str> {
        Some("codex resume")
    }

    fn provider(&self) -> Option<&'static str> {
        Some("openai")
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        let mut candidates = Vec::new();
        place::files(&home.moved("CODEX_HOME", ".codex"), &mut |path| match path
            .and_then(Candidate::read)
        {
            Ok(candidate) => candidates.extend(candidate),
            Err(error) => found(Err(error)),
        });
        for session in place::sessions(candidates) {
            found(Ok(session));
        }
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        if !path.is_file() || place::head(path)?.is_none() {
            return Ok(None);
        }
        let Some(own) = Candidate::read(path.to_owned())? else { return Ok(None) };
        let root = own.head.root().unwrap_or(&own.head.id).to_owned();
        let mut near = Vec::new();
        if let Some(home) = place::home_of(path) {
            place::files(home, &mut |file| {
                // Ids begin with the time: what a session starts comes after it.
                let file = file.ok().filter(|it| it != path);
                let file = file.filter(|it| place::thread_of(it).is_some_and(|it| *it >= *root));
                near.extend(file.and_then(|it| Candidate::read(it).ok()).flatten());
            });
        }
        near.push(own);
        let mut sessions = place::sessions(near);
        let index = sessions.iter().position(|it| it.files.iter().any(|file| file == path));
        Ok(index.map(|index| sessions.swap_remove(index)))
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::open(session, kept)?))
    }
}
