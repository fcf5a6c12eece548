//! The normal form of a request: its [window](convoke_protocol::window), whatever the wire format was.
//!
//! The functions for single messages serve readers of session files too, because programs store the messages of their
//! provider's format.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use convoke_protocol::window::{Part, Place, Placed, Role, Text, Window, WindowPart};
use convoke_protocol::wire::Wire;
use serde_json::Value;

/// The beginning of a system text of Claude Code that no model reads.
const BILLING: &str = "x-anthropic-billing-header";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses the window of a request. Texts over `max_kept` bytes are left out and known by their hash.
pub fn window(
    wire: Wire,
    body: &[u8],
    place: &Place,
    max_kept: usize,
) -> Result<Window, serde_json::Error> {
    let body: Value = serde_json::from_slice(body)?;
    let mut parts = Parts::new(place.clone(), max_kept);
    let mut window = Window::default();
    match wire {
        Wire::Messages => {
            let system = match &body["system"] {
                Value::Array(blocks) => {
                    blocks.iter().filter_map(|it| it["text"].as_str()).collect()
                }
                text => Vec::from_iter(text.as_str()),
            };
            let system = system.into_iter().filter(|text| !text.starts_with(BILLING));
            window.system = system.map(|text| parts.placed_text(text)).collect();
            window.tools = named_tools(&body["tools"]);
            list(&body["messages"]).for_each(|message| parts.anthropic_message(message));
        }
        Wire::Chat => {
            let mut is_leading = true;
            for message in list(&body["messages"]) {
                is_leading &= message["role"] == "system";
                if is_leading {
                    window
                        .system
                        .extend(texts(&message["content"]).map(|it| parts.placed_text(it)));
                } else {
                    parts.chat_message(message);
                }
            }
            window.tools = named_tools(&body["tools"]);
        }
        Wire::Responses => responses(&body, &mut parts, &mut window),
        Wire::Gemini => {
            // Code Assist wraps the request.
            let body = if body["request"].is_object() { &body["request"] } else { &body };
            let system = list(&body["systemInstruction"]["parts"]);
            let system = system.filter_map(|part| part["text"].as_str());
            window.system = system.map(|text| parts.placed_text(text)).collect();
            let declared = list(&body["tools"]).flat_map(|it| list(&it["functionDeclarations"]));
            window.tools = declared.map(tool_name).collect();
            list(&body["contents"]).for_each(|content| parts.gemini_content(content));
        }
    }
    window.parts = parts.parts;
    Ok(window)
}

fn responses(body: &Value, parts: &mut Parts, window: &mut Window) {
    window.tools = named_tools(&body["tools"]);
    window.system.extend(body["instructions"].as_str().map(|text| parts.placed_text(text)));
    if let Some(text) = body["input"].as_str() {
        parts.text(Role::User, text);
    }
    for item in list(&body["input"]) {
        if item["type"] == "additional_tools" {
            window.tools.extend(named_tools(&item["tools"]));
        } else if window.system.is_empty() && parts.parts.is_empty() && item["role"] == "developer"
        {
            // Newer versions of Codex send their instructions as the first item of the conversation.
            window.system.extend(texts(&item["content"]).map(|it| parts.placed_text(it)));
        } else {
            parts.responses_item(item);
        }
    }
}

/// Returns the names of tools, in order. A namespace gives the names of the tools in it.
pub fn named_tools(tools: &Value) -> Vec<String> {
    let names = list(tools).flat_map(|tool| match tool["type"].as_str() {
        Some("namespace") => list(&tool["tools"]).map(tool_name).collect(),
        _ => vec![tool_name(tool)],
    });
    names.collect()
}

fn tool_name(tool: &Value) -> String {
    let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
    name.or_else(|| tool["type"].as_str()).unwrap_or_default().to_owned()
}

/// The parts of a conversation that are being collected.
#[derive(Debug)]
pub struct Parts {
    /// Where the next parts are.
    pub place: Place,
    /// The maximum size of a text that is kept.
    pub max_kept: usize,
    pub parts: Vec<WindowPart>,
}

impl Parts {
    /// Creates a collection without parts.
    pub fn new(place: Place, max_kept: usize) -> Self {
        Self { place, max_kept, parts: Vec::new() }
    }

