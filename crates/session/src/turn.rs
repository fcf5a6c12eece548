//! Turns: a member's chance to answer a message, and the attempts that were made of it.

use convoke_agent::Verdict;
use convoke_agent::turn_input::ResumeHandle;
use convoke_agent::usage::Usage;
use convoke_core::marker::Intent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::ContentRef;
use crate::id::{MemberName, MessageNumber, Millis, TurnId};

/// A member's chance to answer a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its number.
    pub id: TurnId,
    /// Whose turn it is.
    pub member: MemberName,
    /// The message that called for it, which it answers.
    pub answers: MessageNumber,
    /// How urgently it was called for.
    pub intent: Intent,
    /// The person at the beginning of the chain of messages that led here.
    pub asker: MemberName,
    /// How far it has come.
    pub state: TurnState,
    /// The message that came of it.
    pub reply: Option<MessageNumber>,
    /// Why it ended without a reply, in words.
    pub problem: Option<String>,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was called for.
    pub queued_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnState {
    /// It waits.
    Queued,
    /// The member is at work.
    Running,
    /// There is a reply.
    Done,
    /// It failed or took too long; what there is of a reply is kept with the attempt.
    Failed,
    /// A person cancelled it, or a message dropped it from the queue.
    Cancelled,
}

impl TurnState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    /// Returns the state as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Tells whether the turn still has to be taken.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// One time that a turn was begun: exactly what was sent, and what came back.
///
/// A turn has more than one attempt when Convoke was killed during the first, or when a person had a
/// failed turn tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The turn.
    pub turn: TurnId,
    /// Which attempt it is, from 1.
    pub number: u32,
    /// When it was begun.
    pub began_at: Millis,
    /// The version of the engine that assembled the prompt.
    pub engine: String,
    /// The exact prompt.
    pub prompt: ContentRef,
    /// The exact system text, when it travelled apart.
    pub system: Option<ContentRef>,
    /// All that they were assembled from: [`crate::prompt::PromptInput`] as JSON.
    pub input: ContentRef,
    /// The ledger, as JSON.
    pub ledger: ContentRef,
    /// What the assembly had to say, as a JSON list of diagnostics.
    pub diagnostics: Value,
    /// What came back; nothing while the agent is at work.
    pub ended: Option<Ended>,
}

/// What came back from an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// When.
    pub at: Millis,
    /// How it ended.
    pub verdict: Verdict,
    /// What there is of a reply that was not finished. A finished one is a message.
    pub partial: Option<ContentRef>,
    /// The events, one JSON object a line, without the pieces that run ahead of whole texts.
    pub events: Option<ContentRef>,
    /// The tokens, when the agent counted them.
    pub usage: Option<Usage>,
    /// The money, when the agent counted it, in US dollars.
    pub cost_usd: Option<f64>,
    /// The model, when the agent named it.
    pub model: Option<String>,
    /// What could resume the agent's own session.
    pub resume: Option<ResumeHandle>,
    /// What the agent had to say, as a JSON list of diagnostics.
    pub diagnostics: Value,
}
