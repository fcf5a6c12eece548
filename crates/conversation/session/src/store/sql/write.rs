//! Writes: every change to a session is one transaction.

use std::collections::HashSet;

use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use convoke_protocol::session::{NewSession, Rehearsal, State};
use sqlx::QueryBuilder;

use super::database::{
    BEGIN, Connection, MOVE_HEAD, QueryResult, lock_contents, notify, remove_from_index,
    remove_shared, set_offer, sql, take_message, text_value,
};
use super::packed::pack;
use super::{Writer, log, pieces, projection, threads};
use crate::store::failpoint::Failpoint;
use crate::store::{Commit, StoreError};

/// The maximum number of rows per statement, below the limits of databases.
pub(super) const ROWS: usize = 512;

/// Creates a session with the first event of its log.
pub(super) async fn create(
    connection: &mut Connection,
    failpoint: &Failpoint,
    session: NewSession,
) -> Result<(), StoreError> {
    let id = session.id;
    let mut state = State::default();
    let event = created_event(&session);
    state.apply(&event.kind);
    let created = sqlx::query(
        "INSERT INTO session (id, created_at, updated_at, name, directory, team, first_task, \
         rehearsal, events, state, messages, turns) VALUES ($1, $2, $2, $3, $4, $5, $6, $7, 1, $8, 0, 0) \
         ON CONFLICT DO NOTHING",
    )
    .bind(id.to_string())
    .bind(session.created_at.0)
    .bind(session.name.as_deref().map(text_value))
    .bind(text_value(&session.directory))
    .bind(text_value(&session.team))
    .bind(session.task.as_deref().map(text_value))
    .bind(session.rehearsal.map(Rehearsal::as_str))
    .bind(json(&state)?)
    .execute(&mut *connection)
    .await?;
    if created.rows_affected() == 0 {
        return Err(StoreError::SessionExists(id));
    }
    failpoint.reach();
    log::append(connection, &id.to_string(), &[event]).await
}

/// Returns the first event of a session's log.
pub(super) fn created_event(session: &NewSession) -> Event {
    let (kind, at) = (EventKind::created(session), session.created_at);
    Event { kind, session: session.id, at, number: Some(EventNumber(1)), migrated: false }
}

