//! Parses items from JSON: of a response, a session file or a request.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    Compaction, ContentItem, CustomToolCall, CustomToolCallOutput, FunctionCall,
    FunctionCallOutput, FunctionOutput, LocalShellAction, LocalShellCall, Message, Reasoning,
    ReasoningContent, ResponseItem, WebSearchCall,
};

/// An item with a missing or invalid field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a `{kind}` item has no valid `{field}`")]
pub struct InvalidItem {
    kind: String,
    field: &'static str,
}

impl<'de> Deserialize<'de> for ResponseItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::try_from(value).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Value> for ResponseItem {
    type Error = InvalidItem;

    fn try_from(value: Value) -> Result<Self, InvalidItem> {
        let mut fields = Fields::new(value)?;
        Ok(match &*fields.kind {
            "message" => Self::Message(Message {
                id: fields.optional("id"),
                role: fields.text("role")?,
                content: fields.parts("content")?,
                end_turn: fields.take("end_turn").as_ref().and_then(Value::as_bool),
                phase: fields.optional("phase"),
            }),
            "reasoning" => Self::Reasoning(Reasoning {
                id: fields.optional("id").unwrap_or_default(),
                summary: fields.summary()?,
                content: fields.thoughts()?,
                encrypted_content: fields.optional("encrypted_content"),
            }),
            "local_shell_call" => Self::LocalShellCall(LocalShellCall {
                id: fields.optional("id"),
                call_id: fields.optional("call_id"),
                status: fields.text("status")?,
                action: fields.shell_action()?,
            }),
            "function_call" => Self::FunctionCall(FunctionCall {
                id: fields.optional("id"),
                name: fields.text("name")?,
                arguments: fields.text("arguments")?,
                call_id: fields.text("call_id")?,
            }),
            "function_call_output" => Self::FunctionCallOutput(FunctionCallOutput {
                call_id: fields.text("call_id")?,
                output: fields.function_output()?,
            }),
            "custom_tool_call" => Self::CustomToolCall(CustomToolCall {
                id: fields.optional("id"),
                status: fields.optional("status"),
                call_id: fields.text("call_id")?,
                name: fields.text("name")?,
                input: fields.text("input")?,
            }),
            "custom_tool_call_output" => Self::CustomToolCallOutput(CustomToolCallOutput {
                call_id: fields.text("call_id")?,
                output: fields.text("output")?,
            }),
            "web_search_call" => Self::WebSearchCall(WebSearchCall {
                id: fields.optional("id"),
                status: fields.optional("status"),
                action: fields.take("action").as_ref().and_then(known_search),
            }),
            "ghost_snapshot" => {
                Self::GhostSnapshot(fields.take("ghost_commit").unwrap_or(Value::Null))
            }
            "compaction" | "compaction_summary" => Self::Compaction(Compaction {
                encrypted_content: fields.text("encrypted_content")?,
            }),
            _ => Self::Other(fields.kind),
        })
    }
}

/// The fields of one item, removed one by one.
struct Fields {
    kind: String,
    values: Map<String, Value>,
}

impl Fields {
    fn new(value: Value) -> Result<Self, InvalidItem> {
        let (kind, values) = match value {
            Value::Object(mut values) => (values.remove("type"), values),
            _ => (None, Map::new()),
        };
        match kind {
            Some(Value::String(kind)) => Ok(Self { kind, values }),
            _ => Err(InvalidItem { kind: "nameless".to_owned(), field: "type" }),
        }
    }

    fn invalid(&self, field: &'static str) -> InvalidItem {
        let kind = self.kind.clone();
        InvalidItem { kind, field }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let value = self.values.get_mut(key).map(Value::take);
        value.filter(|value| !value.is_null())
    }

