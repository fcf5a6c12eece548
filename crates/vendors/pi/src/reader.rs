//! Reads a session from its file.

use std::collections::HashMap;
use std::path::Path;

use convoke_core::{Millis, Timestamp};
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Place, Role, Window, WindowPart};
use convoke_source::history::{MAX_BYTES, MAX_PARTS};
use convoke_source::lines::Lines;
use convoke_source::{
    Entry, EntryKind, Facts, Kept, Report, Request, SessionReader, Sink, SourceError, files,
};
use convoke_wire::normal::Parts;
use serde_json::Value;

/// The records of a session that tell nothing about the conversation.
const WITHOUT_NEWS: &[&str] = &["thinking_level_change", "label", "custom", "session_info"];

/// A reader of a session.
pub(crate) struct Reader {
    lines: Lines,
    state: State,
    report: Report,
}

/// The messages so far, by their ids.
struct State {
    kept: Kept,
    nodes: HashMap<String, Node>,
    bytes: usize,
    /// Whether messages were forgotten because they are more than memory should hold.
    is_too_large: bool,
    is_incomplete: bool,
    model: Option<String>,
    requests: u64,
}

/// A record of the tree.
struct Node {
    parent: Option<String>,
    parts: Vec<WindowPart>,
    at: Option<Millis>,
    /// The record from which messages are kept, if this is a summary.
    kept_from: Option<String>,
    is_summary: bool,
}

