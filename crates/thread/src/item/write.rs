//! Items as JSON, every key in its place.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::{
    ContentItem, FunctionOutput, LocalShellAction, Reasoning, ReasoningContent, ResponseItem,
};

/// An item that is written with its `id` as the last key.
#[derive(Debug, Clone, Copy)]
pub struct WithId<'a>(pub &'a ResponseItem);

impl Serialize for ResponseItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_fields(self, &mut map)?;
        map.end()
    }
}

impl Serialize for WithId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_fields(self.0, &mut map)?;
        if let Some(id) = self.0.id() {
            map.serialize_entry("id", id)?;
        }
        map.end()
    }
}

fn write_fields<M: SerializeMap>(item: &ResponseItem, map: &mut M) -> Result<(), M::Error> {
    match item {
        ResponseItem::Message(it) => {
            map.serialize_entry("type", "message")?;
            map.serialize_entry("role", &it.role)?;
            map.serialize_entry("content", &it.content)?;
            write_some(map, "end_turn", it.end_turn.as_ref())?;
            write_some(map, "phase", it.phase.as_ref())
        }
        ResponseItem::Reasoning(it) => write_reasoning(it, map),
        ResponseItem::LocalShellCall(it) => {
            map.serialize_entry("type", "local_shell_call")?;
            map.serialize_entry("call_id", &it.call_id)?;
            map.serialize_entry("status", &it.status)?;
            map.serialize_entry("action", &it.action)
        }
        ResponseItem::FunctionCall(it) => {
            map.serialize_entry("type", "function_call")?;
            map.serialize_entry("name", &it.name)?;
            map.serialize_entry("arguments", &it.arguments)?;
            map.serialize_entry("call_id", &it.call_id)
        }
        ResponseItem::FunctionCallOutput(it) => {
            map.serialize_entry("type", "function_call_output")?;
            map.serialize_entry("call_id", &it.call_id)?;
            map.serialize_entry("output", &it.output)
        }
        ResponseItem::CustomToolCall(it) => {
            map.serialize_entry("type", "custom_tool_call")?;
            write_some(map, "status", it.status.as_ref())?;
            map.serialize_entry("call_id", &it.call_id)?;
            map.serialize_entry("name", &it.name)?;
            map.serialize_entry("input", &it.input)
        }
        ResponseItem::CustomToolCallOutput(it) => {
            map.serialize_entry("type", "custom_tool_call_output")?;
            map.serialize_entry("call_id", &it.call_id)?;
            map.serialize_entry("output", &it.output)
        }
        ResponseItem::WebSearchCall(it) => {
            map.serialize_entry("type", "web_search_call")?;
            write_some(map, "status", it.status.as_ref())?;
            write_some(map, "action", it.action.as_ref())
        }
        ResponseItem::GhostSnapshot(commit) => {
            map.serialize_entry("type", "ghost_snapshot")?;
            map.serialize_entry("ghost_commit", commit)
        }
        ResponseItem::Compaction(it) => {
            map.serialize_entry("type", "compaction")?;
            map.serialize_entry("encrypted_content", &it.encrypted_content)
        }
        ResponseItem::Other(kind) => map.serialize_entry("type", kind),
    }
}

fn write_reasoning<M: SerializeMap>(it: &Reasoning, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("type", "reasoning")?;
    map.serialize_entry("summary", &Tagged("summary_text", &it.summary))?;
    if it.shows_content() {
        map.serialize_entry("content", &it.content)?;
    }
    map.serialize_entry("encrypted_content", &it.encrypted_content)
}

fn write_some<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

/// Texts that are written as parts of one type.
struct Tagged<'a>(&'static str, &'a [String]);

impl Serialize for Tagged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(Some(self.1.len()))?;
        for text in self.1 {
            parts.serialize_element(&Part(self.0, "text", text))?;
        }
        parts.end()
    }
}

/// A part: its type, and one text under a key.
struct Part<'a>(&'static str, &'static str, &'a str);

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", self.0)?;
        map.serialize_entry(self.1, self.2)?;
        map.end()
    }
}

impl Serialize for ContentItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = match self {
            Self::InputText(text) => Part("input_text", "text", text),
            Self::InputImage(url) => Part("input_image", "image_url", url),
            Self::OutputText(text) => Part("output_text", "text", text),
        };
        part.serialize(serializer)
    }
}

impl Serialize for ReasoningContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = match self {
            Self::ReasoningText(text) => Part("reasoning_text", "text", text),
            Self::Text(text) => Part("text", "text", text),
        };
        part.serialize(serializer)
    }
}

impl Serialize for FunctionOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl Serialize for LocalShellAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("type", "exec")?;
        map.serialize_entry("command", &self.command)?;
        map.serialize_entry("timeout_ms", &self.timeout_ms)?;
        map.serialize_entry("working_directory", &self.working_directory)?;
        map.serialize_entry("env", &self.env)?;
        map.serialize_entry("user", &self.user)?;
        map.end()
    }
}
