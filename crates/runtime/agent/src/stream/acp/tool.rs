//! Tool calls of an ACP agent, assembled from updates that describe them piece by piece.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, FileChange, FileDiff};
use serde_json::Value;

use super::push;
use crate::adapter::unified;
use crate::stream::Sink;

/// The maximum number of tracked calls. Later ones are reported from single updates.
const KEPT: usize = 1 << 12;
/// The maximum memory of calls that have not ended. Beyond it, only the steps of a call are kept.
const HELD: usize = 32 << 20;
/// The maximum size of the output that an agent reports piece by piece.
const OUTPUT: usize = 1 << 20;
/// The maximum size of the texts of a change. For a larger one, only the path is reported.
const DIFF: usize = 1 << 16;

/// The tool calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Tools {
    calls: HashMap<String, ToolCall>,
    /// The approximate memory of all calls.
    pub held: usize,
}

/// A tool call, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolCall {
    pub id: String,
    name: Option<String>,
    pub title: Option<String>,
    /// The protocol's kind: `read`, `edit`, `execute` and so on.
    pub kind: Option<String>,
    input: Option<Value>,
    content: Vec<Value>,
    locations: Vec<String>,
    /// Output that is reported in extension fields.
    output: String,
    /// The approximate memory of this call.
    held: usize,
    is_started: bool,
    is_finished: bool,
}

impl Tools {
    /// Returns whether an update begins or ends a call.
    pub fn is_step(&self, update: &Value) -> bool {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        let is_end = matches!(update["status"].as_str(), Some("completed" | "failed"));
        self.calls.get(id).is_none_or(|call| is_end && !call.is_finished)
    }

    /// Reads a description of a call, and reports its start and its end once.
    pub fn update(&mut self, update: &Value, sink: &mut Sink<'_>) {
        self.with(update, |call| {
            let status = update["status"].as_str().unwrap_or("pending");
            // Some agents announce a call before they know its input.
            if status != "pending" || !call.is_empty() {
                call.start(sink);
            }
            if matches!(status, "completed" | "failed") {
                call.finish(status == "completed", &update["rawOutput"], sink);
            }
        });
    }

    /// Reads a call that a question is about, reports its start, and returns what is known about it.
    pub fn ask(&mut self, described: &Value, sink: &mut Sink<'_>) -> ToolCall {
        self.with(described, |call| {
            call.start(sink);
            call.clone()
        })
    }

    /// Ends a refused call, because not every agent reports its end.
    pub fn refuse(&mut self, id: &str, sink: &mut Sink<'_>) {
        if let Some(call) = self.calls.get_mut(id) {
            call.finish(false, &Value::from("refused"), sink);
        }
    }

    /// Reports the calls that were announced but never described.
    pub fn end(&mut self, sink: &mut Sink<'_>) {
        let mut calls: Vec<&mut ToolCall> =
            self.calls.values_mut().filter(|call| !call.is_started).collect();
        calls.sort_by(|a, b| a.id.cmp(&b.id));
        for call in calls {
            call.start(sink);
        }
    }

    fn with<R>(&mut self, described: &Value, act: impl FnOnce(&mut ToolCall) -> R) -> R {
        let id = described["toolCallId"].as_str().unwrap_or_default();
        let known = self.calls.remove(id);
        let is_kept = known.is_some() || self.calls.len() < KEPT;
        let mut call = known.unwrap_or_else(|| ToolCall::new(id));
        self.held -= call.held;
        call.held += weight(described);
        call.merge(described);
        let result = act(&mut call);
        if call.is_finished || self.held + call.held > HELD {
            call = call.steps();
        }
        self.held += call.held;
        if is_kept {
            self.calls.insert(id.to_owned(), call);
        }
        result
    }
}

/// Returns the approximate memory of a value.
fn weight(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    };
    inside + size_of::<Value>()
}

impl ToolCall {
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Returns the call with only its steps.
    fn steps(&self) -> Self {
        let (is_started, is_finished) = (self.is_started, self.is_finished);
        Self { is_started, is_finished, ..Self::new(&self.id) }
    }

    fn merge(&mut self, described: &Value) {
        let text = |name: &str| described[name].as_str().map(str::to_owned);
        let named = described["_meta"]["claudeCode"]["toolName"].as_str().map(str::to_owned);
        self.name = text("name").or(named).or(self.name.take());
        self.title = text("title").or(self.title.take());
        self.kind = text("kind").or(self.kind.take());
        let input = described.get("rawInput").filter(|input| !is_nothing(input));
        self.input = input.cloned().or(self.input.take()).or_else(|| input_as_content(described));
        if let Some(Value::Array(content)) = described.get("content")
            && !content.is_empty()
        {
            self.content.clone_from(content);
        }
        if let Some(Value::Array(locations)) = described.get("locations")
            && !locations.is_empty()
        {
            let paths = locations.iter().filter_map(|location| location["path"].as_str());
            self.locations = paths.map(str::to_owned).collect();
        }
        for name in ["terminal_output", "terminal_output_delta"] {
            let data = described["_meta"][name]["data"].as_str().unwrap_or_default();
            push(&mut self.output, data, OUTPUT);
        }
    }

