//! A store in one SQLite file, in a directory of the user's own.

mod difference;
mod file;
mod lock;
mod packed;
mod read;
mod requests;
mod threads;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

pub use self::lock::SessionLock;
use super::failpoint::Failpoint;
use super::{Commit, Holder, Store, StoreError, Window};
use crate::content::ContentHash;
use crate::id::{Head, MessageNumber, SessionId, TurnId};
use crate::request::{NewRequest, RequestRow, RequestTexts, SentRequest};
use crate::session::{NewSession, NumberedMessage, Session, Summary};
use crate::thread::{LoneThread, ThreadLine, ThreadOwner};
use crate::turn::{Attempt, Turn};

/// Sessions in one SQLite file. Clones share it.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    pool: SqlitePool,
    directory: PathBuf,
    failpoint: Failpoint,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process and a power cut.
    #[default]
    PowerCut,
    /// The end of the process only: for tests that commit very often.
    Process,
}

impl SqliteStore {
    /// Opens the store in a directory, which is made for this user alone if it is not there.
    ///
    /// A file that is not ours, or that another version wrote, is refused and not touched.
    pub async fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, Durability::default(), Failpoint::default()).await
    }

    /// Opens the store with another durability, or with a crash in it.
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
            // Another process writes for moments only, but its disk may be slow.
            .busy_timeout(Duration::from_mins(1));
        let pool = SqlitePoolOptions::new()
            .max_connections(2)
            .acquire_timeout(Duration::from_mins(2))
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_with(options)
            .await?;
        let version = file::version(&pool).await?;
        file::check_version(&path, version)?;
        file::migrate(&pool, version).await?;
        Ok(Self { pool, directory: directory.to_owned(), failpoint })
    }

    /// Tells whether a process holds a session at this moment.
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

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<SessionLock, StoreError> {
        lock::acquire(&self.directory, session, &holder)
    }

    async fn create(&self, session: NewSession) -> Result<(), StoreError> {
        self.failpoint.reach();
        write::create(&self.pool, session).await?;
        self.failpoint.reach();
        Ok(())
    }

    async fn commit(&self, session: SessionId, commit: Commit) -> Result<Head, StoreError> {
        write::commit(&self.pool, &self.failpoint, session, commit).await
    }

    async fn session(&self, session: SessionId) -> Result<Session, StoreError> {
        read::session(&self.pool, session).await
    }

    async fn sessions(&self) -> Result<Vec<Summary>, StoreError> {
        read::sessions(&self.pool).await
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

    async fn thread(&self, thread: &str) -> Result<Vec<ThreadLine>, StoreError> {
        threads::lines(&self.pool, thread).await
    }

    async fn threads(&self, session: SessionId) -> Result<Vec<String>, StoreError> {
        threads::of_session(&self.pool, session).await
    }

    async fn thread_owner(&self, thread: &str) -> Result<Option<ThreadOwner>, StoreError> {
        threads::owner(&self.pool, thread).await
    }

    async fn lone_threads(&self) -> Result<Vec<LoneThread>, StoreError> {
        threads::of_nobody(&self.pool).await
    }

    async fn remove_lone_thread(&self, thread: &str) -> Result<bool, StoreError> {
        threads::remove_lone(&self.pool, &self.failpoint, thread).await
    }

    async fn extend_thread(
        &self,
        thread: &str,
        known: usize,
        lines: &[String],
    ) -> Result<(), StoreError> {
        threads::extend(&self.pool, &self.failpoint, thread, known, lines).await
    }

    async fn add_request(&self, thread: &str, request: NewRequest<'_>) -> Result<u64, StoreError> {
        requests::add(&self.pool, &self.failpoint, thread, request).await
    }

    async fn note_request(
        &self,
        thread: &str,
        number: u64,
        outcome: &str,
    ) -> Result<(), StoreError> {
        requests::note(&self.pool, &self.failpoint, thread, number, outcome).await
    }

    async fn requests(&self, thread: &str) -> Result<Vec<RequestRow>, StoreError> {
        requests::rows(&self.pool, thread).await
    }

    async fn request_texts(&self, thread: &str, number: u64) -> Result<RequestTexts, StoreError> {
        requests::texts(&mut *self.pool.acquire().await?, thread, number).await
    }

    async fn last_request(&self, thread: &str) -> Result<Option<(u64, RequestTexts)>, StoreError> {
        requests::last(&self.pool, thread).await
    }

    async fn sent_requests(&self, thread: &str) -> Result<Vec<SentRequest>, StoreError> {
        requests::sent(&self.pool, thread).await
    }

    async fn remove(&self, session: SessionId) -> Result<(), StoreError> {
        let lock = lock::acquire(&self.directory, session, &Holder::this_process(0))?;
        write::remove(&self.pool, session).await?;
        lock.discard();
        Ok(())
    }
}

/// Turns a count or a number into what SQL has.
fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
