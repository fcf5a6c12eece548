//! Threads: what a model remembers, as a log of lines that only grows.
//!
//! What the lines say is the model's matter. A session knows which threads are its members', and for
//! each line how much of the conversation it can tell of, so that a copy of the session as it was
//! earlier does not remember what is not in it.

use convoke_agent::turn::ThreadAppend;

use crate::id::{MessageNumber, SessionId};

/// A line of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLine {
    /// The newest message of the session when the line was added: it tells of none that came later. Of
    /// a thread of no session, and of lines that an earlier version stored, nobody knows.
    pub as_of: Option<MessageNumber>,
    /// What it says.
    pub text: String,
}

/// Whose a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadOwner {
    /// A member's of a session: only who holds the session changes it.
    Session(SessionId),
    /// Nobody's.
    Nobody,
}

/// A thread of no session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneThread {
    /// Its name.
    pub name: String,
    /// The bytes that its lines and its requests take in the store.
    pub bytes: u64,
}

/// Lines for the end of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The thread.
    pub thread: String,
    /// How many lines it had when it was read; with any other number, nothing is added.
    pub known: usize,
    /// The lines.
    pub lines: Vec<ThreadLine>,
}

impl Addition {
    /// Takes what an agent remembers of a turn that ends when this message is the newest.
    pub fn of_turn(memory: ThreadAppend, newest: MessageNumber) -> Self {
        let ThreadAppend { thread, known, lines } = memory;
        let as_of = Some(newest);
        let lines = lines.into_iter().map(|text| ThreadLine { as_of, text }).collect();
        Self { thread, known, lines }
    }
}
