//! Parameters of requests.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::views::sessions::parameter;

/// The form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ResponseForm {
    /// JSON, the default.
    Json,
    /// A fragment of HTML, for the page.
    Html,
}

impl ResponseForm {
    /// Reads the form that a client asks for.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let accept =
            headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if accept.split(',').any(|kind| kind.trim().starts_with("text/html")) {
            Self::Html
        } else {
            Self::Json
        }
    }
}

/// The parameters of the list of sessions.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct ListQuery {
    /// Words that a message of the session has.
    #[serde(default)]
    pub q: String,
    /// The number of sessions to skip.
    #[serde(default)]
    pub from: usize,
    /// The maximum number of sessions.
    pub limit: Option<usize>,
    /// The program: `convoke`, or another one; by default all.
    #[serde(default)]
    pub program: String,
    /// A part of the name of the directory.
    #[serde(default)]
    pub project: String,
    /// The state; by default any.
    #[serde(default)]
    pub state: String,
    /// The days since the last change; nothing or an empty text for any.
    #[serde(default, deserialize_with = "number_or_nothing")]
    pub days: Option<u32>,
}

/// Reads a number that a form leaves empty.
fn number_or_nothing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let written = Option::<String>::deserialize(from)?.filter(|written| !written.is_empty());
    written.map(|written| written.parse().map_err(D::Error::custom)).transpose()
}

impl ListQuery {
    /// Returns whether Convoke's own sessions are in the list.
    pub(crate) fn shows_own(&self) -> bool {
        matches!(&*self.program, "" | "convoke")
    }

    /// Returns whether sessions of other programs are in the list: they have no state, and a search does not look into them.
    pub(crate) fn shows_others(&self) -> bool {
        self.program != "convoke" && self.q.trim().is_empty() && self.state.is_empty()
    }

    /// Returns whether something is left out.
    pub(crate) fn is_filtered(&self) -> bool {
        let Self { q, program, project, state, days, .. } = self;
        [q, program, project, state].iter().any(|it| !it.is_empty()) || days.is_some()
    }

    /// Returns the first moment of a last change.
    pub(crate) fn since(&self, now: i64) -> Option<i64> {
        let day = 86_400_000;
        self.days.map(|days| now.saturating_sub(i64::from(days).saturating_mul(day)))
    }

    /// Returns the query of an address whose page begins at a session.
    pub(crate) fn written(&self, from: usize) -> String {
        let Self { q, program, project, state, days, .. } = self;
        let days = days.map_or_else(String::new, |days| format!("&days={days}"));
        let [q, program, project, state] =
            [("q", q), ("program", program), ("project", project), ("state", state)]
                .map(|(name, value)| parameter(name, value));
        format!("?from={from}{q}{program}{project}{state}{days}")
    }
}

/// The parameters of a page of messages.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MessagesQuery {
    /// The message after the last one of the page; by default the page ends with the newest.
    pub before: Option<u64>,
    /// A message that the page must contain.
    pub message: Option<u64>,
    /// The maximum number of messages.
    pub limit: Option<usize>,
}

/// The parameters of a page of turns.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TurnsQuery {
    /// The turn before the first one of the page.
    #[serde(default)]
    pub after: u64,
    /// The maximum number of turns.
    pub limit: Option<usize>,
}

/// The parameters of a turn.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct TurnQuery {
    /// The attempt; by default the last.
    pub attempt: Option<u32>,
    /// How the text is shown.
    #[serde(default)]
    pub reading: Reading,
    /// Whether white space is shown.
    #[serde(default)]
    pub whitespace: u8,
}

impl TurnQuery {
    /// Returns the query of an address.
    pub fn written(&self) -> String {
        let attempt = self.attempt.map_or_else(String::new, |it| format!("attempt={it}&"));
        let white = if self.whitespace == 0 { "" } else { "&whitespace=1" };
        format!("?{attempt}reading={}{white}", self.reading.as_str())
    }
}

/// The parameters of changed files.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct ChangesQuery {
    #[serde(default)]
    pub layout: Layout,
}

/// How a difference is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// Removed lines before those that replace them.
    #[default]
    Unified,
    /// Both sides beside each other.
    Split,
}

impl Layout {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Split => "split",
        }
    }
}

/// How a text is shown that a model was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reading {
    /// By parts, as a person reads them.
    #[default]
    Parts,
    /// Byte for byte.
    Exact,
}

impl Reading {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parts => "parts",
            Self::Exact => "exact",
        }
    }
}

/// The parameters of a range of bytes.
#[derive(Debug, Deserialize)]
pub(crate) struct BytesQuery {
    /// The attempt; by default the last.
    pub attempt: Option<u32>,
    /// The text: `prompt` or `system`.
    #[serde(default)]
    pub target: String,
    /// The first byte.
    #[serde(default)]
    pub from: usize,
    /// The end; by default that of the text.
    pub to: Option<usize>,
    /// Whether white space is shown.
    #[serde(default)]
    pub whitespace: u8,
}

/// The parameters of a comparison.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct DiffQuery {
    /// The attempt of the other turn; by default the last.
    pub other: Option<u32>,
}

/// The parameters of a text in pieces.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TextQuery {
    /// The first byte.
    #[serde(default)]
    pub from: usize,
}

/// The parameters of a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamQuery {
    /// The last message that the client has; `Last-Event-ID` takes precedence.
    pub after: Option<u64>,
}

/// The parameters of the figures of usage.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct UsageQuery {
    /// The days before now; 0 for all.
    #[serde(default = "UsageQuery::month")]
    pub days: u32,
}

impl UsageQuery {
    const fn month() -> u32 {
        30
    }

    /// Returns the first moment that counts.
    pub fn since(self, now: i64) -> Option<i64> {
        let days = (self.days > 0).then_some(i64::from(self.days))?;
        Some(now.saturating_sub(days.saturating_mul(86_400_000)))
    }
}

/// The parameters of `explain`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExplainQuery {
    /// The directory.
    pub path: Option<String>,
}

/// The parameters of an export.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExportQuery {
    #[serde(default)]
    pub form: String,
}

/// The parameters of the rows of a list of parts.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct RowsQuery {
    /// The number of rows to skip.
    #[serde(default)]
    pub from: usize,
    #[serde(default)]
    pub sort: PartOrder,
}

/// The parameters of a chunk of parts.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct ChunkQuery {
    /// The number of the chunk, from 0.
    #[serde(default)]
    pub chunk: usize,
}

/// The parameters of the text of a part.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct PartQuery {
    /// The first byte.
    #[serde(default)]
    pub from: usize,
    /// Whether the whole text is wanted, as it is.
    #[serde(default)]
    pub raw: u8,
}

/// The parameters of a search in a text.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FindQuery {
    /// The words.
    #[serde(default)]
    pub q: String,
}

/// The order of the parts in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PartOrder {
    /// As they were sent.
    #[default]
    Sent,
    /// The largest first.
    Size,
}

impl PartOrder {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Size => "size",
        }
    }
}
