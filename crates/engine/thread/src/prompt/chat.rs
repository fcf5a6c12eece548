//! The body of a Chat Completions request, as the last version of Codex that supported it sent it.

use std::collections::HashMap;

use convoke_core::Diagnostic;
use serde_json::{Map, Value, json};

use super::responses::write_tools;
use super::{Prompt, RequestError};
use crate::config::DeveloperRole;
use crate::diagnostics;
use crate::history::{SentItem, Sources};
use crate::item::{
    ContentItem, FunctionOutput, Message, Reasoning, ReasoningContent, ResponseItem,
};
use crate::json::JsonWriter;

/// The rule for a text that this wire cannot carry.
const NOT_CARRIED: &str = "the Chat wire does not carry it";

pub(super) fn write(
    prompt: &Prompt<'_>,
    developer_role: DeveloperRole,
    out: &mut JsonWriter,
) -> Result<(), RequestError> {
    if prompt.output_schema.is_some() {
        return Err(RequestError::SchemaOnChat);
    }
    out.object();
    out.field("model", &prompt.model.slug);
    out.key("messages");
    out.list();
    begin_message("system", out);
    out.text(&prompt.instructions.text, &mut prompt.instructions.sources());
    out.end_object();
    let messages = Messages { prompt, thoughts: attach_thoughts(&prompt.input), developer_role };
    messages.write(out);
    out.end_list();
    out.key("stream");
    out.bool(true);
    write_tools(&tools(prompt.tools), out);
    out.end_object();
    Ok(())
}

/// Starts a message, up to its content.
fn begin_message(role: &str, out: &mut JsonWriter) {
    out.object();
    out.field("role", role);
    out.key("content");
}

/// Writes the items of a prompt as messages.
struct Messages<'p> {
    prompt: &'p Prompt<'p>,
    /// The reasoning items that are sent with each item.
    thoughts: HashMap<usize, Vec<usize>>,
    developer_role: DeveloperRole,
}

