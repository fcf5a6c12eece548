//! Parses the lines of stored threads.
//!
//! Most lines are the thread's record ([`convoke_thread::record`]). This module adds four kinds: the context
//! that the model was last sent, an undone compaction, the turn of an attempt, and a withdrawn attempt, whose
//! turn is retried. Lines are never removed. Undone compactions and withdrawn attempts are skipped when the
//! lines are read, which restores the items that they had replaced.

mod check;
mod loaded;
mod own;

use std::collections::HashSet;

use convoke_agent::thread::{ThreadStore, ThreadStoreError};
use convoke_core::Diagnostic;
use convoke_protocol::id::ThreadId;
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_thread::item::ResponseItem;
use convoke_thread::record::{self, Event, Record};
use convoke_thread::thread::LastSituation;
use serde_json::json;

pub use self::check::{BadLine, check};
pub(crate) use self::loaded::LoadedThread;
pub(crate) use self::own::situation_line;
use self::own::{OwnLine, withdrawn};

/// A stored thread.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub record: Record,
    /// The context that the model was last sent.
    pub last_situation: LastSituation,
    /// The names of the session's turns in the thread, oldest first.
    pub turns: Vec<String>,
    /// The compactions in effect, oldest first.
    pub compactions: Vec<Compaction>,
    pub diagnostics: Vec<Diagnostic>,
    /// The number of lines.
    pub(crate) lines: usize,
}

/// A compaction in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// The line of the compaction, from 0.
    pub line: usize,
    /// The summary that the model wrote.
    pub summary: String,
    pub replaced: Vec<ResponseItem>,
}

/// An error of reading or changing a thread.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is no such thread.
    #[error("there is no thread {0}")]
    Unknown(ThreadId),
    /// The lines are not a valid thread.
    #[error("the thread {thread} cannot be read: {reason}")]
    Unreadable { thread: ThreadId, reason: String },
    /// There is no compaction to undo.
    #[error("the thread {0} has no compaction to undo")]
    NotCompacted(ThreadId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ThreadStoreError),
}

impl Log {
    /// Loads a thread; `None` if there is none.
    pub async fn load(
        store: &dyn ThreadStore,
        thread: &ThreadId,
    ) -> Result<Option<Self>, LogError> {
        let lines = texts(store.thread_lines(thread).await?);
        Self::read(&lines).map_err(|reason| LogError::Unreadable { thread: thread.clone(), reason })
    }

    /// Parses the lines of a thread; `None` if no line is in effect. O(bytes).
    pub fn read<L: AsRef<str>>(lines: &[L]) -> Result<Option<Self>, String> {
        let mut log = Self { lines: lines.len(), ..Self::default() };
        let withdrawn = withdrawn(lines)?;
        let mut undone = HashSet::new();
        for (line, _) in lines.iter().zip(&withdrawn).filter(|(_, withdrawn)| !**withdrawn) {
            match OwnLine::read(line.as_ref())? {
                Some(OwnLine::Undone(line)) => {
                    undone.insert(line);
                }
                Some(OwnLine::LastSituation(situation)) => log.last_situation = situation,
                Some(OwnLine::Attempt(attempt)) => log.turns.push(attempt.turn),
                Some(OwnLine::Sent | OwnLine::Withdrawn(_)) | None => {}
            }
        }
        let mut text = String::with_capacity(lines.iter().map(|it| it.as_ref().len() + 1).sum());
        let mut kept = Vec::new();
        for (index, line) in lines.iter().map(AsRef::as_ref).enumerate() {
            if !withdrawn[index] && !undone.contains(&index) && !OwnLine::is_one(line) {
                text.push_str(line);
                text.push('\n');
                kept.push(index);
            }
        }
        if kept.is_empty() {
            return Ok(None);
        }
        log.record =
            record::read(&text, &mut log.diagnostics).map_err(|error| error.to_string())?;
        log.find_compactions(&kept);
        Ok(Some(log))
    }

    fn find_compactions(&mut self, kept: &[usize]) {
        let mut before: Vec<ResponseItem> = Vec::new();
        // The first line is the start. An unknown line shifts the rest: compactions then cannot be located and
        // cannot be undone.
        let is_exact = kept.len() == self.record.events.len() + 1;
        for (event, line) in self.record.events.iter().zip(kept.iter().skip(1)) {
            match event {
                Event::Item(entry) => before.push(entry.item.clone()),
                Event::Compacted { message, history } if is_exact => {
                    let replaced = std::mem::take(&mut before);
                    before.extend(history.iter().flatten().map(|entry| entry.item.clone()));
                    let summary = message.clone();
                    self.compactions.push(Compaction { line: *line, summary, replaced });
                }
                _ => {}
            }
        }
    }
}

/// Undoes the last compaction of a thread, so that its next turn has the replaced items again. Returns the
/// compaction.
pub async fn undo_compaction(
    store: &dyn ThreadStore,
    thread: &ThreadId,
) -> Result<Compaction, LogError> {
    let log = Log::load(store, thread).await?;
    let mut log = log.ok_or_else(|| LogError::Unknown(thread.clone()))?;
    let last = log.compactions.pop();
    let last = last.ok_or_else(|| LogError::NotCompacted(thread.clone()))?;
    // The size of the thread was not counted; estimate a quarter of its bytes.
    let bytes: u64 = last.replaced.iter().map(ResponseItem::text_bytes).sum();
    let usage = log.record.last_usage().unwrap_or_default();
    let total = usage.total;
    let estimate = usage.last.saturating_add(convoke_core::ledger::estimate_tokens(bytes));
    let lines = vec![
        json!({"undone": last.line}).to_string(),
        json!({"usage": {"last": estimate, "total": total}}).to_string(),
    ];
    let append = ThreadAppend { thread: thread.clone(), known: log.lines, lines };
    store.append_lines(&append).await?;
    Ok(last)
}

fn texts(lines: Vec<ThreadLine>) -> Vec<String> {
    lines.into_iter().map(|line| line.text).collect()
}
