//! A store in one SQLite file, in a directory of the user's own.

mod file;
mod import;
mod lock;
mod packed;
mod read;
mod requests;
mod search;
mod threads;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::thread::{
    RequestOutcome, RequestRecord, RequestTexts, Stored, ThreadAppend, ThreadLine, ThreadStore,
};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

pub use self::import::SqliteImport;
pub use self::lock::SessionLock;
use super::failpoint::Failpoint;
use super::{Commit, Holder, Store, StoreError, Window};
use crate::content::ContentHash;
use crate::id::{Head, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use crate::request::RequestDelta;
use crate::session::{
    FoundMessage, MemberCost, NewSession, NumberedMessage, RemovedSession, Session, Summary,
};
use crate::thread::{LoneThread, ThreadOwner};
use crate::turn::{Attempt, Turn};

/// Sessions in one SQLite file. Clones share it.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    pool: SqlitePool,
    directory: PathBuf,
    failpoint: Failpoint,
}

/// The durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a power cut.
    #[default]
    PowerCut,
    /// Survives the end of the process only: for tests with many commits.
    Process,
}

impl SqliteStore {
    /// Opens the store in a directory, which is created for this user alone if necessary.
    ///
    /// A foreign file, or one of an unsupported version, is rejected unchanged.
    pub async fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, Durability::default(), Failpoint::default()).await
    }

    /// Opens the store with a durability and a failpoint.
    pub async fn open_with(
        directory: &Path,
        durability: Durability,
        failpoint: Failpoint,
    ) -> Result<Self, StoreError> {
        let path = file::prepare(directory).await?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(match durability {
                Durability::PowerCut => SqliteSynchronous::Full,
                Durability::Process => SqliteSynchronous::Off,
            })
            // Writes are short, but the disk may be slow.
            .busy_timeout(Duration::from_mins(1))
            // The write-ahead log shrinks again after a large commit.
            .pragma("journal_size_limit", "4194304");
        let pool = pool(2).connect_with(options).await?;
        let version = file::version(&pool).await?;
        file::check_version(&path, version)?;
        file::migrate(&pool, version).await?;
        Ok(Self { pool, directory: directory.to_owned(), failpoint })
    }

    /// Returns whether a process has locked a session.
    pub fn is_held(&self, session: SessionId) -> bool {
        lock::is_held(&self.directory, session)
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Box::new(error))
    }
}

impl Store for SqliteStore {
    type Hold = SessionLock;
    type Import = SqliteImport;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<SessionLock, StoreError> {
        lock::acquire(&self.directory, session, &holder)
    }

    async fn create(&self, session: NewSession) -> Result<(), StoreError> {
        self.failpoint.reach();
        write::create(&mut *self.pool.acquire().await?, session).await?;
        self.failpoint.reach();
        Ok(())
    }

    async fn commit(&self, session: SessionId, commit: Commit) -> Result<Head, StoreError> {
        let ends = commit.attempts.iter().any(|attempt| attempt.ended.is_some());
        let head = write::commit(&self.pool, &self.failpoint, session, commit).await?;
        if ends {
            // The removed progress may have been large.
            file::give_back_pages(&self.pool).await;
        }
        Ok(head)
    }

    async fn import(&self, session: NewSession) -> Result<SqliteImport, StoreError> {
        SqliteImport::begin(&self.pool, self.failpoint.clone(), session).await
    }

    async fn snapshot(&self) -> Result<Self, StoreError> {
        // The single connection reads in one transaction, which sees the database as of its first statement.
        let options = self.pool.connect_options().as_ref().clone().read_only(true);
        let pool = pool(1).connect_with(options).await?;
        sqlx::raw_sql("BEGIN; SELECT COUNT(*) FROM session LIMIT 1;").execute(&pool).await?;
        Ok(Self { pool, ..self.clone() })
    }

    async fn session(&self, session: SessionId) -> Result<Session, StoreError> {
        read::session(&self.pool, session).await
    }

    async fn sessions(&self) -> Result<Vec<Summary>, StoreError> {
        read::sessions(&self.pool).await
    }

    async fn removed_sessions(&self) -> Result<Vec<RemovedSession>, StoreError> {
        read::removed_sessions(&self.pool).await
    }

