//! Sessions that processes on several machines share.
//!
//! One process at a time holds a session, and only while it runs turns or stores a message. The others read it,
//! and put messages into its inbox. If the next turn is one that the holder does not run, the holder offers the
//! turn and releases the session, and a process that can run the turn claims it.
//!
//! [`Sharing`] is what a store does for that, beside storing. What a process that follows a session does next is
//! [`FollowStep`].

mod following;
mod guard;
mod holder;
mod offer;

use std::pin::Pin;
use std::time::Duration;

use convoke_protocol::event::StopReason;
use convoke_protocol::id::{EventNumber, SessionId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;

pub use self::following::FollowStep;
pub use self::guard::{Guard, MAX_REPEATS};
pub use self::holder::Holder;
pub use self::offer::{
    LeftTurn, NextTurn, NodeOffer, NodeState, NodeTurn, ProjectOrigin, SharedState,
    TurnRequirements, TurnSignal, unclaimable,
};

/// The field of a message that distinguishes it from all others, for a sender that does not know whether it was stored.
pub const SEND_KEY: &str = "sendKey";

/// The answer of a shared store, which takes time.
pub type Answer<'s, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 's>>;

/// Announcements that sessions may have changed.
pub trait Announcements: Send {
    /// The error of the store.
    type Error;

    /// Waits until a session may have changed. The caller then reads the session, including everything announced so far.
    fn wait_for(&mut self, session: SessionId) -> Answer<'_, (), Self::Error>;
}

/// A person can answer in this process, until this is dropped.
pub trait Attendance: Send {}

/// What processes on several machines do to a session beside storing it. A process whose hold has ended is refused.
pub trait Sharing: Send + Sync {
    /// The error of the store.
    type Error;

    /// Returns the time after which a process that says nothing no longer holds its sessions.
    fn patience(&self) -> Duration;

    /// Starts to listen. What is read later includes everything that was announced before.
    fn listen(&self) -> Answer<'_, Box<dyn Announcements<Error = Self::Error>>, Self::Error>;

    /// Gives up what a process without work does not need.
    fn rest(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns the state of a session between the processes that share it.
    fn state(&self, session: SessionId) -> Answer<'_, SharedState, Self::Error>;

    /// Returns a text that changes with everything that [`Self::state`] and the head say of a session; `None` if the
    /// session is gone, or if its next turn is offered and depends on the nodes, too.
    fn glance(&self, session: SessionId) -> Answer<'_, Option<String>, Self::Error>;

    /// Releases a session whose conversation has stopped. Returns `false`, and releases nothing, if the inbox
    /// has messages.
    fn stop<'s>(
        &'s self,
        session: SessionId,
        head: EventNumber,
        stop: &'s StopReason,
    ) -> Answer<'s, bool, Self::Error>;

    /// Releases a session and offers its next turn.
    fn hand_over<'s>(
        &'s self,
        session: SessionId,
        head: EventNumber,
        next: &'s NextTurn,
    ) -> Answer<'s, (), Self::Error>;

    /// Lists the nodes with the turns that they run, in the order of their names.
    fn nodes(&self) -> Answer<'_, Vec<NodeState>, Self::Error>;

    /// Returns the signals for the turns of a session that this process holds.
    fn signals(&self, session: SessionId) -> Answer<'_, Vec<TurnSignal>, Self::Error>;

    /// Asks for the running turns of a session to be cancelled. Returns the number of running turns.
    fn cancel_turns(&self, session: SessionId) -> Answer<'_, usize, Self::Error>;

    /// Answers a question of a running turn's agent. Returns `false` if the question was already answered or its
    /// attempt has ended.
    fn answer_question<'s>(
        &'s self,
        session: SessionId,
        question: &'s QuestionId,
        answer: PermissionAnswer,
    ) -> Answer<'s, bool, Self::Error>;

    /// Returns whether a process can ask a person about a session.
    fn is_attended(&self, session: SessionId) -> Answer<'_, bool, Self::Error>;

    /// Announces that this process can ask a person about a session.
    fn attend(&self, session: SessionId) -> Answer<'_, Box<dyn Attendance>, Self::Error>;

    /// Returns the origin of a session's project.
    fn origin(&self, session: SessionId) -> Answer<'_, Option<ProjectOrigin>, Self::Error>;

    /// Stores the origin of a session's project.
    fn set_origin<'s>(
        &'s self,
        session: SessionId,
        origin: &'s ProjectOrigin,
    ) -> Answer<'s, (), Self::Error>;
}
