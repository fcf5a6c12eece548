//! Reads a session from the logs of its agents.

use std::path::Path;

use convoke_core::Millis;
use convoke_protocol::agent_event::{FileChange, FileDiff, RequestPurpose};
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Place, Role, Window};
use convoke_source::history::History;
use convoke_source::lines::Lines;
use convoke_source::{
    Entry, EntryKind, Facts, FoundSession, Kept, Report, Request, SessionReader, Sink, SourceError,
    files,
};
use convoke_wire::normal::{Parts, named_tools};
use serde_json::Value;

use crate::MAIN;

/// The largest number of agents that are read.
const MAX_AGENTS: usize = 100;
/// Records that tell nothing about the conversation, or repeat what others tell.
const WITHOUT_NEWS: &[&str] = &[
    "agent.",
    "file_history.",
    "permission.",
    "plugin.",
    "prompt.",
    "runtime.",
    "token_counting.",
    "turn.",
];

/// A reader of a session.
pub(crate) struct Reader {
    agents: Vec<Agent>,
    report: Report,
}

/// An agent's log.
struct Agent {
    lines: Lines,
    state: State,
}

/// What an agent's log told so far.
struct State {
    /// The name of a sub-agent.
    name: Option<String>,
    kept: Kept,
    history: History,
    window: Window,
    /// The request whose answer follows.
    pending: Option<Pending>,
    requests: u64,
    is_incomplete: bool,
    has_tools: bool,
    /// The calls of which the form of the result is known by the tool, by their ids.
    calls: Vec<(String, String)>,
    has_facts: bool,
}

struct Pending {
    key: u64,
    place: Place,
    at: Option<Millis>,
    /// The number of parts that were sent.
    length: usize,
    model: Option<String>,
    purpose: RequestPurpose,
    usage: Option<Usage>,
    answer_id: Option<String>,
    is_complete: bool,
}

