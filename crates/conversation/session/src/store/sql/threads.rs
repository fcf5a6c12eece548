//! The threads of models: append-only logs of lines.

use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::id::{MessageNumber, SessionId, ThreadId};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use sqlx::Row as _;

use super::Writer;
use super::database::{
    BEGIN, Connection, Database, DatabaseRow, Pool, lock_thread, sql, text, text_value,
};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use crate::thread::{LoneThread, ThreadOwner};

pub(super) async fn lines(pool: &Pool, thread: &ThreadId) -> Result<Vec<ThreadLine>, StoreError> {
    let rows = sqlx::query("SELECT line, as_of FROM thread_line WHERE thread = $1 ORDER BY number")
        .bind(thread.as_str())
        .fetch_all(pool)
        .await?;
    let line = |row: &DatabaseRow| {
        let as_of: Option<i64> = row.try_get("as_of")?;
        let as_of = as_of.and_then(|number| u64::try_from(number).ok()).map(MessageNumber);
        Ok(ThreadLine { as_of, text: text(row, "line")? })
    };
    rows.iter().map(line).collect()
}

pub(super) async fn of_session(
    pool: &Pool,
    session: SessionId,
) -> Result<Vec<ThreadId>, StoreError> {
    let rows: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM thread WHERE session = $1 ORDER BY name")
            .bind(session.to_string())
            .fetch_all(pool)
            .await?;
    rows.into_iter().map(|(name,)| id(&name)).collect()
}

pub(super) async fn owner(
    executor: impl sqlx::Executor<'_, Database = Database>,
    thread: &ThreadId,
) -> Result<Option<ThreadOwner>, StoreError> {
    let found: Option<(Option<String>,)> =
        sqlx::query_as("SELECT session FROM thread WHERE name = $1")
            .bind(thread.as_str())
            .fetch_optional(executor)
            .await?;
    let Some((session,)) = found else { return Ok(None) };
    let Some(session) = session else { return Ok(Some(ThreadOwner::Nobody)) };
    let session = session.parse().map_err(|_| {
        StoreError::Damaged(format!(
            "the thread {thread} belongs to `{session}`, which is not a session"
        ))
    })?;
    Ok(Some(ThreadOwner::Session(session)))
}

pub(super) async fn lone(pool: &Pool) -> Result<Vec<LoneThread>, StoreError> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT name, \
         (SELECT COALESCE(SUM(OCTET_LENGTH(line)), 0) FROM thread_line WHERE thread = name) + \
         (SELECT COALESCE(SUM(OCTET_LENGTH(packed)), 0) FROM request_text WHERE thread = name) \
         FROM thread WHERE session IS NULL ORDER BY name",
    )
    .fetch_all(pool)
    .await?;
    let thread = |(name, bytes): (String, i64)| {
        Ok(LoneThread { id: id(&name)?, bytes: u64::try_from(bytes).unwrap_or(0) })
    };
    rows.into_iter().map(thread).collect()
}

fn id(name: &str) -> Result<ThreadId, StoreError> {
    ThreadId::parse(name)
        .ok_or_else(|| StoreError::Damaged(format!("`{name}` cannot be the id of a thread")))
}

pub(super) async fn remove_lone(writer: &Writer, thread: &ThreadId) -> Result<bool, StoreError> {
    let Writer { pool, failpoint, .. } = writer;
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    lock_thread(&mut transaction, thread).await?;
    let removed = sqlx::query("DELETE FROM thread WHERE name = $1 AND session IS NULL")
        .bind(thread.as_str())
        .execute(&mut *transaction)
        .await?;
    if removed.rows_affected() == 0 {
        return Ok(false);
    }
    for statement in [
        "DELETE FROM request WHERE thread = $1",
        "DELETE FROM request_text WHERE thread = $1",
        "DELETE FROM thread_line WHERE thread = $1",
    ] {
        sqlx::query(statement).bind(thread.as_str()).execute(&mut *transaction).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(true)
}

/// Appends lines as part of a session's commit. A new thread belongs to the session.
pub(super) async fn append(
    connection: &mut Connection,
    failpoint: &Failpoint,
    session: SessionId,
    append: &ThreadAppend,
    as_of: MessageNumber,
) -> Result<(), StoreError> {
    lock_thread(connection, &append.thread).await?;
    expect_lines(connection, append).await?;
    name(connection, &append.thread, Some(session)).await?;
    failpoint.reach();
    insert(connection, append, Some(sql(as_of.0))).await
}

/// Appends lines in their own transaction. A new thread belongs to no session.
pub(super) async fn extend(writer: &Writer, append: &ThreadAppend) -> Result<(), StoreError> {
    let Writer { pool, failpoint, fence } = writer;
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    let owner = owner(&mut *transaction, &append.thread).await?;
    if let Some(ThreadOwner::Session(session)) = owner {
        fence.check(&mut transaction, session).await?;
    }
    lock_thread(&mut transaction, &append.thread).await?;
    expect_lines(&mut transaction, append).await?;
    name(&mut transaction, &append.thread, None).await?;
    let last = "SELECT as_of FROM thread_line WHERE thread = $1 ORDER BY number DESC LIMIT 1";
    let last: Option<(Option<i64>,)> =
        sqlx::query_as(last).bind(append.thread.as_str()).fetch_optional(&mut *transaction).await?;
    insert(&mut transaction, append, last.and_then(|(as_of,)| as_of)).await?;
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(())
}

/// Fails if a thread does not have the number of lines that the append expects.
async fn expect_lines(
    connection: &mut Connection,
    append: &ThreadAppend,
) -> Result<(), StoreError> {
    let last = "SELECT MAX(number) FROM thread_line WHERE thread = $1";
    let (last,): (Option<i64>,) =
        sqlx::query_as(last).bind(append.thread.as_str()).fetch_one(connection).await?;
    if last.map_or(0, |number| number + 1) == sql(append.known as u64) {
        return Ok(());
    }
    Err(ThreadStoreError::Changed(append.thread.clone()).into())
}

/// Records the owner of a thread without one. Returns whether it had none.
pub(super) async fn name(
    connection: &mut Connection,
    thread: &ThreadId,
    session: Option<SessionId>,
) -> Result<bool, StoreError> {
    let named =
        sqlx::query("INSERT INTO thread (name, session) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(thread.as_str())
            .bind(session.map(|session| session.to_string()))
            .execute(connection)
            .await?;
    Ok(named.rows_affected() == 1)
}

async fn insert(
    connection: &mut Connection,
    append: &ThreadAppend,
    as_of: Option<i64>,
) -> Result<(), StoreError> {
    for (line, number) in append.lines.iter().zip(append.known as u64..) {
        let insert =
            "INSERT INTO thread_line (thread, number, line, as_of) VALUES ($1, $2, $3, $4)";
        sqlx::query(insert)
            .bind(append.thread.as_str())
            .bind(sql(number))
            .bind(text_value(line))
            .bind(as_of)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
