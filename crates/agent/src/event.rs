//! Events of a turn, in one form for every vendor.
//!
//! Texts borrow from the line that they were read from; [`Event::into_owned`] copies them.

use std::borrow::Cow;

use convoke_core::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;
use crate::verdict::Verdict;

/// An event of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// The tool call that started the sub-agent of this event; `None` for the agent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<Cow<'a, str>>,
    /// The payload.
    #[serde(rename = "event")]
    pub kind: EventKind<'a>,
}

/// The payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The agent started the turn.
    Started {
        /// The session that a later turn can resume.
        session: Option<Cow<'a, str>>,
        /// The model, if the agent named it.
        model: Option<Cow<'a, str>>,
    },
    /// The agent wrote text.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// Whether the text is complete.
        part: TextPart,
    },
    /// The agent wrote reasoning.
    Thinking {
        /// The text.
        text: Cow<'a, str>,
        /// Whether the text is complete.
        part: TextPart,
    },
    /// A tool call started.
    ToolStarted {
        /// The id of the call.
        id: Cow<'a, str>,
        /// The name of the tool.
        name: Cow<'a, str>,
        /// The input, as JSON text.
        input: Cow<'a, str>,
    },
    /// A tool call finished.
    ToolFinished {
        /// The id of the call.
        id: Cow<'a, str>,
        /// Whether it succeeded.
        ok: bool,
        /// The output.
        output: Cow<'a, str>,
    },
    /// A tool reported the files that it changed.
    FileChange {
        /// The files.
        changes: Vec<FileChange<'a>>,
    },
    /// The agent's complete to-do list.
    Todo {
        /// The items, in order.
        items: Vec<TodoItem<'a>>,
    },
    /// A request to the model is about to be sent. Reported by model members only.
    Request {
        /// Its number in the thread, from 1.
        number: u64,
        /// The purpose.
        purpose: RequestPurpose,
        /// The size of its body.
        bytes: u64,
        /// The length of the prefix shared with the previous request, which a provider can cache.
        unchanged_bytes: u64,
    },
    /// The tokens counted so far.
    Usage(Usage),
    /// A request to the model failed and will be retried.
    Retry {
        /// The number of the failed attempt, from 1.
        attempt: u64,
        /// The maximum number of attempts, if the agent reported it.
        max: Option<u64>,
        /// The HTTP status, if there was a response.
        status: Option<u16>,
        /// The delay before the next attempt, if the agent reported it.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// The agent's message.
        reason: Cow<'a, str>,
    },
    /// A diagnostic; the turn continues.
    Warning(Diagnostic),
    /// An event of an unknown kind, verbatim.
    Unknown {
        /// The agent's name of the kind.
        name: Cow<'a, str>,
        /// The whole line.
        json: Cow<'a, str>,
    },
    /// The turn ended. Always the last event.
    Finished {
        /// The verdict.
        verdict: Verdict,
    },
}

/// The purpose of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestPurpose {
    /// A reply.
    Answer,
    /// A summary that replaces earlier history.
    Compaction,
}

impl RequestPurpose {
    /// Returns the name of the purpose.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Compaction => "compaction",
        }
    }
}

/// Whether an event carries a piece of a text or all of it.
///
/// Every text arrives once as a whole. Deltas precede it and are provisional: a failed stream is
/// repeated, and the whole text may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TextPart {
    /// The next piece.
    Delta,
    /// All of it.
    Whole,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange<'a> {
    /// The path, as the agent wrote it.
    pub path: Cow<'a, str>,
    /// The kind of change, for example `add` or `update`.
    pub change: Cow<'a, str>,
}

/// An item of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TodoItem<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The state.
    pub state: TodoState,
}

/// The state of a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TodoState {
    /// Not started.
    Pending,
    /// Started.
    InProgress,
    /// Done.
    Completed,
    /// Abandoned.
    Cancelled,
}

impl TodoState {
    /// Parses the state in any of the spellings that agents use.
    pub fn parse(word: &str) -> Self {
        match word {
            "completed" | "done" => Self::Completed,
            "in_progress" | "inProgress" => Self::InProgress,
            "cancelled" | "canceled" => Self::Cancelled,
            _ => Self::Pending,
        }
    }
}

impl<'a> Event<'a> {
    /// Creates an event of the agent itself.
    pub fn own(kind: EventKind<'a>) -> Self {
        Self { sub_agent: None, kind }
    }

    /// Creates an event of a sub-agent, or of the agent itself for `None`.
    pub fn of(sub_agent: Option<Cow<'a, str>>, kind: EventKind<'a>) -> Self {
        Self { sub_agent, kind }
    }

    /// Copies borrowed texts, so that the event outlives its line.
    pub fn into_owned(self) -> Event<'static> {
        Event { sub_agent: self.sub_agent.map(owned), kind: self.kind.into_owned() }
    }
}

impl EventKind<'_> {
    fn into_owned(self) -> EventKind<'static> {
        match self {
            Self::Started { session, model } => {
                EventKind::Started { session: session.map(owned), model: model.map(owned) }
            }
            Self::Text { text, part } => EventKind::Text { text: owned(text), part },
            Self::Thinking { text, part } => EventKind::Thinking { text: owned(text), part },
            Self::ToolStarted { id, name, input } => {
                EventKind::ToolStarted { id: owned(id), name: owned(name), input: owned(input) }
            }
            Self::ToolFinished { id, ok, output } => {
                EventKind::ToolFinished { id: owned(id), ok, output: owned(output) }
            }
            Self::FileChange { changes } => EventKind::FileChange {
                changes: changes
                    .into_iter()
                    .map(|file| FileChange { path: owned(file.path), change: owned(file.change) })
                    .collect(),
            },
            Self::Todo { items } => EventKind::Todo {
                items: items
                    .into_iter()
                    .map(|item| TodoItem { text: owned(item.text), state: item.state })
                    .collect(),
            },
            Self::Request { number, purpose, bytes, unchanged_bytes } => {
                EventKind::Request { number, purpose, bytes, unchanged_bytes }
            }
            Self::Usage(usage) => EventKind::Usage(usage),
            Self::Retry { attempt, max, status, wait_ms, reason } => {
                EventKind::Retry { attempt, max, status, wait_ms, reason: owned(reason) }
            }
            Self::Warning(diagnostic) => EventKind::Warning(diagnostic),
            Self::Unknown { name, json } => {
                EventKind::Unknown { name: owned(name), json: owned(json) }
            }
            Self::Finished { verdict } => EventKind::Finished { verdict },
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}
