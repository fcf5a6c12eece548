//! Session events as updates of the protocol.

use std::collections::HashMap;

use convoke_agent::event::{EventKind, TextPart, TodoItem, TodoState};
use convoke_chat::printable;
use convoke_session::event::waits_for;
use convoke_session::{MemberName, SessionEventKind, TurnId};
use serde_json::{Value, json};

/// Translates the events of one prompt.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// The turn that wrote last.
    last_writer: Option<TurnId>,
    /// Whether the current text of each turn arrived in pieces.
    pieces: HashMap<(TurnId, &'static str), bool>,
}

impl Updates {
    /// Returns the updates of an event.
    pub(super) fn for_event(&mut self, event: &SessionEventKind) -> Vec<Value> {
        match event {
            SessionEventKind::Agent { turn, member, event } => {
                self.agent(*turn, member, &event.kind)
            }
            SessionEventKind::TurnEnded { turn, member, result, .. } => {
                let verdict = result.verdict.to_string();
                match verdict.as_str() {
                    "done" => Vec::new(),
                    _ => self.words(*turn, member, "agent_message_chunk", &format!("*{verdict}*")),
                }
            }
            SessionEventKind::TurnOffered { turn, member, node, problem } => {
                let waits = waits_for(node.as_deref(), problem.as_deref());
                self.words(*turn, member, "agent_thought_chunk", &format!("{member} {waits}\n"))
            }
            _ => Vec::new(),
        }
    }

    fn agent(&mut self, turn: TurnId, member: &MemberName, event: &EventKind<'_>) -> Vec<Value> {
        match event {
            EventKind::Text { text, part } => {
                self.text(turn, member, "agent_message_chunk", text, *part)
            }
            EventKind::Thinking { text, part } => {
                self.text(turn, member, "agent_thought_chunk", text, *part)
            }
            EventKind::ToolStarted { id, name, input } => {
                self.last_writer = None;
                vec![tool_started(turn, member, id, name, input)]
            }
            EventKind::ToolFinished { id, ok, output } => {
                let status = if *ok { "completed" } else { "failed" };
                let text = json!({ "type": "text", "text": safe(output) });
                let mut update = json!({
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": call_id(turn, id),
                    "status": status,
                });
                // A change that was shown stays in view.
                if !output.is_empty() {
                    update["rawOutput"] = json!(output);
                    update["content"] = json!([{ "type": "content", "content": text }]);
                }
                vec![update]
            }
            EventKind::FileChange { changes } => {
                let paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
                let locations: Vec<Value> =
                    paths.iter().map(|path| json!({ "path": path })).collect();
                let mut update = json!({
                    "sessionUpdate": "tool_call",
                    "toolCallId": format!("{turn}.files.{}", paths.join(",")),
                    "title": format!("{member} changed {}", safe(&paths.join(", "))),
                    "kind": "edit",
                    "status": "completed",
                    "locations": locations,
                });
                let diffs: Vec<Value> = changes
                    .iter()
                    .filter_map(|change| {
                        let texts = change.diff.as_ref()?;
                        Some(diff(&change.path, texts.before.as_deref(), &texts.after))
                    })
                    .collect();
                if !diffs.is_empty() {
                    update["content"] = diffs.into();
                }
                vec![update]
            }
            EventKind::Todo { items } => vec![plan(items)],
            _ => Vec::new(),
        }
    }

    /// A text arrives in pieces and then whole, or only whole.
    fn text(
        &mut self,
        turn: TurnId,
        member: &MemberName,
        kind: &'static str,
        text: &str,
        part: TextPart,
    ) -> Vec<Value> {
        let has_pieces = self.pieces.entry((turn, kind)).or_default();
        let is_new = match part {
            TextPart::Delta => {
                *has_pieces = true;
                true
            }
            TextPart::Whole => !std::mem::take(has_pieces),
        };
        if is_new && !text.is_empty() { self.words(turn, member, kind, text) } else { Vec::new() }
    }

    /// Returns chunks, with the name of the member if another one wrote before.
    fn words(&mut self, turn: TurnId, member: &MemberName, kind: &str, text: &str) -> Vec<Value> {
        let mut chunks = Vec::new();
        if self.last_writer != Some(turn) && kind == "agent_message_chunk" {
            self.last_writer = Some(turn);
            chunks.push(chunk(kind, &format!("\n\n**{member}:** "), Some((turn, member))));
        }
        chunks.push(chunk(kind, &safe(text), Some((turn, member))));
        chunks
    }
}

/// Returns a chunk of text, with its author for editors that show it otherwise.
pub(super) fn chunk(kind: &str, text: &str, by: Option<(TurnId, &MemberName)>) -> Value {
    let content = json!({ "type": "text", "text": text });
    let mut chunk = json!({ "sessionUpdate": kind, "content": content });
    if let Some((turn, member)) = by {
        chunk["_meta"] = json!({ "convoke": { "member": member, "turn": turn } });
    }
    chunk
}

/// Returns a text without control characters.
pub(super) fn safe(text: &str) -> String {
    printable(text).into_owned()
}

fn call_id(turn: TurnId, id: &str) -> String {
    format!("{turn}.{id}")
}

fn tool_started(turn: TurnId, member: &MemberName, id: &str, name: &str, input: &str) -> Value {
    let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!(input));
    let text = |names: &[&str]| names.iter().find_map(|name| input[*name].as_str());
    let path = text(&["file_path", "path", "absolute_path"]);
    let what = text(&["command", "cmd", "title", "pattern", "query"]).or(path).unwrap_or_default();
    let title = format!("{member}: {name} {}", safe(what));
    let mut update = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": call_id(turn, id),
        "title": title.trim_end(),
        "kind": kind_of(name),
        "status": "in_progress",
    });
    if let Some(path) = path {
        update["locations"] = json!([{ "path": path }]);
        let after = text(&["new_string", "content"]);
        if let Some(after) = after.filter(|_| kind_of(name) == "edit") {
            update["content"] = json!([diff(path, text(&["old_string"]), after)]);
        }
    }
    if !input.is_null() {
        update["rawInput"] = input;
    }
    update
}

fn diff(path: &str, before: Option<&str>, after: &str) -> Value {
    let mut diff = json!({ "type": "diff", "path": path, "newText": after });
    if let Some(before) = before {
        diff["oldText"] = before.into();
    }
    diff
}

/// Returns the protocol's kind of a tool, by its name.
pub(super) fn kind_of(tool: &str) -> &'static str {
    const KINDS: &[(&str, &[&str])] = &[
        ("edit", &["edit", "write", "patch", "replace", "filechange"]),
        ("execute", &["bash", "shell", "exec", "command", "terminal"]),
        ("search", &["grep", "glob", "search", "find"]),
        ("fetch", &["fetch", "web"]),
        ("read", &["read", "list", "view"]),
        ("think", &["think", "todo", "plan"]),
    ];
    let tool = tool.to_ascii_lowercase();
    let found = KINDS.iter().find(|(_, words)| words.iter().any(|word| tool.contains(word)));
    found.map_or("other", |(kind, _)| kind)
}

fn plan(items: &[TodoItem<'_>]) -> Value {
    let entries = items.iter().filter_map(|item| {
        let status = match item.state {
            TodoState::Pending => "pending",
            TodoState::InProgress => "in_progress",
            TodoState::Completed => "completed",
            TodoState::Cancelled => return None,
        };
        Some(json!({ "content": safe(&item.text), "priority": "medium", "status": status }))
    });
    json!({ "sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>() })
}
