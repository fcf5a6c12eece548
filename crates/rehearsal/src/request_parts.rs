//! The anatomy of a request: the parts that a model reads, each with its place, and the envelope
//! around them. This is the one description of where a wire format keeps what.

use serde::Serialize;
use serde_json::Value;

use crate::wire::Wire;

/// A request, taken apart.
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
    /// What it is.
    pub kind: PartKind,
    /// Where it stands, for example `messages[0].content[1]`.
    pub place: String,
    /// Who speaks, where the wire says so.
    pub role: Option<String>,
    /// What to call it: a tool's name, or how the text begins.
    pub title: String,
    /// Its text, decoded; of what is no text, its JSON.
    pub text: String,
}

/// What a part of a request is.
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
    /// Takes a request apart.
    pub fn of(wire: Wire, body: &[u8]) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_slice(body)?;
        let mut parts = Parts::default();
        match wire {
            Wire::Responses => responses(&value, &mut parts),
            Wire::Chat => chat(&value, &mut parts),
            Wire::Messages => messages(&value, &mut parts),
            Wire::Gemini => gemini(&value, &mut parts),
        }
        Ok(Self { parts: parts.0, body_bytes: body.len() as u64 })
    }

    /// Returns the bytes of the body that no part accounts for: settings, and the JSON itself.
    pub fn envelope_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.text.len() as u64);
        self.body_bytes.saturating_sub(parts.sum())
    }
}

fn responses(body: &Value, parts: &mut Parts) {
    parts.text(PartKind::System, "instructions", None, &body["instructions"]);
    if body["input"].is_string() {
        parts.text(PartKind::Message, "input", Some("user"), &body["input"]);
    }
    for (index, item) in items(&body["input"]) {
        let place = format!("input[{index}]");
        let role = item["role"].as_str();
        match item["type"].as_str() {
            // Newer versions of Codex hand in their tools as an item of the conversation.
            Some("additional_tools") => parts.tools(&format!("{place}.tools"), &item["tools"]),
            _ if item["content"].is_array() => {
                for (index, content) in items(&item["content"]) {
                    parts.content(&format!("{place}.content[{index}]"), role, content);
                }
            }
            _ => parts.content(&place, role, item),
        }
    }
    parts.tools("tools", &body["tools"]);
}

fn chat(body: &Value, parts: &mut Parts) {
    for (index, message) in items(&body["messages"]) {
        let place = format!("messages[{index}]");
        let role = message["role"].as_str();
        if message["content"].is_string() {
            parts.content(&format!("{place}.content"), role, &message["content"]);
        }
        for (index, content) in items(&message["content"]) {
            parts.content(&format!("{place}.content[{index}]"), role, content);
        }
        for (index, call) in items(&message["tool_calls"]) {
            parts.content(&format!("{place}.tool_calls[{index}]"), role, call);
        }
    }
    parts.tools("tools", &body["tools"]);
}

fn messages(body: &Value, parts: &mut Parts) {
    parts.text(PartKind::System, "system", None, &body["system"]);
    for (index, block) in items(&body["system"]) {
        let place = format!("system[{index}]");
        parts.text(PartKind::System, &place, None, &block["text"]);
    }
    for (index, message) in items(&body["messages"]) {
        let place = format!("messages[{index}].content");
        let role = message["role"].as_str();
        if message["content"].is_string() {
            parts.content(&place, role, &message["content"]);
        }
        for (index, block) in items(&message["content"]) {
            parts.content(&format!("{place}[{index}]"), role, block);
        }
    }
    parts.tools("tools", &body["tools"]);
}

fn gemini(body: &Value, parts: &mut Parts) {
    let system = match &body["systemInstruction"] {
        Value::Null => &body["system_instruction"],
        system => system,
    };
    for (index, part) in items(&system["parts"]) {
        let place = format!("systemInstruction.parts[{index}]");
        parts.text(PartKind::System, &place, None, &part["text"]);
    }
    for (index, content) in items(&body["contents"]) {
        let role = content["role"].as_str();
        for (part_index, part) in items(&content["parts"]) {
            parts.content(&format!("contents[{index}].parts[{part_index}]"), role, part);
        }
    }
    for (index, tools) in items(&body["tools"]) {
        let place = format!("tools[{index}].functionDeclarations");
        if tools["functionDeclarations"].is_array() {
            parts.tools(&place, &tools["functionDeclarations"]);
        } else {
            parts.tool(format!("tools[{index}]"), tools);
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    /// Adds a text; what is absent, empty or no text is no part.
    fn text(&mut self, kind: PartKind, place: &str, role: Option<&str>, text: &Value) {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            self.0.push(Part {
                kind,
                place: place.to_owned(),
                role: role.map(str::to_owned),
                title: beginning(text),
                text: text.to_owned(),
            });
        }
    }

    /// Adds a piece of the conversation: a text, or something else by its JSON.
    fn content(&mut self, place: &str, role: Option<&str>, content: &Value) {
        let kind = match role {
            Some("system" | "developer") => PartKind::System,
            _ => PartKind::Message,
        };
        let text = if content.is_string() { content } else { &content["text"] };
        if text.is_string() {
            return self.text(kind, place, role, text);
        }
        self.0.push(Part {
            kind,
            place: place.to_owned(),
            role: role.map(str::to_owned),
            title: content["type"].as_str().unwrap_or("data").to_owned(),
            text: content.to_string(),
        });
    }

    fn tools(&mut self, place: &str, tools: &Value) {
        for (index, tool) in items(tools) {
            self.tool(format!("{place}[{index}]"), tool);
        }
    }

    /// Adds a tool, or the tools of a namespace under its name.
    fn tool(&mut self, place: String, tool: &Value) {
        if tool["tools"].is_array() {
            let from = self.0.len();
            self.tools(&format!("{place}.tools"), &tool["tools"]);
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
        });
    }
}

/// Returns how a text begins: its opening tag, or its first line, at most 60 characters of it.
fn beginning(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let tag = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let shown = tag.map_or(line.to_owned(), |(name, _)| format!("<{name}>"));
    if shown.chars().count() <= MOST {
        return shown;
    }
    let cut: String = shown.chars().take(MOST - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(wire: Wire, body: &Value) -> String {
        let body = body.to_string();
        let request_parts = RequestParts::of(wire, body.as_bytes()).unwrap();
        let texts = request_parts.parts.iter().map(|part| part.text.len());
        let envelope = request_parts.envelope_bytes();
        assert_eq!(texts.sum::<usize>() as u64 + envelope, body.len() as u64);
        let parts = request_parts.parts.iter().map(|part| {
            let Part { kind, place, role, title, text } = part;
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
                let request_parts = RequestParts::of(wire, body.as_bytes()).unwrap();
                assert_eq!(
                    (request_parts.parts.len(), request_parts.envelope_bytes()),
                    (0, body.len() as u64)
                );
            }
        }
        assert!(RequestParts::of(Wire::Chat, b"{").is_err());
    }
}