    fn optional(&mut self, key: &str) -> Option<String> {
        match self.take(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn text(&mut self, key: &'static str) -> Result<String, InvalidItem> {
        self.optional(key).ok_or_else(|| self.invalid(key))
    }

    fn list(&mut self, key: &'static str) -> Result<Vec<Value>, InvalidItem> {
        match self.take(key) {
            Some(Value::Array(values)) => Ok(values),
            _ => Err(self.invalid(key)),
        }
    }

    fn parts(&mut self, key: &'static str) -> Result<Vec<ContentItem>, InvalidItem> {
        let parts = self.list(key)?.into_iter().map(part);
        let parts: Option<Vec<_>> = parts.collect();
        parts.ok_or_else(|| self.invalid(key))
    }

    fn summary(&mut self) -> Result<Vec<String>, InvalidItem> {
        let Some(Value::Array(parts)) = self.take("summary") else {
            return Ok(Vec::new());
        };
        let texts = parts.into_iter().map(|mut part| take_text(&mut part, "text"));
        let texts: Option<Vec<_>> = texts.collect();
        texts.ok_or_else(|| self.invalid("summary"))
    }

    fn thoughts(&mut self) -> Result<Option<Vec<ReasoningContent>>, InvalidItem> {
        let Some(Value::Array(parts)) = self.take("content") else {
            return Ok(None);
        };
        let parts = parts.into_iter().map(|mut part| {
            let text = take_text(&mut part, "text")?;
            match part["type"].as_str()? {
                "reasoning_text" => Some(ReasoningContent::ReasoningText(text)),
                "text" => Some(ReasoningContent::Text(text)),
                _ => None,
            }
        });
        let parts: Option<Vec<_>> = parts.collect();
        parts.map(Some).ok_or_else(|| self.invalid("content"))
    }

    fn function_output(&mut self) -> Result<FunctionOutput, InvalidItem> {
        match self.take("output") {
            Some(Value::String(text)) => Ok(FunctionOutput::Text(text)),
            Some(Value::Array(parts)) => {
                let parts: Option<Vec<_>> = parts.into_iter().map(part).collect();
                let parts = parts.ok_or_else(|| self.invalid("output"))?;
                Ok(FunctionOutput::Parts(parts))
            }
            _ => Err(self.invalid("output")),
        }
    }

    fn shell_action(&mut self) -> Result<LocalShellAction, InvalidItem> {
        let action = self.take("action").unwrap_or(Value::Null);
        let command = action["command"].as_array().and_then(|command| {
            let words = command.iter().map(|word| word.as_str().map(str::to_owned));
            words.collect::<Option<Vec<_>>>()
        });
        Ok(LocalShellAction {
            command: command.ok_or_else(|| self.invalid("action"))?,
            timeout_ms: action["timeout_ms"].as_u64(),
            working_directory: action["working_directory"].as_str().map(str::to_owned),
            env: action["env"].as_object().cloned(),
            user: action["user"].as_str().map(str::to_owned),
        })
    }
}

/// Takes a text field out of an object.
fn take_text(value: &mut Value, key: &str) -> Option<String> {
    match value.get_mut(key)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn part(mut value: Value) -> Option<ContentItem> {
    let mut take = |key: &str| take_text(&mut value, key);
    match &*take("type")? {
        "input_text" => take("text").map(ContentItem::InputText),
        "input_image" => take("image_url").map(ContentItem::InputImage),
        "output_text" => take("text").map(ContentItem::OutputText),
        _ => None,
    }
}

/// Keeps the known fields of a search, in order; for an unknown kind, only the type.
fn known_search(action: &Value) -> Option<Value> {
    let keys: &[&str] = match action["type"].as_str()? {
        "search" => &["type", "query", "queries"],
        "open_page" => &["type", "url"],
        "find_in_page" => &["type", "url", "pattern"],
        _ => return Some(serde_json::json!({"type": "other"})),
    };
    let known = keys.iter().filter_map(|key| {
        let value = action.get(*key).filter(|value| !value.is_null())?;
        Some(((*key).to_owned(), value.clone()))
    });
    Some(Value::Object(known.collect()))
}
