//! Stored requests.

use std::time::Duration;

use convoke_core::figures::thousands;
use convoke_core::ledger::Ledger;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::agent_event::RequestPurpose;
use crate::id::{AttemptRef, Millis, ThreadId};
use crate::milliseconds;
use crate::usage::Usage;
use crate::wire::Wire;

/// A stored request. `T` is the form of its texts: in memory ([`RequestTexts`]), left in the store (`()`), or
/// as a difference from the previous request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord<T = RequestTexts> {
    /// The thread that the request was sent in.
    pub thread: ThreadId,
    /// The number of the request in its thread, from 1.
    pub number: u64,
    /// The attempt that sent the request; `None` outside a session's turns.
    pub attempt: Option<AttemptRef>,
    /// The facts known when it was sent.
    pub meta: RequestMeta,
    /// The outcome, as far as it is known.
    pub outcome: RequestOutcome,
    pub texts: T,
}

impl<T> RequestRecord<T> {
    /// Returns the record with other texts.
    pub fn with_texts<U>(self, texts: U) -> RequestRecord<U> {
        let Self { thread, number, attempt, meta, outcome, texts: _ } = self;
        RequestRecord { thread, number, attempt, meta, outcome, texts }
    }

    /// Returns the number of bytes that were sent.
    pub fn sent_bytes(&self) -> u64 {
        match self.outcome.end {
            Some(RequestEnd::Unsent) => 0,
            _ => self.meta.bytes,
        }
    }

    /// Returns the title of the request: number, purpose, size and unchanged bytes.
    pub fn title(&self) -> String {
        let RequestMeta { purpose, bytes, unchanged_bytes, .. } = &self.meta;
        let (number, purpose) = (self.number, purpose.as_str());
        if self.sent_bytes() == 0 {
            return format!("request {number}, {purpose}, 0 bytes sent");
        }
        let (bytes, unchanged) = (thousands(*bytes), thousands(*unchanged_bytes));
        format!("request {number}, {purpose}, {bytes} bytes, {unchanged} unchanged")
    }
}

impl RequestRecord<()> {
    /// Returns the JSON form, used by the command line and the web page. With `texts`, it includes the ledger
    /// and the body.
    pub fn json(&self, texts: Option<&RequestTexts>) -> serde_json::Result<Value> {
        let Self { thread, number, attempt, meta, outcome, texts: () } = self;
        let headers = meta.headers.iter().map(|(name, value)| (name.clone(), json!(value)));
        let headers: Map<String, Value> = headers.collect();
        let mut value = json!({
            "thread": thread, "request": number,
            "turn": attempt.map(|it| it.turn), "attempt": attempt.map(|it| it.attempt),
            "at": meta.at, "path": meta.path, "purpose": meta.purpose, "bytes": self.sent_bytes(),
            "unchangedBytes": meta.unchanged_bytes, "redacted": meta.redacted, "wire": meta.wire,
            "sentSha256": meta.sent_sha256, "masked": meta.masked, "headers": headers,
            "failedAttempts": outcome.failed, "ended": outcome.end, "usage": outcome.usage,
            "model": outcome.model, "status": outcome.status,
            "firstByteMs": outcome.first_byte.map(milliseconds::whole),
            "elapsedMs": outcome.elapsed.map(milliseconds::whole),
            "cacheMiss": outcome.cache_miss,
        });
        if meta.dropped {
            value["dropped"] = json!(true);
        }
        if let Some(texts) = texts {
            value["ledger"] = serde_json::to_value(texts.parse_ledger(meta)?)?;
            value["body"] = json!(texts.body);
        }
        Ok(value)
    }
}

/// The texts of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestTexts<T = String> {
    /// The body as sent.
    pub body: T,
    /// The ledger of the body as JSON, one entry per line, so that the ledgers of two requests of a thread
    /// begin alike.
    pub ledger: T,
}

impl RequestTexts {
    /// Creates the texts of a request from its body and the body's ledger.
    pub fn new(body: String, ledger: &Ledger<'_>) -> serde_json::Result<Self> {
        let lines = ledger.entries().map(|entry| serde_json::to_string(&entry));
        Ok(Self { body, ledger: lines.collect::<Result<Vec<_>, _>>()?.join("\n") })
    }

    /// Parses the ledger.
    pub fn parse_ledger(&self, meta: &RequestMeta) -> serde_json::Result<Ledger<'static>> {
        let entries = self.ledger.lines().collect::<Vec<_>>().join(",");
        let mut ledger: Ledger<'static> =
            serde_json::from_str(&format!("{{\"maxBytes\":null,\"entries\":[{entries}]}}"))?;
        ledger.unchanged_bytes = Some(meta.unchanged_bytes);
        Ok(ledger)
    }
}

/// The facts about a request that are known when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMeta {
    /// The time of sending.
    pub at: Millis,
    /// The path below the endpoint's base URL.
    pub path: String,
    pub purpose: RequestPurpose,
    /// The size of the body, in bytes.
    pub bytes: u64,
    /// The length of the prefix shared with the previous request.
    pub unchanged_bytes: u64,
    /// Whether a secret was removed from the stored body.
    pub redacted: bool,
    /// The wire format; `None` in records of early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// The SHA-256 of the sent bytes, if a program sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_sha256: Option<String>,
    /// The locations in the body whose values were replaced before it was stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// The stored headers: those without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Whether its texts were dropped to make room for later requests; they are empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

impl RequestMeta {
    /// Creates the facts of a request that is being sent at a time.
    pub fn new(at: Millis, path: impl Into<String>, purpose: RequestPurpose, bytes: u64) -> Self {
        Self {
            at,
            path: path.into(),
            purpose,
            bytes,
            unchanged_bytes: 0,
            redacted: false,
            wire: None,
            sent_sha256: None,
            masked: Vec::new(),
            headers: Vec::new(),
            dropped: false,
        }
    }
}

/// The outcome of a request, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOutcome {
    /// The reason of each failed attempt at sending it. Every attempt sent the same bytes.
    pub failed: Vec<String>,
    /// The end; `None` while the request runs, and forever if the process was killed.
    #[serde(rename = "how")]
    pub end: Option<RequestEnd>,
    /// The tokens that the provider counted.
    pub usage: Option<Usage>,
    /// The model that answered, as named by the provider, else by the request.
    pub model: Option<String>,
    /// The HTTP status of the response, if a program sent the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The time from the request to the first byte of the response.
    #[serde(
        rename = "firstByteMs",
        with = "crate::milliseconds::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub first_byte: Option<Duration>,
    /// The time from the request to the end of the response.
    #[serde(
        rename = "elapsedMs",
        with = "crate::milliseconds::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub elapsed: Option<Duration>,
    /// The provider's own reason for a cache miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<String>,
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RequestEnd {
    /// A response arrived.
    Answered,
    /// The last attempt failed.
    Failed,
    /// There was no connection, so nothing was sent.
    Unsent,
    /// The turn was cancelled.
    Cancelled,
    /// The turn reached its time limit.
    TimedOut,
}
