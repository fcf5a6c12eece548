//! The tables: created once, and checked before anything is read.

use sqlx::postgres::{PgConnection, PgPool};

use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use crate::store::sql::{SqlConnection as _, migration};

/// The format of the tables. Changing `schema.sql` requires a new format and a migration.
const FORMAT: i64 = 5;
/// The first format in which sessions are logs.
const FIRST_WITH_LOG: i64 = 5;
const SCHEMA: &str = include_str!("schema.sql");
/// The migrations: the format that each applies to, and its statements.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("to-format-2.sql")),
    (2, include_str!("to-format-3.sql")),
    (3, include_str!("to-format-4.sql")),
    (4, include_str!("to-format-5.sql")),
];
/// The key of the lock under which the tables are created: `Conv`.
const LOCK: i64 = 0x436F_6E76;

/// Creates the tables, if there are none. A second process waits and then finds them.
pub(super) async fn prepare(pool: &PgPool) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    match format(&mut transaction).await? {
        Some(FORMAT) => return Ok(()),
        Some(found) if MIGRATIONS.iter().any(|(from, _)| *from == found) => {
            return Err(StoreError::OldDatabase { found, expected: FORMAT });
        }
        Some(found) => return Err(StoreError::DatabaseVersion { found, expected: FORMAT }),
        None => {}
    }
    sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
    sqlx::raw_sql("CREATE TABLE convoke_store (format BIGINT NOT NULL)")
        .execute(&mut *transaction)
        .await?;
    sqlx::query("INSERT INTO convoke_store (format) VALUES ($1)")
        .bind(FORMAT)
        .execute(&mut *transaction)
        .await?;
    Ok(transaction.commit().await?)
}

/// Migrates the tables of an older format in one transaction. Refused while a process holds a session or a node is alive: it
/// would lose what it runs. Returns the format that was found.
pub(super) async fn migrate(pool: &PgPool, failpoint: &Failpoint) -> Result<i64, StoreError> {
    let mut transaction = pool.begin_with(PgConnection::BEGIN_IMPORT).await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    let found = match format(&mut transaction).await? {
        None | Some(FORMAT) => return Ok(FORMAT),
        Some(found) => found,
    };
    let Some(first) = MIGRATIONS.iter().position(|(from, _)| *from == found) else {
        return Err(StoreError::DatabaseVersion { found, expected: FORMAT });
    };
    for (_, statements) in &MIGRATIONS[first..] {
        failpoint.reach();
        sqlx::raw_sql(*statements).execute(&mut *transaction).await?;
    }
    // Now that the tables are locked, nobody can claim a session.
    let holder = "SELECT pid, host, since FROM lease WHERE until > clock_timestamp() \
        UNION ALL SELECT pid, host, since FROM node WHERE until > clock_timestamp() LIMIT 1";
    if let Some(row) = sqlx::query(holder).fetch_optional(&mut *transaction).await? {
        return Err(StoreError::InUse { holder: super::offer::holder(&row)? });
    }
    if found < FIRST_WITH_LOG {
        migration::make_logs(&mut *transaction, failpoint).await?;
        sqlx::raw_sql("DROP TABLE progress").execute(&mut *transaction).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(found)
}

async fn format(connection: &mut PgConnection) -> Result<Option<i64>, StoreError> {
    let (is_there,): (bool,) = sqlx::query_as("SELECT to_regclass('convoke_store') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !is_there {
        return Ok(None);
    }
    let (format,): (i64,) =
        sqlx::query_as("SELECT format FROM convoke_store").fetch_one(connection).await?;
    Ok(Some(format))
}
