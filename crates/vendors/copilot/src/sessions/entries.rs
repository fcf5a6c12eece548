//! What the events of a session tell, beside the requests.

use std::borrow::Cow;
use std::collections::HashMap;

use convoke_protocol::agent_event::{FileChange, FileDiff, TodoItem, TodoState};
use convoke_source::record::{list, text};
use convoke_source::{EntryKind, Facts};
use serde_json::Value;

/// The maximum number of calls and questions that wait for their end.
const MAX_PENDING: usize = 1000;
/// The maximum size of the input of a call that is kept until its end, in bytes.
const MAX_INPUT: usize = 256 << 10;

/// What began and has not ended.
#[derive(Debug, Default)]
pub struct Pending {
    /// The inputs of calls that change files, by call.
    inputs: HashMap<String, Value>,
    /// Questions and plans, by request.
    asked: HashMap<String, String>,
}

impl Pending {
    /// Notes the beginning of a call.
    pub fn call(&mut self, data: &Value) {
        let is_change = matches!(
            text(data, "toolName"),
            "edit" | "create" | "str_replace_editor" | "apply_patch"
        );
        if is_change && self.inputs.len() < MAX_PENDING {
            let input = &data["arguments"];
            if input.to_string().len() <= MAX_INPUT {
                self.inputs.insert(text(data, "toolCallId").to_owned(), input.clone());
            }
        }
    }

    /// Notes a question or a plan.
    pub fn ask(&mut self, data: &Value, what: &str) {
        if self.asked.len() < MAX_PENDING {
            self.asked.insert(text(data, "requestId").to_owned(), text(data, what).to_owned());
        }
    }

    /// Returns the question or the plan that was answered.
    pub fn answered(&mut self, data: &Value) -> Option<String> {
        self.asked.remove(text(data, "requestId"))
    }

    /// Returns the input of a call that has ended.
    pub fn ended(&mut self, data: &Value) -> Value {
        self.inputs.remove(text(data, "toolCallId")).unwrap_or_default()
    }
}

/// Returns the facts that the start or the continuation of a session tells.
pub fn facts(data: &Value) -> EntryKind<'_> {
    EntryKind::Facts(Facts {
        version: data["copilotVersion"].as_str(),
        cwd: data["context"]["cwd"].as_str(),
        model: data["selectedModel"].as_str(),
        branch: data["context"]["branch"].as_str(),
        title: None,
    })
}

/// Returns the files that a call changed, with the texts of its input.
pub fn changes<'e>(data: &'e Value, input: &'e Value) -> Vec<FileChange<'e>> {
    let edits = list(&data["fileEdits"]).collect::<Vec<_>>();
    let only = edits.len() == 1;
    let changes = edits.into_iter().filter_map(|edit| {
        let path = edit["path"].as_str()?;
        let replaced = (input["old_str"].as_str(), input["new_str"].as_str());
        let diff = match (text(edit, "kind"), replaced, input["file_text"].as_str()) {
            _ if !only => None,
            ("create", _, Some(after)) => Some(FileDiff { before: None, after: after.into() }),
            (_, (Some(before), Some(after)), _) => {
                Some(FileDiff { before: Some(before.into()), after: after.into() })
            }
            _ => None,
        };
        let change = match text(edit, "kind") {
            "create" => "add",
            "delete" => "delete",
            _ => "update",
        };
        Some(FileChange { path: path.into(), change: Cow::Borrowed(change), diff })
    });
    changes.collect()
}

/// Returns the to-do list of a call: lines like `- [x] done`.
pub fn todo(call: &Value) -> Option<Vec<TodoItem<'_>>> {
    let list =
        call["arguments"]["todos"].as_str().filter(|_| text(call, "name") == "update_todo")?;
    let items = list.lines().filter_map(|line| {
        let (mark, item) = line.trim_start().strip_prefix("- [")?.split_once("] ")?;
        let state = match mark {
            "x" | "X" => TodoState::Completed,
            _ => TodoState::Pending,
        };
        Some(TodoItem { text: item.into(), state })
    });
    Some(items.collect())
}
