//! What the messages of a session tell, beside the requests.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::{FileChange, FileDiff, TodoItem, TodoState};
use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_source::record::{list, number_of, text, time};
use convoke_source::{Entry, EntryKind, Sink};
use serde_json::Value;

use super::conversation::{message_text, result_text};

/// The beginnings of user messages that no person wrote.
const WRAPPERS: [&str; 3] = ["<session_context>", "<hook_context>", "/"];
/// The beginning of the contents of files that a person named in a message.
const REFERENCED: &str = "\n--- Content from referenced files ---";

/// Hands out entries, each once.
pub struct Entries<'s> {
    pub sink: &'s mut dyn Sink,
    /// What was handed out: messages and calls in other versions of the same message.
    pub told: &'s mut HashSet<u64>,
    pub agent: Option<&'s str>,
    pub place: Place,
    pub at: Option<Millis>,
}

impl Entries<'_> {
    /// Hands out an entry.
    pub fn tell(&mut self, kind: EntryKind<'_>) -> ControlFlow<()> {
        let entry = Entry { place: self.place.clone(), at: self.at, agent: self.agent, kind };
        self.sink.take(entry)
    }

    /// Hands out what a message tells that was not told before.
    pub fn message(&mut self, message: &Value) -> ControlFlow<()> {
        let id = text(message, "id");
        self.at = time(&message["timestamp"]).or(self.at);
        let is_new = self.told.insert(number_of(id));
        match text(message, "type") {
            "user" if is_new && self.agent.is_none() => {
                let person = person_text(message);
                if !person.is_empty() {
                    self.tell(EntryKind::Person { text: &person })?;
                }
            }
            "gemini" => {
                if is_new {
                    self.answer(message)?;
                }
                for call in list(&message["toolCalls"]) {
                    self.call(id, call)?;
                }
            }
            "error" if is_new => {
                let message = message_text(&message["content"]);
                self.tell(EntryKind::Failed { status: None, message: &message })?;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn answer(&mut self, message: &Value) -> ControlFlow<()> {
        for thought in list(&message["thoughts"]) {
            let (subject, description) = (text(thought, "subject"), text(thought, "description"));
            let separator = if subject.is_empty() || description.is_empty() { "" } else { "\n" };
            let thought = format!("{subject}{separator}{description}");
            self.tell(EntryKind::Thinking { text: &thought })?;
        }
        let answer = message_text(&message["content"]);
        // What has no model is the program's own text, beside a summary.
        if !answer.is_empty() && (message["model"].is_string() || message["tokens"].is_object()) {
            self.tell(EntryKind::Text { text: &answer })?;
        }
        ControlFlow::Continue(())
    }

    fn call(&mut self, message_id: &str, call: &Value) -> ControlFlow<()> {
        let (id, name) = (text(call, "id"), text(call, "name"));
        if self.told.insert(number_of(&format!("call {message_id} {id}"))) {
            let input = call["args"].to_string();
            self.tell(EntryKind::Call { id, name, input: &input })?;
        }
        let status = text(call, "status");
        let has_ended = matches!(status, "success" | "error" | "cancelled");
        if !has_ended && call["result"].is_null()
            || !self.told.insert(number_of(&format!("result {message_id} {id}")))
        {
            return ControlFlow::Continue(());
        }
        let output = result_text(call);
        let ok = status == "success";
        self.at = time(&call["timestamp"]).or(self.at);
        self.tell(EntryKind::Result { id, ok, output: &output })?;
        if !ok {
            return ControlFlow::Continue(());
        }
        match name {
            "write_todos" => self.tell(EntryKind::Todo(todo(&call["args"]["todos"])))?,
            "ask_user" => self.answers(call, &output)?,
            _ => {}
        }
        let changed = change(&call["resultDisplay"]);
        if changed.is_some() {
            self.tell(EntryKind::Changed(changed.into_iter().collect()))?;
        }
        ControlFlow::Continue(())
    }

    /// Hands out the answers to questions, which are stored by the number of the question.
    fn answers(&mut self, call: &Value, output: &str) -> ControlFlow<()> {
        let output = serde_json::from_str::<Value>(output).unwrap_or_default();
        for (at, question) in list(&call["args"]["questions"]).enumerate() {
            let question = text(question, "question");
            if let Some(answer) = output["answers"][at.to_string().as_str()].as_str() {
                self.tell(EntryKind::PersonAnswered { question, answer })?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns what a person wrote in a message, without what the program added.
fn person_text(message: &Value) -> String {
    let content = &message["content"];
    if list(content).any(|part| part["functionResponse"].is_object()) {
        return String::new();
    }
    let shown = &message["displayContent"];
    let mut written = message_text(if shown.is_null() { content } else { shown });
    if let Some(end) = written.find(REFERENCED) {
        written.truncate(end);
    }
    let trimmed = written.trim();
    if WRAPPERS.iter().any(|wrapper| trimmed.starts_with(wrapper)) {
        return String::new();
    }
    trimmed.to_owned()
}

fn change(display: &Value) -> Option<FileChange<'_>> {
    let path = display["filePath"].as_str().or_else(|| display["fileName"].as_str())?;
    display["fileDiff"].as_str()?;
    let is_new = display["isNewFile"] == true;
    let after = display["newContent"].as_str();
    let before = display["originalContent"].as_str().filter(|_| !is_new);
    let diff = after.filter(|_| is_new || before.is_some());
    Some(FileChange {
        path: path.into(),
        change: Cow::Borrowed(if is_new { "add" } else { "update" }),
        diff: diff.map(|after| FileDiff { before: before.map(Cow::Borrowed), after: after.into() }),
    })
}

fn todo(items: &Value) -> Vec<TodoItem<'_>> {
    let items = list(items).map(|item| TodoItem {
        text: text(item, "description").into(),
        state: TodoState::parse(text(item, "status")),
    });
    items.collect()
}
