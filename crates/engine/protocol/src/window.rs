//! The window of a request: everything that a model was given in it, in one form for every provider.
//!
//! A request is a sequence of parts, each with a role. Neighbours of one role form a message, wherever the provider's format
//! drew its borders. A result of a tool has the role `tool`, also where the format puts it into a message of the user. Ids,
//! signatures and marks for the cache are left out.

use std::fmt;
use std::sync::Arc;

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::content::ContentHash;

/// The longest text that the JSON form holds; a longer one is its hash and size.
pub const MAX_SHOWN_TEXT: usize = 2_000;

/// Everything that a model was given in a request, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    pub system: Vec<Placed<Text>>,
    /// The names of the tools, in order.
    pub tools: Vec<String>,
    /// The conversation.
    pub parts: Vec<WindowPart>,
}

/// A part of a conversation and its role.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPart {
    pub role: Role,
    /// Shared by the windows of later requests.
    pub part: Arc<Placed<Part>>,
}

/// A thing and where it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<T> {
    pub what: T,
    pub place: Place,
}

/// A place in a file of another program, or in a record: `file:line`, or `file#row`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    pub at: At,
}

/// A place within a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    /// A line, from 1.
    Line(u64),
    /// A row of a database: table and key.
    Row(Arc<str>),
    /// The whole file.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Line(line) => write!(f, "{}:{line}", self.file),
            At::Row(row) => write!(f, "{}#{row}", self.file),
            At::Whole => f.write_str(&self.file),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The role of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    /// Returns the name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(Text),
    /// A call of a tool.
    Call {
        name: String,
        /// The input, as JSON; a text that is no JSON is a string.
        input: Box<str>,
    },
    /// The text of a tool's result. Its images follow as parts of their own.
    Result(Text),
    /// Reasoning, which may be encrypted.
    Thinking(Text),
    /// An image or a document.
    Image(Text),
}

impl Part {
    /// Returns the size in bytes: of the text, of the input, or of the decoded image.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) | Self::Result(text) | Self::Thinking(text) | Self::Image(text) => {
                text.bytes
            }
            Self::Call { name, input } => (name.len() + input.len()) as u64,
        }
    }
}

/// A text, known by its hash. The text itself may have been left where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub hash: ContentHash,
    pub bytes: u64,
    pub text: Option<Box<str>>,
}

impl Text {
    /// Creates a text that is kept if it has at most this number of bytes.
    pub fn new(text: &str, max_kept: usize) -> Self {
        let kept = (text.len() <= max_kept).then(|| text.into());
        Self { hash: ContentHash::new(text), bytes: text.len() as u64, text: kept }
    }

    /// Creates a text of other bytes, which are not kept.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { hash: ContentHash::of_bytes(bytes), bytes: bytes.len() as u64, text: None }
    }
}

impl Window {
    /// Returns the messages: the parts of neighbours of one role, together.
    pub fn messages(&self) -> impl Iterator<Item = (Role, &[WindowPart])> {
        self.parts.chunk_by(|one, next| one.role == next.role).map(|parts| (parts[0].role, parts))
    }
}

/// How well a window is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Grade {
    /// Something of the conversation is missing.
    Partial,
    /// The conversation is as it was sent; the system text, the tools or the reasoning are not known.
    Messages,
    /// All of it is as it was sent.
    Exact,
}

impl Grade {
    /// Returns the name of the grade.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Messages => "messages",
            Self::Exact => "exact",
        }
    }
}

/// The messages of a window as JSON.
pub struct Messages<'w>(pub &'w Window);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        for (role, parts) in self.0.messages() {
            let parts: Vec<&Part> = parts.iter().map(|it| &it.part.what).collect();
            messages.serialize_element(&json!({ "role": role, "parts": parts }))?;
        }
        messages.end()
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Text(text) => text.fields("text", &mut map)?,
            Self::Result(text) => text.fields("result", &mut map)?,
            Self::Call { name, input } => {
                map.serialize_entry("kind", "call")?;
                map.serialize_entry("name", name)?;
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!(input));
                map.serialize_entry::<_, Value>("input", &input)?;
            }
            Self::Thinking(text) | Self::Image(text) => {
                let kind = if matches!(self, Self::Image(_)) { "image" } else { "thinking" };
                map.serialize_entry("kind", kind)?;
                map.serialize_entry("sha256", &text.hash)?;
            }
        }
        map.end()
    }
}

impl Text {
    fn fields<M: serde::ser::SerializeMap>(&self, kind: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("kind", kind)?;
        match &self.text {
            Some(text) if text.len() <= MAX_SHOWN_TEXT => map.serialize_entry("text", text),
            _ => {
                map.serialize_entry("sha256", &self.hash)?;
                map.serialize_entry("bytes", &self.bytes)
            }
        }
    }
}
