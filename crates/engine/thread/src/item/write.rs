//! Writes items as JSON, with keys in a fixed order.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ContentItem, FunctionOutput, LocalShellAction, Reasoning, ResponseItem};
use crate::history::Sources;
use crate::json::JsonWriter;

impl ResponseItem {
    /// Returns the item as JSON, as in a request.
    pub fn to_json(&self) -> String {
        let mut out = JsonWriter::default();
        self.write(&mut out, &mut Sources::unrecorded(), Ids::Omitted);
        out.into_text()
    }

    /// Writes the item, with the source of each text.
    pub(crate) fn write(&self, out: &mut JsonWriter, sources: &mut Sources<'_>, ids: Ids) {
        out.object();
        self.write_fields(out, sources);
        if ids == Ids::Written
            && let Some(id) = self.id()
        {
            out.field("id", id);
        }
        out.end_object();
    }

    fn write_fields(&self, out: &mut JsonWriter, sources: &mut Sources<'_>) {
        match self {
            Self::Message(it) => {
                out.field("type", "message");
                out.field("role", &it.role);
                out.key("content");
                write_parts(&it.content, out, sources);
                if let Some(end_turn) = it.end_turn {
                    out.key("end_turn");
                    out.bool(end_turn);
                }
                write_some(out, "phase", it.phase.as_deref());
            }
            Self::Reasoning(it) => write_reasoning(it, out, sources),
            Self::LocalShellCall(it) => {
                out.field("type", "local_shell_call");
                out.key("call_id");
                out.optional(it.call_id.as_deref());
                out.field("status", &it.status);
                out.key("action");
                it.action.write(out, sources);
            }
            Self::FunctionCall(it) => {
                out.field("type", "function_call");
                out.field("name", &it.name);
                out.key("arguments");
                out.text(&it.arguments, sources);
                out.field("call_id", &it.call_id);
            }
            Self::FunctionCallOutput(it) => {
                out.field("type", "function_call_output");
                out.field("call_id", &it.call_id);
                out.key("output");
                match &it.output {
                    FunctionOutput::Text(text) => out.text(text, sources),
                    FunctionOutput::Parts(parts) => write_parts(parts, out, sources),
                }
            }
            Self::CustomToolCall(it) => {
                out.field("type", "custom_tool_call");
                write_some(out, "status", it.status.as_deref());
                out.field("call_id", &it.call_id);
                out.field("name", &it.name);
                out.key("input");
                out.text(&it.input, sources);
            }
            Self::CustomToolCallOutput(it) => {
                out.field("type", "custom_tool_call_output");
                out.field("call_id", &it.call_id);
                out.key("output");
                out.text(&it.output, sources);
            }
            Self::WebSearchCall(it) => {
                out.field("type", "web_search_call");
                write_some(out, "status", it.status.as_deref());
                if let Some(action) = &it.action {
                    out.key("action");
                    out.value_from(action, sources);
                }
            }
            Self::GhostSnapshot(commit) => {
                out.field("type", "ghost_snapshot");
                out.key("ghost_commit");
                out.value(commit);
            }
            Self::Compaction(it) => {
                out.field("type", "compaction");
                out.key("encrypted_content");
                out.text(&it.encrypted_content, sources);
            }
            Self::Other(kind) => out.field("type", kind),
        }
    }
}

/// Whether server ids are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    Omitted,
    Written,
}

fn write_reasoning(it: &Reasoning, out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.field("type", "reasoning");
    out.key("summary");
    out.list();
    for text in &it.summary {
        write_part("summary_text", "text", text, out, sources);
    }
    out.end_list();
    if it.shows_content() {
        out.key("content");
        match &it.content {
            None => out.null(),
            Some(parts) => {
                out.list();
                for part in parts {
                    write_part(part.kind(), "text", part.text(), out, sources);
                }
                out.end_list();
            }
        }
    }
    out.key("encrypted_content");
    write_text(out, it.encrypted_content.as_deref(), sources);
}

fn write_text(out: &mut JsonWriter, text: Option<&str>, sources: &mut Sources<'_>) {
    match text {
        Some(text) => out.text(text, sources),
        None => out.null(),
    }
}

fn write_parts(parts: &[ContentItem], out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.list();
    for part in parts {
        let (kind, key) = match part {
            ContentItem::InputText(_) => ("input_text", "text"),
            ContentItem::InputImage(_) => ("input_image", "image_url"),
            ContentItem::OutputText(_) => ("output_text", "text"),
        };
        write_part(kind, key, part.text(), out, sources);
    }
    out.end_list();
}

/// Writes a part: its type, and one text under a key.
fn write_part(kind: &str, key: &str, text: &str, out: &mut JsonWriter, sources: &mut Sources<'_>) {
    out.object();
    out.field("type", kind);
    out.key(key);
    out.text(text, sources);
    out.end_object();
}

fn write_some(out: &mut JsonWriter, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.field(key, text);
    }
}

impl LocalShellAction {
    pub(crate) fn write(&self, out: &mut JsonWriter, sources: &mut Sources<'_>) {
        out.object();
        out.field("type", "exec");
        out.key("command");
        out.list();
        for word in &self.command {
            out.text(word, sources);
        }
        out.end_list();
        out.key("timeout_ms");
        out.value(&self.timeout_ms.map_or(Value::Null, Value::from));
        out.key("working_directory");
        write_text(out, self.working_directory.as_deref(), sources);
        out.key("env");
        match &self.env {
            Some(env) => out.value_from(&Value::Object(env.clone()), sources),
            None => out.null(),
        }
        out.key("user");
        write_text(out, self.user.as_deref(), sources);
        out.end_object();
    }
}

impl Serialize for ResponseItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = RawValue::from_string(self.to_json()).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}
