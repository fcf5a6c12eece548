//! The threads of models: append-only logs of lines.

use super::connection::{SqlConnection, SqlRow, number, text};
use super::query::{query, sql, text_value};
use super::{Backend, SqlStore};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use crate::thread::{LoneThread, ThreadOwner};
use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::id::{MessageNumber, SessionId, ThreadId};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};

pub(super) async fn lines(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
) -> Result<Vec<ThreadLine>, StoreError> {
    let rows = query("SELECT line, as_of FROM thread_line WHERE thread = $1 ORDER BY number")
        .bind(thread.as_str())
        .fetch_all(connection)
        .await?;
    rows.iter().map(line).collect()
}

fn line(row: &impl SqlRow) -> Result<ThreadLine, StoreError> {
    let as_of: Option<i64> = row.get("as_of")?;
    let as_of = as_of.and_then(|number| u64::try_from(number).ok()).map(MessageNumber);
    Ok(ThreadLine { as_of, text: text(row, "line")? })
}

pub(super) async fn of_session(
    connection: &mut impl SqlConnection,
    session: SessionId,
) -> Result<Vec<ThreadId>, StoreError> {
    let rows = query("SELECT name FROM thread WHERE session = $1 ORDER BY name")
        .bind(session.to_string())
        .fetch_all(connection)
        .await?;
    rows.iter().map(|row| id(row.get("name")?)).collect()
}

pub(super) async fn owner(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
) -> Result<Option<ThreadOwner>, StoreError> {
    let found = query("SELECT session FROM thread WHERE name = $1")
        .bind(thread.as_str())
        .fetch_optional(connection)
        .await?;
    let Some(found) = found else { return Ok(None) };
    let session: Option<&str> = found.get("session")?;
    let Some(session) = session else { return Ok(Some(ThreadOwner::Nobody)) };
    let session = session.parse().map_err(|_| {
        StoreError::Damaged(format!(
            "the thread {thread} belongs to `{session}`, which is not a session"
        ))
    })?;
    Ok(Some(ThreadOwner::Session(session)))
}

pub(super) async fn lone(
    connection: &mut impl SqlConnection,
) -> Result<Vec<LoneThread>, StoreError> {
    let rows = query(
        "SELECT name, \
         (SELECT COALESCE(SUM(OCTET_LENGTH(line)), 0) FROM thread_line WHERE thread = name) + \
         (SELECT COALESCE(SUM(OCTET_LENGTH(packed)), 0) FROM request_text WHERE thread = name) AS bytes \
         FROM thread WHERE session IS NULL ORDER BY name",
    )
    .fetch_all(connection)
    .await?;
    let thread =
        |row| Ok(LoneThread { id: id(SqlRow::get(row, "name")?)?, bytes: number(row, "bytes")? });
    rows.iter().map(thread).collect()
}

fn id(name: &str) -> Result<ThreadId, StoreError> {
    ThreadId::parse(name)
        .ok_or_else(|| StoreError::Damaged(format!("`{name}` cannot be the id of a thread")))
}

pub(super) async fn remove_lone(
    store: &SqlStore<impl Backend>,
    thread: &ThreadId,
) -> Result<bool, StoreError> {
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    transaction.lock_thread(thread).await?;
    let removed = query("DELETE FROM thread WHERE name = $1 AND session IS NULL")
        .bind(thread.as_str())
        .execute(&mut *transaction)
        .await?;
    if removed == 0 {
        return Ok(false);
    }
    for statement in [
        "DELETE FROM request WHERE thread = $1",
        "DELETE FROM request_text WHERE thread = $1",
        "DELETE FROM thread_line WHERE thread = $1",
    ] {
        query(statement).bind(thread.as_str()).execute(&mut *transaction).await?;
    }
    store.end(transaction).await?;
    Ok(true)
}

/// Appends lines as part of a session's commit. A new thread belongs to the session.
pub(super) async fn append(
    connection: &mut impl SqlConnection,
    failpoint: &Failpoint,
    session: SessionId,
    append: &ThreadAppend,
    as_of: MessageNumber,
) -> Result<(), StoreError> {
    connection.lock_thread(&append.thread).await?;
    expect_lines(connection, append).await?;
    name(connection, &append.thread, Some(session)).await?;
    failpoint.reach();
    insert(connection, append, Some(sql(as_of.0))).await
}

/// Appends lines in their own transaction. A new thread belongs to no session.
pub(super) async fn extend(
    store: &SqlStore<impl Backend>,
    append: &ThreadAppend,
) -> Result<(), StoreError> {
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    let owner = owner(&mut *transaction, &append.thread).await?;
    if let Some(ThreadOwner::Session(session)) = owner {
        store.backend.check(&mut *transaction, session).await?;
    }
    transaction.lock_thread(&append.thread).await?;
    expect_lines(&mut *transaction, append).await?;
    name(&mut *transaction, &append.thread, None).await?;
    let last = "SELECT as_of FROM thread_line WHERE thread = $1 ORDER BY number DESC LIMIT 1";
    let last = query(last).bind(append.thread.as_str()).fetch_optional(&mut *transaction).await?;
    let as_of = last.map(|row| row.get("as_of")).transpose()?.flatten();
    insert(&mut *transaction, append, as_of).await?;
    store.end(transaction).await?;
    Ok(())
}

/// Fails if a thread does not have the number of lines that the append expects.
async fn expect_lines(
    connection: &mut impl SqlConnection,
    append: &ThreadAppend,
) -> Result<(), StoreError> {
    let lines = "SELECT MAX(number) AS last FROM thread_line WHERE thread = $1";
    let last = query(lines).bind(append.thread.as_str()).fetch_optional(connection).await?;
    let last: Option<i64> = last.map(|row| row.get("last")).transpose()?.flatten();
    if last.map_or(0, |number| number + 1) == sql(append.known as u64) {
        return Ok(());
    }
    Err(ThreadStoreError::Changed(append.thread.clone()).into())
}

/// Records the owner of a thread without one. Returns whether it had none.
pub(super) async fn name(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
    session: Option<SessionId>,
) -> Result<bool, StoreError> {
    let named = query("INSERT INTO thread (name, session) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(thread.as_str())
        .bind(session.map(|session| session.to_string()))
        .execute(connection)
        .await?;
    Ok(named == 1)
}

async fn insert(
    connection: &mut impl SqlConnection,
    append: &ThreadAppend,
    as_of: Option<i64>,
) -> Result<(), StoreError> {
    for (line, number) in append.lines.iter().zip(append.known as u64..) {
        let insert =
            "INSERT INTO thread_line (thread, number, line, as_of) VALUES ($1, $2, $3, $4)";
        query(insert)
            .bind(append.thread.as_str())
            .bind(sql(number))
            .bind(text_value(line.as_str()))
            .bind(as_of)
            .execute(connection)
            .await?;
    }
    Ok(())
}
