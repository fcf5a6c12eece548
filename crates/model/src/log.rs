//! What the lines of a stored thread say.
//!
//! Most lines are the thread's own record ([`convoke_thread::record`]). Four kinds are ours: what the
//! model was last told of its situation, the note that a compaction was undone, which turn of its session
//! an attempt was made at, and the note that an attempt was taken back because its turn is taken once
//! more. Nothing is ever taken out: an undone compaction and an attempt that was taken back are passed
//! over when the lines are read, and what they had replaced is there as before.

mod check;
mod found;
mod own;

use std::collections::HashSet;

use convoke_agent::id::ThreadId;
use convoke_agent::thread::{ThreadAppend, ThreadLine, ThreadStore, ThreadStoreError};
use convoke_core::Diagnostic;
use convoke_thread::item::ResponseItem;
use convoke_thread::record::{self, Event, Record};
use convoke_thread::thread::LastSituation;
use serde_json::json;

pub use self::check::{BadLine, check};
pub(crate) use self::found::Found;
pub(crate) use self::own::told_line;
use self::own::{OwnLine, taken_back};

/// A stored thread.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// What happened in it.
    pub record: Record,
    /// What its model was last told of its situation.
    pub told: LastSituation,
    /// The turns of its session that it holds, by the names that their deliveries gave them, oldest
    /// first.
    pub turns: Vec<String>,
    /// The compactions that hold, oldest first.
    pub compactions: Vec<Compaction>,
    /// What the user should know.
    pub diagnostics: Vec<Diagnostic>,
    /// How many lines there are.
    pub(crate) lines: usize,
}

/// A compaction that holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// The line that tells of it, from 0.
    pub line: usize,
    /// The summary that the model wrote.
    pub summary: String,
    /// What it replaced.
    pub replaced: Vec<ResponseItem>,
}

/// A thread that cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is no such thread.
    #[error("there is no thread {0}")]
    Unknown(ThreadId),
    /// Its lines are no thread's.
    #[error("the thread {thread} cannot be read: {reason}")]
    Unreadable {
        /// The thread.
        thread: ThreadId,
        /// Why.
        reason: String,
    },
    /// There is no compaction to undo.
    #[error("the thread {0} has no compaction that could be undone")]
    NotCompacted(ThreadId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ThreadStoreError),
}

impl Log {
    /// Loads a thread; `None` when there is none.
    pub async fn load(
        store: &dyn ThreadStore,
        thread: &ThreadId,
    ) -> Result<Option<Self>, LogError> {
        let lines = texts(store.thread_lines(thread).await?);
        Self::read(&lines).map_err(|reason| LogError::Unreadable { thread: thread.clone(), reason })
    }

    /// Reads the lines of a thread; `None` when none of them holds. Costs one pass over their bytes.
    pub fn read<L: AsRef<str>>(lines: &[L]) -> Result<Option<Self>, String> {
        let mut log = Self { lines: lines.len(), ..Self::default() };
        let taken_back = taken_back(lines)?;
        let mut undone = HashSet::new();
        for (line, _) in lines.iter().zip(&taken_back).filter(|(_, taken_back)| !**taken_back) {
            match OwnLine::read(line.as_ref())? {
                Some(OwnLine::Undone(line)) => {
                    undone.insert(line);
                }
                Some(OwnLine::LastSituation(told)) => log.told = told,
                Some(OwnLine::Attempt(attempt)) => log.turns.push(attempt.turn),
                Some(OwnLine::Sent | OwnLine::TakenBack(_)) | None => {}
            }
        }
        let mut text = String::with_capacity(lines.iter().map(|it| it.as_ref().len() + 1).sum());
        let mut kept = Vec::new();
        for (index, line) in lines.iter().map(AsRef::as_ref).enumerate() {
            if !taken_back[index] && !undone.contains(&index) && !OwnLine::is_one(line) {
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
        // The first line is the start. A line that is no event shifts the rest; then a compaction
        // cannot be told by its line, and is not offered to be undone.
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

/// Undoes the last compaction of a thread, so that its next turn has what the summary had replaced.
/// Returns the compaction.
pub async fn undo_compaction(
    store: &dyn ThreadStore,
    thread: &ThreadId,
) -> Result<Compaction, LogError> {
    let log = Log::load(store, thread).await?;
    let mut log = log.ok_or_else(|| LogError::Unknown(thread.clone()))?;
    let last = log.compactions.pop();
    let last = last.ok_or_else(|| LogError::NotCompacted(thread.clone()))?;
    // Nobody has counted what the thread has now; a quarter of its bytes is the usual estimate.
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