    async fn set_removed(&self, session: SessionId, at: Option<Millis>) -> Result<(), StoreError> {
        let _lock = lock::acquire(&self.directory, session, &Holder::this_process(Millis(0)))?;
        write::set_removed(&self.pool, session, at).await
    }

    async fn rename(&self, session: SessionId, name: &str) -> Result<(), StoreError> {
        write::rename(&self.pool, session, name).await
    }

    async fn search(
        &self,
        words: &[String],
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        search::messages(&self.pool, words, limit).await
    }

    async fn costs(&self, session: SessionId) -> Result<Vec<MemberCost>, StoreError> {
        search::costs(&self.pool, session).await
    }

    async fn message(
        &self,
        session: SessionId,
        number: MessageNumber,
    ) -> Result<NumberedMessage, StoreError> {
        read::message(&self.pool, session, number).await
    }

    async fn messages_after(
        &self,
        session: SessionId,
        after: MessageNumber,
        limit: usize,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        read::messages_after(&self.pool, session, after, limit).await
    }

    async fn window(
        &self,
        session: SessionId,
        window: Window,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        read::window(&self.pool, session, &window).await
    }

    async fn open_turns(&self, session: SessionId) -> Result<Vec<Turn>, StoreError> {
        read::open_turns(&self.pool, session).await
    }

    async fn turns_after(
        &self,
        session: SessionId,
        after: TurnId,
        limit: usize,
    ) -> Result<Vec<Turn>, StoreError> {
        read::turns_after(&self.pool, session, after, limit).await
    }

    async fn attempts(&self, session: SessionId, turn: TurnId) -> Result<Vec<Attempt>, StoreError> {
        read::attempts(&self.pool, session, turn).await
    }

    async fn progress(
        &self,
        session: SessionId,
        turn: TurnId,
        attempt: u32,
    ) -> Result<String, StoreError> {
        read::progress(&self.pool, session, turn, attempt).await
    }

    async fn content(&self, hash: ContentHash) -> Result<String, StoreError> {
        read::content(&self.pool, hash).await
    }

    async fn threads(&self, session: SessionId) -> Result<Vec<ThreadId>, StoreError> {
        threads::of_session(&self.pool, session).await
    }

    async fn thread_owner(&self, thread: &ThreadId) -> Result<Option<ThreadOwner>, StoreError> {
        threads::owner(&self.pool, thread).await
    }

    async fn lone_threads(&self) -> Result<Vec<LoneThread>, StoreError> {
        threads::of_nobody(&self.pool).await
    }

    async fn remove_lone_thread(&self, thread: &ThreadId) -> Result<bool, StoreError> {
        let removed = threads::remove_lone(&self.pool, &self.failpoint, thread).await?;
        file::give_back_pages(&self.pool).await;
        Ok(removed)
    }

    async fn request_deltas(
        &self,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RequestRecord<RequestDelta>>, StoreError> {
        requests::deltas_after(&mut *self.pool.acquire().await?, thread, after, limit).await
    }

    async fn remove(&self, session: SessionId) -> Result<(), StoreError> {
        let lock = lock::acquire(&self.directory, session, &Holder::this_process(Millis(0)))?;
        write::remove(&self.pool, session).await?;
        file::give_back_pages(&self.pool).await;
        lock.discard();
        Ok(())
    }
}

impl ThreadStore for SqliteStore {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        Box::pin(async { Ok(threads::lines(&self.pool, thread).await?) })
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        Box::pin(async { Ok(threads::extend(&self.pool, &self.failpoint, append).await?) })
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        Box::pin(
            async move { Ok(requests::add(&self.pool, &self.failpoint, record, before).await?) },
        )
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            Ok(requests::set_outcome(&self.pool, &self.failpoint, thread, number, outcome).await?)
        })
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        Box::pin(async {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::after(&mut connection, thread, 0, None).await?)
        })
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::texts(&mut connection, thread, number).await?)
        })
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        Box::pin(async {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::last(&mut connection, thread).await?)
        })
    }
}

/// Returns the options of a pool whose connections stay open.
fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_mins(2))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Converts a number for SQL.
fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
