//! The store: everything that was said and everything that was sent, safe as soon as a commit returns.
//!
//! A store is small on purpose: rows in, rows out, and one way to write. What the rows mean is decided
//! elsewhere, so that another database can stand behind it. Whatever implements [`Store`] must pass
//! [`crate::conformance`].

pub mod failpoint;
pub mod sqlite;

use std::future::Future;
use std::path::PathBuf;

use convoke_core::name::NameKey;

use crate::clock::utc;
use crate::content::{Content, ContentHash};
use crate::id::{Head, MessageNumber, Millis, SessionId, TurnId};
use crate::progress::Progress;
use crate::request::{NewRequest, RequestRow, RequestTexts, SentRequest};
use crate::session::{NewSession, NumberedMessage, Session, State, Summary};
use crate::thread::{Addition, LoneThread, ThreadLine, ThreadOwner};
use crate::turn::{Attempt, Turn};

/// Keeps sessions.
pub trait Store: Send + Sync + 'static {
    /// Keeps a session for one process; dropping it lets go.
    type Hold: Send + Sync + 'static;

    /// Takes hold of a session, or says who holds it. A holder that died holds nothing.
    fn hold(
        &self,
        session: SessionId,
        holder: Holder,
    ) -> impl Future<Output = Result<Self::Hold, StoreError>> + Send;

    /// Begins a session.
    fn create(&self, session: NewSession) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes all of a commit or nothing of it. When it returns, what was written survives a power cut.
    fn commit(
        &self,
        session: SessionId,
        commit: Commit,
    ) -> impl Future<Output = Result<Head, StoreError>> + Send;

    /// Returns a session.
    fn session(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Session, StoreError>> + Send;

    /// Lists all sessions, the one that changed last first.
    fn sessions(&self) -> impl Future<Output = Result<Vec<Summary>, StoreError>> + Send;

    /// Returns a message.
    fn message(
        &self,
        session: SessionId,
        number: MessageNumber,
    ) -> impl Future<Output = Result<NumberedMessage, StoreError>> + Send;

    /// Returns at most `limit` messages after one, oldest first.
    fn messages_after(
        &self,
        session: SessionId,
        after: MessageNumber,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<NumberedMessage>, StoreError>> + Send;

    /// Returns what an answer can look back on, newest first. Costs what the window holds.
    fn window(
        &self,
        session: SessionId,
        window: Window,
    ) -> impl Future<Output = Result<Vec<NumberedMessage>, StoreError>> + Send;

    /// Returns the turns that wait or are under way, in the order of their numbers.
    fn open_turns(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Vec<Turn>, StoreError>> + Send;

    /// Returns at most `limit` turns after one.
    fn turns_after(
        &self,
        session: SessionId,
        after: TurnId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Turn>, StoreError>> + Send;

    /// Returns the attempts of a turn, in order.
    fn attempts(
        &self,
        session: SessionId,
        turn: TurnId,
    ) -> impl Future<Output = Result<Vec<Attempt>, StoreError>> + Send;

    /// Returns what was stored of an attempt that has not ended, all batches in order; nothing of one that
    /// has.
    fn progress(
        &self,
        session: SessionId,
        turn: TurnId,
        attempt: u32,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Returns a content, after a check of its hash.
    fn content(&self, hash: ContentHash)
    -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Returns the lines of a thread, oldest first; none when there is no such thread.
    fn thread(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<Vec<ThreadLine>, StoreError>> + Send;

    /// Returns the names of the threads that commits or requests of a session have begun, in order.
    fn threads(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;

    /// Returns whose a thread is; `None` when there is no such thread.
    fn thread_owner(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<Option<ThreadOwner>, StoreError>> + Send;

    /// Returns the threads of no session, in the order of their names. Costs what they hold.
    fn lone_threads(&self) -> impl Future<Output = Result<Vec<LoneThread>, StoreError>> + Send;

    /// Removes a thread of no session with its requests. Returns whether there was one.
    fn remove_lone_thread(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Adds lines to a thread outside of any turn, all of them or none. `known` is the number of lines
    /// that the caller has read. They tell of no more than the line before them.
    fn extend_thread(
        &self,
        thread: &str,
        known: usize,
        lines: &[String],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps a request that is about to be sent, for good when it returns. Returns its number in the
    /// thread, from 1. A thread that is not there yet is of the session whose turn sends it.
    fn add_request(
        &self,
        thread: &str,
        request: NewRequest<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Notes what came of a request, in place of what was noted before.
    fn note_request(
        &self,
        thread: &str,
        number: u64,
        outcome: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns the requests of a thread, oldest first, without their texts.
    fn requests(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<Vec<RequestRow>, StoreError>> + Send;

    /// Returns the texts of a request, after a check of their hashes.
    fn request_texts(
        &self,
        thread: &str,
        number: u64,
    ) -> impl Future<Output = Result<RequestTexts, StoreError>> + Send;

    /// Returns the number of a thread's last request, and its texts.
    fn last_request(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<Option<(u64, RequestTexts)>, StoreError>> + Send;

    /// Returns the requests of a thread with their texts, oldest first, as they are at one moment.
    fn sent_requests(
        &self,
        thread: &str,
    ) -> impl Future<Output = Result<Vec<SentRequest>, StoreError>> + Send;

    /// Removes a session with its threads and their requests, and the contents that no other session has.
    fn remove(&self, session: SessionId) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What is written together.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The head that it builds on; on any other it is refused.
    pub on: Head,
    /// When.
    pub at: Millis,
    /// Contents that the attempts name and that may not be stored yet.
    pub contents: Vec<Content>,
    /// New messages. One that is there already is refused.
    pub messages: Vec<NumberedMessage>,
    /// New turns, and turns that changed. One that is done cannot change any more.
    pub turns: Vec<Turn>,
    /// New attempts, and attempts that ended. One that has ended cannot change any more.
    pub attempts: Vec<Attempt>,
    /// What has come of attempts that are under way. It goes when the attempt ends.
    pub progress: Vec<Progress>,
    /// What members remember. A thread that somebody else has gone on with refuses the whole commit.
    pub threads: Vec<Addition>,
    /// What models were sent, the requests of each thread together. One that does not follow the last
    /// one of its thread is refused.
    pub requests: Vec<SentRequest>,
    /// Where the conversation stands after it.
    pub state: State,
}

/// What an answer looks back on: the other answers to the same message, then what came before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The message to answer.
    pub answers: MessageNumber,
    /// The newest message that there was; what came later is not seen.
    pub as_of: MessageNumber,
    /// How many messages at most.
    pub limit: usize,
    /// Who looks.
    pub reader: Reader,
}

/// Who looks back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// Somebody who sees everything.
    Everything,
    /// A member, by all its names: it sees what it wrote, what was sent to it or to everyone.
    Member(Vec<NameKey>),
}

/// Who holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// Since when.
    pub since: Millis,
}

/// A store could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// There is a session of that id already.
    #[error("there is a session {0} already")]
    SessionExists(SessionId),
    /// There is no such message.
    #[error("session {session} has no message {number}")]
    NoMessage {
        /// The session.
        session: SessionId,
        /// The message.
        number: MessageNumber,
    },
    /// A content is not there.
    #[error("no content with the hash {0} is stored")]
    NoContent(ContentHash),
    /// Another process holds the session.
    #[error("session {session} is held by process {} on {} since {}", holder.pid, holder.host, utc(holder.since))]
    Held {
        /// The session.
        session: SessionId,
        /// Who holds it.
        holder: Holder,
    },
    /// The session changed since it was read.
    #[error("session {session} was changed by another process; open it again")]
    Conflict {
        /// The session.
        session: SessionId,
    },
    /// Something would have been recorded twice, or changed after its end.
    #[error("session {session}: {what} is recorded already")]
    Recorded {
        /// The session.
        session: SessionId,
        /// What.
        what: String,
    },
    /// A thread has other lines than those that were read.
    #[error("the thread {0} was changed by another program; nothing was added to it")]
    ThreadChanged(String),
    /// The file is no store of Convoke.
    #[error("{} is not a store of Convoke and was left as it is", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is of another version.
    #[error(
        "{} has format {found} and this version of Convoke reads format {expected}; it was left as it \
         is: {}",
        path.display(),
        if found > expected { "update Convoke" } else { "open it with the version that wrote it" }
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
        /// The format that this version reads.
        expected: u32,
    },
    /// What is stored is not what it should be.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("the database failed: {0}")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}
