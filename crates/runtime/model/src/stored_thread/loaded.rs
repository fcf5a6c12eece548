//! Loads a thread for a turn, without an earlier attempt at the same turn.

use convoke_agent::thread::ThreadStore;
use convoke_protocol::id::ThreadId;
use serde_json::json;

use super::own::{Attempt, OwnLine};
use super::{Log, LogError};

/// A thread loaded for a turn.
#[derive(Debug)]
pub(crate) struct LoadedThread {
    pub id: ThreadId,
    /// The log; `None` for a new thread.
    pub log: Option<Log>,
    /// The number of lines.
    pub known: usize,
    /// The first line of an earlier attempt at this turn, which is to be withdrawn.
    pub withdraws: Option<usize>,
}

impl LoadedThread {
    /// Loads a thread for a turn. If the thread ends with an attempt at the same turn, that attempt is skipped,
    /// so that a retried turn starts as it did the first time. An attempt with other lines after it is kept.
    pub async fn load(
        store: &dyn ThreadStore,
        id: ThreadId,
        turn: Option<&str>,
    ) -> Result<Self, LogError> {
        let lines = super::texts(store.thread_lines(&id).await?);
        let withdraws = turn.and_then(|turn| last_attempt_at(turn, &lines));
        let log = Log::read(&lines[..withdraws.unwrap_or(lines.len())])
            .map_err(|reason| LogError::Unreadable { thread: id.clone(), reason })?;
        Ok(Self { id, log, known: lines.len(), withdraws })
    }

    /// Creates an empty thread with a new id.
    pub fn new() -> Self {
        Self { id: ThreadId::generate(), log: None, known: 0, withdraws: None }
    }

    /// Returns the header lines of an attempt: its turn, and the attempt that it replaces.
    pub fn heading(&self, turn: Option<&str>, lines: &[String]) -> Vec<String> {
        let withdrawn = self.withdraws.map(|line| json!({"takenBack": line}).to_string());
        let attempt = turn.map(|turn| {
            let attempt = Attempt { turn: turn.to_owned(), lines: lines.len() };
            json!({"attempt": attempt}).to_string()
        });
        withdrawn.into_iter().chain(attempt).collect()
    }
}

/// Returns the first line of the last attempt in a thread, if it is an attempt at this turn.
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
