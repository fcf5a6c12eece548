//! The record of a thread: its events in order, from which the thread can be resumed or forked.
//!
//! Codex's session files ([`read_rollout`]) and Convoke's own records ([`write_start`], [`write_event`]) are
//! both lines of JSON and give the same [`Record`]; [`read`] accepts either. A truncated last line is left out
//! and reported.

mod codex;
mod own;

use std::path::PathBuf;

use convoke_core::diagnostic::Diagnostic;
use serde_json::Value;

use crate::diagnostics;
use crate::history::{Entry, never_kept};
use crate::instructions::BaseSource;

pub use codex::read_rollout;
pub use own::{read_event, write_event, write_start};

/// A recorded thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// The thread's id.
    pub id: String,
    /// The directory that the thread was started in.
    pub cwd: Option<PathBuf>,
    /// The instructions that the thread was started with.
    pub base_instructions: Option<String>,
    /// The source of those instructions.
    pub base_source: BaseSource,
    /// The version of Codex that recorded the thread, if known.
    pub codex_version: Option<String>,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// An event of a thread.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every event is an item")]
#[non_exhaustive]
pub enum Event {
    /// An item was recorded, before truncation.
    Item(Entry),
    /// A request was made with this model.
    Turn {
        /// The model's name.
        model: String,
    },
    /// The server counted the tokens.
    Usage(Usage),
    /// The thread was compacted.
    Compacted {
        /// The summary message.
        message: String,
        /// The new history, if the server created it.
        history: Option<Vec<Entry>>,
    },
    /// The last turns were rolled back.
    RolledBack {
        /// The number of turns.
        turns: usize,
    },
}

/// Tokens counted by the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// In the last request and response.
    pub last: u64,
    /// In all requests and responses.
    pub total: u64,
}

/// A file that is not a record of a thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the file does not begin like a thread's record: {0}")]
pub struct NotARecord(String);

impl NotARecord {
    /// Creates the error of a file without a readable first line.
    fn without_start(text: &str) -> Self {
        let first = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
        Self(match first {
            None => "it is empty".to_owned(),
            Some((index, line)) => {
                format!(
                    "line {} is not JSON, or was truncated after {} bytes",
                    index + 1,
                    line.len()
                )
            }
        })
    }
}

impl Record {
    /// Returns the instructions that the thread was started with, and their source.
    pub fn base(&self) -> Option<(&str, BaseSource)> {
        self.base_instructions.as_deref().map(|text| (text, self.base_source))
    }

    /// Returns the model of the last request.
    pub fn last_model(&self) -> Option<&str> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Turn { model } => Some(model.as_str()),
            _ => None,
        })
    }

    /// Returns the last count of tokens.
    pub fn last_usage(&self) -> Option<Usage> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Usage(usage) => Some(*usage),
            _ => None,
        })
    }
}

/// Reads a record of Convoke or a Codex session file, recognised by the first line.
pub fn read(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<Record, NotARecord> {
    let first = text.lines().next().map(serde_json::from_str::<Value>);
    match first {
        Some(Ok(line)) if line.get("payload").is_some() => read_rollout(text, diagnostics),
        _ => own::read(text, diagnostics),
    }
}

/// Parses the lines of a file; invalid lines are reported and skipped.
fn json_lines(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<(usize, Value)> {
    let mut values = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(value) => values.push((index, value)),
            Err(_) if lines.peek().is_none() && !line.ends_with('\n') => {
                let bytes = line.len() as u64;
                let message = format!("the last line was truncated after {bytes} bytes");
                let torn = Diagnostic::new(diagnostics::RECORD_TORN, message).with_bytes(bytes);
                diagnostics.push(torn.at_line(index as u64 + 1));
            }
            Err(wrong) => diagnostics.push(invalid(index, &wrong.to_string())),
        }
    }
    values
}

/// Adds an event to a record, or reports the line of an item that is never stored.
fn add(record: &mut Record, event: Event, index: usize, diagnostics: &mut Vec<Diagnostic>) {
    let dropped = match &event {
        Event::Item(entry) => never_kept(&entry.item),
        _ => None,
    };
    match dropped {
        None => record.events.push(event),
        Some(what) => {
            let line = index as u64 + 1;
            let message = format!("line {line} was left out: {what} is not kept in the history");
            diagnostics.push(Diagnostic::new(diagnostics::ITEM_DROPPED, message).at_line(line));
        }
    }
}

fn invalid(index: usize, reason: &str) -> Diagnostic {
    let line = index as u64 + 1;
    let message = format!("line {line} was left out: {reason}");
    Diagnostic::new(diagnostics::RECORD_INVALID, message).at_line(line)
}

#[cfg(test)]
mod tests;
