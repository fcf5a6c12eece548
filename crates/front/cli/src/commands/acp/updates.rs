//! Session events as updates of the protocol.

use std::collections::HashMap;
use std::time::Duration;

use convoke_chat::printable;
use convoke_protocol::agent_event::{AgentEventKind, TextPart, TodoItem, TodoState};
use convoke_protocol::event::EventKind;
use convoke_protocol::event::waits_for;
use convoke_protocol::id::{MemberName, TurnId};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The time between two updates of the same text. An agent may write thousands of pieces in it.
const INTERVAL: Duration = Duration::from_millis(50);
/// The size at which a text is sent before the interval is over.
const MAX_WAITING_BYTES: usize = 16 << 10;

/// Translates the events of one prompt. The pieces of a text that come in quick succession are one update.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// The texts that have not been returned yet. Members that write at the same time have one each.
    waiting: Vec<WaitingText>,
    /// The time of the last text that was returned.
    sent_at: Option<Instant>,
    /// The turn that wrote last.
    last_writer: Option<TurnId>,
    /// Whether the current text of each turn arrived in pieces.
    pieces: HashMap<(TurnId, &'static str), bool>,
}

#[derive(Debug)]
struct WaitingText {
    kind: &'static str,
    turn: TurnId,
    member: MemberName,
    text: String,
}

impl Updates {
    /// Returns the updates of an event, after the texts that wait. A text waits itself.
    pub(super) fn for_event(&mut self, event: &EventKind) -> Vec<Value> {
        let mut sent = Vec::new();
        for update in self.updates(event) {
            match update {
                Update::Text(text) => {
                    let last = self.waiting.iter_mut().rfind(|it| it.turn == text.turn);
                    match last.filter(|it| it.kind == text.kind) {
                        Some(waiting) => waiting.text.push_str(&text.text),
                        None => self.waiting.push(text),
                    }
                    let bytes: usize = self.waiting.iter().map(|it| it.text.len()).sum();
                    if bytes >= MAX_WAITING_BYTES {
                        sent.extend(self.flush());
                    }
                }
                Update::ToolStarted(update) => {
                    sent.extend(self.flush());
                    sent.push(update);
                    self.last_writer = None;
                }
                Update::Other(update) => {
                    sent.extend(self.flush());
                    sent.push(update);
                }
            }
        }
        sent
    }

    /// Returns the texts that wait, each with the name of its member if another one wrote before.
    pub(super) fn flush(&mut self) -> Vec<Value> {
        if !self.waiting.is_empty() {
            self.sent_at = Some(Instant::now());
        }
        let mut sent = Vec::with_capacity(self.waiting.len());
        for WaitingText { kind, turn, member, mut text } in std::mem::take(&mut self.waiting) {
            if kind == "agent_message_chunk" && self.last_writer.replace(turn) != Some(turn) {
                text.insert_str(0, &format!("\n\n**{member}:** "));
            }
            sent.push(chunk(kind, &text, Some((turn, &member))));
        }
        sent
    }

