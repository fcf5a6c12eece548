//! The body of a Responses request, every key in its place.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Mapped, Prompt, Purpose};
use crate::config::Provider;
use crate::history::Sent;
use crate::item::WithId;

const SCHEMA_NAME: &str = "codex_output_schema";
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

pub(super) fn map(prompt: &Prompt<'_>, provider: &Provider) -> Result<Mapped, serde_json::Error> {
    let settings = &prompt.model.settings;
    let compacts = prompt.purpose == Purpose::Compaction;
    let effort = prompt.effort.or(settings.default_reasoning_level.as_deref());
    let reasoning = settings.supports_reasoning_summaries.then_some(Reasoning {
        effort,
        summary: Some(prompt.summary).filter(|summary| *summary != "none"),
    });
    let verbosity = prompt.verbosity.or(settings.default_verbosity.as_deref());
    let (tools, schema) = (prompt.tools, prompt.output_schema);
    let text = Text {
        verbosity: verbosity.filter(|_| settings.support_verbosity),
        format: schema.map(|schema| Format {
            kind: "json_schema",
            strict: true,
            schema,
            name: SCHEMA_NAME,
        }),
    };
    let include: &[&str] = match reasoning {
        Some(_) => &[ENCRYPTED_REASONING],
        None => &[],
    };
    let stores = provider.is_azure();
    let body = serde_json::to_string(&Body {
        model: &prompt.model.slug,
        instructions: &prompt.instructions.text,
        input: Input { items: &prompt.input, with_ids: stores },
        tools,
        tool_choice: "auto",
        parallel_tool_calls: !compacts && settings.supports_parallel_tool_calls,
        reasoning,
        store: stores,
        stream: true,
        include,
        prompt_cache_key: prompt.cache_key,
        text: Some(text).filter(|it| it.verbosity.is_some() || it.format.is_some()),
    })?;
    Ok(Mapped {
        body,
        items: text_bytes(prompt),
        tools: match tools {
            [] => 0,
            tools => serde_json::to_vec(tools)?.len() as u64,
        },
        schema: match schema {
            Some(schema) => serde_json::to_vec(schema)?.len() as u64,
            None => 0,
        },
    })
}

pub(super) fn map_compaction(prompt: &Prompt<'_>) -> Result<Mapped, serde_json::Error> {
    let body = serde_json::to_string(&CompactionBody {
        model: &prompt.model.slug,
        input: Input { items: &prompt.input, with_ids: false },
        instructions: &prompt.instructions.text,
    })?;
    Ok(Mapped { body, items: text_bytes(prompt), tools: 0, schema: 0 })
}

fn text_bytes(prompt: &Prompt<'_>) -> Vec<u64> {
    let items = prompt.input.iter();
    items.map(|sent| sent.item.text_bytes()).collect()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    instructions: &'a str,
    input: Input<'a>,
    tools: &'a [Value],
    tool_choice: &'static str,
    parallel_tool_calls: bool,
    reasoning: Option<Reasoning<'a>>,
    store: bool,
    stream: bool,
    include: &'a [&'a str],
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
}

#[derive(Serialize)]
struct CompactionBody<'a> {
    model: &'a str,
    input: Input<'a>,
    instructions: &'a str,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    strict: bool,
    schema: &'a Value,
    name: &'static str,
}

struct Input<'a> {
    items: &'a [Sent<'a>],
    with_ids: bool,
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let items = self.items.iter().map(|sent| sent.item.as_ref());
        if self.with_ids {
            serializer.collect_seq(items.map(WithId))
        } else {
            serializer.collect_seq(items)
        }
    }
}