impl Reader {
    /// Opens a session.
    pub(crate) fn open(session: &FoundSession, kept: Kept) -> Result<Self, SourceError> {
        let agents = session.files.iter().take(MAX_AGENTS).map(|path| Agent::open(path, kept));
        let mut agents = agents.collect::<Result<Vec<_>, _>>()?;
        // The session's own agent, whatever its name is.
        if let Some(first) = agents.first_mut() {
            first.state.name = None;
        }
        let left_out = session.files.len().saturating_sub(MAX_AGENTS);
        let mut report = Report::default();
        if left_out > 0 {
            report.notes.push(format!("{left_out} sub-agents are not shown"));
        }
        Ok(Self { agents, report })
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.report.is_torn = false;
        self.agents.iter_mut().try_for_each(|agent| agent.advance(sink, &mut self.report))
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

impl Agent {
    fn open(path: &Path, kept: Kept) -> Result<Self, SourceError> {
        let name = path.parent().and_then(Path::file_name).map(|it| it.to_string_lossy());
        let state = State {
            name: name.filter(|it| it != MAIN).map(std::borrow::Cow::into_owned),
            kept,
            history: History::default(),
            window: Window::default(),
            pending: None,
            requests: 0,
            is_incomplete: false,
            has_tools: false,
            calls: Vec::new(),
            has_facts: false,
        };
        Ok(Self { lines: Lines::open(path).map_err(SourceError::read(path))?, state })
    }

    fn advance(&mut self, sink: &mut dyn Sink, report: &mut Report) -> Result<(), SourceError> {
        let state = &mut self.state;
        let mut goes_on = true;
        let read = files::each_line(&mut self.lines, report, &mut |place, line, report| {
            match line.map(serde_json::from_slice::<Value>) {
                Some(Ok(record)) => goes_on = state.read(&record, &place, sink, report),
                Some(Err(error)) => {
                    report.broken(place, &error);
                    state.is_incomplete = true;
                }
                None => state.is_incomplete = true,
            }
            goes_on
        });
        if goes_on && let Some(pending) = state.pending.take() {
            state.hand_out(&pending, sink);
            state.pending = Some(pending);
        }
        read
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
        let at = record["time"].as_i64().map(Millis);
        let mut parts = Parts::new(place.clone(), self.kept.max_bytes());
        match record["type"].as_str().unwrap_or_default() {
            "metadata" => true,
            "profile.bind" => {
                let system = record["systemPrompt"].as_str().unwrap_or_default();
                self.window.system = vec![parts.placed_text(system)];
                let cwd = record["environmentDisclosure"]["cwd"].as_str();
                let is_new = !std::mem::replace(&mut self.has_facts, true);
                let facts = Facts { cwd, ..Facts::default() };
                !is_new || self.give(EntryKind::Facts(facts), place, at, sink)
            }
            "llm.tools_snapshot" => {
                self.has_tools = true;
                self.window.tools = named_tools(&record["tools"]);
                true
            }
            "context.append_message" => {
                let message = &record["message"];
                add_content(&message["content"], message_role(message), &mut parts);
                self.history.extend(parts.parts);
                let is_of_person = message["origin"]["kind"] == "user" && self.name.is_none();
                let text = texts(&message["content"]);
                !is_of_person || self.give(EntryKind::Person { text: &text }, place, at, sink)
            }
            "context.append_loop_event" => self.event(&record["event"], parts, place, at, sink),
            "llm.request" => {
                let goes_on = self.settle(sink);
                self.begin(record, place, at);
                goes_on
            }
            "usage.record" => {
                if let Some(pending) = self.pending.as_mut().filter(|it| it.usage.is_none()) {
                    pending.usage = usage(&record["usage"]);
                }
                true
            }
            kind if WITHOUT_NEWS.iter().any(|start| kind.starts_with(start)) => true,
            other => {
                // It may have changed the conversation.
                self.is_incomplete |= other.starts_with("context.");
                report.unknown(other);
                true
            }
        }
    }

    /// Reads what happened within a turn.
    fn event(
        &mut self,
        event: &Value,
        mut parts: Parts,
        place: &Place,
        at: Option<Millis>,
        sink: &mut dyn Sink,
    ) -> bool {
        let field = |name: &str| event[name].as_str().unwrap_or_default();
        match field("type") {
            "content.part" => {
                let part = &event["part"];
                add_content(&Value::Array(vec![part.clone()]), Role::Assistant, &mut parts);
                self.history.extend(parts.parts);
                let text = |name: &str| part[name].as_str().unwrap_or_default();
                match part["type"].as_str() {
                    Some("think") => {
                        self.give(EntryKind::Thinking { text: text("think") }, place, at, sink)
                    }
                    _ => self.give(EntryKind::Text { text: text("text") }, place, at, sink),
                }
            }
            "tool.call" => {
                parts.call(field("name"), &event["args"]);
                self.history.extend(parts.parts);
                self.calls.push((field("toolCallId").to_owned(), field("name").to_owned()));
                self.calls.drain(..self.calls.len().saturating_sub(1_000));
                let input = event["args"].to_string();
                let call =
                    EntryKind::Call { id: field("toolCallId"), name: field("name"), input: &input };
                let display = &event["display"];
                let change = change(display);
                self.give(call, place, at, sink)
                    && change
                        .is_none_or(|it| self.give(EntryKind::Changed(vec![it]), place, at, sink))
            }
            "tool.result" => {
                let id = field("toolCallId");
                let index = self.calls.iter().position(|(call, _)| call == id);
                let name = index.map(|index| self.calls.swap_remove(index).1);
                let result = &event["result"];
                let output = sent_result(name.as_deref().unwrap_or_default(), result);
                parts.result(&output);
                self.history.extend(parts.parts);
                let ok = result["isError"] != true;
                self.give(EntryKind::Result { id, ok, output: &output }, place, at, sink)
            }
            "step.end" => {
                if let Some(pending) = &mut self.pending {
                    pending.is_complete = true;
                    pending.answer_id = event["messageId"].as_str().map(str::to_owned);
                    pending.usage = pending.usage.or_else(|| usage(&event["usage"]));
                }
                self.settle(sink)
            }
            _ => true,
        }
    }

    fn begin(&mut self, record: &Value, place: &Place, at: Option<Millis>) {
        let purpose = match record["kind"].as_str() {
            Some("loop") | None => RequestPurpose::Answer,
            Some(kind) if kind.contains("compact") => RequestPurpose::Compaction,
            Some(kind) if kind.contains("title") => RequestPurpose::Title,
            Some(_) => RequestPurpose::Aside,
        };
        self.pending = Some(Pending {
            key: self.requests,
            place: place.clone(),
            at,
            length: self.history.parts().len(),
            model: record["model"].as_str().map(str::to_owned),
            purpose,
            usage: None,
            answer_id: None,
            is_complete: false,
        });
        self.requests += 1;
    }

    fn settle(&mut self, sink: &mut dyn Sink) -> bool {
        let pending = self.pending.take();
        pending.is_none_or(|pending| self.hand_out(&pending, sink))
    }

    fn hand_out(&mut self, pending: &Pending, sink: &mut dyn Sink) -> bool {
        let mut missing = Vec::new();
        let mut grade = Grade::Exact;
        if self.window.system.is_empty() || !self.has_tools {
            grade = Grade::Messages;
            missing.push("the system text or the tools are not in the file".to_owned());
        }
        if self.is_incomplete || self.history.is_too_large() {
            grade = Grade::Partial;
            missing.push("a part of the conversation cannot be read".to_owned());
        }
        if pending.purpose != RequestPurpose::Answer {
            grade = Grade::Partial;
            missing.push("the prompt of the request is in no file".to_owned());
        }
        let name = self.name.as_deref();
        self.history.lend(pending.length, &mut self.window, |window| {
            let request = Request {
                key: pending.key,
                answer_id: pending.answer_id.as_deref(),
                purpose: pending.purpose,
                model: pending.model.as_deref(),
                window,
                grade,
                missing,
                usage: pending.usage,
                cache_write_hour: 0,
                tier: None,
                status: pending.usage.map(|_| 200),
                is_settled: pending.is_complete,
            };
            let kind = EntryKind::Request(&request);
            let entry = Entry { place: pending.place.clone(), at: pending.at, agent: name, kind };
            sink.take(entry).is_continue()
        })
    }

    fn give(
        &self,
        kind: EntryKind<'_>,
        place: &Place,
        at: Option<Millis>,
        sink: &mut dyn Sink,
    ) -> bool {
        let entry = Entry { place: place.clone(), at, agent: self.name.as_deref(), kind };
        sink.take(entry).is_continue()
    }
}

/// Returns the text of a result as the program sends it: a command's with its duration before it, and a note behind.
fn sent_result(tool: &str, result: &Value) -> String {
    let mut sent = texts(&result["output"]);
    if let Some(millis) = result["durationMs"].as_f64().filter(|_| tool == "Bash") {
        sent = format!("Wall time: {:.3} seconds\n{sent}", millis / 1_000.0);
    }
    if let Some(note) = result["note"].as_str() {
        sent = format!("{sent}\n{note}");
    }
    sent
}

/// Returns the change of a file that a call shows.
fn change(display: &Value) -> Option<FileChange<'static>> {
    let field = |name: &str| display[name].as_str().map(str::to_owned);
    let operation = field("operation").filter(|it| it == "edit" || it == "write")?;
    let after = field("after").or_else(|| field("content"))?;
    let diff = FileDiff { before: field("before").map(Into::into), after: after.into() };
    let change = if operation == "edit" { "update" } else { "write" };
    Some(FileChange { path: field("path")?.into(), change: change.into(), diff: Some(diff) })
}

/// Returns token counts, of which the program's input excludes the cache.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage[name].as_u64();
    let cached = count("inputCacheRead").unwrap_or(0);
    let cache_write = count("inputCacheCreation").unwrap_or(0);
    Some(Usage {
        input: count("inputOther")?.saturating_add(cached).saturating_add(cache_write),
        cached,
        cache_write,
        output: count("output")?,
        reasoning: 0,
    })
}

