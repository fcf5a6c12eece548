//! The store: sessions, threads and requests, durable as soon as a commit returns.
//!
//! A store only reads and writes rows. The meaning of the rows is decided elsewhere, so that another database can
//! implement it. Every implementation of [`Store`] must pass the suite in `conformance/store`. Each method that writes is one
//! transaction, which in a shared store is refused without the lease of the session, except [`Store::say`]:
//!
//! | method | writes |
//! |---|---|
//! | [`Store::create`] | an empty session |
//! | [`Store::commit`] | a step of a running session: events with the rows that follow from them, pieces of texts, lines of threads |
//! | [`Store::say`] | a message into the inbox of a session; the commit that stores it removes it there |
//! | [`Store::import`] | a whole session, which is visible after the last page |
//! | [`Store::rename`], [`Store::set_removed`] | the name of a session, and whether it is removed |
//! | [`Store::remove`] | deletes a session |
//! | [`ThreadStore::add_request`], [`ThreadStore::set_outcome`] | a request before it is sent, and its outcome |
//! | [`ThreadStore::append_lines`], [`Store::remove_lone_thread`] | a thread of no session |
//!
//! `PostgresStore` also writes what processes on several machines share: offers, signals, nodes.

mod any;
mod excerpt;
pub use convoke_files::failpoint;
pub mod postgres;
mod sql;
pub mod sqlite;

use std::future::Future;
use std::path::PathBuf;

use convoke_agent::thread::{ThreadStore, ThreadStoreError};
use convoke_agent::turn_input::HeldUntil;
use convoke_core::NewMessage;
use convoke_core::name::NameKey;
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::event::Event;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::{
    FoundMessage, MemberCost, NewSession, RemovedSession, Session, State, Summary,
};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_protocol::turn::{Attempt, Turn};

pub use self::any::{AnyHold, AnyImport, AnyStore};
use crate::request::RequestDelta;
pub use crate::sharing::Holder;
use crate::sharing::{NextTurn, Sharing};
use crate::thread::{LoneThread, ThreadOwner};
use crate::time_format::utc;

/// The part of a store that several machines share.
pub type SharedStore = dyn Sharing<Error = StoreError>;

/// The number of a message in an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrivalNumber(pub i64);

/// The maximum number of messages in the inbox of a session.
pub const INBOX_LIMIT: usize = 64;

