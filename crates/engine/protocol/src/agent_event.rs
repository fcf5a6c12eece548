//! Events of a turn, in one form for every vendor.
//!
//! Texts borrow from the line that they were read from; [`AgentEvent::into_owned`] copies them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_core::figures::{rounded_percent, size, thousands};
use convoke_core::ledger::estimate_tokens;
use serde::{Deserialize, Serialize};

use crate::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use crate::usage::Usage;
use crate::verdict::Verdict;

/// An event of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent<'a> {
    /// The tool call that started the sub-agent of this event; `None` for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<Cow<'a, str>>,
    /// The payload.
    #[serde(rename = "event")]
    pub kind: AgentEventKind<'a>,
}

/// The payload of an event.
///
/// Exhaustive on purpose: secrets must be removed from every text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentEventKind<'a> {
    /// The agent started the turn.
    Started {
        /// The session that a later turn can resume.
        session: Option<Cow<'a, str>>,
        /// The model, if the agent named it.
        model: Option<Cow<'a, str>>,
    },
    /// The agent wrote text.
    Text {
        text: Cow<'a, str>,
        /// Whether the text is complete.
        part: TextPart,
    },
    /// The agent wrote reasoning.
    Thinking {
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
    /// A request to the model is about to be sent, or was sent by the agent's program. Reported only where
    /// requests are recorded.
    Request {
        /// The number of the request in its thread, from 1.
        number: u64,
        purpose: RequestPurpose,
        /// The size of the body, in bytes.
        bytes: u64,
        /// The length of the prefix shared with the previous request, which a provider can cache.
        unchanged_bytes: u64,
    },
    /// The totals of what the model received in this turn. Reported once, at the end, and only where the
    /// requests of the agent's program are recorded.
    Received(Received),
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
        #[serde(
            rename = "waitMs",
            with = "crate::milliseconds::optional",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        wait: Option<Duration>,
        /// The agent's message.
        reason: Cow<'a, str>,
    },
    /// The agent asks before it acts, and waits for an answer.
    PermissionAsked {
        /// The action.
        question: PermissionQuestion,
        /// The time at which an unanswered question is refused, in milliseconds since 1970 by the clock of the agent's machine;
        /// set by the supervisor. Zero if no person is asked.
        expires_at: i64,
    },
    /// A question was answered.
    PermissionAnswered {
        /// The id of the question.
        id: String,
        answer: PermissionAnswer,
        /// The origin of the answer.
        by: AnsweredBy,
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
    Finished { verdict: Verdict },
}

/// The purpose of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RequestPurpose {
    /// A reply.
    Answer,
    /// A summary that replaces earlier history.
    Compaction,
    /// A title for the session.
    Title,
    /// A small request that the agent's program makes for itself, outside the turn.
    Aside,
}

impl RequestPurpose {
    /// Returns the name of the purpose.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Compaction => "compaction",
            Self::Title => "title",
            Self::Aside => "aside",
        }
    }
}

/// Totals of the requests that a model received in one turn of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Received {
    /// The size of the prompt and system text that the agent was given.
    pub handed_over_bytes: u64,
    /// The number of requests that the model received.
    pub requests: u64,
    /// The total size of their bodies.
    pub bytes: u64,
    /// The tokens that the provider counted in them; `None` if it did not count.
    pub tokens: Option<u64>,
    /// The number of requests whose tokens are unknown: the provider sends its count at the end of an answer,
    /// which did not arrive.
    #[serde(default)]
    pub uncounted: u64,
    /// The bytes by owner, largest share first. They add up to `bytes`, unless requests were too large to
    /// store.
    pub shares: Vec<OwnerShare>,
    /// The number of requests that the model did not receive: refused by the provider, or not sent.
    #[serde(default)]
    pub refused: u64,
    /// The reason for the last of these.
    #[serde(default)]
    pub refusal: Option<String>,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handed over {} · ", size(self.handed_over_bytes))?;
        if self.requests > 0 {
            self.fmt_received(f)?;
        }
        let before = match (self.refused, self.requests) {
            (0, _) => return Ok(()),
            (_, 0) => "the model received nothing: ",
            _ => "; ",
        };
        let refused = match self.refused {
            1 => "1 request was refused".to_owned(),
            many => format!("{} requests were refused", thousands(many)),
        };
        write!(f, "{before}{refused}")?;
        self.refusal.iter().try_for_each(|reason| write!(f, " ({reason})"))
    }
}

