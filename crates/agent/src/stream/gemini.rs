//! Gemini CLI's `stream-json`, and its `json`.
//!
//! The first message echoes the whole prompt and is passed over. The answer comes in chunks, one flat
//! sequence that tool calls cut into texts; the last text is the reply. An exit code of 0 stands beside
//! failures, and codes above 128 are an HTTP status modulo 256.

use std::borrow::Cow;
use std::collections::HashMap;

use convoke_core::{Code, Diagnostic};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{Flag, List, Number, Object, Text};
use super::{Account, Reader, Sink, Tally, explain_ending, reason_in_words};
use crate::event::{Event, EventKind, FileChange, Part, TodoItem, TodoState};
use crate::usage::Usage;
use crate::verdict::{Ending, Exit, Failure, Reason, Verdict};

/// Reads the events of one turn.
#[derive(Debug)]
pub struct Gemini {
    tally: Tally,
    /// The text that the chunks since the last tool call make up.
    text: String,
    text_limit: usize,
    edits: HashMap<String, (String, &'static str)>,
    last_error: Option<String>,
    /// The one object of the `json` format, which spreads over lines.
    document: Option<Vec<u8>>,
}

impl Gemini {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        Self {
            tally: Tally::new(reply_limit),
            text: String::new(),
            text_limit: reply_limit,
            edits: HashMap::new(),
            last_error: None,
            document: None,
        }
    }

    fn read(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        match event.kind.as_str() {
            "message" => match event.role.as_str() {
                "user" => {}
                _ if event.delta.0 => self.chunk(event.content, sink),
                _ => {
                    self.chunk(event.content, sink);
                    self.end_text(sink);
                }
            },
            "tool_use" => self.tool_use(event, sink),
            "tool_result" => self.tool_result(event, sink),
            "init" => {
                self.tally.session = event.session_id.0.as_deref().map(str::to_owned);
                self.tally.model = event.model.0.as_deref().map(str::to_owned);
                sink(Event::own(EventKind::Started {
                    session: event.session_id.0,
                    model: event.model.0,
                }));
            }
            "error" => {
                let message = event.message.into_text().into_owned();
                self.last_error = Some(message.clone());
                self.tally.warn(Diagnostic::new(Code::AgentNotice, message), sink);
            }
            "result" => {
                self.end_text(sink);
                self.result(event, sink);
            }
            "" => self.tally.noise(line),
            other => self.tally.unknown(other, line, sink),
        }
    }

    fn chunk(&mut self, content: Text<'_>, sink: &mut Sink<'_>) {
        let text = content.into_text();
        self.tally.say(&text);
        let room = self.text_limit.saturating_sub(self.text.len());
        let end = text.floor_char_boundary(room.min(text.len()));
        self.text.push_str(&text[..end]);
        sink(Event::own(EventKind::Text { text, part: Part::Delta }));
    }

    /// Hands on the text that the chunks made up.
    fn end_text(&mut self, sink: &mut Sink<'_>) {
        if !self.text.is_empty() {
            sink(Event::own(EventKind::Text {
                text: Cow::Borrowed(&self.text),
                part: Part::Whole,
            }));
            self.text.clear();
        }
    }

    fn tool_use(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        self.end_text(sink);
        self.tally.pause();
        let input = event.parameters.map_or("null", RawValue::get);
        let name = event.tool_name.as_str();
        if let Some(items) = todo_items(name, input) {
            sink(Event::own(EventKind::Todo { items }));
        }
        let change = match name {
            "write_file" => Some("write"),
            "replace" => Some("update"),
            _ => None,
        };
        if let Some(change) = change.filter(|_| self.edits.len() < 256) {
            let edit: Edit<'_> = serde_json::from_str(input).unwrap_or_default();
            let path = edit.file_path.into_text().into_owned();
            self.edits.insert(event.tool_id.as_str().to_owned(), (path, change));
        }
        sink(Event::own(EventKind::ToolStarted {
            id: event.tool_id.into_text(),
            name: event.tool_name.into_text(),
            input: Cow::Borrowed(input),
        }));
    }

    fn tool_result(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        let ok = event.status.as_str() == "success";
        let id = event.tool_id.into_text();
        if let Some((path, change)) = self.edits.remove(id.as_ref()).filter(|_| ok) {
            sink(Event::own(EventKind::FileChange {
                changes: vec![FileChange { path: Cow::Owned(path), change: Cow::Borrowed(change) }],
            }));
        }
        let error = event.error.0.unwrap_or_default();
        let output = match event.output.0 {
            Some(output) => output,
            None => error.message.into_text(),
        };
        sink(Event::own(EventKind::ToolFinished { id, ok, output }));
    }