pub(super) async fn commit(
    writer: &Writer,
    session: SessionId,
    commit: Commit,
) -> Result<EventNumber, StoreError> {
    let Writer { pool, failpoint, fence } = writer;
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    fence.check(&mut transaction, session).await?;
    let id = session.to_string();
    let head = log::check_numbers(session, commit.on, &commit.events)?;
    if let Some(last) = commit.events.last() {
        let state = &commit.state;
        let moved = sqlx::query(MOVE_HEAD)
            .bind(last.at.0)
            .bind(json(state)?)
            .bind(sql(state.last_message.0))
            .bind(sql(state.last_turn.0))
            .bind(&id)
            .bind(sql(commit.on.0))
            .bind(sql(head.0))
            .execute(&mut *transaction)
            .await?;
        if moved.rows_affected() == 0 {
            return Err(conflict(&mut transaction, session).await?);
        }
    }
    failpoint.reach();
    write_contents(&mut transaction, failpoint, &id, &commit.contents).await?;
    log::append(&mut transaction, &id, &commit.events).await?;
    projection::apply(&mut transaction, failpoint, session, &commit.events).await?;
    for piece in &commit.pieces {
        failpoint.reach();
        pieces::write(&mut transaction, session, piece).await?;
    }
    for append in &commit.threads {
        let as_of = commit.state.last_message;
        threads::append(&mut transaction, failpoint, session, append, as_of).await?;
    }
    if let Some(number) = commit.taken
        && !take_message(&mut transaction, session, number).await?
    {
        let what = format!("message {} of the inbox", number.0);
        return Err(StoreError::Recorded { session, what });
    }
    if let Some(offer) = &commit.offer {
        set_offer(&mut transaction, session, offer).await?;
    }
    if commit.events.is_empty() {
        notify(&mut transaction, session, head).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(head)
}

/// Returns why the head of a session is not as expected.
async fn conflict(
    connection: &mut Connection,
    session: SessionId,
) -> Result<StoreError, StoreError> {
    let known = sqlx::query("SELECT 1 FROM session WHERE id = $1").bind(session.to_string());
    Ok(match known.fetch_optional(connection).await? {
        Some(_) => StoreError::Conflict { session },
        None => StoreError::NoSession(session),
    })
}

/// Writes the contents of a session, except those that are stored already.
pub(super) async fn write_contents(
    connection: &mut Connection,
    failpoint: &Failpoint,
    session: &str,
    contents: &[Content],
) -> Result<(), StoreError> {
    for some in contents.chunks(ROWS) {
        let hashes: Vec<ContentHash> =
            some.iter().map(|content| content.reference().hash).collect();
        share(connection, session, &hashes).await?;
        let mut known = QueryBuilder::new("SELECT hash FROM content WHERE hash IN (");
        let mut listed = known.separated(", ");
        for hash in &hashes {
            listed.push_bind(hash.as_bytes().as_slice());
        }
        let known = known.push(")").build_query_as().fetch_all(&mut *connection).await?;
        let known: HashSet<Vec<u8>> = known.into_iter().map(|(hash,)| hash).collect();
        let mut new: Vec<(&ContentHash, &Content)> = hashes.iter().zip(some).collect();
        new.retain(|(hash, _)| !known.contains(hash.as_bytes().as_slice()));
        // Sorted, so that processes that write the same contents cannot deadlock.
        new.sort_by_key(|(hash, _)| hash.as_bytes());
        for (hash, content) in new {
            failpoint.reach();
            sqlx::query(
                "INSERT INTO content (hash, bytes, packed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(hash.as_bytes().as_slice())
            .bind(sql(content.reference().bytes))
            .bind(pack(content.text()))
            .execute(&mut *connection)
            .await?;
        }
    }
    Ok(())
}

/// Records that a session uses contents.
pub(super) async fn share(
    connection: &mut Connection,
    session: &str,
    hashes: &[ContentHash],
) -> Result<(), StoreError> {
    let mut insert = QueryBuilder::new("INSERT INTO content_use (hash, session) ");
    insert.push_values(hashes, |mut row, hash| {
        row.push_bind(hash.as_bytes().as_slice()).push_bind(session);
    });
    insert.push(" ON CONFLICT DO NOTHING");
    insert.build().execute(connection).await?;
    Ok(())
}

pub(super) async fn set_removed(
    writer: &Writer,
    session: SessionId,
    at: Option<Millis>,
) -> Result<(), StoreError> {
    let mut transaction = writer.pool.begin_with(BEGIN).await?;
    writer.fence.check(&mut transaction, session).await?;
    let update = sqlx::query("UPDATE session SET removed_at = $1 WHERE id = $2");
    let update = update.bind(at.map(|at| at.0)).bind(session.to_string());
    changed(session, &update.execute(&mut *transaction).await?)?;
    Ok(transaction.commit().await?)
}

pub(super) async fn rename(
    writer: &Writer,
    session: SessionId,
    name: &str,
) -> Result<(), StoreError> {
    let update = sqlx::query("UPDATE session SET name = $1 WHERE id = $2");
    let update = update.bind(text_value(name)).bind(session.to_string());
    changed(session, &update.execute(&writer.pool).await?)
}

fn changed(session: SessionId, result: &QueryResult) -> Result<(), StoreError> {
    match result.rows_affected() {
        0 => Err(StoreError::NoSession(session)),
        _ => Ok(()),
    }
}

pub(super) async fn remove(writer: &Writer, session: SessionId) -> Result<(), StoreError> {
    let id = session.to_string();
    let mut transaction = writer.pool.begin_with(BEGIN).await?;
    writer.fence.check(&mut transaction, session).await?;
    lock_contents(&mut transaction).await?;
    remove_from_index(&mut transaction, &id).await?;
    remove_shared(&mut transaction, &id).await?;
    let removed = sqlx::query("DELETE FROM session WHERE id = $1")
        .bind(&id)
        .execute(&mut *transaction)
        .await?;
    if removed.rows_affected() == 0 {
        return Err(StoreError::NoSession(session));
    }
    for statement in [
        "DELETE FROM message WHERE session = $1",
        "DELETE FROM mail WHERE session = $1",
        "DELETE FROM turn WHERE session = $1",
        "DELETE FROM attempt WHERE session = $1",
        "DELETE FROM piece WHERE session = $1",
        "DELETE FROM event WHERE session = $1",
        "DELETE FROM inbox WHERE session = $1",
        "DELETE FROM content WHERE hash IN (SELECT hash FROM content_use WHERE session = $1) AND NOT \
         EXISTS (SELECT 1 FROM content_use WHERE content_use.hash = content.hash AND session <> $1)",
        "DELETE FROM content_use WHERE session = $1",
        "DELETE FROM request WHERE thread IN (SELECT name FROM thread WHERE session = $1)",
        "DELETE FROM request_text WHERE thread IN (SELECT name FROM thread WHERE session = $1)",
        "DELETE FROM thread_line WHERE thread IN (SELECT name FROM thread WHERE session = $1)",
        "DELETE FROM thread WHERE session = $1",
    ] {
        sqlx::query(statement).bind(&id).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Database(Box::new(error)))
}
