//! The database file: created atomically, and checked before SQLite opens it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sqlx::ConnectOptions;
use sqlx::Connection;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteExecutor, SqliteJournalMode,
    SqlitePool,
};

use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use crate::store::sql::{SqlConnection as _, migration};

/// The name of the file.
pub(super) const NAME: &str = "sessions.db";
/// The application id in the file's header: `Conv`.
const APPLICATION: u32 = 0x436F_6E76;
/// The format of the tables. Changing `schema.sql` requires a new format and a migration.
const FORMAT: u32 = 7;
/// The oldest format that can be migrated.
const OLDEST: u32 = 1;
/// The first format in which sessions are logs.
const FIRST_WITH_LOG: u32 = 7;
const SCHEMA: &str = include_str!("schema.sql");
/// The migration to each format after the oldest.
const MIGRATIONS: [(u32, &str); 6] = [
    (2, include_str!("to-format-2.sql")),
    (3, include_str!("to-format-3.sql")),
    (4, include_str!("to-format-4.sql")),
    (5, include_str!("to-format-5.sql")),
    (6, include_str!("to-format-6.sql")),
    (7, include_str!("to-format-7.sql")),
];
/// The header of a new file. Must match the constants above.
const HEADER: &str = "PRAGMA application_id = 0x436F6E76; PRAGMA user_version = 7;";
/// The header after a migration.
const VERSION: &str = "PRAGMA user_version = 7;";

/// Creates the directory and the file if necessary, and checks an existing file.
pub(super) async fn prepare(directory: &Path) -> Result<PathBuf, StoreError> {
    make_private_directory(directory)?;
    let path = directory.join(NAME);
    if !path.try_exists().map_err(at(&path))? {
        create(directory, &path).await?;
    }
    check_header(&path)?;
    let mut permissions = fs::metadata(&path).map_err(at(&path))?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o600);
        fs::set_permissions(&path, permissions).map_err(at(&path))?;
    }
    Ok(path)
}

pub(super) fn make_private_directory(directory: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at(directory))
}

/// Creates the file under a temporary name and renames it when it is complete. If two processes do so at the
/// same time, one succeeds.
async fn create(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let draft = directory.join(format!(".draft-{}.db", uuid::Uuid::now_v7().simple()));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    drop(made.map_err(at(&draft))?);
    let filled = fill(&draft).await;
    let linked = filled.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(path)(error)),
        _ => Ok(()),
    });
    fs::remove_file(&draft).map_err(at(&draft))?;
    linked?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))
}

async fn fill(draft: &Path) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(draft)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal);
    let mut connection = options.connect().await?;
    sqlx::raw_sql(SCHEMA).execute(&mut connection).await?;
    sqlx::raw_sql(HEADER).execute(&mut connection).await?;
    // Closing moves everything from the log into the file.
    connection.close().await?;
    File::open(draft).and_then(|file| file.sync_all()).map_err(at(draft))
}

/// Checks the header of the file without SQLite, which could modify the file.
fn check_header(path: &Path) -> Result<(), StoreError> {
    check_version(path, format_in_header(path)?)
}

/// Returns whether the file is of the current format, and has all rows: no log beside it has any.
pub(super) fn is_all_there_is(directory: &Path) -> bool {
    let log = directory.join(format!("{NAME}-wal"));
    let has_log = fs::symlink_metadata(log).is_ok_and(|log| !log.is_file() || log.len() > 0);
    !has_log && format_in_header(&directory.join(NAME)).is_ok_and(|format| format == FORMAT)
}

/// Returns the format of a file of Convoke.
fn format_in_header(path: &Path) -> Result<u32, StoreError> {
    let foreign = || StoreError::Foreign { path: path.to_owned() };
    let mut header = [0; 100];
    let mut file = File::open(path).map_err(at(path))?;
    file.read_exact(&mut header).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => foreign(),
        _ => at(path)(error),
    })?;
    let number = |offset: usize| {
        u32::from_be_bytes([
            header[offset],
            header[offset + 1],
            header[offset + 2],
            header[offset + 3],
        ])
    };
    if !header.starts_with(b"SQLite format 3\0") || number(68) != APPLICATION {
        return Err(foreign());
    }
    Ok(number(60))
}