impl Reader {
    /// Opens a session.
    pub(crate) fn open(path: &Path, kept: Kept) -> Result<Self, SourceError> {
        let lines = Lines::open(path).map_err(SourceError::read(path))?;
        let state = State {
            kept,
            nodes: HashMap::new(),
            bytes: 0,
            is_too_large: false,
            is_incomplete: false,
            model: None,
            requests: 0,
        };
        Ok(Self { lines, state, report: Report::default() })
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.report.is_torn = false;
        let state = &mut self.state;
        files::each_line(&mut self.lines, &mut self.report, &mut |place, line, report| match line
            .map(serde_json::from_slice::<Value>)
        {
            Some(Ok(record)) => state.read(&record, &place, sink, report),
            Some(Err(error)) => {
                report.broken(place, &error);
                state.is_incomplete = true;
                true
            }
            None => {
                state.is_incomplete = true;
                true
            }
        })
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

impl State {
    /// Reads a record. Returns whether the sink wants more.
    fn read(
        &mut self,
        record: &Value,
        place: &Place,
        sink: &mut dyn Sink,
        report: &mut Report,
    ) -> bool {
        let at = text_of(record, "timestamp").and_then(|it| Timestamp::Text(it).millis());
        let mut told = Told { place, at, sink };
        let mut parts = Parts::new(place.clone(), self.kept.max_bytes());
        let (mut goes_on, mut is_summary) = (true, false);
        match record["type"].as_str().unwrap_or_default() {
            "session" => {
                let facts = Facts { cwd: record["cwd"].as_str(), ..Facts::default() };
                return told.give(EntryKind::Facts(facts));
            }
            "model_change" => {
                self.model = text_of(record, "modelId");
                let facts = Facts { model: self.model.as_deref(), ..Facts::default() };
                goes_on = told.give(EntryKind::Facts(facts));
            }
            "message" => {
                let message = &record["message"];
                if message["role"] == "assistant" {
                    goes_on = self.request(record, &mut told);
                }
                goes_on = goes_on && told.message(message);
                add_message(message, &mut parts);
            }
            "compaction" | "branch_summary" => {
                let summary = record["summary"].as_str().unwrap_or_default();
                parts.text(Role::User, summary);
                is_summary = record["type"] == "compaction";
                self.is_incomplete = true;
                goes_on = told.give(EntryKind::Compacted { summary, dropped: 0 });
            }
            kind if WITHOUT_NEWS.contains(&kind) => {}
            other => report.unknown(other),
        }
        self.add(record, parts, at, is_summary);
        goes_on
    }

    /// Adds a record to the tree.
    fn add(&mut self, record: &Value, parts: Parts, at: Option<Millis>, is_summary: bool) {
        let Some(id) = text_of(record, "id") else { return };
        let size = parts.parts.iter().map(|it| it.part.what.bytes()).sum::<u64>();
        let most = self.kept.max_bytes().saturating_mul(parts.parts.len());
        let kept = usize::try_from(size).unwrap_or(usize::MAX).min(most);
        self.bytes = self.bytes.saturating_add(kept + size_of::<Node>());
        if self.bytes > MAX_BYTES || self.nodes.len() > MAX_PARTS {
            self.nodes.clear();
            self.bytes = 0;
            self.is_too_large = true;
        }
        let node = Node {
            parent: text_of(record, "parentId"),
            parts: parts.parts,
            at,
            kept_from: text_of(record, "firstKeptEntryId"),
            is_summary,
        };
        self.nodes.insert(id, node);
    }

    /// Returns the conversation before a record, and the time of its last message.
    fn window(&self, parent: Option<&str>) -> (Window, Option<Millis>) {
        let mut path: Vec<&Node> = Vec::new();
        let mut next = parent;
        let mut kept_from: Option<&str> = None;
        // Parents may form a cycle.
        while let Some((id, node)) = next.and_then(|id| self.nodes.get_key_value(id))
            && path.len() <= self.nodes.len()
        {
            path.push(node);
            if kept_from == Some(id.as_str()) {
                break;
            }
            if node.is_summary && kept_from.is_none() {
                kept_from = node.kept_from.as_deref();
                if kept_from.is_none() {
                    break;
                }
            }
            next = node.parent.as_deref();
        }
        let time = path.iter().find_map(|node| node.at.filter(|_| !node.parts.is_empty()));
        // A summary comes before the messages that it kept.
        path.reverse();
        path.sort_by_key(|node| !node.is_summary);
        let parts = path.into_iter().flat_map(|node| node.parts.iter().cloned()).collect();
        (Window { parts, ..Window::default() }, time)
    }

    fn request(&mut self, record: &Value, told: &mut Told<'_>) -> bool {
        let message = &record["message"];
        let (window, time) = self.window(record["parentId"].as_str());
        let mut missing = vec!["the system text and the tools are in no file".to_owned()];
        let mut grade = Grade::Messages;
        if self.is_too_large || self.is_incomplete {
            grade = Grade::Partial;
            missing.push("a part of the conversation cannot be read".to_owned());
        }
        let counted = usage(&message["usage"]);
        let has_failed = matches!(message["stopReason"].as_str(), Some("error" | "aborted"));
        let usage = counted.filter(|usage| !has_failed || *usage != Usage::default());
        let request = Request {
            key: self.requests,
            answer_id: message["responseId"].as_str(),
            purpose: RequestPurpose::Answer,
            model: message["model"].as_str().or(self.model.as_deref()),
            window: &window,
            grade,
            missing,
            usage,
            cache_write_hour: 0,
            tier: None,
            status: (!has_failed).then_some(200),
            is_settled: true,
        };
        self.requests += 1;
        let at = time.or(told.at);
        let request = EntryKind::Request(&request);
        let goes_on = Told { at, place: told.place, sink: &mut *told.sink }.give(request);
        let error = message["errorMessage"].as_str().filter(|_| has_failed && goes_on);
        error.map_or(goes_on, |message| told.give(EntryKind::Failed { status: None, message }))
    }
}

/// Hands out what a record tells.
struct Told<'t> {
    place: &'t Place,
    at: Option<Millis>,
    sink: &'t mut dyn Sink,
}

impl Told<'_> {
    /// Hands out an entry. Returns whether the sink wants more.
    fn give(&mut self, kind: EntryKind<'_>) -> bool {
        let entry = Entry { place: self.place.clone(), at: self.at, agent: None, kind };
        self.sink.take(entry).is_continue()
    }

    /// Tells what a message says.
    fn message(&mut self, message: &Value) -> bool {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("user") => self.give(EntryKind::Person { text: &texts(content) }),
            Some("toolResult") => self.give(EntryKind::Result {
                id: message["toolCallId"].as_str().unwrap_or_default(),
                ok: message["isError"] != true,
                output: &texts(content),
            }),
            Some("assistant") => blocks(content).all(|block| self.block(block)),
            _ => true,
        }
    }

    fn block(&mut self, block: &Value) -> bool {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "text" => self.give(EntryKind::Text { text: field("text") }),
            "thinking" => self.give(EntryKind::Thinking { text: field("thinking") }),
            "toolCall" => self.give(EntryKind::Call {
                id: field("id"),
                name: field("name"),
                input: &block["arguments"].to_string(),
            }),
            _ => true,
        }
    }
}