    /// Waits until the waiting texts are to be sent; forever without any.
    pub(super) fn due(&self) -> impl Future<Output = ()> + use<> {
        let at = self.waiting.first().map(|_| self.sent_at.map(|sent| sent + INTERVAL));
        async move {
            match at {
                Some(Some(at)) => tokio::time::sleep_until(at).await,
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    fn updates(&mut self, event: &EventKind) -> Vec<Update> {
        match event {
            EventKind::Agent { turn, member, event } => self.agent(*turn, member, &event.kind),
            EventKind::TurnEnded { turn, member, result, .. } => {
                let verdict = result.verdict.to_string();
                match verdict.as_str() {
                    "done" => Vec::new(),
                    _ => words(*turn, member, "agent_message_chunk", &format!("*{verdict}*")),
                }
            }
            EventKind::TurnOffered { turn, member, node, problem } => {
                let waits = waits_for(node.as_deref(), problem.as_deref());
                words(*turn, member, "agent_thought_chunk", &format!("{member} {waits}\n"))
            }
            _ => Vec::new(),
        }
    }

    fn agent(
        &mut self,
        turn: TurnId,
        member: &MemberName,
        event: &AgentEventKind<'_>,
    ) -> Vec<Update> {
        match event {
            AgentEventKind::Text { text, part } => {
                self.text(turn, member, "agent_message_chunk", text, *part)
            }
            AgentEventKind::Thinking { text, part } => {
                self.text(turn, member, "agent_thought_chunk", text, *part)
            }
            AgentEventKind::ToolStarted { id, name, input } => {
                vec![Update::ToolStarted(tool_started(turn, member, id, name, input))]
            }
            AgentEventKind::ToolFinished { id, ok, output } => {
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
                vec![Update::Other(update)]
            }
            AgentEventKind::FileChange { changes } => {
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
                vec![Update::Other(update)]
            }
            AgentEventKind::Todo { items } => vec![Update::Other(plan(items))],
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
    ) -> Vec<Update> {
        let has_pieces = self.pieces.entry((turn, kind)).or_default();
        let is_new = match part {
            TextPart::Delta => {
                *has_pieces = true;
                true
            }
            TextPart::Whole => !std::mem::take(has_pieces),
        };
        if is_new && !text.is_empty() { words(turn, member, kind, text) } else { Vec::new() }
    }
}

fn words(turn: TurnId, member: &MemberName, kind: &'static str, text: &str) -> Vec<Update> {
    vec![Update::Text(WaitingText { kind, turn, member: member.clone(), text: safe(text) })]
}

/// What an event becomes.
enum Update {
    Text(WaitingText),
    /// The text after it begins with the name of its member.
    ToolStarted(Value),
    Other(Value),
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

#[cfg(test)]
mod tests {
    use convoke_conformance_store::shown;
    use convoke_protocol::agent_event::AgentEvent;

    use super::super::output::asked_call;
    use super::*;

    fn writes(turn: u64, member: &str, text: &str) -> EventKind {
        let kind = AgentEventKind::Text { text: text.to_owned().into(), part: TextPart::Delta };
        let event = AgentEvent { sub_agent: None, kind };
        EventKind::Agent { turn: TurnId(turn), member: member.into(), event }
    }

    #[test]
    fn the_pieces_of_members_that_write_alternately_are_one_update_each() {
        let mut updates = Updates::default();
        for _ in 0..1_000 {
            assert!(updates.for_event(&writes(1, "max", "a")).is_empty());
            assert!(updates.for_event(&writes(2, "sarah", "b")).is_empty());
        }
        let text = |update: &Value| update["content"]["text"].as_str().unwrap().to_owned();
        let sent: Vec<String> = updates.flush().iter().map(text).collect();
        let expected = [("max", "a"), ("sarah", "b")]
            .map(|(member, piece)| format!("\n\n**{member}:** {}", piece.repeat(1_000)));
        assert_eq!(sent, expected);
        assert!(updates.flush().is_empty());
    }

    #[tokio::test]
    async fn the_facts_of_recorded_logs_are_sent() {
        let directory = tempfile::tempdir().unwrap();
        let store = shown::recorded_store(directory.path()).await.unwrap();
        for (session, events) in shown::logs(&store).await.unwrap() {
            let mut updates = Updates::default();
            let mut sent = String::new();
            for event in &events {
                let asked = match &event.kind {
                    EventKind::PermissionAsked { member, question, answers, .. }
                        if !answers.is_empty() =>
                    {
                        Some(asked_call(member.as_str(), question))
                    }
                    _ => None,
                };
                let all = asked.into_iter().chain(updates.for_event(&event.kind));
                all.for_each(|update| sent.push_str(&texts(&update)));
            }
            updates.flush().iter().for_each(|update| sent.push_str(&texts(update)));
            shown::check("acp", session, &events, &sent);
        }
    }

    /// Returns the texts in a value.
    fn texts(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(values) => values.iter().map(texts).collect(),
            Value::Object(fields) => fields.values().map(texts).collect(),
            _ => String::new(),
        }
    }
}
