//! The parts of the shared queries that are specific to SQLite.

use std::future::{Ready, ready};

use convoke_protocol::id::{EventNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use sqlx::Row as _;

pub(super) use super::inbox::take_message;
use crate::coordinator::INBOX_LIMIT;
use crate::shared::TurnOffer;
use crate::store::StoreError;

pub(super) type Database = sqlx::Sqlite;
pub(super) type Pool = sqlx::SqlitePool;
pub(super) type Connection = sqlx::SqliteConnection;
pub(super) type DatabaseRow = sqlx::sqlite::SqliteRow;
pub(super) type QueryResult = sqlx::sqlite::SqliteQueryResult;

/// The result of a step that SQLite does not need.
type Nothing = Ready<Result<(), StoreError>>;

/// Takes the write lock immediately; a transaction that reads first may fail to get it later.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";
pub(super) const BEGIN_IMPORT: &str = BEGIN;
/// Advances the head of a session.
pub(super) const MOVE_HEAD: &str = "UPDATE session SET events = $7, updated_at = $1, state = $2, \
         messages = $3, turns = $4 WHERE id = $5 AND events = $6";
/// The beginning of a message's text.
pub(super) const BEGINNING: &str = "SUBSTR(message.content, 1, 200)";

/// The attempts, costs and tokens of a session, by member.
pub(super) const COSTS: &str = "SELECT turn.member AS member, COUNT(*) AS attempts, \
         SUM(JSON_EXTRACT(record, '$.ended.costUsd')) AS cost, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.input')) AS input, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cached')) AS cached, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cacheWrite')) AS cache_write, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.output')) AS output, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.reasoning')) AS reasoning \
         FROM attempt JOIN turn ON turn.session = attempt.session AND turn.number = attempt.turn \
         WHERE attempt.session = $1 GROUP BY turn.member ORDER BY turn.member";

/// Converts a number for SQL.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a text, which may contain any characters, for SQL.
pub(super) const fn text_value(text: &str) -> &str {
    text
}

/// Converts a text, which may contain any characters, for SQL.
pub(super) fn owned_text(text: String) -> String {
    text
}

pub(super) fn text(row: &DatabaseRow, column: &str) -> Result<String, StoreError> {
    Ok(row.try_get(column)?)
}

pub(super) fn optional_text(row: &DatabaseRow, column: &str) -> Result<Option<String>, StoreError> {
    Ok(row.try_get(column)?)
}

pub(super) fn beginning(row: &DatabaseRow) -> Result<Option<String>, StoreError> {
    optional_text(row, "beginning")
}

/// The check that this process may write a session. A file lock lasts as long as the process, so there is
/// nothing to check.
#[derive(Debug, Clone)]
pub(super) struct Fence;

impl Fence {
    #[expect(clippy::unused_self, reason = "other databases know more")]
    pub(super) fn check(&self, _: &mut Connection, _: SessionId) -> Nothing {
        ready(Ok(()))
    }
}

/// Does nothing, because every writing transaction of SQLite excludes other writers.
pub(super) fn lock_thread(_: &mut Connection, _: &ThreadId) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because every writing transaction of SQLite excludes other writers.
pub(super) fn lock_contents(_: &mut Connection) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because a trigger adds messages to the search index.
pub(super) fn index_messages(_: &mut Connection, _: &str, _: &Message) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because a trigger removes sessions from the search index.
pub(super) fn remove_from_index(_: &mut Connection, _: &str) -> Nothing {
    ready(Ok(()))
}

/// Puts a message into the inbox of a session. Returns whether there is a session with room for it.
pub(super) async fn put_message(
    pool: &Pool,
    session: SessionId,
    said: &[u8],
) -> Result<bool, StoreError> {
    let added = sqlx::query(
        "INSERT INTO inbox (session, said) SELECT id, $2 FROM session \
         WHERE id = $1 AND removed_at IS NULL \
         AND (SELECT COUNT(*) FROM inbox WHERE session = $1) < $3",
    );
    let limit = i64::try_from(INBOX_LIMIT).unwrap_or(i64::MAX);
    let added = added.bind(session.to_string()).bind(said).bind(limit).execute(pool).await?;
    Ok(added.rows_affected() == 1)
}

/// Does nothing, because turns in SQLite are not offered: the lock ends with the process.
pub(super) fn set_offer(_: &mut Connection, _: SessionId, _: &TurnOffer) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because there are no signals in SQLite.
pub(super) fn remove_signals(_: &mut Connection, _: SessionId, _: TurnId) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because processes share no rows in SQLite.
pub(super) fn remove_shared(_: &mut Connection, _: &str) -> Nothing {
    ready(Ok(()))
}

/// Does nothing, because other processes poll the file.
pub(super) fn notify(_: &mut Connection, _: SessionId, _: EventNumber) -> Nothing {
    ready(Ok(()))
}