/// Returns token counts, of which the program's input excludes the cache.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage[name].as_u64();
    let (cached, cache_write) = (count("cacheRead").unwrap_or(0), count("cacheWrite").unwrap_or(0));
    Some(Usage {
        input: count("input")?.saturating_add(cached).saturating_add(cache_write),
        cached,
        cache_write,
        output: count("output")?,
        reasoning: 0,
    })
}

fn text_of(record: &Value, field: &str) -> Option<String> {
    record[field].as_str().map(str::to_owned)
}

fn blocks(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

fn texts(content: &Value) -> String {
    let whole = content.as_str().into_iter();
    whole.chain(blocks(content).filter_map(|it| it["text"].as_str())).collect()
}

/// Adds a message in the normal form.
fn add_message(message: &Value, parts: &mut Parts) {
    let content = &message["content"];
    let role = match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some("toolResult") => {
            parts.result(&texts(content));
            let images = blocks(content).filter_map(|it| it["data"].as_str());
            return images.for_each(|data| parts.image(Role::Tool, data));
        }
        _ => Role::User,
    };
    // An answer that failed is not sent again.
    if role == Role::Assistant
        && matches!(message["stopReason"].as_str(), Some("error" | "aborted"))
    {
        return;
    }
    if let Some(text) = content.as_str() {
        parts.text(role, text);
    }
    for block in blocks(content) {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "text" => parts.text(role, field("text")),
            "thinking" => parts.thinking(field("thinking")),
            "toolCall" => parts.call(field("name"), &block["arguments"]),
            "image" => parts.image(role, field("data")),
            _ => parts.unknown(role, block),
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_source::requests;
    use convoke_source::{Home, SessionSource as _};
    use serde_json::json;

    use super::*;
    use crate::Pi;

    /// Returns the requests of a session with these records.
    fn requests(records: &[Value]) -> Vec<Value> {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".pi/agent/sessions/--shop--");
        std::fs::create_dir_all(&directory).unwrap();
        let head = json!({ "type": "session", "id": "s", "timestamp": "2026-11-17T06:53:34Z", "cwd": "/shop" });
        let lines: Vec<String> = [&head].into_iter().chain(records).map(Value::to_string).collect();
        std::fs::write(directory.join("t_s.jsonl"), lines.join("\n") + "\n").unwrap();
        let mut found = Vec::new();
        let home = Home { directory: home.path(), variable: &|_| None };
        Pi.list(&home, &mut |session| found.push(session.unwrap()));
        assert_eq!(found[0].cwd.as_deref(), Some("/shop"));
        requests::all(&mut *Pi.open(&found[0], Kept::Shown).unwrap()).unwrap()
    }

    fn message(id: &str, parent: &str, role: &str, text: &str) -> Value {
        let usage = json!({ "input": 5, "output": 2, "cacheRead": 3, "cacheWrite": 1 });
        let message = json!({ "role": role, "content": [{ "type": "text", "text": text }], "model": "m", "usage": usage });
        json!({ "type": "message", "id": id, "parentId": parent, "message": message })
    }

    #[test]
    fn a_request_has_the_messages_of_its_own_branch() {
        let requests = requests(&[
            message("a", "", "user", "one"),
            message("b", "a", "assistant", "first"),
            message("c", "b", "user", "dropped"),
            message("d", "b", "user", "two"),
            message("e", "d", "assistant", "second"),
        ]);
        assert_eq!(requests.len(), 2);
        let messages = requests[1]["messages"].to_string();
        assert!(messages.contains("two") && !messages.contains("dropped"), "{messages}");
        assert_eq!(requests[1]["usage"]["input"], 5);
        assert_eq!(requests[1]["rebuilt"], "messages");
    }

    #[test]
    fn parents_in_a_circle_end() {
        let requests = requests(&[
            message("a", "b", "user", "one"),
            message("b", "a", "assistant", "x"),
            message("c", "b", "assistant", "y"),
        ]);
        assert_eq!(requests.len(), 2);
    }
}