    /// Returns a text with its place.
    pub fn placed_text(&self, text: &str) -> Placed<Text> {
        Placed { what: Text::new(text, self.max_kept), place: self.place.clone() }
    }

    /// Adds a part.
    pub fn push(&mut self, role: Role, part: Part) {
        let part = Arc::new(Placed { what: part, place: self.place.clone() });
        self.parts.push(WindowPart { role, part });
    }

    /// Adds a text, unless it is empty.
    pub fn text(&mut self, role: Role, text: &str) {
        if !text.is_empty() {
            self.push(role, Part::Text(Text::new(text, self.max_kept)));
        }
    }

    /// Adds reasoning.
    pub fn thinking(&mut self, text: &str) {
        self.push(Role::Assistant, Part::Thinking(Text::new(text, self.max_kept)));
    }

    /// Adds a call of a tool whose input is JSON.
    pub fn call(&mut self, name: &str, input: &Value) {
        self.push(
            Role::Assistant,
            Part::Call { name: name.into(), input: input.to_string().into() },
        );
    }

    /// Adds a call of a tool whose input is JSON in a text; none is an empty object, and what cannot be parsed stays a
    /// text.
    pub fn call_of_text(&mut self, name: &str, input: &str) {
        let input = match input {
            "" => Value::Object(serde_json::Map::new()),
            text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        };
        self.call(name, &input);
    }

    /// Adds the text of a tool's result.
    pub fn result(&mut self, text: &str) {
        self.push(Role::Tool, Part::Result(Text::new(text, self.max_kept)));
    }

