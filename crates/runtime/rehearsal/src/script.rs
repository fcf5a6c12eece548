//! Scripts: the model's answers, call by call.
//!
//! A script is written in TOML or JSON. Each model call gets the first unused answer whose `when` matches, else the
//! default answer.
//!
//! ```toml
#![doc = include_str!("../examples/script.toml")]
//! ```
//!
//! A side request of the program, which asks for JSON of a given schema and offers no tools, gets an answer of the script
//! only by `when`, else the smallest value that the schema allows.
//!
//! A `call` whose input is a string is a free-form tool call where the wire has such a thing
//! (Responses), and `{"input": …}` elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use convoke_files::FileKind;
use convoke_files::limit::read_named_text;
use convoke_protocol::wire::Wire;
use serde::Deserialize;
use serde_json::Value;

mod file;

/// The model's answers, call by call.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The answers, in order.
    pub answers: Vec<Answer>,
    pub default: Answer,
}

impl Default for Script {
    fn default() -> Self {
        Self::new([])
    }
}

impl Script {
    /// The text of the default answer.
    pub const DEFAULT_TEXT: &str = "This is a rehearsal: no model was asked.";

    /// Creates a script from its answers, with the standard default.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { answers: answers.into_iter().collect(), default: Answer::say(Self::DEFAULT_TEXT) }
    }

    /// Sets the default answer.
    #[must_use]
    pub fn with_default(mut self, answer: Answer) -> Self {
        self.default = answer;
        self
    }

    /// Reads a script from a file: JSON if its name ends in `.json`, else TOML.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = read_named_text(path, FileKind::Input)
            .map_err(|source| ScriptError::Unreadable { path: path.to_owned(), source })?;
        let read = if path.extension().is_some_and(|extension| extension == "json") {
            Self::from_json(&text)
        } else {
            Self::from_toml(&text)
        };
        read.map_err(|error| error.in_file(path))
    }

    /// Reads a script from TOML.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let file: file::Script =
            toml::from_str(text).map_err(|error| ScriptError::invalid(&error))?;
        file.try_into()
    }

    /// Reads a script from JSON.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let file: file::Script =
            serde_json::from_str(text).map_err(|error| ScriptError::invalid(&error))?;
        file.try_into()
    }
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The calls that it matches.
    pub when: Condition,
    /// The time before its first byte.
    pub delay: Duration,
    pub content: Content,
}

/// The content of an answer: a reply of the model, or an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// The model replies.
    Reply(Reply),
    /// The server refuses.
    Error(HttpError),
    /// The server sends these bytes, whatever it was asked for.
    Raw(RawAnswer),
}

/// An answer in the bytes of its wire format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawAnswer {
    /// Its content type.
    pub content_type: &'static str,
    /// Its body.
    pub body: Bytes,
}

impl From<Content> for Answer {
    fn from(content: Content) -> Self {
        Self { when: Condition::default(), delay: Duration::ZERO, content }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Content::Reply(reply).into()
    }
}

impl Answer {
    /// A reply of one piece of text.
    pub fn say(text: impl Into<String>) -> Self {
        Reply::default().say(text).into()
    }

    /// A reply of one tool call.
    pub fn call(name: impl Into<String>, input: Value) -> Self {
        Reply::default().call(name, input).into()
    }

    /// An HTTP error.
    pub fn error(status: u16) -> Self {
        Content::Error(HttpError::new(status, format!("rehearsed error {status}"))).into()
    }

    /// An event stream in the bytes of its wire format.
    pub fn events(body: impl Into<Bytes>) -> Self {
        let content_type = "text/event-stream";
        Content::Raw(RawAnswer { content_type, body: body.into() }).into()
    }

    /// A whole answer in the bytes of its wire format.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Content::Raw(RawAnswer { content_type: "application/json", body: body.into() }).into()
    }

    /// Adds a header, where the answer is an error.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Content::Error(error) = &mut self.content {
            error.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Restricts the answer to matching calls.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.when = condition;
        self
    }
}

/// A condition on calls; absent fields match every call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The wire format of the call.
    pub wire: Option<Wire>,
    /// The model that is called.
    pub model: Option<String>,
    /// A text that the body must contain.
    pub contains: Option<String>,
}

/// A reply of the model: its steps, in order, and its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// The steps, in order.
    pub steps: Vec<ReplyStep>,
    pub end: End,
    /// The token counts; estimated if absent.
    pub usage: Option<Usage>,
}

impl Reply {
    /// Adds a piece of text: one chunk of the stream.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.step(ReplyStep::Say(text.into()))
    }

    /// Adds a piece of reasoning: one chunk of the stream.
    #[must_use]
    pub fn think(self, text: impl Into<String>) -> Self {
        self.step(ReplyStep::Think(text.into()))
    }

    /// Adds a wait.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.step(ReplyStep::Wait(time))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(self, name: impl Into<String>, input: Value) -> Self {
        let name = name.into();
        self.step(ReplyStep::Call { name, input })
    }

    /// Sets the end.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Sets the token counts.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    fn step(mut self, step: ReplyStep) -> Self {
        self.steps.push(step);
        self
    }
}

/// One step of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyStep {
    /// A piece of text.
    Say(String),
    /// A piece of reasoning.
    Think(String),
    /// Adds a tool call.
    Call {
        /// The tool's name.
        name: String,
        input: Value,
    },
    /// Waits.
    Wait(Duration),
}

/// The end of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Complete: the model is done, or waits for its tools.
    #[default]
    Done,
    /// The model reached its limit of output tokens.
    MaxTokens,
    /// The model refuses, or a filter stops it.
    Refused,
    /// The stream ends with an error event.
    Failed,
    /// The connection is cut.
    Cut,
    /// Nothing more is sent, and the connection stays open.
    Hang,
}

/// The token counts of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    #[serde(default)]
    pub input: u64,
    /// Tokens of the reply.
    #[serde(default)]
    pub output: u64,
    /// Tokens of the request that came from a cache.
    #[serde(default)]
    pub cached: u64,
}

/// An HTTP error instead of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    /// The status, 400 to 599.
    pub status: u16,
    /// The message of the error object.
    pub message: String,
    /// Headers, for example `retry-after`.
    pub headers: Vec<(String, String)>,
}

impl HttpError {
    /// Creates an error without headers.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), headers: Vec::new() }
    }
}

/// An error of a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not a script.
    #[error("the script {}is not valid: {reason}", path.as_ref().map(|path| format!("{} ", path.display())).unwrap_or_default())]
    Invalid {
        /// The file, if there is one.
        path: Option<PathBuf>,
        /// The error and its position.
        reason: String,
    },
}

impl ScriptError {
    fn invalid(reason: &impl ToString) -> Self {
        Self::Invalid { path: None, reason: reason.to_string().trim_end().to_owned() }
    }

    fn in_file(self, file: &Path) -> Self {
        match self {
            Self::Invalid { path: None, reason } => {
                Self::Invalid { path: Some(file.to_owned()), reason }
            }
            other => other,
        }
    }
}
