//! Snapshots: the stored form of a manager's state, version 1.

use std::collections::HashSet;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::history::History;
use super::task::cut_team_task;
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::message::{ConversationMessage, InvalidMessage};
use crate::timestamp::Millis;

/// The largest number in an id; JavaScript cannot represent larger integers exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The state of a manager, borrowed for writing.
#[derive(Debug, Clone, Copy)]
pub struct ContextSnapshot<'a> {
    pub(super) history: &'a History,
    pub(super) team_task: Option<&'a str>,
    pub(super) timestamp: Millis,
}

impl Serialize for ContextSnapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut snapshot = serializer.serialize_struct("ContextSnapshot", 4)?;
        snapshot.serialize_field("messages", &Messages(self.history))?;
        snapshot.serialize_field("teamTask", &self.team_task)?;
        snapshot.serialize_field("timestamp", &self.timestamp)?;
        snapshot.serialize_field("version", &1)?;
        snapshot.end()
    }
}

struct Messages<'a>(&'a History);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.messages())
    }
}

/// A refused snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid snapshot format")]
pub struct InvalidSnapshot {
    #[source]
    pub reason: SnapshotReason,
}

/// The reason why a snapshot was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotReason {
    /// The snapshot is not an object.
    #[error("the snapshot must be an object")]
    NoObject,
    /// The version is not the number 1.
    #[error("`version` must be the number 1, not {0}")]
    Version(String),
    /// There is no list of messages.
    #[error("`messages` must be a list")]
    NoMessages,
    /// A message is invalid.
    #[error("`messages[{index}]`: {why}")]
    Message {
        /// The index of the message.
        index: usize,
        /// The reason.
        why: InvalidMessage,
    },
    /// The number in an id is too large.
    #[error("`messages[{index}].id` `{id}` is beyond msg-{MAX_NUMBER}")]
    Number {
        /// The index of the message.
        index: usize,
        id: String,
    },
    /// The team task is not a string.
    #[error("`teamTask` must be a string or null")]
    TeamTask,
}

/// A state that was read from a snapshot.
pub(super) struct State {
    pub(super) messages: Vec<ConversationMessage>,
    pub(super) next_number: u64,
    pub(super) team_task: Option<String>,
}

/// Parses a snapshot.
pub(super) fn read(snapshot: Value) -> Result<(State, Vec<Diagnostic>), InvalidSnapshot> {
    read_state(snapshot).map_err(|reason| InvalidSnapshot { reason })
}

fn read_state(snapshot: Value) -> Result<(State, Vec<Diagnostic>), SnapshotReason> {
    let Value::Object(mut snapshot) = snapshot else {
        return Err(SnapshotReason::NoObject);
    };
    let version = snapshot.get("version").unwrap_or(&Value::Null);
    if version.as_f64() != Some(1.0) {
        return Err(SnapshotReason::Version(version.to_string()));
    }
    let Some(Value::Array(list)) = snapshot.shift_remove("messages") else {
        return Err(SnapshotReason::NoMessages);
    };
    let team_task = match snapshot.shift_remove("teamTask") {
        None | Some(Value::Null) => None,
        Some(Value::String(task)) => Some(task),
        Some(_) => return Err(SnapshotReason::TeamTask),
    };

    let mut diagnostics = Vec::new();
    let mut next_number = 1;
    let mut messages = Vec::with_capacity(list.len());
    for (index, value) in list.into_iter().enumerate() {
        let message = ConversationMessage::from_json_with_id(value)
            .map_err(|why| SnapshotReason::Message { index, why })?;
        next_number = next_number.max(number_of(&message, index)? + 1);
        messages.push(message);
    }
    diagnostics.extend(duplicate_ids(&messages));
    let team_task = team_task.map(|task| {
        let (kept, cut) = cut_team_task(&task);
        diagnostics.extend(cut);
        kept.to_owned()
    });
    Ok((State { messages, next_number, team_task }, diagnostics))
}

/// Returns the number in an id of the form `msg-N`; any other id counts as 0.
fn number_of(message: &ConversationMessage, index: usize) -> Result<u64, SnapshotReason> {
    let Some(digits) = message.id.digits() else {
        return Ok(0);
    };
    let number = digits.parse().ok().filter(|&number| number <= MAX_NUMBER);
    number.ok_or_else(|| SnapshotReason::Number { index, id: message.id.to_string() })
}

fn duplicate_ids(messages: &[ConversationMessage]) -> Vec<Diagnostic> {
    let mut seen = HashSet::new();
    let mut reported = HashSet::new();
    let mut diagnostics = Vec::new();
    for message in messages {
        if !seen.insert(&message.id) && reported.insert(&message.id) {
            let text = format!("more than one message has the id `{}`", message.id);
            tracing::warn!("[ContextManager] {text}");
            diagnostics.push(Diagnostic::new(diagnostics::SNAPSHOT_DUPLICATE_ID, text));
        }
    }
    diagnostics
}
