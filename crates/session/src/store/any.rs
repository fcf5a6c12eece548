//! A store in either database, chosen at run time.

use convoke_agent::thread::{
    RequestOutcome, RequestRecord, RequestTexts, Stored, ThreadAppend, ThreadLine, ThreadStore,
};
use convoke_agent::turn_input::Lease;

use super::postgres::{PostgresImport, PostgresStore, SessionLease};
use super::sqlite::{SessionLock, SqliteImport, SqliteStore};
use super::{Commit, Holder, Page, SessionHold, SessionImport, Store, StoreError, Window};
use crate::content::ContentHash;
use crate::id::{Head, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use crate::request::RequestDelta;
use crate::session::{
    FoundMessage, MemberCost, NewSession, NumberedMessage, RemovedSession, Session, State, Summary,
};
use crate::thread::{LoneThread, ThreadOwner};
use crate::turn::{Attempt, Turn};

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

impl Store for AnyStore {
    type Hold = AnyHold;
    type Import = AnyImport;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<AnyHold, StoreError> {
        match self {
            Self::Sqlite(store) => store.hold(session, holder).await.map(AnyHold::Sqlite),
            Self::Postgres(store) => store.hold(session, holder).await.map(AnyHold::Postgres),
        }
    }

    async fn create(&self, session: NewSession) -> Result<(), StoreError> {
        either!(self, store => store.create(session).await)
    }

    async fn commit(&self, session: SessionId, commit: Commit) -> Result<Head, StoreError> {
        either!(self, store => store.commit(session, commit).await)
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

    async fn session(&self, session: SessionId) -> Result<Session, StoreError> {
        either!(self, store => store.session(session).await)
    }

    async fn sessions(&self) -> Result<Vec<Summary>, StoreError> {
        either!(self, store => store.sessions().await)
    }

    async fn removed_sessions(&self) -> Result<Vec<RemovedSession>, StoreError> {
        either!(self, store => store.removed_sessions().await)
    }

    async fn set_removed(&self, session: SessionId, at: Option<Millis>) -> Result<(), StoreError> {
        either!(self, store => store.set_removed(session, at).await)
    }

    async fn rename(&self, session: SessionId, name: &str) -> Result<(), StoreError> {
        either!(self, store => store.rename(session, name).await)
    }

    async fn search(
        &self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        either!(self, store => store.search(words, within, limit).await)
    }

    async fn costs(&self, session: SessionId) -> Result<Vec<MemberCost>, StoreError> {
        either!(self, store => store.costs(session).await)
    }

    async fn message(
        &self,
        session: SessionId,
        number: MessageNumber,
    ) -> Result<NumberedMessage, StoreError> {
        either!(self, store => store.message(session, number).await)
    }

    async fn messages_after(
        &self,
        session: SessionId,
        after: MessageNumber,
        limit: usize,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        either!(self, store => store.messages_after(session, after, limit).await)
    }

    async fn window(
        &self,
        session: SessionId,
        window: Window,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        either!(self, store => store.window(session, window).await)
    }

    async fn open_turns(&self, session: SessionId) -> Result<Vec<Turn>, StoreError> {
        either!(self, store => store.open_turns(session).await)
    }

    async fn turns_after(
        &self,
        session: SessionId,
        after: TurnId,
        limit: usize,
    ) -> Result<Vec<Turn>, StoreError> {
        either!(self, store => store.turns_after(session, after, limit).await)
    }

    async fn attempts(&self, session: SessionId, turn: TurnId) -> Result<Vec<Attempt>, StoreError> {
        either!(self, store => store.attempts(session, turn).await)
    }

    async fn progress(
        &self,
        session: SessionId,
        turn: TurnId,
        attempt: u32,
    ) -> Result<String, StoreError> {
        either!(self, store => store.progress(session, turn, attempt).await)
    }

    async fn content(&self, hash: ContentHash) -> Result<String, StoreError> {
        either!(self, store => store.content(hash).await)
    }

    async fn threads(&self, session: SessionId) -> Result<Vec<ThreadId>, StoreError> {
        either!(self, store => store.threads(session).await)
    }

    async fn thread_owner(&self, thread: &ThreadId) -> Result<Option<ThreadOwner>, StoreError> {
        either!(self, store => store.thread_owner(thread).await)
    }

    async fn lone_threads(&self) -> Result<Vec<LoneThread>, StoreError> {
        either!(self, store => store.lone_threads().await)
    }

    async fn remove_lone_thread(&self, thread: &ThreadId) -> Result<bool, StoreError> {
        either!(self, store => store.remove_lone_thread(thread).await)
    }

    async fn request_deltas(
        &self,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RequestRecord<RequestDelta>>, StoreError> {
        either!(self, store => store.request_deltas(thread, after, limit).await)
    }

    async fn remove(&self, session: SessionId) -> Result<(), StoreError> {
        either!(self, store => store.remove(session).await)
    }

    fn shared(&self) -> Option<&PostgresStore> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store),
        }
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
}

impl SessionHold for AnyHold {
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let lost: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match self {
            Self::Sqlite(lock) => Box::pin(lock.lost()),
            Self::Postgres(lease) => Box::pin(lease.lost()),
        };
        lost
    }

    fn lease(&self) -> Option<Lease> {
        either!(self, hold => hold.lease())
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

    async fn finish(self, state: State) -> Result<(), StoreError> {
        either!(self, import => import.finish(state).await)
    }
}
