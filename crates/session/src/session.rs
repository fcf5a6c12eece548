//! Sessions: a conversation and where it stands.

use convoke_agent::usage::Usage;
use convoke_core::ConversationMessage;
use serde::{Deserialize, Serialize};

use crate::id::{Head, MemberName, MessageNumber, Millis, SessionId, TurnId};

/// What a session begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// When it begins.
    pub created_at: Millis,
    /// The team's name, if it has one.
    pub name: Option<String>,
    /// The directory that the team works in.
    pub directory: String,
    /// The text of the team file, so that the session can go on when that file is gone.
    pub team: String,
    /// What the team is to do.
    pub task: Option<String>,
    /// How it is rehearsed; nothing when it is no rehearsal.
    pub rehearsal: Option<Rehearsal>,
}

/// How a conversation is rehearsed: nobody pays for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rehearsal {
    /// With a stand-in for every agent.
    StandIn,
    /// With the agents' own programs, and a model server of ours.
    Cli,
}

impl Rehearsal {
    /// Every way.
    pub const ALL: [Self; 2] = [Self::StandIn, Self::Cli];

    /// Returns it as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StandIn => "stand-in",
            Self::Cli => "cli",
        }
    }
}

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// What it began with.
    pub began: NewSession,
    /// When it last changed.
    pub updated_at: Millis,
    /// How many commits it has had.
    pub head: Head,
    /// Where it stands.
    pub state: State,
}

/// Where a conversation stands. Every commit writes it anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// What the team is to do.
    pub task: Option<String>,
    /// The newest message; 0 when there is none.
    pub last_message: MessageNumber,
    /// The number in the next message's id, which imported ids may have pushed on.
    pub next_message_id: u64,
    /// The turn that was called for last; 0 when there was none.
    pub last_turn: TurnId,
    /// The message that was finished last: the turns that it opened go on first.
    pub last_finished: Option<MessageNumber>,
    /// How many turns have gone first for that reason, one after another.
    pub in_a_row: u32,
    /// The person who gets the word when nothing is queued.
    pub asker: Option<MemberName>,
}

/// A message and its place in its session.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedMessage {
    /// Its place.
    pub number: MessageNumber,
    /// The place of the message that it answers.
    pub answers: Option<MessageNumber>,
    /// The message.
    pub message: ConversationMessage,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// The team's name.
    pub name: Option<String>,
    /// The directory that the team works in.
    pub directory: String,
    /// How it is rehearsed; nothing when it is no rehearsal.
    pub rehearsal: Option<Rehearsal>,
    /// When it began.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// How many messages it has.
    pub messages: u64,
    /// How many turns were called for.
    pub turns: u64,
    /// How many of them still wait.
    pub waiting: u64,
    /// How the first message begins.
    pub beginning: Option<String>,
}

/// A session that was removed and can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedSession {
    /// The session.
    pub session: Summary,
    /// When it was removed.
    pub removed_at: Millis,
}

/// A message that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundMessage {
    /// The session.
    pub session: SessionId,
    /// The message.
    pub number: MessageNumber,
    /// The text around the first match.
    pub excerpt: String,
}

/// What the attempts of one member cost, as far as its agent reported it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberCost {
    /// The member.
    pub member: MemberName,
    /// The number of attempts.
    pub attempts: u64,
    /// The sum in US dollars; `None` if the agent reported no cost.
    pub cost_usd: Option<f64>,
    /// The tokens that the model counted; `None` if the agent reported none.
    pub usage: Option<Usage>,
}