/// A store of sessions.
pub trait Store: ThreadStore + Clone + Sized + 'static {
    /// The lock of a session for one process; dropping it releases the session.
    type Hold: SessionHold;
    /// A whole session that is being imported.
    type Import: SessionImport;

    /// Locks a session for this process. Fails with the current holder if a live process has it.
    fn hold(
        &self,
        session: SessionId,
        holder: Holder,
    ) -> impl Future<Output = Result<Self::Hold, StoreError>> + Send;

    /// Creates a session.
    fn create(&self, session: NewSession) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes a commit atomically. Once this returns, the commit survives a power cut.
    fn commit(
        &self,
        session: SessionId,
        commit: Commit,
    ) -> impl Future<Output = Result<EventNumber, StoreError>> + Send;

    /// Starts to import a whole session. The session becomes visible when [`SessionImport::finish`] returns; if
    /// that is never called, nothing is stored. Other writers wait meanwhile.
    fn import(
        &self,
        session: NewSession,
    ) -> impl Future<Output = Result<Self::Import, StoreError>> + Send;

    /// Returns a read-only snapshot of the store.
    fn snapshot(&self) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// Returns a session.
    fn session(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Session, StoreError>> + Send;

    /// Lists the sessions that are not marked as removed, most recently changed first.
    fn sessions(&self) -> impl Future<Output = Result<Vec<Summary>, StoreError>> + Send;

    /// Lists the sessions that are marked as removed, most recently removed first.
    fn removed_sessions(
        &self,
    ) -> impl Future<Output = Result<Vec<RemovedSession>, StoreError>> + Send;

    /// Marks a session as removed at a time, or restores it. Fails if the session is held.
    fn set_removed(
        &self,
        session: SessionId,
        at: Option<Millis>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Changes the name of a session.
    fn rename(
        &self,
        session: SessionId,
        name: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Finds at most `limit` messages that contain every word, best match first, in all or in some sessions.
    /// Sessions marked as removed are skipped.
    fn search(
        &self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<FoundMessage>, StoreError>> + Send;

    /// Returns the costs of a session, by member, in the order of names.
    fn costs(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Vec<MemberCost>, StoreError>> + Send;

    /// Returns a message.
    fn message(
        &self,
        session: SessionId,
        number: MessageNumber,
    ) -> impl Future<Output = Result<Message, StoreError>> + Send;

    /// Returns at most `limit` messages after one, oldest first.
    fn messages_after(
        &self,
        session: SessionId,
        after: MessageNumber,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Message>, StoreError>> + Send;

    /// Returns the context messages of an answer, newest first. O(window).
    fn window(
        &self,
        session: SessionId,
        window: Window,
    ) -> impl Future<Output = Result<Vec<Message>, StoreError>> + Send;

    /// Returns the queued and running turns, in the order of their numbers.
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

    /// Returns at most `limit` events of the log after one, in order.
    fn events(
        &self,
        session: SessionId,
        after: EventNumber,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Event>, StoreError>> + Send;

    /// Returns the text that the agent of a running attempt is writing, from the last whole text; empty for an attempt that
    /// has ended.
    fn pieces(
        &self,
        session: SessionId,
        turn: TurnId,
        attempt: u32,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Returns a content, and checks its hash.
    fn content(&self, hash: ContentHash)
    -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Puts a person's message into the inbox of a session, durably. The holder of the session stores it between two
    /// turns, and in a shared store the session is offered if there is no holder.
    fn say(
        &self,
        session: SessionId,
        message: &NewMessage,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns the messages in the inbox of a session, in order. A commit that stores a message removes it.
    fn arrived(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Vec<(ArrivalNumber, NewMessage)>, StoreError>> + Send;

    /// Returns the threads of a session, in the order of their ids.
    fn threads(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Vec<ThreadId>, StoreError>> + Send;

    /// Returns the owner of a thread; `None` if the thread does not exist.
    fn thread_owner(
        &self,
        thread: &ThreadId,
    ) -> impl Future<Output = Result<Option<ThreadOwner>, StoreError>> + Send;

    /// Returns the threads of no session, in the order of their ids. O(bytes of their lines and requests).
    fn lone_threads(&self) -> impl Future<Output = Result<Vec<LoneThread>, StoreError>> + Send;

    /// Removes a thread of no session with its requests. Returns whether there was one.
    fn remove_lone_thread(
        &self,
        thread: &ThreadId,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns at most `limit` requests of a thread after one, each as a delta from its predecessor.
    fn request_deltas(
        &self,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<RequestRecord<RequestDelta>>, StoreError>> + Send;

    /// Deletes a session with its threads and requests, and the contents that no other session uses.
    fn remove(&self, session: SessionId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns how sessions move between processes on several machines; `None` if a process keeps the sessions that it
    /// opens.
    fn sharing(&self) -> Option<&SharedStore> {
        None
    }

    /// Returns the time by which the store orders sessions: the database's if machines share it, else this machine's.
    fn now(&self) -> Millis {
        convoke_agent::clock::now()
    }
}

/// The lock of a session for one process; dropping it releases the session.
pub trait SessionHold: Send + Sync + 'static {
    /// Returns when another process may hold the session. The caller must then stop working on it.
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Returns the time until which the session is held without another heartbeat; `None` if it is held while
    /// the process lives.
    fn held_until(&self) -> Option<HeldUntil> {
        None
    }

    /// Releases the session, and returns when others can hold it.
    fn release(self) -> impl Future<Output = ()> + Send;

    /// Drops the lock of a session that was already released in the store.
    fn forget(self)
    where
        Self: Sized,
    {
    }

    /// Releases a session that was deleted.
    fn discard(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        self.release()
    }
}

/// A whole session that is being imported: pages of rows in order, then the end. Dropping it before the end
/// stores nothing.
pub trait SessionImport: Send {
    /// Writes a page. Rows out of order are refused.
    fn write(&mut self, page: Page) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Completes the session, durably.
    fn finish(self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A part of a whole session. Over all pages, the events are in order and without gaps, and the rows of a thread are adjacent.
#[derive(Debug, Default)]
pub struct Page {
    /// New contents.
    pub contents: Vec<Content>,
    /// Contents of other sessions in the store that this session uses too.
    pub shared: Vec<ContentHash>,
    /// Events after the first, which [`Store::import`] writes.
    pub events: Vec<Event>,
    /// Lines of threads.
    pub lines: Vec<(ThreadId, ThreadLine)>,
    pub requests: Vec<RequestRecord<RequestDelta>>,
}

/// A step of a session, which is written atomically: events with what they refer to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Commit {
    /// The last event that the step builds on. With any other one it is refused.
    pub on: EventNumber,
    /// The events, numbered from the next one on. An event that contradicts the tables is refused with the whole commit: a
    /// message that exists, a change of a turn that is done, the end of an attempt that has ended.
    pub events: Vec<Event>,
    /// The state of the conversation after the events.
    pub state: State,
    /// Contents that the events refer to and that may not be stored yet.
    pub contents: Vec<Content>,
    /// Pieces of the texts of running attempts.
    pub pieces: Vec<Piece>,
    /// Lines for the threads of members, as of the last message of the state. If a thread has other lines than
    /// expected, the whole commit is refused.
    pub threads: Vec<ThreadAppend>,
    /// The message of the inbox that the commit stores. The commit is refused if the inbox no longer has the
    /// message.
    pub taken: Option<ArrivalNumber>,
    /// The turn that other processes may run if this one ends.
    pub next: Option<NextTurn>,
}

impl Commit {
    /// Returns the number of the last event after the commit.
    pub fn head(&self) -> EventNumber {
        EventNumber(self.on.0 + self.events.len() as u64)
    }
}

/// A piece of the text that the agent of a running attempt is writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub turn: TurnId,
    pub attempt: u32,
    /// The place in bytes, from the last whole text. A piece at 0 begins a new text.
    pub position: u64,
    pub text: String,
}

/// The context of an answer: the other answers to the same message, then earlier messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The message to answer.
    pub answers: MessageNumber,
    /// The newest visible message.
    pub as_of: MessageNumber,
    /// The maximum number of messages.
    pub limit: usize,
    pub reader: ContextReader,
}

/// The reader of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextReader {
    /// A reader that sees everything.
    Everything,
    /// A member, by all its names: it sees messages that it wrote, or that were sent to it or to everyone.
    Member(Vec<NameKey>),
}

/// Why the file of a SQLite store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFailure {
    /// The disk is full.
    Full,
    /// The file is damaged, or no database.
    Damaged,
    /// Another program has locked the file.
    Locked,
    /// The file or its directory cannot be written.
    ReadOnly,
    /// The file cannot be opened.
    Unopened,
    /// The disk could not be read or written.
    Unreadable,
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// A session with that id exists.
    #[error("there is a session {0} already")]
    SessionExists(SessionId),
    /// There is no such message.
    #[error("session {session} has no message {number}")]
    NoMessage {
        session: SessionId,
        /// The message.
        number: MessageNumber,
    },
    /// There is no such content.
    #[error("no content with the hash {0} is stored")]
    NoContent(ContentHash),
    /// Another process has locked the session.
    #[error("session {session} is held by process {} on {} since {}", holder.pid, holder.host, utc(holder.since))]
    Held {
        session: SessionId,
        /// The process.
        holder: Holder,
    },
    /// The lease of this process ended, and another process may hold the session.
    #[error("this process no longer holds session {session}; nothing was written")]
    HoldLost { session: SessionId },
    /// Too many messages wait in the inbox of the session.
    #[error("too many messages are queued in session {session}; try again later")]
    InboxFull { session: SessionId },
    /// Another process has the name of a node.
    #[error("there is a node `{name}` already: process {} on {} since {}", holder.pid, holder.host, utc(holder.since))]
    NodeExists {
        name: String,
        /// The process.
        holder: Holder,
    },
    /// The session changed since it was read.
    #[error("session {session} was changed by another process; open it again")]
    Conflict { session: SessionId },
    /// A row exists already, or has ended and cannot change.
    #[error("session {session}: {what} is recorded already")]
    Recorded {
        session: SessionId,
        /// The row.
        what: String,
    },
    /// A thread could not be read or written.
    #[error(transparent)]
    Thread(#[from] ThreadStoreError),
    /// The file is not a store of Convoke.
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
    /// The tables are of another version.
    #[error(
        "the database has tables of format {found} and this version of Convoke uses format {expected}; they were \
         left as they are"
    )]
    DatabaseVersion {
        /// The format of the tables.
        found: i64,
        /// The format that this version uses.
        expected: i64,
    },
    /// The tables are of an older version.
    #[error(
        "the database has tables of format {found} and this version of Convoke uses format {expected}: make a backup, then \
         run `convoke sessions migrate --store URL`"
    )]
    OldDatabase { found: i64, expected: i64 },
    /// The tables cannot be migrated, because a process uses them.
    #[error(
        "process {} on {} uses the database since {}: stop all processes that use it first",
        holder.pid, holder.host, utc(holder.since)
    )]
    InUse { holder: Holder },
    /// The stored data is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("the database failed: {}", database_text(&**.0))]
    Database(Box<dyn std::error::Error + Send + Sync>),
}

/// The code of a server that has no free connection.
pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";

/// Why a server failed, as far as its error tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFailure {
    /// The password is wrong or missing.
    Password,
    /// There is no such database.
    NoDatabase,
    /// The database cannot be written.
    ReadOnly,
    /// The server has no free connection.
    TooManyConnections,
    /// A file that the connection needs does not exist: the socket in the directory of the URL, or one that the URL names.
    NotFound,
    /// Nothing listens at the address.
    Refused,
}

/// Returns the text of an error. An error of PostgreSQL would name a line of the server's source.
fn database_text(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let Some(sqlx::Error::Database(of_server)) = error.downcast_ref() else {
        return error.to_string();
    };
    match of_server.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        Some(of_server) => match of_server.detail() {
            Some(detail) => format!("{} ({detail})", of_server.message()),
            None => of_server.message().to_owned(),
        },
        None => error.to_string(),
    }
}

impl StoreError {
    /// Returns why the server failed, if that can be told from the error.
    pub fn server_failure(&self) -> Option<ServerFailure> {
        let Self::Database(error) = self else { return None };
        match error.downcast_ref::<sqlx::Error>()? {
            sqlx::Error::Io(error) => match error.kind() {
                std::io::ErrorKind::NotFound => Some(ServerFailure::NotFound),
                std::io::ErrorKind::ConnectionRefused => Some(ServerFailure::Refused),
                _ => None,
            },
            sqlx::Error::Database(error) => match &*error.code()? {
                "28P01" => Some(ServerFailure::Password),
                "3D000" => Some(ServerFailure::NoDatabase),
                "25006" => Some(ServerFailure::ReadOnly),
                TOO_MANY_CONNECTIONS => Some(ServerFailure::TooManyConnections),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the same operation may succeed later: the connection failed, so that it is unknown what
    /// was written, or the database aborted the transaction.
    pub fn is_transient(&self) -> bool {
        let Self::Database(error) = self else { return false };
        match error.downcast_ref::<sqlx::Error>() {
            Some(
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::WorkerCrashed,
            ) => true,
            // The server is shutting down, was killed, is starting or has no free connection; the connection
            // failed; or the transaction was aborted because of a conflict, or because its process was stopped in the middle.
            Some(sqlx::Error::Database(error)) => error.code().is_some_and(|code| {
                matches!(
                    &*code,
                    "57P01"
                        | "57P02"
                        | "57P03"
                        | "40001"
                        | "40P01"
                        | "25P03"
                        | TOO_MANY_CONNECTIONS
                ) || code.starts_with("08")
            }),
            _ => false,
        }
    }

    /// Returns whether the database refuses an operation for now, because it is full, locked or read-only, or
    /// timed out. Missing tables and permissions are permanent.
    pub fn is_refusal(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let Some(sqlx::Error::Database(error)) = error.downcast_ref() else { return false };
        error.code().is_some_and(|code| !["3D", "28", "42"].iter().any(|it| code.starts_with(it)))
    }

    /// Returns why the file of a SQLite store failed, if that can be told from the error's code.
    pub fn file_failure(&self) -> Option<FileFailure> {
        let error = match self {
            Self::Database(error) => error.downcast_ref::<sqlx::Error>()?,
            _ => return None,
        };
        let sqlx::Error::Database(error) = error else { return None };
        let error = error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
        // The lowest byte of an extended code is the code.
        let code: u32 = sqlx::error::DatabaseError::code(error)?.parse().ok()?;
        match code & 0xff {
            13 => Some(FileFailure::Full),
            11 | 26 => Some(FileFailure::Damaged),
            5 | 6 => Some(FileFailure::Locked),
            8 => Some(FileFailure::ReadOnly),
            14 => Some(FileFailure::Unopened),
            10 => Some(FileFailure::Unreadable),
            _ => None,
        }
    }

    /// Returns the error of a server that does not respond.
    pub(crate) fn unanswered() -> Self {
        let error =
            std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not respond");
        sqlx::Error::Io(error).into()
    }

    /// Returns whether the error comes from a server or the connection to it.
    pub fn is_of_server(&self) -> bool {
        let Self::Database(error) = self else { return false };
        self.is_transient()
            || match error.downcast_ref::<sqlx::Error>() {
                Some(sqlx::Error::Database(error)) => {
                    error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some()
                }
                Some(sqlx::Error::Configuration(_)) => true,
                _ => false,
            }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Box::new(error))
    }
}

impl From<StoreError> for ThreadStoreError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Thread(error) => error,
            other => Self::Failed(Box::new(other)),
        }
    }
}
