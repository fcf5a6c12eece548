//! Lines of threads: the stored history that a model's requests are built from.

use crate::id::{MessageNumber, ThreadId};

/// A line of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLine {
    /// The newest message of the session when the line was added; the line depends on no later one. `None` in a
    /// thread without a session, and in lines that early versions stored.
    pub as_of: Option<MessageNumber>,
    pub text: String,
}

/// Lines to append to a thread, atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadAppend {
    pub thread: ThreadId,
    /// The number of lines that the thread had when it was read. With any other number, the append is refused.
    pub known: usize,
    pub lines: Vec<String>,
}
