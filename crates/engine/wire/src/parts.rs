//! The parts of a request that a model reads, each with its place in the body, and the envelope around them. Only this
//! module knows where a wire format keeps each part.

use std::collections::HashMap;
use std::ops::Range;

use convoke_protocol::wire::Wire;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A request, split into parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestParts {
    /// The parts that the model reads, in the order of the request.
    pub parts: Vec<Part>,
    /// The bytes of the whole body.
    pub body_bytes: u64,
}

/// One part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub kind: PartKind,
    /// The position, for example `messages[0].content[1]`.
    pub place: String,
    /// The role, if the wire has one.
    pub role: Option<String>,
    /// The title: a tool's name, or the beginning of the text.
    pub title: String,
    /// The decoded text, or the JSON of other values.
    pub text: String,
    /// Its bytes in the body: the content of a JSON string without its quotes, or a JSON value.
    pub range: Range<usize>,
}

/// The kind of a part.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PartKind {
    /// Instructions above the conversation.
    System,
    /// A piece of the conversation.
    Message,
    /// A tool that the model may call.
    Tool,
}

impl RequestParts {
    /// Splits a request into parts.
    pub fn parse(wire: Wire, body: &[u8]) -> Result<Self, serde_json::Error> {
        let root = Node::root(body)?;
        let mut parts = Parts::default();
        match wire {
            Wire::Responses => responses(root, &mut parts),
            Wire::Chat => chat(root, &mut parts),
            Wire::Messages => messages(root, &mut parts),
            Wire::Gemini => gemini(root, &mut parts),
        }
        Ok(Self { parts: parts.0, body_bytes: body.len() as u64 })
    }

    /// Returns the bytes of the body that no part accounts for: settings, and the JSON itself.
    pub fn envelope_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.range.len() as u64);
        self.body_bytes - parts.sum::<u64>()
    }
}

/// A JSON value at its place in a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'b> {
    json: &'b str,
    at: usize,
}

impl<'b> Node<'b> {
    /// The absent part.
    const NOTHING: Node<'static> = Node { json: "null", at: 0 };

    /// Returns the value of a whole body.
    pub(crate) fn root(body: &'b [u8]) -> Result<Self, serde_json::Error> {
        let root: &RawValue = serde_json::from_slice(body)?;
        // Parts of a malformed value would be missing silently.
        serde_json::from_str::<Value>(root.get())?;
        let start = root.get().as_ptr() as usize - body.as_ptr() as usize;
        Ok(Self { json: root.get(), at: start })
    }

    pub(crate) fn is_null(self) -> bool {
        self.json == "null"
    }

    fn inner(self, raw: &'b RawValue) -> Self {
        let json = raw.get();
        Self { json, at: self.at + (json.as_ptr() as usize - self.json.as_ptr() as usize) }
    }

    /// Returns a field of an object; of anything else, nothing.
    pub(crate) fn field(self, key: &str) -> Self {
        let fields: HashMap<String, &'b RawValue> =
            serde_json::from_str(self.json).unwrap_or_default();
        fields.get(key).map_or(Self::NOTHING, |raw| self.inner(raw))
    }

    /// Returns the elements of a list with their numbers; of anything else, none.
    pub(crate) fn items(self) -> impl Iterator<Item = (usize, Self)> {
        let items: Vec<&'b RawValue> = serde_json::from_str(self.json).unwrap_or_default();
        items.into_iter().map(move |raw| self.inner(raw)).enumerate()
    }

    pub(crate) fn text(self) -> Option<String> {
        serde_json::from_str(self.json).ok()
    }

    fn is_list(self) -> bool {
        self.json.starts_with('[')
    }

    pub(crate) fn is_text(self) -> bool {
        self.json.starts_with('"')
    }

    pub(crate) fn range(self) -> Range<usize> {
        let quote = usize::from(self.is_text());
        self.at + quote..self.at + self.json.len() - quote
    }
}

