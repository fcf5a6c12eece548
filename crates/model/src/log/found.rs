//! A thread as a turn finds it, and an earlier attempt at the same turn.

use convoke_agent::id::ThreadId;
use convoke_agent::thread::ThreadStore;
use serde_json::json;

use super::own::{Attempt, OwnLine};
use super::{Log, LogError};

/// A thread as a turn finds it.
#[derive(Debug)]
pub(crate) struct Found {
    /// The name.
    pub id: ThreadId,
    /// What it holds; nothing when the turn begins it.
    pub log: Option<Log>,
    /// How many lines there are.
    pub known: usize,
    /// The line from which on they are an earlier attempt at this very turn, which is taken back.
    pub takes_back: Option<usize>,
}

impl Found {
    /// Loads a thread for a turn. An attempt at the same turn that it ends with is passed over: a turn
    /// that is taken once more is taken as if for the first time. With anything after it, the attempt
    /// is a part of what was said, and stays.
    pub async fn load(
        store: &dyn ThreadStore,
        id: ThreadId,
        turn: Option<&str>,
    ) -> Result<Self, LogError> {
        let lines = super::texts(store.thread_lines(&id).await?);
        let takes_back = turn.and_then(|turn| last_attempt_at(turn, &lines));
        let log = Log::read(&lines[..takes_back.unwrap_or(lines.len())])
            .map_err(|reason| LogError::Unreadable { thread: id.clone(), reason })?;
        Ok(Self { id, log, known: lines.len(), takes_back })
    }

    /// Creates an empty thread with a new id.
    pub fn new() -> Self {
        Self { id: ThreadId::generate(), log: None, known: 0, takes_back: None }
    }

    /// Returns the lines that tell whose attempt the given lines are, and what they take back.
    pub fn heading(&self, turn: Option<&str>, lines: &[String]) -> Vec<String> {
        let taken_back = self.takes_back.map(|line| json!({"takenBack": line}).to_string());
        let attempt = turn.map(|turn| {
            let attempt = Attempt { turn: turn.to_owned(), lines: lines.len() };
            json!({"attempt": attempt}).to_string()
        });
        taken_back.into_iter().chain(attempt).collect()
    }
}

/// Returns the first line of the attempt that a thread ends with, if it is one at this turn.
fn last_attempt_at(turn: &str, lines: &[String]) -> Option<usize> {
    let is_attempt = |line: &String| line.starts_with("{\"attempt\":");
    let index = lines.iter().rposition(is_attempt)?;
    match OwnLine::read(&lines[index]) {
        Ok(Some(OwnLine::Attempt(attempt)))
            if attempt.turn == turn && lines.len() - index == attempt.lines.saturating_add(1) =>
        {
            Some(index)
        }
        _ => None,
    }
}
