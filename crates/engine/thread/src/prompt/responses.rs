//! The body of a Responses request, with keys in a fixed order.

use serde_json::Value;

use super::{Prompt, RequestPurpose};
use crate::config::Provider;
use crate::item::Ids;
use crate::json::JsonWriter;

const SCHEMA_NAME: &str = "codex_output_schema";
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

pub(super) fn write(prompt: &Prompt<'_>, provider: &Provider, out: &mut JsonWriter) {
    let settings = &prompt.model.settings;
    let compacts = prompt.purpose == RequestPurpose::Compaction;
    let stores = provider.is_azure();
    out.object();
    out.field("model", &prompt.model.slug);
    write_instructions(prompt, out);
    write_input(prompt, if stores { Ids::Written } else { Ids::Omitted }, out);
    write_tools(prompt.tools, out);
    out.field("tool_choice", "auto");
    out.key("parallel_tool_calls");
    out.bool(!compacts && settings.supports_parallel_tool_calls);
    out.key("reasoning");
    if settings.supports_reasoning_summaries {
        out.object();
        if let Some(effort) = prompt.effort.or(settings.default_reasoning_level.as_deref()) {
            out.field("effort", effort);
        }
        if prompt.summary != "none" {
            out.field("summary", prompt.summary);
        }
        out.end_object();
    } else {
        out.null();
    }
    out.key("store");
    out.bool(stores);
    out.key("stream");
    out.bool(true);
    out.key("include");
    out.list();
    if settings.supports_reasoning_summaries {
        out.string(ENCRYPTED_REASONING);
    }
    out.end_list();
    out.field("prompt_cache_key", prompt.cache_key);
    write_text(prompt, out);
    out.end_object();
}

pub(super) fn write_compaction(prompt: &Prompt<'_>, out: &mut JsonWriter) {
    out.object();
    out.field("model", &prompt.model.slug);
    write_input(prompt, Ids::Omitted, out);
    write_instructions(prompt, out);
    out.end_object();
}

fn write_instructions(prompt: &Prompt<'_>, out: &mut JsonWriter) {
    out.key("instructions");
    out.text(&prompt.instructions.text, &mut prompt.instructions.sources());
}

fn write_input(prompt: &Prompt<'_>, ids: Ids, out: &mut JsonWriter) {
    out.key("input");
    out.list();
    for (index, sent) in prompt.input.iter().enumerate() {
        sent.item.write(out, &mut prompt.sources(index), ids);
    }
    out.end_list();
}

/// Writes the tools. An empty list is part of the envelope.
pub(super) fn write_tools(tools: &[Value], out: &mut JsonWriter) {
    out.key("tools");
    match tools {
        [] => out.value(&Value::Array(Vec::new())),
        tools => out.sourced_value("tools", "tools", &Value::Array(tools.to_vec())),
    }
}

/// Writes the verbosity and the schema of the answer, if there are any.
fn write_text(prompt: &Prompt<'_>, out: &mut JsonWriter) {
    let settings = &prompt.model.settings;
    let verbosity = prompt.verbosity.or(settings.default_verbosity.as_deref());
    let verbosity = verbosity.filter(|_| settings.support_verbosity);
    if verbosity.is_none() && prompt.output_schema.is_none() {
        return;
    }
    out.key("text");
    out.object();
    if let Some(verbosity) = verbosity {
        out.field("verbosity", verbosity);
    }
    if let Some(schema) = prompt.output_schema {
        out.key("format");
        out.object();
        out.field("type", "json_schema");
        out.key("strict");
        out.bool(true);
        out.key("schema");
        out.sourced_value("output-schema", "output_schema", schema);
        out.field("name", SCHEMA_NAME);
        out.end_object();
    }
    out.end_object();
}
