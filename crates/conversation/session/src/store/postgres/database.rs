//! The parts of the shared queries that are specific to PostgreSQL.

use convoke_protocol::id::{EventNumber, SessionId, ThreadId};
use sqlx::Row as _;

pub(super) use super::inbox::take_message;
pub(super) use super::lease::Fence;
pub(super) use super::offer::{put_message, remove_shared, set_offer};
pub(super) use super::search::{index_messages, remove_from_index};
pub(super) use super::signal::remove_signals;
use crate::store::StoreError;

pub(super) type Database = sqlx::Postgres;
pub(super) type Pool = sqlx::PgPool;
pub(super) type Connection = sqlx::PgConnection;
pub(super) type DatabaseRow = sqlx::postgres::PgRow;
pub(super) type QueryResult = sqlx::postgres::PgQueryResult;

pub(super) const BEGIN: &str = "BEGIN";
/// Starts a transaction that may wait for its source for longer than a lease.
pub(super) const BEGIN_IMPORT: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Advances the head of a session and announces it to other processes. Listeners get the announcement when the
/// transaction commits, and read the rows themselves.
pub(super) const MOVE_HEAD: &str = "UPDATE session SET events = $7, updated_at = $1, state = $2, \
         messages = $3, turns = $4 WHERE id = $5 AND events = $6 \
         RETURNING pg_notify('convoke', id || ' ' || events)";
/// The beginning of a message's text, cut at a byte boundary.
pub(super) const BEGINNING: &str = "SUBSTR(message.content, 1, 800)";
/// The maximum number of characters of a beginning.
const BEGINNING_CHARS: usize = 200;
/// The channel on which new heads are announced.
pub(super) const CHANNEL: &str = "convoke";

/// The attempts, costs and tokens of a session, by member.
pub(super) const COSTS: &str = "SELECT turn.member AS member, COUNT(*) AS attempts, \
         SUM((record::JSON #>> '{ended,costUsd}')::FLOAT8) AS cost, \
         SUM((record::JSON #>> '{ended,usage,input}')::BIGINT)::BIGINT AS input, \
         SUM((record::JSON #>> '{ended,usage,cached}')::BIGINT)::BIGINT AS cached, \
         SUM((record::JSON #>> '{ended,usage,cacheWrite}')::BIGINT)::BIGINT AS cache_write, \
         SUM((record::JSON #>> '{ended,usage,output}')::BIGINT)::BIGINT AS output, \
         SUM((record::JSON #>> '{ended,usage,reasoning}')::BIGINT)::BIGINT AS reasoning \
         FROM attempt JOIN turn ON turn.session = attempt.session AND turn.number = attempt.turn \
         WHERE attempt.session = $1 GROUP BY turn.member ORDER BY turn.member";

/// Converts a number for SQL.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a text, which may contain any characters, for SQL.
pub(super) const fn text_value(text: &str) -> &[u8] {
    text.as_bytes()
}

/// Converts a text, which may contain any characters, for SQL.
pub(super) fn owned_text(text: String) -> Vec<u8> {
    text.into_bytes()
}

pub(super) fn text(row: &DatabaseRow, column: &str) -> Result<String, StoreError> {
    decode(row.try_get(column)?, column)
}

pub(super) fn optional_text(row: &DatabaseRow, column: &str) -> Result<Option<String>, StoreError> {
    let bytes: Option<Vec<u8>> = row.try_get(column)?;
    bytes.map(|bytes| decode(bytes, column)).transpose()
}

fn decode(bytes: Vec<u8>, column: &str) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|_| StoreError::Damaged(format!("`{column}` is not UTF-8")))
}

pub(super) fn beginning(row: &DatabaseRow) -> Result<Option<String>, StoreError> {
    let bytes: Option<Vec<u8>> = row.try_get("beginning")?;
    let text = |bytes: Vec<u8>| {
        String::from_utf8_lossy(&bytes).chars().take(BEGINNING_CHARS).collect::<String>()
    };
    Ok(bytes.map(text))
}

/// Locks a thread against other writers until the transaction ends.
pub(super) async fn lock_thread(
    connection: &mut Connection,
    thread: &ThreadId,
) -> Result<(), StoreError> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(thread.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

/// Locks the contents against other writers until the transaction ends. Otherwise, another writer could rely on
/// a content that is about to be removed.
pub(super) async fn lock_contents(connection: &mut Connection) -> Result<(), StoreError> {
    sqlx::query("LOCK TABLE content_use IN SHARE ROW EXCLUSIVE MODE").execute(connection).await?;
    Ok(())
}

/// Announces a new session to other processes.
pub(super) async fn notify(
    connection: &mut Connection,
    session: SessionId,
    head: EventNumber,
) -> Result<(), StoreError> {
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(format!("{session} {}", head.0))
        .execute(connection)
        .await?;
    Ok(())
}
