//! The owners of stored threads.

use convoke_protocol::id::{SessionId, ThreadId};

/// The owner of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadOwner {
    /// A member of a session. Only the process that has locked the session changes the thread.
    Session(SessionId),
    /// No session.
    Nobody,
}

/// A thread of no session, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneThread {
    /// The thread.
    pub id: ThreadId,
    /// The size of its lines and requests in the store.
    pub bytes: u64,
}