impl Received {
    fn fmt_received(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, bytes, tokens, uncounted, shares, .. } = self;
        let bytes = (*bytes, size(*bytes));
        write!(f, "the model received {}", bytes.1)?;
        match tokens {
            Some(tokens) => write!(f, " ({} tokens", thousands(*tokens))?,
            None => write!(f, " (about {} tokens", thousands(estimate_tokens(bytes.0)))?,
        }
        match (uncounted, requests) {
            (0, _) => f.write_str(")")?,
            (some, all) if some == all => f.write_str("; the provider's count is unknown)")?,
            (1, _) => f.write_str("; the provider's count for 1 request is unknown)")?,
            (many, _) => {
                write!(f, "; the provider's count for {} requests is unknown)", thousands(*many))?;
            }
        }
        if *requests > 1 {
            write!(f, " in {} requests", thousands(*requests))?;
        }
        let whole = shares.iter().map(|share| share.bytes).sum();
        for (index, OwnerShare { owner, bytes }) in shares.iter().enumerate() {
            let before = if index == 0 { ':' } else { ',' };
            write!(f, "{before} {} {owner}", rounded_percent(*bytes, whole))?;
        }
        Ok(())
    }
}

/// The share of one owner in the requests of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerShare {
    /// The owner: `tools`, `the program's own`, `ours`, or the name of a file.
    pub owner: String,
    pub bytes: u64,
}

/// Whether an event carries a piece of a text or all of it.
///
/// Every text arrives once as a whole. Deltas before it are provisional: a failed stream is repeated, and the
/// whole text may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextPart {
    /// The next piece.
    Delta,
    /// The whole text.
    Whole,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange<'a> {
    /// The path, as the agent wrote it.
    pub path: Cow<'a, str>,
    /// The kind of change, for example `add` or `update`.
    pub change: Cow<'a, str>,
    /// The changed text, if the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<FileDiff<'a>>,
}

/// The text of a change: the file, or the replaced part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff<'a> {
    /// The text before; `None` if the file is new.
    pub before: Option<Cow<'a, str>>,
    /// The text after.
    pub after: Cow<'a, str>,
}

/// An item of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem<'a> {
    pub text: Cow<'a, str>,
    pub state: TodoState,
}

/// The state of a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Parses a state, in any spelling that agents use.
    pub fn parse(word: &str) -> Self {
        match word {
            "completed" | "done" => Self::Completed,
            "in_progress" | "inProgress" => Self::InProgress,
            "cancelled" | "canceled" => Self::Cancelled,
            _ => Self::Pending,
        }
    }
}

impl<'a> AgentEvent<'a> {
    /// Creates an event of the agent itself.
    pub fn own(kind: AgentEventKind<'a>) -> Self {
        Self { sub_agent: None, kind }
    }

    /// Creates an event of a sub-agent, or of the agent itself for `None`.
    pub fn new(sub_agent: Option<Cow<'a, str>>, kind: AgentEventKind<'a>) -> Self {
        Self { sub_agent, kind }
    }

    /// Returns whether the event is a piece of a text that arrives as a whole later.
    pub fn is_piece(&self) -> bool {
        matches!(
            self.kind,
            AgentEventKind::Text { part: TextPart::Delta, .. }
                | AgentEventKind::Thinking { part: TextPart::Delta, .. }
        )
    }

    /// Copies borrowed texts, so that the event outlives its line.
    pub fn into_owned(self) -> AgentEvent<'static> {
        AgentEvent { sub_agent: self.sub_agent.map(owned), kind: self.kind.into_owned() }
    }
}

