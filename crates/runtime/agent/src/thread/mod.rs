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

    /// Drops the texts of a thread's oldest requests if all of them take more than these bytes in the store, and more
    /// than needed, so that not every further request drops some. The last request keeps its texts. Returns the number
    /// of requests that lost them, which are marked as [dropped](convoke_protocol::request::RequestMeta::dropped).
    fn limit_texts<'s>(&'s self, thread: &'s ThreadId, max_bytes: u64) -> Stored<'s, u64>;
}

/// Returns the first request that keeps its texts within a limit of bytes, by the sizes of a thread's requests, newest first;
/// `None` if all keep them.
pub fn first_kept(newest_first: impl Iterator<Item = (u64, u64)>, max_bytes: u64) -> Option<u64> {
    let (mut first, mut bytes) = (None, 0_u64);
    for (number, size) in newest_first {
        bytes = bytes.saturating_add(size);
        // A quarter stays free for the requests to come.
        if first.is_none() || bytes <= max_bytes - max_bytes / 4 {
            first = Some(number);
        }
    }
    first.filter(|_| bytes > max_bytes)
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
    NoRequest { thread: ThreadId, number: u64 },
    /// The underlying store failed.
    #[error(transparent)]
    Failed(#[from] Box<dyn Error + Send + Sync>),
}
