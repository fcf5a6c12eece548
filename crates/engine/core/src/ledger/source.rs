//! The sources of texts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::owned;

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Source<'a> {
    /// A message of the conversation, or of the user of a thread.
    Message {
        /// The id, if the message has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// The position among the context messages, or among the items of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// A file, or some lines of it.
    File {
        /// The path as given.
        path: Cow<'a, str>,
        /// The first and last line, 1-based; `None` for the whole file.
        #[serde(skip_serializing_if = "Option::is_none")]
        lines: Option<(u64, u64)>,
    },
    /// A setting, by its name.
    Setting {
        /// The setting's name.
        name: Cow<'a, str>,
    },
    /// Convoke itself: a header, a separator, a mark, the JSON of a request.
    Convoke {
        /// The part that was written, for example `header`.
        what: Cow<'a, str>,
    },
    /// A vendor's program: its own text in a captured request.
    Program {
        /// The part that was written: the name of a tool, or how a text begins.
        what: Cow<'a, str>,
    },
    /// The output of a tool.
    Tool {
        /// The id of the tool call.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<Cow<'a, str>>,
        /// The position among the items of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// An earlier run of a thread whose record does not name sources.
    History {
        /// The position among the items of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// A model.
    Model {
        /// The id that the server assigned.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// The position among the items of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
}

impl<'a> Source<'a> {
    /// Returns the source of a setting.
    pub const fn setting(name: &'a str) -> Self {
        Self::Setting { name: Cow::Borrowed(name) }
    }

    /// Returns the source of a text of Convoke's own.
    pub const fn convoke(what: &'a str) -> Self {
        Self::Convoke { what: Cow::Borrowed(what) }
    }

    /// Returns the source of a whole file.
    pub fn file(path: impl Into<Cow<'a, str>>) -> Self {
        Self::File { path: path.into(), lines: None }
    }

    /// Returns a source that borrows nothing.
    pub fn into_owned(self) -> Source<'static> {
        match self {
            Self::Message { id, index } => Source::Message { id: id.map(owned), index },
            Self::File { path, lines } => Source::File { path: owned(path), lines },
            Self::Setting { name } => Source::Setting { name: owned(name) },
            Self::Convoke { what } => Source::Convoke { what: owned(what) },
            Self::Program { what } => Source::Program { what: owned(what) },
            Self::Tool { call, index } => Source::Tool { call: call.map(owned), index },
            Self::History { index } => Source::History { index },
            Self::Model { id, index } => Source::Model { id: id.map(owned), index },
        }
    }
}