impl AgentEventKind<'_> {
    fn into_owned(self) -> AgentEventKind<'static> {
        match self {
            Self::Started { session, model } => {
                AgentEventKind::Started { session: session.map(owned), model: model.map(owned) }
            }
            Self::Text { text, part } => AgentEventKind::Text { text: owned(text), part },
            Self::Thinking { text, part } => AgentEventKind::Thinking { text: owned(text), part },
            Self::ToolStarted { id, name, input } => AgentEventKind::ToolStarted {
                id: owned(id),
                name: owned(name),
                input: owned(input),
            },
            Self::ToolFinished { id, ok, output } => {
                AgentEventKind::ToolFinished { id: owned(id), ok, output: owned(output) }
            }
            Self::FileChange { changes } => AgentEventKind::FileChange {
                changes: changes
                    .into_iter()
                    .map(|file| FileChange {
                        path: owned(file.path),
                        change: owned(file.change),
                        diff: file.diff.map(|diff| FileDiff {
                            before: diff.before.map(owned),
                            after: owned(diff.after),
                        }),
                    })
                    .collect(),
            },
            Self::Todo { items } => AgentEventKind::Todo {
                items: items
                    .into_iter()
                    .map(|item| TodoItem { text: owned(item.text), state: item.state })
                    .collect(),
            },
            Self::Request { number, purpose, bytes, unchanged_bytes } => {
                AgentEventKind::Request { number, purpose, bytes, unchanged_bytes }
            }
            Self::Received(received) => AgentEventKind::Received(received),
            Self::Usage(usage) => AgentEventKind::Usage(usage),
            Self::Retry { attempt, max, status, wait, reason } => {
                AgentEventKind::Retry { attempt, max, status, wait, reason: owned(reason) }
            }
            Self::PermissionAsked { question, expires_at } => {
                AgentEventKind::PermissionAsked { question, expires_at }
            }
            Self::PermissionAnswered { id, answer, by } => {
                AgentEventKind::PermissionAnswered { id, answer, by }
            }
            Self::Warning(diagnostic) => AgentEventKind::Warning(diagnostic),
            Self::Unknown { name, json } => {
                AgentEventKind::Unknown { name: owned(name), json: owned(json) }
            }
            Self::Finished { verdict } => AgentEventKind::Finished { verdict },
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_received_is_one_line() {
        let share = |owner: &str, bytes| OwnerShare { owner: owner.to_owned(), bytes };
        let mut received = Received {
            handed_over_bytes: 1_042,
            requests: 1,
            bytes: 184_000,
            tokens: Some(46_155),
            uncounted: 0,
            shares: vec![
                share("tools", 112_000),
                share("the program's own", 70_896),
                share("ours", 1_104),
            ],
            refused: 0,
            refusal: None,
        };
        assert_eq!(
            received.to_string(),
            "handed over 1,042 B · the model received 184 KB (46,155 tokens): 61 % tools, 39 % the program's own, 0.6 % ours"
        );
        received = Received { requests: 2, tokens: None, shares: Vec::new(), ..received };
        assert_eq!(
            received.to_string(),
            "handed over 1,042 B · the model received 184 KB (about 46,000 tokens) in 2 requests"
        );
        let counted = |tokens, uncounted| {
            let received = Received { tokens, uncounted, ..received.clone() }.to_string();
            received.split(['(', ')']).nth(1).unwrap_or_default().to_owned()
        };
        let unknown = "about 46,000 tokens; the provider's count is unknown";
        assert_eq!(counted(None, 2), unknown);
        let one = "30,000 tokens; the provider's count for 1 request is unknown";
        assert_eq!(counted(Some(30_000), 1), one);
        let refusal = Some("429: slow down".to_owned());
        received = Received { refused: 1, refusal, ..received };
        assert_eq!(
            received.to_string(),
            "handed over 1,042 B · the model received 184 KB (about 46,000 tokens) in 2 requests; 1 request was refused (429: slow down)"
        );
        received = Received { requests: 0, bytes: 0, refused: 4, ..received };
        assert_eq!(
            received.to_string(),
            "handed over 1,042 B · the model received nothing: 4 requests were refused (429: slow down)"
        );
    }
}
