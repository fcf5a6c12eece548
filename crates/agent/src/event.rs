//! Events: what an agent does during a turn, the same for every vendor.
//!
//! Texts borrow from the line that they were read from; [`Event::into_owned`] cuts them loose.

use std::borrow::Cow;

use convoke_core::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;
use crate::verdict::Verdict;

/// One thing that happened during a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// The call that started the sub-agent which did it; `None` when the agent did it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<Cow<'a, str>>,
    /// What happened.
    #[serde(rename = "event")]
    pub kind: EventKind<'a>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventKind<'a> {
    /// The agent took up the turn.
    Started {
        /// The session that a later turn can resume.
        session: Option<Cow<'a, str>>,
        /// The model that the agent says it uses.
        model: Option<Cow<'a, str>>,
    },
    /// The agent wrote text.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// How much of it this is.
        part: Part,
    },
    /// The agent showed its reasoning.
    Thinking {
        /// The text.
        text: Cow<'a, str>,
        /// How much of it this is.
        part: Part,
    },
    /// A tool began to run.
    ToolStarted {
        /// Names the call.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// What it was given, as JSON text.
        input: Cow<'a, str>,
    },
    /// A tool came to its end.
    ToolFinished {
        /// Names the call.
        id: Cow<'a, str>,
        /// Whether it worked.
        ok: bool,
        /// What it returned.
        output: Cow<'a, str>,
    },
    /// Files were changed by a tool that says which.
    FileChange {
        /// The files.
        changes: Vec<FileChange<'a>>,
    },
    /// The agent's list of things to do, whole.
    Todo {
        /// The things, in order.
        items: Vec<TodoItem<'a>>,
    },
    /// A request to the model is about to be sent. Only agents of ours can tell.
    Request {
        /// Its number in the thread, from 1.
        number: u64,
        /// What it is for.
        purpose: Purpose,
        /// The bytes of its body.
        bytes: u64,
        /// How many of them, from the beginning, are those of the request before: a provider can take
        /// these from its cache.
        unchanged_bytes: u64,
    },
    /// Tokens counted so far.
    Usage(Usage),
    /// A request to the model failed and is tried again.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u64,
        /// How many there will be.
        max: Option<u64>,
        /// The HTTP status, when there was one.
        status: Option<u16>,
        /// How long the agent waits before the next attempt, when it says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// Why, in the agent's words.
        reason: Cow<'a, str>,
    },
    /// Something that a user should know; the turn goes on.
    Warning(Diagnostic),
    /// A kind of event that is not known, as it came.
    Unknown {
        /// What the agent calls it.
        name: Cow<'a, str>,
        /// The whole line.
        json: Cow<'a, str>,
    },
    /// The turn is over; the last event.
    Finished {
        /// How it ended.
        verdict: Verdict,
    },
}

/// What a request to a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// An answer.
    Answer,
    /// A summary, which will stand for what was said.
    Compaction,
}

impl Purpose {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Compaction => "compaction",
        }
    }
}

/// How much of a text an event carries.
///
/// Every text comes once as a whole. Deltas run ahead of it and are provisional: a failed stream is
/// repeated, and the whole may differ from what they said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The next piece.
    Delta,
    /// All of it.
    Whole,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange<'a> {
    /// The file, as the agent names it.
    pub path: Cow<'a, str>,
    /// What was done to it, for example `add` or `update`.
    pub change: Cow<'a, str>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TodoItem<'a> {
    /// What is to be done.
    pub text: Cow<'a, str>,
    /// Whether it is done.
    pub state: TodoState,
}

/// How far a thing to do has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TodoState {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Cancelled,
}

impl TodoState {
    /// Reads the word that an agent uses, in any of the spellings that are in use.
    pub fn from_word(word: &str) -> Self {
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

    /// Creates an event of a sub-agent, or of the agent itself when there is none.
    pub fn of(sub_agent: Option<Cow<'a, str>>, kind: EventKind<'a>) -> Self {
        Self { sub_agent, kind }
    }

    /// Copies what is borrowed, so that the event outlives its line.
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