fn responses(body: Node<'_>, parts: &mut Parts) {
    parts.text(PartKind::System, "instructions", None, body.field("instructions"));
    let input = body.field("input");
    if input.is_text() {
        parts.text(PartKind::Message, "input", Some("user"), input);
    }
    for (index, item) in input.items() {
        let place = format!("input[{index}]");
        let (role, content) = (item.field("role").text(), item.field("content"));
        match item.field("type").text().as_deref() {
            // Newer versions of Codex hand in their tools as an item of the conversation.
            Some("additional_tools") => {
                parts.tools(&format!("{place}.tools"), item.field("tools"));
            }
            _ if content.is_list() => {
                for (index, content) in content.items() {
                    let place = format!("{place}.content[{index}]");
                    parts.content(&place, role.as_deref(), content);
                }
            }
            _ => parts.content(&place, role.as_deref(), item),
        }
    }
    parts.tools("tools", body.field("tools"));
}

fn chat(body: Node<'_>, parts: &mut Parts) {
    for (index, message) in body.field("messages").items() {
        let place = format!("messages[{index}]");
        let (role, content) = (message.field("role").text(), message.field("content"));
        if content.is_text() {
            parts.content(&format!("{place}.content"), role.as_deref(), content);
        }
        for (index, content) in content.items() {
            parts.content(&format!("{place}.content[{index}]"), role.as_deref(), content);
        }
        for (index, call) in message.field("tool_calls").items() {
            parts.content(&format!("{place}.tool_calls[{index}]"), role.as_deref(), call);
        }
    }
    parts.tools("tools", body.field("tools"));
}

fn messages(body: Node<'_>, parts: &mut Parts) {
    let system = body.field("system");
    parts.text(PartKind::System, "system", None, system);
    for (index, block) in system.items() {
        parts.text(PartKind::System, &format!("system[{index}]"), None, block.field("text"));
    }
    for (index, message) in body.field("messages").items() {
        let place = format!("messages[{index}].content");
        let (role, content) = (message.field("role").text(), message.field("content"));
        if content.is_text() {
            parts.content(&place, role.as_deref(), content);
        }
        for (index, block) in content.items() {
            parts.content(&format!("{place}[{index}]"), role.as_deref(), block);
        }
    }
    parts.tools("tools", body.field("tools"));
}

fn gemini(body: Node<'_>, parts: &mut Parts) {
    // Code Assist wraps the request.
    let body = match body.field("request") {
        wrapped if wrapped.json.starts_with('{') => wrapped,
        _ => body,
    };
    let system = match body.field("systemInstruction") {
        Node { json: "null", .. } => body.field("system_instruction"),
        system => system,
    };
    for (index, part) in system.field("parts").items() {
        let place = format!("systemInstruction.parts[{index}]");
        parts.text(PartKind::System, &place, None, part.field("text"));
    }
    for (index, content) in body.field("contents").items() {
        let role = content.field("role").text();
        for (part_index, part) in content.field("parts").items() {
            let place = format!("contents[{index}].parts[{part_index}]");
            parts.content(&place, role.as_deref(), part);
        }
    }
    for (index, tools) in body.field("tools").items() {
        let declared = tools.field("functionDeclarations");
        if declared.is_list() {
            parts.tools(&format!("tools[{index}].functionDeclarations"), declared);
        } else {
            parts.tool(format!("tools[{index}]"), tools);
        }
    }
}

#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    /// Adds a text; an absent or empty one, or another type, is skipped.
    fn text(&mut self, kind: PartKind, place: &str, role: Option<&str>, node: Node<'_>) {
        if let Some(text) = node.text().filter(|text| !text.is_empty()) {
            self.0.push(Part {
                kind,
                place: place.to_owned(),
                role: role.map(str::to_owned),
                title: beginning(&text),
                text,
                range: node.range(),
            });
        }
    }

    /// Adds a piece of the conversation: a text, or something else by its JSON.
    fn content(&mut self, place: &str, role: Option<&str>, content: Node<'_>) {
        let kind = match role {
            Some("system" | "developer") => PartKind::System,
            _ => PartKind::Message,
        };
        let text = if content.is_text() { content } else { content.field("text") };
        if text.is_text() {
            return self.text(kind, place, role, text);
        }
        self.0.push(Part {
            kind,
            place: place.to_owned(),
            role: role.map(str::to_owned),
            title: content.field("type").text().unwrap_or_else(|| "data".to_owned()),
            text: compact(content).to_string(),
            range: content.range(),
        });
    }

    fn tools(&mut self, place: &str, tools: Node<'_>) {
        for (index, tool) in tools.items() {
            self.tool(format!("{place}[{index}]"), tool);
        }
    }

    /// Adds a tool, or the tools of a namespace under its name.
    fn tool(&mut self, place: String, node: Node<'_>) {
        let tool = compact(node);
        if tool["tools"].is_array() {
            let from = self.0.len();
            self.tools(&format!("{place}.tools"), node.field("tools"));
            let space = tool["name"].as_str().unwrap_or_default();
            for part in &mut self.0[from..] {
                part.title = format!("{space}.{}", part.title);
            }
            return;
        }
        let names = [&tool["name"], &tool["function"]["name"], &tool["type"]];
        let name = names.into_iter().find_map(Value::as_str);
        let first_key = || tool.as_object().and_then(|tool| tool.keys().next());
        let title = name.or_else(|| first_key().map(String::as_str));
        self.0.push(Part {
            kind: PartKind::Tool,
            place,
            role: None,
            title: title.unwrap_or("tool").to_owned(),
            text: tool.to_string(),
            range: node.range(),
        });
    }
}