impl Messages<'_> {
    fn write(&self, out: &mut JsonWriter) {
        let mut last_reply: Option<String> = None;
        let mut index = 0;
        while let Some(sent) = self.prompt.input.get(index) {
            match sent.item.as_ref() {
                ResponseItem::Message(message) => {
                    if is_repeated(message, last_reply.as_deref()) {
                        self.not_carried(index, out);
                    } else {
                        self.message(index, message, out);
                        if message.role == "assistant" {
                            last_reply = Some(reply_text(message));
                        }
                    }
                }
                ResponseItem::FunctionCallOutput(it) => {
                    let sources = &mut self.prompt.sources(index);
                    begin_output(&it.call_id, out);
                    match &it.output {
                        FunctionOutput::Text(text) => out.text(text, sources),
                        FunctionOutput::Parts(parts) => write_parts(parts, out, sources),
                    }
                    out.end_object();
                }
                ResponseItem::CustomToolCallOutput(it) => {
                    begin_output(&it.call_id, out);
                    out.text(&it.output, &mut self.prompt.sources(index));
                    out.end_object();
                }
                item if item.is_tool_call() => {
                    index = self.calls(index, last_reply.as_deref(), out);
                    continue;
                }
                _ => self.not_carried(index, out),
            }
            index += 1;
        }
    }

    fn message(&self, index: usize, message: &Message, out: &mut JsonWriter) {
        let role = match (&*message.role, self.developer_role) {
            ("developer", DeveloperRole::System) => "system",
            (role, _) => role,
        };
        let sources = &mut self.prompt.sources(index);
        begin_message(role, out);
        if role != "assistant" && message.content.iter().any(is_image) {
            write_parts(&message.content, out, sources);
        } else {
            out.begin_text();
            for part in &message.content {
                if is_image(part) {
                    out.drop_bytes(part.text().len(), sources, NOT_CARRIED);
                } else {
                    out.piece(part.text(), sources);
                }
            }
            out.end_text();
        }
        if role == "assistant" {
            self.reasoning([index], out);
        }
        out.end_object();
    }

    /// Writes consecutive calls as one message. Returns the position after them.
    fn calls(&self, first: usize, last_reply: Option<&str>, out: &mut JsonWriter) -> usize {
        begin_message("assistant", out);
        out.null();
        out.key("tool_calls");
        out.list();
        let mut written = Vec::new();
        let mut index = first;
        while let Some(sent) = self.prompt.input.get(index) {
            match sent.item.as_ref() {
                item if item.is_tool_call() => {
                    write_call(item, out, &mut self.prompt.sources(index));
                    written.push(index);
                }
                // Items that are not sent do not separate the calls around them.
                ResponseItem::Reasoning(_)
                | ResponseItem::WebSearchCall(_)
                | ResponseItem::Compaction(_)
                | ResponseItem::GhostSnapshot(_)
                | ResponseItem::Other(_) => self.not_carried(index, out),
                ResponseItem::Message(message) if is_repeated(message, last_reply) => {
                    self.not_carried(index, out);
                }
                _ => break,
            }
            index += 1;
        }
        out.end_list();
        self.reasoning(written, out);
        out.end_object();
        index
    }

    /// Writes the reasoning that is sent with some items.
    fn reasoning(&self, items: impl IntoIterator<Item = usize>, out: &mut JsonWriter) {
        let groups: Vec<_> = items.into_iter().filter_map(|it| self.thoughts.get(&it)).collect();
        if groups.is_empty() {
            return;
        }
        out.key("reasoning");
        out.begin_text();
        for (index, group) in groups.into_iter().enumerate() {
            if index > 0 {
                out.frame("model", "separator", "\n");
            }
            for &place in group {
                if let ResponseItem::Reasoning(thought) = self.prompt.input[place].item.as_ref() {
                    let sources = &mut self.prompt.sources(place);
                    for part in thought.content.iter().flatten() {
                        out.piece(part.text(), sources);
                    }
                    out.drop_bytes(hidden_bytes(thought), sources, NOT_CARRIED);
                }
            }
        }
        out.end_text();
    }

    /// Records an item that is not sent, unless it is reasoning attached to another item.
    fn not_carried(&self, index: usize, out: &mut JsonWriter) {
        let is_attached = self.thoughts.values().any(|group| group.contains(&index));
        let with_it = self.thoughts.get(&index).into_iter().flatten();
        for place in with_it.chain((!is_attached).then_some(&index)) {
            let bytes = self.prompt.input[*place].item.texts().map(str::len).sum();
            out.drop_bytes(bytes, &mut self.prompt.sources(*place), NOT_CARRIED);
        }
    }
}

fn is_image(part: &ContentItem) -> bool {
    matches!(part, ContentItem::InputImage(_))
}

/// Returns whether a message repeats the last reply, which is sent only once.
fn is_repeated(message: &Message, last_reply: Option<&str>) -> bool {
    message.role == "assistant" && last_reply.is_some_and(|last| last == reply_text(message))
}

fn reply_text(message: &Message) -> String {
    let texts = message.content.iter().filter(|part| !is_image(part));
    texts.map(ContentItem::text).collect()
}

/// Returns the size of reasoning that only the Responses wire carries.
fn hidden_bytes(thought: &Reasoning) -> usize {
    let summary: usize = thought.summary.iter().map(String::len).sum();
    summary + thought.encrypted_content.as_ref().map_or(0, String::len)
}

fn begin_output(call_id: &str, out: &mut JsonWriter) {
    out.object();
    out.field("role", "tool");
    out.field("tool_call_id", call_id);
    out.key("content");
}

fn write_call(item: &ResponseItem, out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.object();
    match item {
        ResponseItem::FunctionCall(it) => {
            out.field("id", &it.call_id);
            out.field("type", "function");
            out.key("function");
            write_named(&it.name, "arguments", &it.arguments, out, sources);
        }
        ResponseItem::LocalShellCall(it) => {
            out.field("id", it.id.as_deref().unwrap_or(""));
            out.field("type", "local_shell_call");
            out.field("status", &it.status);
            out.key("action");
            it.action.write(out, sources);
        }
        ResponseItem::CustomToolCall(it) => {
            out.key("id");
            out.optional(it.id.as_deref());
            out.field("type", "custom");
            out.key("custom");
            write_named(&it.name, "input", &it.input, out, sources);
        }
        _ => {}
    }
    out.end_object();
}

