//! The conversation of a prompt: a snapshot, or one message per line.

use std::path::Path;

use convoke_core::marker::{TextPolicy, scan};
use convoke_core::{AssemblerInput, ContextManager, ConversationMessage, Diagnostic, MessageId};
use convoke_files::FileKind;
use convoke_files::limit::{read_named, read_stream};
use convoke_team::Team;
use serde_json::{Value, json};

use super::Arguments;
use crate::outcome::UsageError;

/// Loads the conversation into a manager and returns its diagnostics.
pub(super) fn load(
    manager: &mut ContextManager,
    team: &Team,
    arguments: &Arguments,
) -> Result<Vec<Diagnostic>, UsageError> {
    let (path, snapshot) = match (&arguments.snapshot, &arguments.messages) {
        (Some(path), _) => (path.as_path(), read_snapshot(path)?),
        (None, Some(path)) => (path.as_path(), read_messages(path)?),
        (None, None) => (Path::new("-"), as_snapshot(Vec::new())),
    };
    let mut diagnostics = manager
        .import_snapshot(snapshot)
        .map_err(|error| UsageError(format!("{}: {error}: {}", path.display(), error.reason)))?;
    if manager.team_task().is_none() {
        // A snapshot contains the task. Messages alone do not: the last task in one of them is used, else that of the
        // team file.
        let stated = match arguments.messages {
            Some(_) => {
                let task =
                    |message: &ConversationMessage| scan(&message.content, team.context.text).task;
                manager.messages().rev().find_map(task)
            }
            None => None,
        };
        if let Some(task) = stated.or_else(|| team.task.clone()) {
            diagnostics.extend(manager.set_team_task(&task));
        }
    }
    Ok(diagnostics)
}

/// Returns the diagnostics of markers in the messages that a prompt shows.
pub(super) fn marker_diagnostics(
    manager: &ContextManager,
    input: &AssemblerInput<'_>,
    policy: TextPolicy,
) -> Vec<Diagnostic> {
    let context = input.context_messages.iter().filter_map(|message| message.id());
    let ids = context.chain(input.current_message_id.as_deref());
    let messages = ids.filter_map(|id| manager.history().by_id(&id.into()));
    let found = messages.flat_map(|message| {
        let mut diagnostics = scan(&message.content, policy).diagnostics;
        for diagnostic in &mut diagnostics {
            diagnostic.message = format!("{}: {}", message.id, diagnostic.message);
        }
        diagnostics
    });
    found.collect()
}

fn read_snapshot(path: &Path) -> Result<Value, UsageError> {
    let text = read(path)?;
    serde_json::from_slice(&text).map_err(|error| invalid(path, error.line(), &error.to_string()))
}

/// Reads messages, one per line; those without an id get one by position.
fn read_messages(path: &Path) -> Result<Value, UsageError> {
    let text = read(path)?;
    let mut messages = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let mut message: Value = serde_json::from_slice(line)
            .map_err(|error| invalid(path, index + 1, &format!("not JSON: {error}")))?;
        if let Value::Object(object) = &mut message {
            object.entry("id").or_insert_with(|| json!(NO_ID));
        }
        // Also checked here, where the line number is known.
        ConversationMessage::from_json_with_id(message.clone())
            .map_err(|error| invalid(path, index + 1, &error.to_string()))?;
        messages.push(message);
    }
    number(&mut messages);
    Ok(as_snapshot(messages))
}

/// The id of a message until all ids of the file are known.
const NO_ID: &str = "";

/// Gives ids to messages without one: `msg-N` by position, beyond any such id in the file.
fn number(messages: &mut [Value]) {
    let numbers = messages.iter().filter_map(|message| {
        MessageId::from(message["id"].as_str()?).digits()?.parse::<u64>().ok()
    });
    let taken = numbers.max().unwrap_or(0);
    for (message, number) in messages.iter_mut().zip(taken.saturating_add(1)..) {
        if message["id"] == NO_ID {
            message["id"] = json!(MessageId::numbered(number));
        }
    }
}

fn as_snapshot(messages: Vec<Value>) -> Value {
    let mut snapshot = json!({"version": 1, "teamTask": null});
    snapshot["messages"] = Value::Array(messages);
    snapshot
}

fn read(path: &Path) -> Result<Vec<u8>, UsageError> {
    let read = if path == Path::new("-") {
        read_stream(std::io::stdin().lock(), path, FileKind::Input)
    } else {
        read_named(path, FileKind::Input)
    };
    read.map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))
}

fn invalid(path: &Path, line: usize, why: &str) -> UsageError {
    UsageError(format!("{}: line {line}: {why}", path.display()))
}
