//! The threads of models: logs of lines that only grow.

use sqlx::sqlite::{SqliteConnection, SqlitePool};

use super::sql;
use super::write::BEGIN;
use crate::id::{MessageNumber, SessionId};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use crate::thread::{Addition, LoneThread, ThreadLine, ThreadOwner};

pub(super) async fn lines(pool: &SqlitePool, thread: &str) -> Result<Vec<ThreadLine>, StoreError> {
    let rows: Vec<(String, Option<i64>)> =
        sqlx::query_as("SELECT line, as_of FROM thread_line WHERE thread = $1 ORDER BY number")
            .bind(thread)
            .fetch_all(pool)
            .await?;
    let line = |(text, as_of): (String, Option<i64>)| {
        let as_of = as_of.and_then(|number| u64::try_from(number).ok()).map(MessageNumber);
        ThreadLine { as_of, text }
    };
    Ok(rows.into_iter().map(line).collect())
}

pub(super) async fn of_session(
    pool: &SqlitePool,
    session: SessionId,
) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM thread WHERE session = $1 ORDER BY name")
            .bind(session.to_string())
            .fetch_all(pool)
            .await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

pub(super) async fn owner(
    pool: &SqlitePool,
    thread: &str,
) -> Result<Option<ThreadOwner>, StoreError> {
    let found: Option<(Option<String>,)> =
        sqlx::query_as("SELECT session FROM thread WHERE name = $1")
            .bind(thread)
            .fetch_optional(pool)
            .await?;
    let Some((session,)) = found else { return Ok(None) };
    let Some(session) = session else { return Ok(Some(ThreadOwner::Nobody)) };
    let session = session.parse().map_err(|_| {
        StoreError::Damaged(format!("the thread {thread} is of `{session}`, which is no session"))
    })?;
    Ok(Some(ThreadOwner::Session(session)))
}

pub(super) async fn of_nobody(pool: &SqlitePool) -> Result<Vec<LoneThread>, StoreError> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT name, \
         (SELECT COALESCE(SUM(LENGTH(CAST(line AS BLOB))), 0) FROM thread_line WHERE thread = name) + \
         (SELECT COALESCE(SUM(LENGTH(packed)), 0) FROM request_text WHERE thread = name) \
         FROM thread WHERE session IS NULL ORDER BY name",
    )
    .fetch_all(pool)
    .await?;
    let thread = |(name, bytes)| LoneThread { name, bytes: u64::try_from(bytes).unwrap_or(0) };
    Ok(rows.into_iter().map(thread).collect())
}

pub(super) async fn remove_lone(
    pool: &SqlitePool,
    failpoint: &Failpoint,
    thread: &str,
) -> Result<bool, StoreError> {
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    let removed = sqlx::query("DELETE FROM thread WHERE name = $1 AND session IS NULL")
        .bind(thread)
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
        sqlx::query(statement).bind(thread).execute(&mut *transaction).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(true)
}

/// Adds lines as a part of a session's commit; a thread that is not there yet is the session's.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    failpoint: &Failpoint,
    session: SessionId,
    addition: Addition,
) -> Result<(), StoreError> {
    let Addition { thread, known, lines } = addition;
    expect_lines(connection, &thread, known).await?;
    name(connection, &thread, Some(session)).await?;
    failpoint.reach();
    for (line, number) in lines.iter().zip(known as u64..) {
        let as_of = line.as_of.map(|number| sql(number.0));
        insert(connection, &thread, number, as_of, &line.text).await?;
    }
    Ok(())
}

/// Adds lines in a transaction of their own; a thread that is not there yet is no session's.
pub(super) async fn extend(
    pool: &SqlitePool,
    failpoint: &Failpoint,
    thread: &str,
    known: usize,
    lines: &[String],
) -> Result<(), StoreError> {
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    expect_lines(&mut transaction, thread, known).await?;
    name(&mut transaction, thread, None).await?;
    let last = "SELECT as_of FROM thread_line WHERE thread = $1 ORDER BY number DESC LIMIT 1";
    let last: Option<(Option<i64>,)> =
        sqlx::query_as(last).bind(thread).fetch_optional(&mut *transaction).await?;
    let as_of = last.and_then(|(as_of,)| as_of);
    for (line, number) in lines.iter().zip(known as u64..) {
        insert(&mut transaction, thread, number, as_of, line).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(())
}

/// Refuses a thread that has another number of lines.
async fn expect_lines(
    connection: &mut SqliteConnection,
    thread: &str,
    known: usize,
) -> Result<(), StoreError> {
    let last = "SELECT MAX(number) FROM thread_line WHERE thread = $1";
    let (last,): (Option<i64>,) = sqlx::query_as(last).bind(thread).fetch_one(connection).await?;
    if last.map_or(0, |number| number + 1) == sql(known as u64) {
        return Ok(());
    }
    Err(StoreError::ThreadChanged(thread.to_owned()))
}

/// Notes whose a thread is, if nobody has yet.
pub(super) async fn name(
    connection: &mut SqliteConnection,
    thread: &str,
    session: Option<SessionId>,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO thread (name, session) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(thread)
        .bind(session.map(|session| session.to_string()))
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert(
    connection: &mut SqliteConnection,
    thread: &str,
    number: u64,
    as_of: Option<i64>,
    line: &str,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO thread_line (thread, number, line, as_of) VALUES ($1, $2, $3, $4)")
        .bind(thread)
        .bind(sql(number))
        .bind(line)
        .bind(as_of)
        .execute(connection)
        .await?;
    Ok(())
}
