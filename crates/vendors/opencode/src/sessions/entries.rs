//! What the messages of a session tell, beside the requests.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::{FileChange, FileDiff, TodoItem, TodoState};
use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_source::record::{list, number_of, text, time};
use convoke_source::{Entry, EntryKind, Report, Sink};
use serde_json::Value;

use super::conversation::result_text;
use super::store::{MessageRow, PartRow};

/// Hands out entries, each once.
pub struct Entries<'s> {
    pub sink: &'s mut dyn Sink,
    pub told: &'s mut HashSet<u64>,
    pub report: &'s mut Report,
    pub agent: Option<&'s str>,
    pub at: Option<Millis>,
}

impl Entries<'_> {
    /// Hands out an entry.
    pub fn tell(&mut self, place: &Place, kind: EntryKind<'_>) -> ControlFlow<()> {
        let entry = Entry { place: place.clone(), at: self.at, agent: self.agent, kind };
        self.sink.take(entry)
    }

    fn once(&mut self, what: &str, id: &str) -> bool {
        self.told.insert(number_of(&format!("{what} {id}")))
    }

    /// Hands out what a message tells that was not told before.
    pub fn message(&mut self, row: &MessageRow) -> ControlFlow<()> {
        if row.data["role"] == "user" {
            return self.person(row);
        }
        let is_complete =
            row.data["time"]["completed"].is_number() || row.data["error"].is_object();
        for part in &row.parts {
            self.part(part, is_complete)?;
        }
        let error = &row.data["error"];
        if error.is_object() && self.once("error", &row.id) {
            let status = status(error);
            let message = match error["data"]["message"].as_str() {
                Some(message) => message,
                None => text(error, "name"),
            };
            self.tell(&row.place, EntryKind::Failed { status, message })?;
        }
        ControlFlow::Continue(())
    }

    fn person(&mut self, row: &MessageRow) -> ControlFlow<()> {
        let parts = row.parts.iter().filter(|part| {
            part.data["type"] == "text"
                && part.data["synthetic"] != true
                && part.data["ignored"] != true
        });
        let texts: Vec<&str> = parts.map(|part| text(&part.data, "text")).collect();
        let written = texts.join("\n");
        // The prompt of a sub-agent is not a person's. Parts may be written after their message.
        if self.agent.is_some() || written.is_empty() || !self.once("person", &row.id) {
            return ControlFlow::Continue(());
        }
        self.tell(&row.place, EntryKind::Person { text: &written })
    }

    fn part(&mut self, part: &PartRow, is_complete: bool) -> ControlFlow<()> {
        let data = &part.data;
        let times = &data["time"];
        self.at = time(&times["start"]).or(self.at);
        let has_ended = is_complete || times["end"].is_number();
        match text(data, "type") {
            kind @ ("text" | "reasoning") => {
                let text = text(data, "text");
                if has_ended && !text.is_empty() && self.once(kind, &part.id) {
                    let is_text = kind == "text";
                    let kind = if is_text {
                        EntryKind::Text { text }
                    } else {
                        EntryKind::Thinking { text }
                    };
                    self.tell(&part.place, kind)?;
                }
            }
            "tool" => self.tool(part)?,
            "step-start" | "step-finish" | "snapshot" | "patch" | "file" | "agent" | "retry"
            | "compaction" | "subtask" => {}
            kind => {
                if self.once("unknown", &part.id) {
                    self.report.unknown(kind);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn tool(&mut self, part: &PartRow) -> ControlFlow<()> {
        let (data, state) = (&part.data, &part.data["state"]);
        let (id, name) = (text(data, "callID"), text(data, "tool"));
        let status = text(state, "status");
        self.at = time(&state["time"]["start"]).or(self.at);
        if status != "pending" && self.once("call", &part.id) {
            let input = state["input"].to_string();
            self.tell(&part.place, EntryKind::Call { id, name, input: &input })?;
        }
        if !matches!(status, "completed" | "error") || !self.once("result", &part.id) {
            return ControlFlow::Continue(());
        }
        self.at = time(&state["time"]["end"]).or(self.at);
        let ok = status == "completed";
        self.tell(&part.place, EntryKind::Result { id, ok, output: result_text(state) })?;
        if !ok {
            return ControlFlow::Continue(());
        }
        let input = &state["input"];
        match name {
            "todowrite" => self.tell(&part.place, EntryKind::Todo(todo(&input["todos"])))?,
            "question" => {
                let answers = list(&state["metadata"]["answers"]);
                for (question, answer) in list(&input["questions"]).zip(answers) {
                    let chosen: Vec<&str> = list(answer).filter_map(Value::as_str).collect();
                    let (question, answer) = (text(question, "question"), chosen.join(", "));
                    let answered = EntryKind::PersonAnswered { question, answer: &answer };
                    self.tell(&part.place, answered)?;
                }
            }
            _ => {}
        }
        let changes = changes(name, state);
        if !changes.is_empty() {
            self.tell(&part.place, EntryKind::Changed(changes))?;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the HTTP status of an error.
pub fn status(error: &Value) -> Option<u16> {
    error["data"]["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok())
}

/// Returns the files that a tool changed.
fn changes<'e>(tool: &str, state: &'e Value) -> Vec<FileChange<'e>> {
    let (input, metadata) = (&state["input"], &state["metadata"]);
    let path = input["filePath"].as_str();
    let one = |change: &'static str, before: Option<&'e str>, after: Option<&'e str>| {
        let diff =
            |after: &'e str| FileDiff { before: before.map(Cow::Borrowed), after: after.into() };
        let change = path.map(|path| FileChange {
            path: path.into(),
            change: change.into(),
            diff: after.map(diff),
        });
        change.into_iter().collect()
    };
    match tool {
        "edit" => match (input["oldString"].as_str(), input["newString"].as_str()) {
            (Some(""), Some(after)) => one("add", None, Some(after)),
            (Some(before), Some(after)) => one("update", Some(before), Some(after)),
            _ => one("update", None, None),
        },
        "write" if metadata["exists"] == true => {
            let before = metadata["filediff"]["before"].as_str();
            one("update", before, before.and(input["content"].as_str()))
        }
        "write" => one("add", None, input["content"].as_str()),
        "patch" | "apply_patch" => list(&metadata["files"]).filter_map(patched).collect(),
        _ => Vec::new(),
    }
}

fn patched(file: &Value) -> Option<FileChange<'_>> {
    let path = file["filePath"].as_str().or_else(|| file["relativePath"].as_str())?;
    let change = match text(file, "type") {
        change @ ("add" | "delete") => change,
        _ => "update",
    };
    let before = file["before"].as_str().filter(|_| change != "add");
    let after = file["after"].as_str().filter(|_| change != "delete");
    let diff = after.filter(|_| change == "add" || before.is_some());
    let diff =
        diff.map(|after| FileDiff { before: before.map(Cow::Borrowed), after: after.into() });
    Some(FileChange { path: path.into(), change: change.into(), diff })
}

fn todo(items: &Value) -> Vec<TodoItem<'_>> {
    let items = list(items).map(|item| TodoItem {
        text: text(item, "content").into(),
        state: TodoState::parse(text(item, "status")),
    });
    items.collect()
}