    /// Adds an image or a document: the bytes of a data URL, or the URL itself.
    pub fn image_url(&mut self, role: Role, url: &str) {
        match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
            Some((_, data)) => self.image(role, data),
            None => self.push(role, Part::Image(Text::of_bytes(url.as_bytes()))),
        }
    }

    /// Adds an image or a document in base64.
    pub fn image(&mut self, role: Role, data: &str) {
        let decoded = BASE64.decode(data);
        let bytes = decoded.as_deref().unwrap_or(data.as_bytes());
        self.push(role, Part::Image(Text::of_bytes(bytes)));
    }

    /// Adds an item of an unknown kind, as its JSON.
    pub fn unknown(&mut self, role: Role, item: &Value) {
        self.text(role, &sorted(item).to_string());
    }

    /// Adds a message of the Anthropic format.
    pub fn anthropic_message(&mut self, message: &Value) {
        self.anthropic_content(role(message), &message["content"]);
    }

    /// Adds the content of a message of the Anthropic format: a text or blocks.
    pub fn anthropic_content(&mut self, role: Role, content: &Value) {
        if let Some(text) = content.as_str() {
            self.text(role, text);
        }
        list(content).for_each(|block| self.anthropic_block(role, block));
    }

    /// Adds a block of the Anthropic format.
    pub fn anthropic_block(&mut self, role: Role, block: &Value) {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "text" => self.text(role, field("text")),
            "thinking" => self.thinking(field("thinking")),
            "redacted_thinking" => self.thinking(field("data")),
            "tool_use" => self.call(field("name"), &block["input"]),
            "tool_result" => {
                self.result(&texts(&block["content"]).collect::<String>());
                let images = list(&block["content"]).filter(|it| it["type"] != "text");
                images.for_each(|image| self.anthropic_block(Role::Tool, image));
            }
            "image" | "document" => match (&block["source"]["data"], &block["source"]["url"]) {
                (Value::String(data), _) if block["source"]["type"] == "text" => {
                    self.push(role, Part::Image(Text::of_bytes(data.as_bytes())));
                }
                (Value::String(data), _) => self.image(role, data),
                (_, Value::String(url)) => self.image_url(role, url),
                _ => self.unknown(role, block),
            },
            _ => self.unknown(role, block),
        }
    }

    /// Adds an item of the Responses format.
    pub fn responses_item(&mut self, item: &Value) {
        let field = |name: &str| item[name].as_str().unwrap_or_default();
        match field("type") {
            "message" | "" if !item["role"].is_null() => {
                self.content(role(item), &item["content"]);
            }
            "agent_message" => self.content(Role::User, &item["content"]),
            "reasoning" => {
                let summary = list(&item["summary"]).filter_map(|it| it["text"].as_str());
                let summary = || summary.collect::<Vec<_>>().join("\n").into();
                let encrypted = item["encrypted_content"].as_str().map(Cow::Borrowed);
                self.thinking(&encrypted.unwrap_or_else(summary));
            }
            "function_call" => self.call_of_text(field("name"), field("arguments")),
            "custom_tool_call" => self.call(field("name"), &item["input"]),
            "function_call_output" | "custom_tool_call_output" => {
                self.result(&texts(&item["output"]).collect::<String>());
                for image in list(&item["output"]).filter_map(|it| it["image_url"].as_str()) {
                    self.image_url(Role::Tool, image);
                }
            }
            kind if kind.ends_with("_call") => self.unknown(Role::Assistant, item),
            _ => self.unknown(Role::User, item),
        }
    }

    /// Adds a message of the Chat format.
    pub fn chat_message(&mut self, message: &Value) {
        let role = role(message);
        if let Some(reasoning) = message["reasoning_content"].as_str() {
            self.thinking(reasoning);
        }
        if role == Role::Tool {
            self.result(&texts(&message["content"]).collect::<String>());
            for image in list(&message["content"]).filter_map(|it| it["image_url"]["url"].as_str())
            {
                self.image_url(Role::Tool, image);
            }
        } else {
            self.content(role, &message["content"]);
        }
        for call in list(&message["tool_calls"]) {
            let function = &call["function"];
            let field = |name: &str| function[name].as_str().unwrap_or_default();
            self.call_of_text(field("name"), field("arguments"));
        }
    }

    /// Adds the content of a message of the Responses or Chat format: a text or a list.
    pub fn content(&mut self, role: Role, content: &Value) {
        if let Some(text) = content.as_str() {
            self.text(role, text);
        }
        for part in list(content) {
            let url = part["image_url"].as_str().or_else(|| part["image_url"]["url"].as_str());
            match (part["text"].as_str(), url) {
                (Some(text), _) => self.text(role, text),
                (_, Some(url)) => self.image_url(role, url),
                _ => self.unknown(role, part),
            }
        }
    }

    /// Adds a content of the Gemini format.
    pub fn gemini_content(&mut self, content: &Value) {
        let role = if content["role"] == "model" { Role::Assistant } else { Role::User };
        list(&content["parts"]).for_each(|part| self.gemini_part(role, part));
    }

    /// Adds a part of the Gemini format.
    pub fn gemini_part(&mut self, role: Role, part: &Value) {
        let (call, response) = (&part["functionCall"], &part["functionResponse"]);
        if let Some(text) = part["text"].as_str() {
            if part["thought"] == true { self.thinking(text) } else { self.text(role, text) }
        } else if call.is_object() {
            let empty = Value::Object(serde_json::Map::new());
            let input = if call["args"].is_null() { &empty } else { &call["args"] };
            self.call(call["name"].as_str().unwrap_or_default(), input);
        } else if response.is_object() {
            self.result(&gemini_result(&response["response"]));
            list(&response["parts"]).for_each(|part| self.gemini_part(Role::Tool, part));
        } else if let Some(data) = part["inlineData"]["data"].as_str() {
            self.image(role, data);
        } else if let Some(uri) = part["fileData"]["fileUri"].as_str() {
            self.image_url(role, uri);
        } else {
            self.unknown(role, part);
        }
    }
}

/// Returns the text of a tool's result in the Gemini format.
fn gemini_result(response: &Value) -> String {
    if let Some(fields) = response.as_object().filter(|fields| fields.len() == 1) {
        let only = fields.get("output").or_else(|| fields.get("error"));
        if let Some(text) = only.and_then(Value::as_str) {
            return text.to_owned();
        }
    }
    sorted(response).to_string()
}

/// Returns a value with the keys of its objects in order.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(fields.into_iter().collect())
        }
        other => other.clone(),
    }
}

fn role(message: &Value) -> Role {
    match message["role"].as_str() {
        Some("assistant" | "model") => Role::Assistant,
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("tool") => Role::Tool,
        _ => Role::User,
    }
}

/// Returns the elements of a list; of anything else, none.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the texts of a content: the text itself, or those of its parts.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let whole = content.as_str().into_iter();
    whole.chain(list(content).filter_map(|part| part["text"].as_str()))
}
