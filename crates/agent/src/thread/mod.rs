//! Threads: the stored history that a model's requests are built from.
//!
//! A thread is an append-only log of lines and the requests that were sent in it. [`ThreadStore`] is the interface to
//! both: model members write through it, and the session store implements it. Stores do not interpret the lines.

mod cache;
mod memory;

use std::error::Error;
use std::pin::Pin;

use convoke_protocol::id::ThreadId;
use convoke_protocol::request::{RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};

pub use self::cache::{FirstDifference, WITHHELD};
pub use self::memory::MemoryThreadStore;

/// The future of a [`ThreadStore`] call.
pub type Stored<'s, T> = Pin<Box<dyn Future<Output = Result<T, ThreadStoreError>> + Send + 's>>;

/// A store of threads and their requests.
pub trait ThreadStore: Send + Sync {
    /// Returns the lines of a thread, oldest first; empty if there is no such thread.
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>>;

    /// Appends lines atomically and durably, outside a session's commit. Their `as_of` is that of the previous
    /// line. A new thread belongs to no session.
    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()>;

    /// Stores a request durably before it is sent, and returns its number: one after the thread's last request.
    /// This is the record's number unless another process has sent a request meanwhile. A new thread belongs to
    /// the session of the record's attempt.
    ///
    /// `before` are the texts of the previous request, if the sender has them: the request is then stored as
    /// its difference from them.
    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64>;

    /// Replaces the outcome of a request.
    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()>;

    /// Returns the requests of a thread without their texts, oldest first.
    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>>;

    /// Returns the texts of a request.
    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts>;

    /// Returns the last request of a thread.
    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>>;
}

/// An error of a [`ThreadStore`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadStoreError {
    /// The thread has changed since the caller read it.
    #[error("the thread {0} was changed by another program; nothing was added to it")]
    Changed(ThreadId),
    /// The thread has no such request.
    #[error("the thread {thread} has no request {number}")]
    NoRequest {
        /// The thread.
        thread: ThreadId,
        /// The number.
        number: u64,
    },
    /// The underlying store failed.
    #[error(transparent)]
    Failed(#[from] Box<dyn Error + Send + Sync>),
}