    fn result(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        if let Some(stats) = event.stats.0 {
            let usage = Usage {
                input: stats.input_tokens.0.unwrap_or(0),
                cached: stats.cached.0.unwrap_or(0),
                output: stats.output_tokens.0.unwrap_or(0),
                ..Usage::default()
            };
            self.tally.usage = Some(usage);
            sink(Event::own(EventKind::Usage(usage)));
        }
        self.tally.closing = Some(if event.status.as_str() == "success" {
            Verdict::Done
        } else {
            let error = event.error.0.and_then(|error| error.message.0);
            let message = error
                .map(Cow::into_owned)
                .or_else(|| self.last_error.take())
                .unwrap_or_else(|| "it gave no reason".to_owned());
            Verdict::Failed(failure(message))
        });
    }

    /// Reads the one object of the `json` format.
    fn document(&mut self, json: &[u8], sink: &mut Sink<'_>) {
        let json = self.tally.text(json);
        let Ok(document) = serde_json::from_str::<Document<'_>>(&json) else {
            return self.tally.noise(&json);
        };
        self.tally.session = document.session_id.0.as_deref().map(str::to_owned);
        if let Some(error) = document.error.0 {
            let message = error.message.into_text().into_owned();
            self.tally.closing = Some(Verdict::Failed(failure(message)));
            return;
        }
        let Some(response) = document.response.0 else {
            return;
        };
        let mut usage = Usage::default();
        for model in document.stats.0.unwrap_or_default().models.into_values() {
            let tokens = model.0.unwrap_or_default().tokens.0.unwrap_or_default();
            usage.input += tokens.prompt.0.unwrap_or(0);
            usage.cached += tokens.cached.0.unwrap_or(0);
            usage.output += tokens.candidates.0.unwrap_or(0);
            usage.reasoning += tokens.thoughts.0.unwrap_or(0);
        }
        self.tally.usage = Some(usage);
        self.tally.closing = Some(Verdict::Done);
        self.tally.reply_is(&response);
        sink(Event::own(EventKind::Text { text: response, part: Part::Whole }));
    }
}

impl Reader for Gemini {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        if let Some(document) = &mut self.document {
            if document.len() + line.len() < self.text_limit {
                document.extend_from_slice(line);
                document.push(b'\n');
            }
            return;
        }
        let line = self.tally.text(line);
        match serde_json::from_str::<Line<'_>>(&line) {
            Ok(event) => self.read(event, &line, sink),
            Err(_) if line == "{" => self.document = Some(b"{\n".to_vec()),
            Err(_) => self.tally.unreadable(&line, sink),
        }
    }

    fn is_over(&self) -> bool {
        self.tally.closing.is_some()
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> Account {
        if let Some(document) = self.document.take() {
            self.document(&document, sink);
        }
        self.end_text(sink);
        self.tally.close(ending, explain, sink)
    }
}

fn failure(message: String) -> Failure {
    let reason = reason_in_words(&message).unwrap_or_else(|| {
        if message.contains("blocked") { Reason::Refused } else { Reason::Other }
    });
    Failure::new(reason, message)
}

/// Explains an end without a closing event. Some exit codes have a meaning of their own.
fn explain(ending: &Ending<'_>) -> Failure {
    let mut failure = explain_ending(ending);
    match ending.exit {
        Exit::Code(0) => {
            "it ended without a result; it drops output that is not read in time"
                .clone_into(&mut failure.message);
        }
        Exit::Code(41) => failure.reason = Reason::Auth,
        Exit::Code(42) if failure.reason == Reason::Incomplete => failure.reason = Reason::Usage,
        Exit::Code(55) => failure.reason = Reason::Untrusted,
        Exit::Code(code @ 144..=255) => {
            if let Ok(status @ 400..=511) = u16::try_from(code + 256) {
                failure.reason = Reason::from_status(status);
            }
        }
        _ => {}
    }
    failure
}

fn todo_items<'a>(tool: &str, input: &'a str) -> Option<Vec<TodoItem<'a>>> {
    if tool != "write_todos" {
        return None;
    }
    let list: Todos<'a> = serde_json::from_str(input).ok()?;
    let items = list.todos.items.into_iter().map(|todo| TodoItem {
        text: todo.description.into_text(),
        state: TodoState::from_word(todo.status.as_str()),
    });
    Some(items.collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Text<'a>,
    delta: Flag,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    tool_id: Text<'a>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    output: Text<'a>,
    #[serde(borrow)]
    error: Object<Problem<'a>>,
    #[serde(borrow)]
    message: Text<'a>,
    stats: Object<Stats>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Problem<'a> {
    #[serde(borrow)]
    message: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stats {
    input_tokens: Number,
    output_tokens: Number,
    cached: Number,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Edit<'a> {
    #[serde(borrow)]
    file_path: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Todos<'a> {
    #[serde(borrow)]
    todos: List<'a, Todo<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Todo<'a> {
    #[serde(borrow)]
    description: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Document<'a> {
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    response: Text<'a>,
    #[serde(borrow)]
    error: Object<Problem<'a>>,
    stats: Object<DocumentStats>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DocumentStats {
    models: HashMap<String, Object<ModelStats>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelStats {
    tokens: Object<ModelTokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelTokens {
    prompt: Number,
    cached: Number,
    candidates: Number,
    thoughts: Number,
}
