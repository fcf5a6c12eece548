//! The tables: created once, and checked before anything is read.

use sqlx::postgres::{PgConnection, PgPool};

use crate::store::StoreError;

/// The format of the tables. Changing `schema.sql` requires a new format and a migration.
const FORMAT: i64 = 4;
const SCHEMA: &str = include_str!("schema.sql");
/// The migrations: the format that each applies to, and its statements.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("to-format-2.sql")),
    (2, include_str!("to-format-3.sql")),
    (3, include_str!("to-format-4.sql")),
];
/// The key of the lock under which the tables are created: `Conv`.
const LOCK: i64 = 0x436F_6E76;

/// Creates the tables, or migrates those of an older format. A second process waits and then finds them up to
/// date.
pub(super) async fn prepare(pool: &PgPool) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    match format(&mut transaction).await? {
        Some(FORMAT) => return Ok(()),
        Some(found) => {
            let Some(first) = MIGRATIONS.iter().position(|(from, _)| *from == found) else {
                return Err(StoreError::DatabaseVersion { found, expected: FORMAT });
            };
            for (_, statements) in &MIGRATIONS[first..] {
                sqlx::raw_sql(*statements).execute(&mut *transaction).await?;
            }
            return Ok(transaction.commit().await?);
        }
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