/// Returns a value without the white space of its JSON.
fn compact(node: Node<'_>) -> Value {
    serde_json::from_str(node.json).unwrap_or_default()
}

/// Returns the beginning of a text: its opening tag, or its first line, up to 60 characters.
fn beginning(text: &str) -> String {
    const MAX_CHARACTERS: usize = 60;
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let tag = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let shown = tag.map_or(line.to_owned(), |(name, _)| format!("<{name}>"));
    if shown.chars().count() <= MAX_CHARACTERS {
        return shown;
    }
    let cut: String = shown.chars().take(MAX_CHARACTERS - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(wire: Wire, body: &Value) -> String {
        let body = body.to_string();
        let request_parts = RequestParts::parse(wire, body.as_bytes()).unwrap();
        let envelope = request_parts.envelope_bytes();
        let parts = request_parts.parts.iter().map(|part| {
            let Part { kind, place, role, title, text, range } = part;
            let raw = &body[range.clone()];
            let value = || serde_json::from_str::<Value>(raw).unwrap().to_string();
            let is_value = || value() == **text;
            let is_text =
                serde_json::from_str(&format!("\"{raw}\"")).is_ok_and(|it: String| it == *text);
            assert!(is_text || is_value(), "{raw} is {text}");
            format!("{kind:?} {place} {} | {title} | {text}\n", role.as_deref().unwrap_or("-"))
        });
        format!("{}envelope {envelope}\n", parts.collect::<String>())
    }

    #[test]
    fn each_wire_keeps_its_parts_in_its_own_places() {
        let responses = json!({
            "model": "m", "instructions": "Be brief.\n\nAnd kind.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions x>\nread"}]},
                {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}, {"type": "namespace", "name": "clock", "tools": [{"name": "sleep"}]}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "data:"}]},
                {"type": "function_call_output", "call_id": "c", "output": "done"},
            ],
            "tools": [{"type": "function", "name": "shell"}, {"type": "web_search"}],
        });
        let chat = json!({
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function"}]},
            ],
            "tools": [{"type": "function", "function": {"name": "shell"}}],
        });
        let messages = json!({
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": ""}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nx"}, {"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": "hello"},
                {"role": "user", "content": [{"type": "tool_result", "content": "done"}]},
            ],
            "tools": [{"name": "Bash", "input_schema": {}}],
        });
        let gemini = json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {}}]}],
            "tools": [{"functionDeclarations": [{"name": "run"}]}, {"googleSearch": {}}],
        });
        insta::assert_snapshot!(
            [
                shown(Wire::Responses, &responses),
                shown(Wire::Chat, &chat),
                shown(Wire::Messages, &messages),
                shown(Wire::Gemini, &gemini),
            ]
            .join("\n")
        );
    }

    #[test]
    fn odd_bodies_have_an_envelope_and_no_parts() {
        for body in ["{}", "[]", "null", r#"{"messages": {"a": 1}, "tools": 3, "input": 7}"#] {
            for wire in [Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini] {
                let request_parts = RequestParts::parse(wire, body.as_bytes()).unwrap();
                assert_eq!(
                    (request_parts.parts.len(), request_parts.envelope_bytes()),
                    (0, body.len() as u64)
                );
            }
        }
        assert!(RequestParts::parse(Wire::Chat, b"{").is_err());
    }
}
