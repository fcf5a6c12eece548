//! A store in either database, chosen at run time.

use convoke_agent::thread::{Stored, ThreadStore};
use convoke_agent::turn_input::HeldUntil;
use convoke_core::NewMessage;
use convoke_protocol::content::ContentHash;
use convoke_protocol::event::Event;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::request::{RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::session::{
    FoundMessage, MemberCost, NewSession, RemovedSession, Session, Summary,
};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_protocol::turn::{Attempt, Turn};

use super::postgres::{PostgresImport, PostgresStore, SessionLease};
use super::sqlite::{SessionLock, SqliteImport, SqliteStore};
use super::{
    ArrivalNumber, Commit, Holder, Page, SessionHold, SessionImport, SharedStore, Store,
    StoreError, Window,
};
use crate::request::RequestDelta;
use crate::thread::{LoneThread, ThreadOwner};

/// Sessions in SQLite or in PostgreSQL. Clones share the database.
#[derive(Debug, Clone)]
pub enum AnyStore {
    /// A file on this machine.
    Sqlite(SqliteStore),
    /// A database server.
    Postgres(PostgresStore),
}

/// The lock of a session in either database.
#[derive(Debug)]
pub enum AnyHold {
    /// A lock of a file.
    Sqlite(SessionLock),
    /// A lease.
    Postgres(SessionLease),
}

/// A whole session that is being imported, in either database.
pub enum AnyImport {
    /// Into a file.
    Sqlite(SqliteImport),
    /// Into a server.
    Postgres(PostgresImport),
}

/// Evaluates the same expression with the store of either database.
macro_rules! either {
    ($self:expr, $store:ident => $call:expr) => {
        match $self {
            Self::Sqlite($store) => $call,
            Self::Postgres($store) => $call,
        }
    };
}

impl AnyStore {
    /// Returns whether a process holds a session.
    pub async fn is_held(&self, session: SessionId) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(store) => Ok(store.is_held(session)),
            Self::Postgres(store) => store.is_held(session).await,
        }
    }

    /// Closes the database.
    pub async fn close(&self) {
        either!(self, store => store.close().await);
    }
}

impl From<SqliteStore> for AnyStore {
    fn from(store: SqliteStore) -> Self {
        Self::Sqlite(store)
    }
}

impl From<PostgresStore> for AnyStore {
    fn from(store: PostgresStore) -> Self {
        Self::Postgres(store)
    }
}

/// Implements methods of the store by those of the store in either database.
macro_rules! by_either {
    ($(async fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {$(
        async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
            either!(self, store => store.$name($($argument),*).await)
        }
    )+};
}

impl Store for AnyStore {
    type Hold = AnyHold;
    type Import = AnyImport;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<AnyHold, StoreError> {
        match self {
            Self::Sqlite(store) => store.hold(session, holder).await.map(AnyHold::Sqlite),
            Self::Postgres(store) => store.hold(session, holder).await.map(AnyHold::Postgres),
        }
    }

    async fn import(&self, session: NewSession) -> Result<AnyImport, StoreError> {
        match self {
            Self::Sqlite(store) => store.import(session).await.map(AnyImport::Sqlite),
            Self::Postgres(store) => store.import(session).await.map(AnyImport::Postgres),
        }
    }

    async fn snapshot(&self) -> Result<Self, StoreError> {
        match self {
            Self::Sqlite(store) => store.snapshot().await.map(Self::Sqlite),
            Self::Postgres(store) => store.snapshot().await.map(Self::Postgres),
        }
    }

    by_either! {
        async fn create(session: NewSession) -> ();
        async fn commit(session: SessionId, commit: Commit) -> EventNumber;
        async fn session(session: SessionId) -> Session;
        async fn sessions() -> Vec<Summary>;
        async fn removed_sessions() -> Vec<RemovedSession>;
        async fn set_removed(session: SessionId, at: Option<Millis>) -> ();
        async fn rename(session: SessionId, name: &str) -> ();
        async fn search(words: &[String], within: Option<&[SessionId]>, limit: usize) -> Vec<FoundMessage>;
        async fn costs(session: SessionId) -> Vec<MemberCost>;
        async fn message(session: SessionId, number: MessageNumber) -> Message;
        async fn messages_after(session: SessionId, after: MessageNumber, limit: usize) -> Vec<Message>;
        async fn window(session: SessionId, window: Window) -> Vec<Message>;
        async fn open_turns(session: SessionId) -> Vec<Turn>;
        async fn turns_after(session: SessionId, after: TurnId, limit: usize) -> Vec<Turn>;
        async fn attempts(session: SessionId, turn: TurnId) -> Vec<Attempt>;
        async fn pieces(session: SessionId, turn: TurnId, attempt: u32) -> String;
        async fn events(session: SessionId, after: EventNumber, limit: usize) -> Vec<Event>;
        async fn content(hash: ContentHash) -> String;
        async fn say(session: SessionId, message: &NewMessage) -> ();
        async fn arrived(session: SessionId) -> Vec<(ArrivalNumber, NewMessage)>;
        async fn threads(session: SessionId) -> Vec<ThreadId>;
        async fn thread_owner(thread: &ThreadId) -> Option<ThreadOwner>;
        async fn lone_threads() -> Vec<LoneThread>;
        async fn remove_lone_thread(thread: &ThreadId) -> bool;
        async fn request_deltas(thread: &ThreadId, after: u64, limit: usize) -> Vec<RequestRecord<RequestDelta>>;
        async fn remove(session: SessionId) -> ();
    }

    fn sharing(&self) -> Option<&SharedStore> {
        either!(self, store => store.sharing())
    }

    fn now(&self) -> Millis {
        either!(self, store => Store::now(store))
    }
}

impl ThreadStore for AnyStore {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        either!(self, store => store.thread_lines(thread))
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        either!(self, store => store.append_lines(append))
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        either!(self, store => store.add_request(record, before))
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        either!(self, store => store.set_outcome(thread, number, outcome))
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        either!(self, store => store.requests(thread))
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        either!(self, store => store.request_texts(thread, number))
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        either!(self, store => store.last_request(thread))
    }

    fn limit_texts<'s>(&'s self, thread: &'s ThreadId, max_bytes: u64) -> Stored<'s, u64> {
        either!(self, store => store.limit_texts(thread, max_bytes))
    }
}

impl SessionHold for AnyHold {
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let lost: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match self {
            Self::Sqlite(lock) => Box::pin(lock.lost()),
            Self::Postgres(lease) => Box::pin(lease.lost()),
        };
        lost
    }

    fn held_until(&self) -> Option<HeldUntil> {
        either!(self, hold => hold.held_until())
    }

    async fn release(self) {
        either!(self, hold => hold.release().await);
    }

    fn forget(self) {
        either!(self, hold => hold.forget());
    }
}

impl SessionImport for AnyImport {
    async fn write(&mut self, page: Page) -> Result<(), StoreError> {
        either!(self, import => import.write(page).await)
    }

    async fn finish(self) -> Result<(), StoreError> {
        either!(self, import => import.finish().await)
    }
}
