//! What a process that does not hold a session does next.

use convoke_protocol::event::StopReason;
use convoke_protocol::id::MemberName;

use crate::{NextTurn, SharedState};

/// The next step of a process that does not hold a session.
#[derive(Debug, PartialEq)]
pub enum FollowStep {
    /// Claim the session; its offered turn carries the counts of the conversation so far.
    Claim(Option<NextTurn>),
    /// Look again when something has changed.
    Wait,
    /// The conversation has stopped.
    Stop(StopReason),
}

impl FollowStep {
    /// Determines the next step for a session. A person who has just sent a message continues a stopped
    /// conversation.
    pub fn new(
        state: SharedState,
        is_elsewhere: impl Fn(&MemberName) -> bool,
        is_asked_for: bool,
    ) -> Self {
        if state.holder.is_some() {
            return Self::Wait;
        }
        match (state.next, state.stopped) {
            _ if state.has_messages => Self::Claim(None),
            (Some(next), _) if is_elsewhere(&next.member) => Self::Wait,
            (Some(next), _) => Self::Claim(Some(next)),
            (None, Some(stop)) if !is_asked_for => Self::Stop(stop),
            (None, _) => Self::Claim(None),
        }
    }
}
