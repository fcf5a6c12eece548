//! Events: what an observer of a conversation sees, as it happens.
//!
//! Their JSON form is what `convoke run --json` writes, one a line: `type` names the event, other fields
//! are in camel case, and fields are only ever added.

use convoke_agent::Verdict;
use convoke_agent::usage::Usage;
use convoke_core::marker::Intent;
use convoke_core::{Diagnostic, MessageId};
use serde::Serialize;

use crate::content::ContentRef;
use crate::id::{MemberName, MessageNumber, Millis, SessionId, TurnId};
use crate::turn::TurnState;

/// One thing that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The session is held by this process.
    Opened {
        /// The session.
        session: SessionId,
        /// How many messages it has.
        messages: u64,
        /// How many turns wait.
        waiting: u64,
        /// Turns that were under way when the last holder died; they are taken first.
        interrupted: Vec<TurnId>,
    },
    /// A message was stored: it is safe from now on.
    Message {
        /// Its id.
        id: MessageId,
        /// Its place.
        number: MessageNumber,
        /// Who said it.
        from: MemberName,
        /// Whom it calls; nobody is everyone.
        to: Vec<MemberName>,
        /// The message that it answers.
        in_reply_to: Option<MessageId>,
        /// What was said, without markers.
        text: String,
        /// When.
        at: Millis,
    },
    /// The team task was set.
    Task {
        /// The task.
        task: String,
        /// Who set it.
        by: MemberName,
    },
    /// A turn was called for and waits.
    TurnQueued {
        /// The turn.
        turn: TurnId,
        /// Whose it is.
        member: MemberName,
        /// The message that called for it.
        answers: MessageNumber,
        /// How urgently.
        intent: Intent,
    },
    /// A waiting turn was dropped by a message.
    TurnDropped {
        /// The turn.
        turn: TurnId,
        /// Whose it was.
        member: MemberName,
    },
    /// What is sent was stored, and is being sent.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// Whose it is.
        member: MemberName,
        /// The message that it answers.
        answers: MessageNumber,
        /// Which attempt it is.
        attempt: u32,
        /// The prompt.
        prompt: ContentRef,
        /// The system text, when it travels apart.
        system: Option<ContentRef>,
        /// The estimated tokens of both.
        tokens_estimate: u64,
        /// How many context messages the prompt has to choose from.
        context: usize,
    },
    /// The agent did something.
    Agent {
        /// The turn.
        turn: TurnId,
        /// Whose it is.
        member: MemberName,
        /// What it did, without secrets.
        event: convoke_agent::event::Event<'static>,
    },
    /// A turn came to its end, and everything about it is stored.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// Whose it was.
        member: MemberName,
        /// What became of it.
        state: TurnState,
        /// How the agent's part ended.
        outcome: Verdict,
        /// The reply.
        reply: Option<MessageId>,
        /// The bytes of a reply that was not finished.
        partial_bytes: u64,
        /// The tokens, when the agent counted them.
        usage: Option<Usage>,
        /// The money, when the agent counted it.
        cost_usd: Option<f64>,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// Something that a user should know.
    Diagnostic {
        /// The turn that it concerns.
        turn: Option<TurnId>,
        /// What it is.
        diagnostic: Diagnostic,
    },
    /// The conversation stopped; everything is saved.
    Stopped(StopReason),
}

/// Why a conversation stopped. Each leaves it in a state from which it can go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StopReason {
    /// Nothing is queued: the person who asked gets the word.
    Idle {
        /// That person.
        person: MemberName,
    },
    /// It is the turn of a person who was addressed.
    Addressed {
        /// That person.
        person: MemberName,
        /// The person's turn.
        turn: TurnId,
        /// The message that it answers.
        answers: MessageNumber,
    },
    /// Turns were not done; the person is asked what to do. What waits is still queued.
    TurnFailed {
        /// The person who asked for the first of them.
        person: MemberName,
        /// The turns.
        turns: Vec<FailedTurn>,
    },
    /// A person cancelled the turn that was under way.
    Cancelled {
        /// The person who asked.
        person: MemberName,
    },
    /// A person left.
    Left,
    /// There were as many turns as there may be without a person.
    TurnLimit {
        /// The person who asked.
        person: MemberName,
        /// The limit.
        limit: u64,
    },
    /// A member said the same thing again and again.
    Repetition {
        /// The person who asked.
        person: MemberName,
        /// The member.
        member: MemberName,
        /// How often.
        times: u32,
    },
    /// More turns were called for than may wait.
    QueueFull {
        /// The person who asked.
        person: MemberName,
        /// The limit.
        limit: u64,
        /// How many were left out.
        left_out: u64,
    },
}

/// A turn that was not done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Whose it was.
    pub member: MemberName,
    /// The person who asked.
    pub asker: MemberName,
    /// How it ended.
    pub outcome: Verdict,
}