fn message_role(message: &Value) -> Role {
    match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::User,
    }
}

fn texts(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let whole = content.as_str().into_iter();
    whole.chain(parts.filter_map(|it| it["text"].as_str())).collect()
}

/// Adds the content of a message in the normal form.
fn add_content(content: &Value, role: Role, parts: &mut Parts) {
    if let Some(text) = content.as_str() {
        parts.text(role, text);
    }
    for part in content.as_array().into_iter().flatten() {
        let url = ["imageUrl", "image_url"].map(|name| part[name]["url"].as_str());
        match part["type"].as_str() {
            Some("text") => parts.text(role, part["text"].as_str().unwrap_or_default()),
            Some("think") => parts.thinking(part["think"].as_str().unwrap_or_default()),
            _ => match url.into_iter().flatten().next() {
                Some(url) => parts.image_url(role, url),
                None => parts.unknown(role, part),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_source::SessionSource as _;
    use convoke_source::requests;
    use serde_json::json;

    use super::*;
    use crate::Kimi;

    #[test]
    fn a_request_is_exact_and_its_tokens_count_once() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("session_x");
        let log = directory.join("agents/main");
        std::fs::create_dir_all(&log).unwrap();
        let usage =
            json!({ "inputOther": 5, "output": 2, "inputCacheRead": 3, "inputCacheCreation": 0 });
        let event = |event: Value| json!({ "type": "context.append_loop_event", "event": event });
        let records = [
            json!({ "type": "metadata", "protocol_version": "1.5" }),
            json!({ "type": "profile.bind", "systemPrompt": "System." }),
            json!({ "type": "context.append_message", "message": { "role": "user", "content": "one" } }),
            json!({ "type": "llm.tools_snapshot", "tools": [{ "name": "Bash" }] }),
            json!({ "type": "llm.request", "kind": "loop", "model": "m" }),
            json!({ "type": "usage.record", "usage": usage }),
            event(json!({ "type": "tool.call", "toolCallId": "c", "name": "Bash", "args": {} })),
            event(
                json!({ "type": "tool.result", "toolCallId": "c", "result": { "output": "7", "durationMs": 21, "note": "n" } }),
            ),
            event(json!({ "type": "step.end", "usage": usage })),
            json!({ "type": "llm.request", "kind": "loop", "model": "m" }),
        ];
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        std::fs::write(log.join("wire.jsonl"), lines.join("\n") + "\n").unwrap();
        let found = Kimi.at(&directory).unwrap().unwrap();
        assert_eq!(Kimi.at(&log.join("wire.jsonl")).unwrap().unwrap(), found);
        let mut reader = Kimi.open(&found, Kept::Shown).unwrap();
        let requests = requests::all(&mut *reader).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0]["rebuilt"], "exact");
        assert_eq!(requests[0]["usage"]["output"], 2);
        assert_eq!(requests[1]["usage"], Value::Null);
        let sent = requests[1]["messages"][2]["parts"][0]["text"].as_str().unwrap();
        assert_eq!(sent, "Wall time: 0.021 seconds\n7\nn");
    }
}
