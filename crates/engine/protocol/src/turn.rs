//! Turns and their attempts.

use crate::resume::ResumeHandle;
use crate::usage::Usage;
use crate::verdict::Verdict;
use convoke_core::Diagnostic;
use convoke_core::marker::Intent;
use serde::{Deserialize, Serialize};

use crate::content::ContentRef;
use crate::event::{Event, EventKind};
use crate::id::{EventNumber, MemberName, MessageNumber, Millis, TurnId};

/// One member's reply to one message, from the queue to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub id: TurnId,
    /// The member whose turn it is.
    pub member: MemberName,
    /// The message that it answers.
    pub answers: MessageNumber,
    /// The priority.
    pub intent: Intent,
    /// The person who wrote the first message of the chain that led to this turn.
    pub asker: MemberName,
    pub state: TurnState,
    /// The reply; `None` until the turn is done.
    pub reply: Option<MessageNumber>,
    /// The reason why the turn ended without a reply.
    pub problem: Option<String>,
    /// The number of attempts.
    pub attempts: u32,
    /// The time when the turn was queued.
    pub queued_at: Millis,
    /// The time when the turn ended.
    pub ended_at: Option<Millis>,
}

/// The state of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnState {
    /// The turn has not started.
    Queued,
    /// The agent is running.
    Running,
    /// The turn has a reply.
    Done,
    /// The turn failed or timed out; a partial reply is stored with the attempt.
    Failed,
    /// A person cancelled the turn, or a message dropped it from the queue.
    Cancelled,
}

impl TurnState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns the name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the turn is queued or running.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// One attempt at a turn: the exact prompt and its result.
///
/// A turn has more than one attempt if Convoke was killed during the first, or if a person retried it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub turn: TurnId,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The event of its start.
    pub event: EventNumber,
    /// The time when the attempt started.
    pub began_at: Millis,
    /// The version of the engine that assembled the prompt.
    pub engine: String,
    /// The exact prompt.
    pub prompt: ContentRef,
    /// The exact system text; `None` if it is part of the prompt.
    pub system: Option<ContentRef>,
    /// The input of the assembly, as JSON.
    pub input: ContentRef,
    /// The ledger, as JSON.
    pub ledger: ContentRef,
    /// The diagnostics of the assembly.
    pub diagnostics: Vec<Diagnostic>,
    /// The result; `None` while the agent is running.
    pub ended: Option<AttemptResult>,
}

impl Attempt {
    /// Returns the attempt that an event starts; `None` for any other event.
    pub fn started(event: &Event) -> Option<Self> {
        let EventKind::TurnStarted {
            turn,
            attempt,
            engine,
            prompt,
            system,
            input,
            ledger,
            diagnostics,
            ..
        } = event.kind.clone()
        else {
            return None;
        };
        Some(Self {
            turn,
            number: attempt,
            event: event.number?,
            began_at: event.at,
            engine,
            prompt,
            system,
            input,
            ledger,
            diagnostics,
            ended: None,
        })
    }

    /// Returns the bytes of the prompt and the system text.
    pub fn assembled_bytes(&self) -> u64 {
        self.prompt.bytes + self.system.map_or(0, |system| system.bytes)
    }

    /// Returns the bytes of the prompt and the system text that were sent.
    pub fn sent_bytes(&self) -> u64 {
        let is_sent = self.ended.as_ref().is_none_or(|ended| ended.verdict.is_sent());
        if is_sent { self.assembled_bytes() } else { 0 }
    }
}

/// The result of an attempt: its texts are contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptResult {
    /// The time when the attempt ended.
    pub at: Millis,
    pub verdict: Verdict,
    /// The partial reply of an attempt that did not complete. A complete reply is a message.
    pub partial: Option<ContentRef>,
    /// The tokens; `None` if the agent did not count them.
    pub usage: Option<Usage>,
    /// The cost in US dollars; `None` if the agent did not report it.
    pub cost_usd: Option<f64>,
    /// The model; `None` if the agent did not name it.
    pub model: Option<String>,
    /// The handle that resumes the agent's own session.
    pub resume: Option<ResumeHandle>,
    /// The diagnostics of the agent.
    pub diagnostics: Vec<Diagnostic>,
}

impl AttemptResult {
    /// Creates a result with a verdict only.
    pub fn new(at: Millis, verdict: Verdict) -> Self {
        Self {
            at,
            verdict,
            partial: None,
            usage: None,
            cost_usd: None,
            model: None,
            resume: None,
            diagnostics: Vec::new(),
        }
    }
}
