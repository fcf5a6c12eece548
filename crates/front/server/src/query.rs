//! Parameters of requests.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use serde::Deserialize;

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
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    /// Words that a message of the session has.
    #[serde(default)]
    pub q: String,
    /// The number of sessions to skip.
    #[serde(default)]
    pub from: usize,
    /// The maximum number of sessions.
    pub limit: Option<usize>,
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
    /// The grouping of the picture: `section`, `source` or `owner`.
    #[serde(default)]
    pub by: Grouping,
    /// Whether white space is shown.
    #[serde(default)]
    pub whitespace: u8,
}

impl TurnQuery {
    /// Returns the query of an address.
    pub fn written(&self) -> String {
        let attempt = self.attempt.map_or_else(String::new, |it| format!("attempt={it}&"));
        let white = if self.whitespace == 0 { "" } else { "&whitespace=1" };
        format!("?{attempt}by={}{white}", self.by.as_str())
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

/// The grouping of a ledger's parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// By section.
    #[default]
    Section,
    /// By source.
    Source,
    /// By owner.
    Owner,
}

impl Grouping {
    /// Every grouping.
    pub const ALL: [Self; 3] = [Self::Section, Self::Source, Self::Owner];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Section => "section",
            Self::Source => "source",
            Self::Owner => "owner",
        }
    }
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

/// The parameters of another program's request.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(crate) struct PartsQuery {
    /// The first part of the page.
    #[serde(default)]
    pub from: usize,
    /// The order of the table.
    #[serde(default)]
    pub sort: PartOrder,
}

/// The order of the parts of a request in a table.
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
