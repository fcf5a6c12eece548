//! The parsed fields of Claude Code's events.

use std::borrow::Cow;
use std::collections::HashMap;

use convoke_protocol::usage::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use convoke_agent::stream::lenient::{Decimal, Flag, List, Number, Object, Text};

/// The fields of all events. Parsed in one pass; other fields are skipped.
#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Line<'a> {
    #[serde(rename = "type")]
    pub kind: Text<'a>,
    pub subtype: Text<'a>,
    pub session_id: Text<'a>,
    pub model: Text<'a>,
    pub claude_code_version: Text<'a>,
    pub parent_tool_use_id: Text<'a>,
    pub message: Object<Message<'a>>,
    pub event: Object<Raw<'a>>,
    pub error: Text<'a>,
    pub attempt: Number,
    pub max_retries: Number,
    pub error_status: Number,
    pub retry_delay_ms: Number,
    pub is_error: Flag,
    pub api_error_status: Number,
    pub result: Text<'a>,
    pub stop_reason: Text<'a>,
    pub terminal_reason: Text<'a>,
    pub num_turns: Number,
    pub total_cost_usd: Decimal,
    pub usage: Object<Counts>,
    pub errors: List<'a, Text<'a>>,
    pub permission_denials: List<'a, Object<Denial<'a>>>,
    pub origin: Object<Origin<'a>>,
    pub model_usage_since_last_result: Option<&'a RawValue>,
    pub uuid: Text<'a>,
    pub task_type: Text<'a>,
    pub is_backgrounded: Flag,
    pub tasks: List<'a, Object<Task<'a>>>,
    pub response: Object<ControlResponse>,
}

impl Line<'_> {
    /// Returns whether a result is a placeholder for a notification that another turn handles.
    pub fn is_placeholder(&self) -> bool {
        self.origin.0.as_ref().is_some_and(|origin| origin.kind.as_str() == "task-notification")
            && self.num_turns.0 == Some(0)
            && self.result.0.as_deref() == Some("")
            && !self.is_error.0
            && self.terminal_reason.0.is_none()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Origin<'a> {
    #[serde(borrow)]
    pub kind: Text<'a>,
}

/// A background task.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Task<'a> {
    #[serde(borrow)]
    pub task_type: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ControlResponse {
    pub response: Object<Interrupted>,
}

/// The response to an interrupt.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Interrupted {
    pub still_queued: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Message<'a> {
    pub model: Text<'a>,
    pub usage: Object<Counts>,
    pub content: List<'a, Object<Block<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Block<'a> {
    #[serde(rename = "type")]
    pub kind: Text<'a>,
    pub text: Text<'a>,
    pub thinking: Text<'a>,
    pub id: Text<'a>,
    pub name: Text<'a>,
    pub input: Option<&'a RawValue>,
    pub tool_use_id: Text<'a>,
    pub content: List<'a, Object<TextBlock<'a>>>,
    pub is_error: Flag,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct TextBlock<'a> {
    #[serde(borrow)]
    pub text: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Raw<'a> {
    #[serde(rename = "type")]
    pub kind: Text<'a>,
    pub delta: Object<Delta<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Delta<'a> {
    #[serde(rename = "type")]
    pub kind: Text<'a>,
    pub text: Text<'a>,
    pub thinking: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Denial<'a> {
    #[serde(borrow)]
    pub tool_name: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Edit<'a> {
    pub file_path: Text<'a>,
    pub notebook_path: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Todos<'a> {
    #[serde(borrow)]
    pub todos: List<'a, Object<Todo<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Todo<'a> {
    pub content: Text<'a>,
    pub status: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Counts {
    #[serde(rename = "input_tokens")]
    pub input: Number,
    #[serde(rename = "cache_creation_input_tokens")]
    pub cache_write: Number,
    #[serde(rename = "cache_read_input_tokens")]
    pub cached: Number,
    #[serde(rename = "output_tokens")]
    pub output: Number,
}

impl Counts {
    /// Returns the tokens. The API counts cached tokens separately from the rest of the input.
    pub fn usage(&self) -> Usage {
        let cached = self.cached.0.unwrap_or(0);
        let cache_write = self.cache_write.0.unwrap_or(0);
        Usage {
            input: self.input.0.unwrap_or(0).saturating_add(cached).saturating_add(cache_write),
            cached,
            cache_write,
            output: self.output.0.unwrap_or(0),
            reasoning: 0,
        }
    }
}

/// The counts of one model.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ModelCounts {
    input_tokens: Number,
    output_tokens: Number,
    cache_read_input_tokens: Number,
    cache_creation_input_tokens: Number,
    #[serde(rename = "costUSD")]
    cost_usd: Decimal,
}

/// Returns the tokens and the cost of all models.
pub fn spent(json: &str) -> Option<(Usage, f64)> {
    let models: HashMap<Cow<'_, str>, Object<ModelCounts>> = serde_json::from_str(json).ok()?;
    let mut cost_usd = 0.0;
    let mut usage = Usage::default();
    for counts in models.into_values().filter_map(|model| model.0) {
        cost_usd += counts.cost_usd.0.unwrap_or_default();
        let counts = Counts {
            input: counts.input_tokens,
            cache_write: counts.cache_creation_input_tokens,
            cached: counts.cache_read_input_tokens,
            output: counts.output_tokens,
        };
        usage = usage.and(counts.usage());
    }
    Some((usage, cost_usd))
}
