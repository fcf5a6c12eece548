//! Threads in a store of sessions: whose each of them is.

use crate::id::{SessionId, ThreadId};

/// The owner of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadOwner {
    /// A member of a session: only the process that holds the session changes the thread.
    Session(SessionId),
    /// No session.
    Nobody,
}

/// A thread of no session, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneThread {
    /// The thread.
    pub id: ThreadId,
    /// The bytes that its lines and requests take in the store.
    pub bytes: u64,
}