fn write_named(name: &str, key: &str, text: &str, out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.object();
    out.field("name", name);
    out.key(key);
    out.text(text, sources);
    out.end_object();
}

fn write_parts(parts: &[ContentItem], out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.list();
    for part in parts {
        out.object();
        match part {
            ContentItem::InputText(text) | ContentItem::OutputText(text) => {
                out.field("type", "text");
                out.key("text");
                out.text(text, sources);
            }
            ContentItem::InputImage(url) => {
                out.field("type", "image_url");
                out.key("image_url");
                out.object();
                out.key("url");
                out.text(url, sources);
                out.end_object();
            }
        }
        out.end_object();
    }
    out.end_list();
}

/// Finds the item that each reasoning item is attached to: the reply before it, or the reply or call after it.
/// Only reasoning since the last user message is sent, and none before the first reply to it.
fn attach_thoughts(input: &[SentItem<'_>]) -> HashMap<usize, Vec<usize>> {
    let mut by_anchor: HashMap<usize, Vec<usize>> = HashMap::new();
    let is_user = |sent: &SentItem<'_>| sent.item.role() == Some("user");
    if input.iter().rev().find(|sent| is_spoken(sent)).is_some_and(is_user) {
        return by_anchor;
    }
    let first = input.iter().rposition(is_user).map_or(0, |index| index + 1);
    for index in first..input.len() {
        let ResponseItem::Reasoning(reasoning) = input[index].item.as_ref() else {
            continue;
        };
        let mut parts = reasoning.content.iter().flatten().map(ReasoningContent::text);
        let has_text = parts.any(|text| !text.trim().is_empty());
        if let Some(anchor) = anchor(input, index).filter(|_| has_text) {
            by_anchor.entry(anchor).or_default().push(index);
        }
    }
    by_anchor
}

fn is_spoken(sent: &SentItem<'_>) -> bool {
    matches!(
        sent.item.as_ref(),
        ResponseItem::Message(_)
            | ResponseItem::FunctionCall(_)
            | ResponseItem::LocalShellCall(_)
            | ResponseItem::FunctionCallOutput(_)
    )
}

fn anchor(input: &[SentItem<'_>], index: usize) -> Option<usize> {
    let item = |at: Option<usize>| Some(input.get(at?)?.item.as_ref());
    let (before, after) = (index.checked_sub(1), index.checked_add(1));
    let answers = |at| item(at).is_some_and(|item| item.role() == Some("assistant"));
    let calls = |at| {
        let item = item(at);
        matches!(item, Some(ResponseItem::FunctionCall(_) | ResponseItem::LocalShellCall(_)))
    };
    if answers(before) { before } else { after.filter(|_| answers(after) || calls(after)) }
}

/// Reports the tools that the Chat wire cannot offer.
pub(super) fn unmapped_tools(tools: &[Value]) -> Option<Diagnostic> {
    let others = tools.iter().filter(|tool| tool["type"] != "function");
    let names: Vec<&str> =
        others.map(|tool| tool["name"].as_str().or(tool["type"].as_str()).unwrap_or("?")).collect();
    if names.is_empty() {
        return None;
    }
    let message = format!("the Chat wire supports only functions; left out: {}", names.join(", "));
    Some(Diagnostic::new(diagnostics::TOOLS_UNMAPPED, message).with_count(names.len() as u64))
}

/// Maps the tools for the Chat wire: functions, with keys in the order of Codex.
fn tools(tools: &[Value]) -> Vec<Value> {
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    let mapped = functions.map(|tool| {
        let keys = ["parameters", "name", "description", "strict"];
        let known = keys.iter().filter_map(|key| Some((*key, tool.get(*key)?)));
        let function: Map<String, Value> =
            known.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        json!({"type": "function", "name": tool["name"], "function": function})
    });
    mapped.collect()
}
