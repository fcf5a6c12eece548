//! The records of a session file, as they stand there.

use std::collections::BTreeMap;

use convoke_core::{Millis, Timestamp};
use convoke_protocol::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Raw, number, object, text};

/// A line: an envelope, or in files of early 2025 the item itself.
#[derive(Deserialize)]
pub(super) struct Record<'r> {
    #[serde(borrow, default)]
    pub timestamp: Raw<'r>,
    #[serde(borrow, default)]
    pub ordinal: Raw<'r>,
    #[serde(borrow, default, rename = "type")]
    pub kind: Raw<'r>,
    #[serde(borrow, default)]
    pub payload: Raw<'r>,
    #[serde(borrow, default)]
    pub metadata: Raw<'r>,
    /// A mark of the program in bare files, which tells nothing.
    #[serde(borrow, default, rename = "record_type")]
    pub mark: Raw<'r>,
    /// The session's id, in the first line of bare files.
    #[serde(borrow, default)]
    pub id: Raw<'r>,
}

impl Record<'_> {
    /// Returns the time.
    pub(super) fn at(&self) -> Option<Millis> {
        Timestamp::Text(text(self.timestamp)?.into_owned()).millis()
    }
}

/// What the program noted beside an item.
#[derive(Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub compaction_output: bool,
}

/// The kind of a payload, and of the thing in it.
#[derive(Deserialize)]
pub(super) struct Event<'r> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Raw<'r>,
    #[serde(borrow, default)]
    pub info: Raw<'r>,
    #[serde(borrow, default)]
    pub item: Raw<'r>,
    #[serde(borrow, default)]
    pub error: Raw<'r>,
    #[serde(borrow, default)]
    pub message: Raw<'r>,
    #[serde(borrow, default)]
    pub codex_error_info: Raw<'r>,
    #[serde(borrow, default)]
    pub reason: Raw<'r>,
    #[serde(borrow, default)]
    pub num_turns: Raw<'r>,
    #[serde(borrow, default)]
    pub thread_name: Raw<'r>,
    #[serde(borrow, default)]
    pub call_id: Raw<'r>,
    #[serde(borrow, default)]
    pub success: Raw<'r>,
    #[serde(borrow, default)]
    pub changes: Raw<'r>,
}

/// The item of an `item_completed` event.
#[derive(Deserialize)]
pub(super) struct CompletedItem<'r> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Raw<'r>,
    #[serde(borrow, default)]
    pub id: Raw<'r>,
    #[serde(borrow, default)]
    pub status: Raw<'r>,
    #[serde(borrow, default)]
    pub changes: Raw<'r>,
    #[serde(borrow, default)]
    pub text: Raw<'r>,
    #[serde(borrow, default)]
    pub agent_thread_id: Raw<'r>,
}

/// A change of a file, by its path.
pub(super) type Changes<'r> = BTreeMap<String, &'r RawValue>;

/// A change of one file.
#[derive(Deserialize)]
pub(super) struct Change<'r> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Raw<'r>,
    #[serde(borrow, default)]
    pub content: Raw<'r>,
    #[serde(borrow, default)]
    pub unified_diff: Raw<'r>,
    #[serde(borrow, default)]
    pub move_path: Raw<'r>,
    /// The form of 2025: the kind is the name of the only field.
    #[serde(borrow, default)]
    pub add: Raw<'r>,
    #[serde(borrow, default)]
    pub delete: Raw<'r>,
    #[serde(borrow, default)]
    pub update: Raw<'r>,
}

/// Why a turn failed.
#[derive(Deserialize)]
pub(super) struct TurnError<'r> {
    #[serde(borrow, default)]
    pub message: Raw<'r>,
    #[serde(borrow, default)]
    pub codex_error_info: Raw<'r>,
}

/// The settings of the requests that follow.
#[derive(Deserialize)]
pub(super) struct TurnContext<'r> {
    #[serde(borrow, default)]
    pub model: Raw<'r>,
    #[serde(borrow, default)]
    pub comp_hash: Raw<'r>,
    #[serde(borrow, default)]
    pub cwd: Raw<'r>,
}

/// A summary that replaced the history.
#[derive(Deserialize)]
pub(super) struct Compacted<'r> {
    #[serde(borrow, default)]
    pub message: Raw<'r>,
    #[serde(borrow, default)]
    pub replacement_history: Raw<'r>,
    #[serde(borrow, default)]
    pub compaction_response_id: Raw<'r>,
}

/// The tokens of one response.
#[derive(Deserialize)]
pub(super) struct UsageRecord<'r> {
    #[serde(borrow, default)]
    pub thread_id: Raw<'r>,
    #[serde(borrow, default)]
    pub response_id: Raw<'r>,
    #[serde(borrow, default)]
    pub usage: Raw<'r>,
}

/// The tokens of a session so far, and of the last response.
#[derive(Default, Deserialize)]
pub(super) struct TokenCount<'r> {
    #[serde(borrow, default)]
    pub total_token_usage: Raw<'r>,
    #[serde(borrow, default)]
    pub last_token_usage: Raw<'r>,
}

#[derive(Deserialize)]
struct Tokens<'r> {
    #[serde(borrow, default, rename = "input_tokens")]
    input: Raw<'r>,
    #[serde(borrow, default, rename = "cached_input_tokens")]
    cached: Raw<'r>,
    #[serde(borrow, default, rename = "cache_write_input_tokens")]
    cache_write: Raw<'r>,
    #[serde(borrow, default, rename = "output_tokens")]
    output: Raw<'r>,
    #[serde(borrow, default, rename = "reasoning_output_tokens")]
    reasoning: Raw<'r>,
}

/// Returns token counts. The program's `input_tokens` include those of the cache.
pub(super) fn usage(field: Raw<'_>) -> Option<Usage> {
    let tokens: Tokens<'_> = object(field)?;
    Some(Usage {
        input: number(tokens.input)?,
        cached: number(tokens.cached).unwrap_or(0),
        cache_write: number(tokens.cache_write).unwrap_or(0),
        output: number(tokens.output)?,
        reasoning: number(tokens.reasoning).unwrap_or(0),
    })
}
