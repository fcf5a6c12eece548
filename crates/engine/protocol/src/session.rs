//! Sessions and their state.

use std::collections::BTreeMap;

use crate::usage::Usage;
use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use crate::memory::MemberMemory;

/// The fields that a session is created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    pub id: SessionId,
    /// The creation time.
    pub created_at: Millis,
    /// The team's name, if it has one.
    pub name: Option<String>,
    /// The working directory of the team.
    pub directory: String,
    /// The text of the team file, stored so that the session does not depend on the file.
    pub team: String,
    /// The team task.
    pub task: Option<String>,
    /// The kind of rehearsal; `None` for a real session.
    pub rehearsal: Option<Rehearsal>,
}

/// The kind of a rehearsal.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rehearsal {
    /// Every agent is a stand-in.
    StandIn,
    /// The agents' programs run against the rehearsal server.
    Cli,
}

impl Rehearsal {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::StandIn, Self::Cli];

    /// Returns the name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StandIn => "stand-in",
            Self::Cli => "cli",
        }
    }
}

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The fields that the session was created with.
    pub began: NewSession,
    /// The time of the last change.
    pub updated_at: Millis,
    /// The number of the last event.
    pub head: EventNumber,
    pub state: State,
}

/// The state of a conversation: what its events add up to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The team task.
    pub task: Option<String>,
    /// The number of the newest message; 0 without one.
    pub last_message: MessageNumber,
    /// The number in the next message's id. Imports can raise it.
    pub next_message_id: u64,
    /// The newest turn; 0 without one.
    pub last_turn: TurnId,
    /// The last finished message. The turns that it opened run first.
    pub last_finished: Option<MessageNumber>,
    /// The number of consecutive turns that ran first because of it.
    pub in_a_row: u32,
    /// The person to whom control returns when no turn is queued.
    pub asker: Option<MemberName>,
    /// What members remember whose own sessions go on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<MemberName, MemberMemory>,
}

impl State {
    /// Adds an event.
    pub fn apply(&mut self, event: &EventKind) {
        self.remember(event);
        match event {
            EventKind::Created { task, .. } => {
                *self = Self { task: task.clone(), next_message_id: 1, ..Self::default() };
            }
            EventKind::Restored { state } => self.clone_from(state),
            EventKind::Message(message) => {
                self.last_message = message.number;
                let number = message.id().digits().and_then(|digits| digits.parse::<u64>().ok());
                let next = number.unwrap_or(0).saturating_add(1);
                self.next_message_id = self.next_message_id.max(next);
                self.last_finished = Some(message.number);
                self.asker = Some(message.asker.clone());
            }
            EventKind::Task { task, .. } => self.task = Some(task.clone()),
            EventKind::TurnQueued { turn, .. } => self.last_turn = *turn,
            EventKind::TurnStarted { in_a_row, .. } => self.in_a_row = *in_a_row,
            _ => {}
        }
    }

    /// Adds what an event means for the memory of its member. Members without a memory have no entry.
    pub fn remember(&mut self, event: &EventKind) {
        let (EventKind::TurnStarted { member, .. }
        | EventKind::TurnEnded { member, .. }
        | EventKind::TurnInterrupted { member, .. }
        | EventKind::MemoryChanged { member, .. }) = event
        else {
            return;
        };
        let begins = matches!(
            event,
            EventKind::TurnStarted { memory: Some(_), .. } | EventKind::MemoryChanged { .. }
        );
        if !begins && !self.memory.contains_key(member) {
            return;
        }
        let memory = self.memory.entry(member.clone()).or_default();
        memory.apply(event);
        if memory.is_empty() {
            self.memory.remove(member);
        }
    }
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// The team's name.
    pub name: Option<String>,
    /// The working directory of the team.
    pub directory: String,
    /// The kind of rehearsal; `None` for a real session.
    pub rehearsal: Option<Rehearsal>,
    /// The creation time.
    pub created_at: Millis,
    /// The time of the last change.
    pub updated_at: Millis,
    /// The number of messages.
    pub messages: u64,
    /// The number of turns.
    pub turns: u64,
    /// The number of queued turns.
    pub waiting: u64,
    /// The beginning of the first message.
    pub beginning: Option<String>,
}

/// A session that was removed and can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedSession {
    pub session: Summary,
    /// The time of removal.
    pub removed_at: Millis,
}

/// A message that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundMessage {
    pub session: SessionId,
    /// The message.
    pub number: MessageNumber,
    /// The text around the first match.
    pub excerpt: String,
}

/// The cost of one member's attempts, as reported by its agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberCost {
    pub member: MemberName,
    /// The number of attempts.
    pub attempts: u64,
    /// The sum in US dollars; `None` if the agent reported no cost.
    pub cost_usd: Option<f64>,
    /// The tokens that the model counted; `None` if the agent reported none.
    pub usage: Option<Usage>,
}