    /// Returns whether only the id is known.
    fn is_empty(&self) -> bool {
        self.input.is_none() && self.content.is_empty()
    }

    fn start(&mut self, sink: &mut Sink<'_>) {
        if !std::mem::replace(&mut self.is_started, true) {
            sink(AgentEvent::own(AgentEventKind::ToolStarted {
                id: Cow::Borrowed(&self.id),
                name: Cow::Borrowed(self.tool()),
                input: Cow::Owned(self.input_text()),
            }));
        }
    }

    fn finish(&mut self, ok: bool, raw: &Value, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        sink(AgentEvent::own(AgentEventKind::ToolFinished {
            id: Cow::Borrowed(&self.id),
            ok,
            output: Cow::Owned(self.output_text(raw)),
        }));
        let changes: Vec<FileChange<'_>> = self
            .diffs()
            .map(|diff| FileChange {
                path: Cow::Borrowed(diff["path"].as_str().unwrap_or_default()),
                change: Cow::Borrowed(if diff["oldText"].is_string() { "update" } else { "add" }),
                diff: file_diff(diff),
            })
            .collect();
        if ok && !changes.is_empty() {
            sink(AgentEvent::own(AgentEventKind::FileChange { changes }));
        }
    }

    fn diffs(&self) -> impl Iterator<Item = &Value> {
        self.content.iter().filter(|content| content["type"] == "diff")
    }

    /// Returns the name of the tool, if the agent reports it.
    pub fn tool(&self) -> &str {
        self.name.as_deref().or(self.kind.as_deref()).unwrap_or("tool")
    }

    /// Returns the input of the tool, as JSON text.
    pub fn input_text(&self) -> String {
        match (&self.input, &self.title) {
            (Some(input), _) => input.to_string(),
            (None, Some(title)) => {
                let title = serde_json::json!({ "title": title, "locations": self.locations });
                title.to_string()
            }
            (None, None) => "null".to_owned(),
        }
    }

    fn output_text(&self, raw: &Value) -> String {
        let texts = self.content.iter().filter_map(|content| content["content"]["text"].as_str());
        let texts = texts.collect::<Vec<_>>().join("\n");
        match raw {
            _ if !texts.is_empty() => texts,
            _ if !self.output.is_empty() => self.output.clone(),
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Returns the shell command, if the agent reports it separately from the description.
    pub fn command(&self) -> Option<String> {
        if self.kind.as_deref().is_some_and(|kind| kind != "execute") {
            return None;
        }
        match &self.input.as_ref()?["command"] {
            Value::String(command) => Some(command.clone()),
            Value::Array(words) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                words.map(|words| words.join(" "))
            }
            _ => None,
        }
    }

    /// Returns the call in one line.
    pub fn summary(&self) -> String {
        self.command().or_else(|| self.title.clone()).unwrap_or_else(|| self.tool().to_owned())
    }

    /// Returns the changes to files, for people.
    pub fn diff(&self) -> Option<String> {
        let diffs = self.diffs().map(|diff| {
            let text = |name: &str| diff[name].as_str().unwrap_or_default();
            let (path, before, after) = (text("path"), text("oldText"), text("newText"));
            unified(Path::new(path), before, after)
        });
        let diff: String = diffs.collect();
        (!diff.is_empty()).then_some(diff)
    }

    /// Returns the files that the call would replace, with their new texts.
    pub fn new_texts(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let diffs = self.diffs();
        diffs.filter_map(|diff| {
            Some((diff["path"].as_str()?.into(), diff["newText"].as_str()?.into()))
        })
    }

    /// Returns whether the call changes the files that it names.
    pub fn changes_files(&self) -> bool {
        matches!(self.kind.as_deref(), Some("edit" | "delete" | "move"))
    }

    /// Returns the files that the call names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let changed = self.diffs().filter_map(|diff| diff["path"].as_str());
        self.locations.iter().map(String::as_str).chain(changed).map(Path::new)
    }
}

/// Returns the texts of a change, if they are not too large.
fn file_diff(diff: &Value) -> Option<FileDiff<'_>> {
    let (before, after) = (diff["oldText"].as_str(), diff["newText"].as_str()?);
    let is_small = before.unwrap_or_default().len() + after.len() <= DIFF;
    is_small.then(|| FileDiff { before: before.map(Cow::Borrowed), after: Cow::Borrowed(after) })
}

/// Returns the input of a call that has not begun, for an agent that reports it as the only text of its
/// content.
fn input_as_content(described: &Value) -> Option<Value> {
    let [content] = described["content"].as_array()?.as_slice() else { return None };
    let text = content["content"]["text"].as_str().filter(|_| described["status"] == "pending")?;
    serde_json::from_str(text).ok().filter(|input: &Value| input.is_object() && !is_nothing(input))
}

fn is_nothing(input: &Value) -> bool {
    match input {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
