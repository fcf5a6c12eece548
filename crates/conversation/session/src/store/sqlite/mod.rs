//! A store in one SQLite file, in a directory that only the user can read.

#[path = "../sql/costs.rs"]
mod costs;
mod database;
mod file;
#[path = "../sql/import.rs"]
mod import;
#[path = "../sql/inbox.rs"]
mod inbox;
mod lock;
#[path = "../sql/log.rs"]
mod log;
#[path = "../sql/migration.rs"]
mod migration;
#[path = "../sql/packed.rs"]
mod packed;
#[path = "../sql/pieces.rs"]
mod pieces;
#[path = "../sql/projection.rs"]
mod projection;
#[path = "../sql/read.rs"]
mod read;
#[path = "../sql/requests.rs"]
mod requests;
mod search;
#[path = "../sql/store.rs"]
mod store;
#[path = "../sql/threads.rs"]
mod threads;
#[path = "../sql/write.rs"]
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_protocol::id::{Millis, SessionId};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use self::SqliteStore as SqlStore;
use self::database::Fence;
pub use self::import::OpenImport as SqliteImport;
use self::lock::SessionLock as Hold;
pub use self::lock::SessionLock;
use super::failpoint::Failpoint;
use super::postgres::PostgresStore;
use super::{Holder, StoreError};

/// Sessions in one SQLite file. Clones share it.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: Writer,
    directory: PathBuf,
}

/// The parts that every writing transaction needs.
#[derive(Debug, Clone)]
struct Writer {
    pool: SqlitePool,
    failpoint: Failpoint,
    fence: Fence,
}

/// The durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Survives a power cut.
    #[default]
    PowerCut,
    /// Survives the end of the process only, for tests with many commits.
    Process,
}

impl SqliteStore {
    /// Opens the store in a directory, which is created for this user only if it does not exist.
    ///
    /// A file of another program, or of an unsupported version, is refused and left unchanged.
    pub async fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, Durability::default(), Failpoint::default()).await
    }

    /// Opens the store for a command that only reads.
    ///
    /// SQLite writes to the directory even to read. Where it cannot, as on a full disk or in a read-only directory, the file is
    /// read as it is, unless a log beside it may have newer rows.
    pub async fn open_for_reading(directory: &Path) -> Result<Self, StoreError> {
        match Self::open(directory).await {
            Err(error) if file::is_all_there_is(directory) => {
                tracing::info!("the store cannot be opened for writing: {error}");
                Self::open_unchanging(directory).await.map_err(|_| error)
            }
            opened => opened,
        }
    }

    async fn open_unchanging(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(file::NAME);
        let options = SqliteConnectOptions::new().filename(&path).read_only(true).immutable(true);
        let pool = pool(2).connect_with(options).await?;
        // A file of an earlier version is migrated before it is read.
        file::check_current(&path, file::version(&pool).await?)?;
        let writer = Writer { pool, failpoint: Failpoint::default(), fence: Fence };
        Ok(Self { writer, directory: directory.to_owned() })
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
            // Shrink the write-ahead log after a large commit.
            .pragma("journal_size_limit", "4194304");
        let pool = pool(2).connect_with(options).await?;
        let version = file::version(&pool).await?;
        file::check_version(&path, version)?;
        file::migrate(&pool, &path, version, &failpoint).await?;
        let writer = Writer { pool, failpoint, fence: Fence };
        Ok(Self { writer, directory: directory.to_owned() })
    }

    /// Returns whether a process has locked a session.
    pub fn is_held(&self, session: SessionId) -> bool {
        lock::is_held(&self.directory, session)
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.writer.pool.close().await;
    }

    #[expect(clippy::unused_async, reason = "other databases wait")]
    async fn take_hold(
        &self,
        session: SessionId,
        holder: Holder,
    ) -> Result<SessionLock, StoreError> {
        lock::acquire(&self.directory, session, &holder)
    }

    /// Holds a session for one write.
    async fn hold_briefly(&self, session: SessionId) -> Result<SessionLock, StoreError> {
        self.take_hold(session, Holder::this_process(Millis(0))).await
    }

    async fn read_only(&self) -> Result<Self, StoreError> {
        // The single connection reads in one transaction, which sees the database as of its first statement.
        let options = self.writer.pool.connect_options().as_ref().clone().read_only(true);
        let pool = pool(1).connect_with(options).await?;
        sqlx::raw_sql("BEGIN; SELECT COUNT(*) FROM session LIMIT 1;").execute(&pool).await?;
        let writer = Writer { pool, ..self.writer.clone() };
        Ok(Self { writer, ..self.clone() })
    }

    #[expect(clippy::unused_self, reason = "other databases are shared")]
    const fn as_shared(&self) -> Option<&PostgresStore> {
        None
    }

    async fn give_back_pages(&self) {
        file::give_back_pages(&self.writer.pool).await;
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
