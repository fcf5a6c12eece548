//! A store in one SQLite file, in a directory that only the user can read.

mod connection;
mod file;
mod lock;
mod search;

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_protocol::id::SessionId;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};

pub use self::lock::SessionLock;
use super::failpoint::Failpoint;
use super::sql::{Backend, OpenImport, SqlStore};
use super::{Holder, StoreError};

/// Sessions in one SQLite file. Clones share it.
pub type SqliteStore = SqlStore<SqliteFile>;

/// A whole session that is being imported into a file.
pub type SqliteImport = OpenImport<SqliteFile>;

/// A file of sessions, with their locks in the same directory.
#[derive(Debug, Clone)]
pub struct SqliteFile {
    directory: PathBuf,
}

impl Backend for SqliteFile {
    type Connection = SqliteConnection;
    type Hold = SessionLock;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<SessionLock, StoreError> {
        lock::acquire(&self.directory, session, &holder)
    }

    /// Checks nothing, because a lock of a file lasts as long as the process.
    async fn check(&self, _: &mut SqliteConnection, _: SessionId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn snapshot(&self, of: &SqlitePool) -> Result<SqlitePool, StoreError> {
        // The single connection reads in one transaction, which sees the database as of its first statement.
        let options = of.connect_options().as_ref().clone().read_only(true);
        let pool = pool(1).connect_with(options).await?;
        sqlx::raw_sql("BEGIN; SELECT COUNT(*) FROM session LIMIT 1;").execute(&pool).await?;
        Ok(pool)
    }

    async fn give_back_pages(pool: &SqlitePool) {
        file::give_back_pages(pool).await;
    }
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
        let backend = SqliteFile { directory: directory.to_owned() };
        Ok(Self { pool, failpoint: Failpoint::default(), backend })
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
        let backend = SqliteFile { directory: directory.to_owned() };
        Ok(Self { pool, failpoint, backend })
    }

    /// Returns whether a process has locked a session.
    pub fn is_held(&self, session: SessionId) -> bool {
        lock::is_held(&self.backend.directory, session)
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
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
