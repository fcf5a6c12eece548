//! What members remember: the sessions of their own programs, and what these were sent.

use serde::{Deserialize, Serialize};

use crate::content::ContentHash;
use crate::event::EventKind;
use crate::id::{MessageNumber, TurnId};
use crate::resume::ResumeHandle;
use crate::turn::TurnState;

/// The memory of a member whose own session goes on from turn to turn: what its events add up to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberMemory {
    /// The session after the last turn that arrived; `None` if the next turn starts afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Remembered>,
    /// The attempt that is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningMemory>,
    /// Whether the program's session may hold more than [`Self::last`], of attempts that did not arrive as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ahead: bool,
}

/// A program's session, as it was after an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub turn: TurnId,
    pub attempt: u32,
    /// The handle that continues the session.
    pub session: ResumeHandle,
    pub known: Known,
}

/// What the model of a session was given by us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Known {
    /// No message up to this one is new, except those that were left.
    pub through: MessageNumber,
    /// Earlier messages that the member has yet to be sent, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<MessageNumber>,
    /// The team task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ContentHash>,
    /// The member's own texts: role, instructions, briefing and instruction file.
    pub texts: ContentHash,
    /// The text about workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<ContentHash>,
}

/// How an attempt uses its member's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryUse {
    /// What the attempt continues; `None` if it starts a session with the whole prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continued>,
    /// What the model was given once the attempt has arrived.
    pub known: Known,
}

/// The state of a session that an attempt continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continued {
    /// The program's own id of the session.
    pub session: String,
    /// The attempt after which it was in that state.
    pub turn: TurnId,
    pub attempt: u32,
    pub branch: Branch,
}

/// Where a continued session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Branch {
    /// In the session itself.
    #[default]
    Same,
    /// In a new session, which begins with the state: the session itself went on otherwise, or belongs to another
    /// conversation.
    New,
}

/// A running attempt of a member that remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningMemory {
    pub turn: TurnId,
    pub attempt: u32,
    pub known: Known,
}

impl MemberMemory {
    /// Returns whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds an event of the member.
    pub(crate) fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::TurnStarted { turn, attempt, memory: Some(memory), .. } => {
                if memory.continues.is_none() {
                    *self = Self::default();
                }
                let (turn, attempt, known) = (*turn, *attempt, memory.known.clone());
                self.running = Some(RunningMemory { turn, attempt, known });
            }
            EventKind::TurnStarted { .. } => *self = Self::default(),
            EventKind::TurnEnded { turn, attempt, state, result, .. } => {
                let Some(running) = self.take_running(*turn, *attempt) else { return };
                if *state == TurnState::Done {
                    let session = result.resume.clone();
                    let remembered = session.map(|session| Remembered {
                        turn: running.turn,
                        attempt: running.attempt,
                        session,
                        known: running.known,
                    });
                    (self.last, self.is_ahead) = (remembered, false);
                } else {
                    self.is_ahead |= self.last.is_some() && result.verdict.is_sent();
                }
            }
            EventKind::TurnInterrupted { turn, attempt, .. } => {
                let was_running = self.take_running(*turn, *attempt).is_some();
                self.is_ahead |= was_running && self.last.is_some();
            }
            EventKind::MemoryChanged { to, .. } => {
                self.last = to.as_deref().cloned();
                self.is_ahead = self.last.is_some();
            }
            _ => {}
        }
    }

    fn take_running(&mut self, turn: TurnId, attempt: u32) -> Option<RunningMemory> {
        self.running.take_if(|it| (it.turn, it.attempt) == (turn, attempt))
    }
}
