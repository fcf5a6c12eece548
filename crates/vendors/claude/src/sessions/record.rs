//! A line of a session file. Every field is read when it is needed, and one of the wrong type is as good as none.

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use convoke_core::Timestamp;
use convoke_protocol::id::Millis;
use foldhash::fast::FixedState;
use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON value that has not been parsed.
pub(super) type Raw<'l> = Option<&'l RawValue>;

/// A record of a session file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record<'l> {
    #[serde(borrow, rename = "type")]
    pub kind: Raw<'l>,
    #[serde(borrow)]
    pub subtype: Raw<'l>,
    #[serde(borrow)]
    pub uuid: Raw<'l>,
    #[serde(borrow)]
    pub parent_uuid: Raw<'l>,
    #[serde(borrow)]
    pub is_sidechain: Raw<'l>,
    #[serde(borrow)]
    pub agent_id: Raw<'l>,
    #[serde(borrow)]
    pub session_id: Raw<'l>,
    #[serde(borrow)]
    pub timestamp: Raw<'l>,
    #[serde(borrow)]
    pub cwd: Raw<'l>,
    #[serde(borrow)]
    pub git_branch: Raw<'l>,
    #[serde(borrow)]
    pub version: Raw<'l>,
    #[serde(borrow)]
    pub is_meta: Raw<'l>,
    #[serde(borrow)]
    pub is_compact_summary: Raw<'l>,
    #[serde(borrow)]
    pub is_api_error_message: Raw<'l>,
    #[serde(borrow)]
    pub api_error_status: Raw<'l>,
    #[serde(borrow)]
    pub request_ref: Raw<'l>,
    #[serde(borrow)]
    pub forked_from: Raw<'l>,
    #[serde(borrow)]
    pub message: Raw<'l>,
    #[serde(borrow)]
    pub tool_use_result: Raw<'l>,
    #[serde(borrow)]
    pub attachment: Raw<'l>,
    #[serde(borrow)]
    pub rendered: Raw<'l>,
    #[serde(borrow)]
    pub compact_metadata: Raw<'l>,
    #[serde(borrow)]
    pub error: Raw<'l>,
    /// Of a forked sub-agent: the record of the session after which it goes on.
    #[serde(borrow)]
    pub parent_last_uuid: Raw<'l>,
    /// Of a request: its id.
    #[serde(borrow)]
    pub id: Raw<'l>,
    #[serde(borrow)]
    pub query_source: Raw<'l>,
    #[serde(borrow)]
    pub shape_hash: Raw<'l>,
    #[serde(borrow)]
    pub shape: Raw<'l>,
    #[serde(borrow)]
    pub hash: Raw<'l>,
    #[serde(borrow)]
    pub params: Raw<'l>,
    #[serde(borrow)]
    pub base: Raw<'l>,
    #[serde(borrow)]
    pub keep: Raw<'l>,
    #[serde(borrow)]
    pub tail: Raw<'l>,
    /// Of a request: what the program left out of its log.
    #[serde(borrow)]
    pub cut: Raw<'l>,
    #[serde(borrow)]
    pub model_usage: Raw<'l>,
    #[serde(borrow)]
    pub summary: Raw<'l>,
    #[serde(borrow)]
    pub custom_title: Raw<'l>,
    #[serde(borrow)]
    pub ai_title: Raw<'l>,
}

impl Record<'_> {
    /// Returns the time of the record.
    pub fn at(&self) -> Option<Millis> {
        Timestamp::Text(text(self.timestamp)?.into_owned()).millis()
    }
}

/// A message of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'l> {
    #[serde(borrow)]
    pub id: Raw<'l>,
    #[serde(borrow)]
    pub role: Raw<'l>,
    #[serde(borrow)]
    pub model: Raw<'l>,
    #[serde(borrow)]
    pub content: Raw<'l>,
    #[serde(borrow)]
    pub usage: Raw<'l>,
    #[serde(borrow)]
    pub stop_reason: Raw<'l>,
}

/// Parses a value into a type of this crate; of another form, there is none.
pub(super) fn parsed<'l, T: Deserialize<'l>>(raw: Raw<'l>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Returns a text.
pub(super) fn text(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let raw = raw?.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    match memchr(b'\\', inner.as_bytes()) {
        None => Some(Cow::Borrowed(inner)),
        Some(_) => match serde_json::from_str(raw) {
            Ok(text) => Some(Cow::Owned(text)),
            Err(_) => serde_json::from_str(&with_whole_characters(raw)).ok().map(Cow::Owned),
        },
    }
}

/// Returns whether a value is `true`.
pub(super) fn is_true(raw: Raw<'_>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// Returns a whole number.
pub(super) fn number(raw: Raw<'_>) -> Option<u64> {
    raw?.get().parse().ok()
}

/// Returns the elements of a list; of anything else, none.
pub(super) fn list(raw: Raw<'_>) -> Vec<&RawValue> {
    parsed(raw).unwrap_or_default()
}

/// Returns a short name for an id. Ids that differ have different names, but in files that were made to fail.
pub(super) fn name(id: &str) -> u64 {
    FixedState::default().hash_one(id)
}

/// Replaces halves of characters, which JavaScript can write and no other program can read.
pub(super) fn with_whole_characters(json: &str) -> String {
    let mut whole = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let unit = |escape: &str| {
            let digits = escape.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                whole.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length);
        whole.push_str(kept);
        rest = after;
    }
    whole + rest
}
