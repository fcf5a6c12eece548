//! Threads of models: the texts about compaction, and the check of imported threads.

use convoke_model::stored_thread::{self, Compaction};
use convoke_session::transfer::BadThread;
use convoke_thread::item::ResponseItem;
use serde::Serialize;

use crate::figures::count;

/// The items restored by undoing a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoredItems {
    /// The number of items.
    items: u64,
    /// The bytes of their texts.
    bytes: u64,
    /// The summary that had replaced them.
    summary: String,
}

impl From<Compaction> for RestoredItems {
    fn from(compaction: Compaction) -> Self {
        let Compaction { summary, replaced, .. } = compaction;
        let bytes = replaced.iter().map(ResponseItem::text_bytes).sum();
        Self { items: replaced.len() as u64, bytes, summary }
    }
}

impl RestoredItems {
    /// Returns the report as one line.
    pub fn line(&self, who: &str) -> String {
        let (items, bytes) = (count(self.items, "item"), count(self.bytes, "byte"));
        format!("compaction of {who} undone: {items} ({bytes}) restored")
    }
}

/// Returns the report of a compaction: the summary, and the command that undoes it.
pub fn compacted(who: &str, summary: &str, undo: &str) -> String {
    format!("{summary}\n\n{who} continues from this summary; {undo} restores the earlier items")
}

/// Rejects lines that are not valid in a model's thread.
pub fn check(lines: &[&str]) -> Result<(), BadThread> {
    stored_thread::check(lines).map_err(|bad| BadThread { line: bad.line, reason: bad.reason })
}