/// Migrates an older file in one transaction, after a copy of it was made beside it. Does nothing if another process has
/// migrated it meanwhile.
pub(super) async fn migrate(
    pool: &SqlitePool,
    path: &Path,
    found: u32,
    failpoint: &Failpoint,
) -> Result<(), StoreError> {
    if found == FORMAT {
        return Ok(());
    }
    let mut transaction = pool.begin_with(SqliteConnection::BEGIN).await?;
    let found = version(&mut *transaction).await?;
    if found == FORMAT {
        return Ok(());
    }
    // Other connections can read meanwhile, and nobody else can migrate.
    back_up(pool, path, found).await?;
    for (_, migration) in MIGRATIONS.into_iter().filter(|(to, _)| *to > found) {
        failpoint.reach();
        sqlx::raw_sql(migration).execute(&mut *transaction).await?;
    }
    if found < FIRST_WITH_LOG {
        migration::make_logs(&mut *transaction, failpoint).await?;
        sqlx::raw_sql("DROP TABLE progress").execute(&mut *transaction).await?;
    }
    sqlx::raw_sql(VERSION).execute(&mut *transaction).await?;
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(())
}

/// Copies the file as it is to `sessions.format-N.db`, whole or not at all. A copy that an interrupted migration made is
/// replaced.
async fn back_up(pool: &SqlitePool, path: &Path, found: u32) -> Result<(), StoreError> {
    let backup = path.with_extension(format!("format-{found}.db"));
    let draft = path.with_extension(format!("draft-{}", uuid::Uuid::now_v7().simple()));
    // `VACUUM INTO` takes an empty file, which is then not readable for others.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    drop(made.map_err(at(&draft))?);
    let name = draft.to_str().ok_or_else(|| StoreError::Io {
        path: draft.clone(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"),
    })?;
    let copied = sqlx::query("VACUUM INTO $1").bind(name).execute(pool).await;
    let kept = copied.map_err(StoreError::from).and_then(|_| {
        File::open(&draft).and_then(|file| file.sync_all()).map_err(at(&draft))?;
        fs::rename(&draft, &backup).map_err(at(&backup))
    });
    if kept.is_err() {
        // The error of the copy is the one to report.
        let _ = fs::remove_file(&draft);
    }
    kept
}

/// The number of free pages (1 MiB) at which they are returned to the file system.
const FREE_PAGES: i64 = 256;

/// Returns free pages to the file system. Failures are ignored and retried next time.
pub(super) async fn give_back_pages(pool: &SqlitePool) {
    if let Err(error) = try_give_back_pages(pool).await {
        tracing::debug!("free pages were not released: {error}");
    }
}

async fn try_give_back_pages(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    let (free,): (i64,) = sqlx::query_as("PRAGMA freelist_count").fetch_one(pool).await?;
    if free < FREE_PAGES {
        return Ok(());
    }
    let mut connection = pool.acquire().await?;
    let (mode,): (i64,) = sqlx::query_as("PRAGMA auto_vacuum").fetch_one(&mut *connection).await?;
    // A file of an early version must be rewritten once.
    let give_back = match mode {
        // `VACUUM` also renumbers the rows of `message`, which the search index refers to.
        0 => {
            "PRAGMA auto_vacuum = INCREMENTAL; VACUUM; \
             INSERT INTO message_search (message_search) VALUES ('rebuild');"
        }
        _ => "PRAGMA incremental_vacuum;",
    };
    sqlx::raw_sql(give_back).execute(&mut *connection).await?;
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE);").execute(&mut *connection).await?;
    Ok(())
}

/// Reads the format from the tables, because the header in the file may be older than the log.
pub(super) async fn version(connection: impl SqliteExecutor<'_>) -> Result<u32, StoreError> {
    let (version,): (i64,) = sqlx::query_as("PRAGMA user_version").fetch_one(connection).await?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

pub(super) fn check_version(path: &Path, found: u32) -> Result<(), StoreError> {
    if (OLDEST..=FORMAT).contains(&found) {
        return Ok(());
    }
    Err(StoreError::Version { path: path.to_owned(), found, expected: FORMAT })
}

/// Refuses a file that would have to be migrated.
pub(super) fn check_current(path: &Path, found: u32) -> Result<(), StoreError> {
    if found == FORMAT {
        return Ok(());
    }
    Err(StoreError::Version { path: path.to_owned(), found, expected: FORMAT })
}

/// Adds the path to an I/O error.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    |source| StoreError::Io { path: path.to_owned(), source }
}
