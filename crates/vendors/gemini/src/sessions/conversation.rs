//! The list of messages that Gemini CLI keeps, as its session file changes it line by line.

use std::collections::HashMap;

use convoke_protocol::window::{Place, Role, WindowPart};
use convoke_source::history::{MAX_BYTES, MAX_PARTS};
use convoke_source::record::{list, text};
use convoke_wire::normal::Parts;
use serde_json::{Value, json};

/// The beginning of the message with which every conversation of a newer version begins.
const CONTEXT: &str = "<session_context>";

/// The messages of a conversation, in order.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<Message>,
    /// The places of messages, by id.
    places: HashMap<Box<str>, usize>,
    bytes: u64,
    parts: usize,
    /// Whether messages were forgotten or could not be read.
    is_incomplete: bool,
}

/// A message of a conversation.
#[derive(Debug)]
struct Message {
    id: Box<str>,
    parts: Vec<WindowPart>,
    /// The results of the message's own calls, which older versions store nowhere else.
    results: Vec<WindowPart>,
    bytes: u64,
}

impl Conversation {
    /// Returns whether a message is in the list.
    pub fn contains(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the ids of the messages, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|message| &*message.id)
    }

    /// Adds a message, or replaces the one that has its id.
    pub fn put(&mut self, message: &Value, place: &Place, max_kept: usize) {
        let id = text(message, "id");
        let mut added = Message::new(message, place, max_kept);
        let at = self.places.get(id).copied();
        self.bytes += added.bytes;
        self.parts += added.parts.len() + added.results.len() + 1;
        if let Some(old) = at.and_then(|at| self.messages.get_mut(at)) {
            std::mem::swap(old, &mut added);
            self.bytes -= added.bytes;
            self.parts -= added.parts.len() + added.results.len() + 1;
        } else {
            self.places.insert(id.into(), self.messages.len());
            self.messages.push(added);
        }
        if self.bytes > MAX_BYTES as u64 || self.parts > MAX_PARTS {
            *self = Self { is_incomplete: true, ..Self::default() };
        }
    }

    /// Removes a message and all after it; all, if there is no such message.
    pub fn rewind(&mut self, id: &str) {
        let from = self.places.get(id).copied().unwrap_or(0);
        for message in self.messages.drain(from..) {
            self.bytes -= message.bytes;
            self.parts -= message.parts.len() + message.results.len() + 1;
            self.places.remove(&message.id);
        }
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that a message could not be read.
    pub fn miss(&mut self) {
        self.is_incomplete = true;
    }

    /// Returns whether every message since the last list is known.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Returns whether the conversation begins with the program's own context.
    pub fn has_context(&self) -> bool {
        let first = self.messages.first().and_then(|message| message.parts.first());
        first.is_some_and(|part| match &part.part.what {
            // A text that was not kept is long, as the context is, and nothing else comes first.
            convoke_protocol::window::Part::Text(text) => {
                text.text.as_ref().is_none_or(|text| text.starts_with(CONTEXT))
            }
            _ => false,
        })
    }

    /// Returns the parts of the messages before this one.
    pub fn before(&self, id: &str) -> Vec<WindowPart> {
        let end = self.places.get(id).copied().unwrap_or(self.messages.len());
        let messages = &self.messages[..end.min(self.messages.len())];
        let mut parts = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            parts.extend_from_slice(&message.parts);
            let next = messages.get(at + 1).and_then(|next| next.parts.first());
            if next.is_none_or(|part| part.role != Role::Tool) {
                parts.extend_from_slice(&message.results);
            }
        }
        parts
    }
}

impl Message {
    fn new(message: &Value, place: &Place, max_kept: usize) -> Self {
        let content = &message["content"];
        let mut parts = Parts::new(place.clone(), max_kept);
        let mut results = Parts::new(place.clone(), max_kept);
        match message["type"].as_str() {
            Some("user") => add_content(&mut parts, Role::User, content),
            Some("gemini") => {
                add_content(&mut parts, Role::Assistant, content);
                let has_calls = list(content).any(|part| part["functionCall"].is_object());
                for call in list(&message["toolCalls"]) {
                    if !has_calls {
                        let call = json!({ "functionCall": { "name": call["name"], "args": call["args"] } });
                        parts.gemini_part(Role::Assistant, &call);
                    }
                    add_result(&mut results, call);
                }
            }
            // What the program told the person, not the model.
            _ => {}
        }
        let all = parts.parts.iter().chain(&results.parts);
        let bytes = all.map(|part| part.part.what.bytes().min(max_kept as u64) + 100).sum();
        Self { id: text(message, "id").into(), parts: parts.parts, results: results.parts, bytes }
    }
}

fn add_content(parts: &mut Parts, role: Role, content: &Value) {
    match content {
        Value::String(text) => parts.text(role, text),
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::String(text) => parts.text(role, text),
                    part => parts.gemini_part(role, part),
                }
            }
        }
        Value::Object(_) => parts.gemini_part(role, content),
        _ => {}
    }
}

fn add_result(results: &mut Parts, call: &Value) {
    match &call["result"] {
        Value::String(text) => results.result(text),
        Value::Null => {}
        result => add_content(results, Role::User, result),
    }
}

/// Returns the text of a message: its text parts, joined.
pub fn message_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["thought"] != true);
            texts.filter_map(|part| part.as_str().or_else(|| part["text"].as_str())).collect()
        }
        part => text(part, "text").to_owned(),
    }
}

/// Returns the text of a tool's result.
pub fn result_text(call: &Value) -> String {
    let mut parts =
        Parts::new(Place { file: "".into(), at: convoke_protocol::window::At::Whole }, usize::MAX);
    add_result(&mut parts, call);
    let texts = parts.parts.iter().filter_map(|part| match &part.part.what {
        convoke_protocol::window::Part::Result(text) => text.text.as_deref(),
        _ => None,
    });
    texts.collect()
}
