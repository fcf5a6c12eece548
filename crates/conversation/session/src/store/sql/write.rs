//! Writes: every change to a session is one transaction.

use std::collections::HashSet;

use super::connection::{SqlConnection, SqlRow as _};
use super::packed::pack;
use super::query::{Value, query, sql, text_value};
use super::{Backend, SqlStore, inbox, log, pieces, projection, threads};
use crate::store::failpoint::Failpoint;
use crate::store::{Commit, StoreError};
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use convoke_protocol::session::{NewSession, Rehearsal, State};

/// The maximum number of rows per statement, below the limits of databases.
pub(super) const ROWS: usize = 512;

/// Creates a session with the first event of its log.
pub(super) async fn create(
    connection: &mut impl SqlConnection,
    failpoint: &Failpoint,
    session: NewSession,
) -> Result<(), StoreError> {
    let id = session.id;
    let mut state = State::default();
    let event = created_event(&session);
    state.apply(&event.kind);
    let created = query(
        "INSERT INTO session (id, created_at, updated_at, name, directory, team, first_task, \
         rehearsal, events, state, messages, turns) VALUES ($1, $2, $2, $3, $4, $5, $6, $7, 1, $8, 0, 0) \
         ON CONFLICT DO NOTHING",
    )
    .bind(id.to_string())
    .bind(session.created_at.0)
    .bind(session.name.map(text_value))
    .bind(text_value(session.directory))
    .bind(text_value(session.team))
    .bind(session.task.map(text_value))
    .bind(session.rehearsal.map(Rehearsal::as_str))
    .bind(json(&state)?)
    .execute(connection)
    .await?;
    if created == 0 {
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

pub(in crate::store) async fn commit<B: Backend>(
    store: &SqlStore<B>,
    session: SessionId,
    commit: Commit,
) -> Result<EventNumber, StoreError> {
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    store.backend.check(&mut *transaction, session).await?;
    let id = session.to_string();
    let head = log::check_numbers(session, commit.on, &commit.events)?;
    if let Some(last) = commit.events.last() {
        let state = &commit.state;
        let moved = query(B::Connection::MOVE_HEAD)
            .bind(last.at.0)
            .bind(json(state)?)
            .bind(sql(state.last_message.0))
            .bind(sql(state.last_turn.0))
            .bind(&id)
            .bind(sql(commit.on.0))
            .bind(sql(head.0))
            .execute(&mut *transaction)
            .await?;
        if moved == 0 {
            return Err(conflict(&mut *transaction, session).await?);
        }
    }
    let failpoint = &store.failpoint;
    failpoint.reach();
    write_contents(&mut *transaction, failpoint, &id, &commit.contents).await?;
    log::append(&mut *transaction, &id, &commit.events).await?;
    projection::apply(&mut *transaction, failpoint, session, &commit.events).await?;
    for piece in &commit.pieces {
        failpoint.reach();
        pieces::write(&mut *transaction, session, piece).await?;
    }
    for append in &commit.threads {
        let as_of = commit.state.last_message;
        threads::append(&mut *transaction, failpoint, session, append, as_of).await?;
    }
    if let Some(number) = commit.taken
        && !inbox::take_message(&mut *transaction, session, number).await?
    {
        let what = format!("message {} of the inbox", number.0);
        return Err(StoreError::Recorded { session, what });
    }
    if let Some(next) = &commit.next {
        transaction.set_offer(session, next).await?;
    }
    if commit.events.is_empty() {
        transaction.notify(session, head).await?;
    }
    store.end(transaction).await?;
    Ok(head)
}

/// Returns why the head of a session is not as expected.
async fn conflict(
    connection: &mut impl SqlConnection,
    session: SessionId,
) -> Result<StoreError, StoreError> {
    let known = query("SELECT 1 FROM session WHERE id = $1").bind(session.to_string());
    Ok(match known.fetch_optional(connection).await? {
        Some(_) => StoreError::Conflict { session },
        None => StoreError::NoSession(session),
    })
}

/// Writes the contents of a session, except those that are stored already.
pub(super) async fn write_contents(
    connection: &mut impl SqlConnection,
    failpoint: &Failpoint,
    session: &str,
    contents: &[Content],
) -> Result<(), StoreError> {
    for some in contents.chunks(ROWS) {
        let hashes: Vec<ContentHash> =
            some.iter().map(|content| content.reference().hash).collect();
        share(connection, session, &hashes).await?;
        let listed = hashes.iter().map(|hash| Value::from(hash.as_bytes().as_slice()));
        let known = query("SELECT hash FROM content WHERE hash IN (").push_list(listed).push(")");
        let known = known.fetch_all(connection).await?;
        let known = known.iter().map(|row| row.get("hash"));
        let known: HashSet<&[u8]> = known.collect::<Result<_, StoreError>>()?;
        let mut new: Vec<(&ContentHash, &Content)> = hashes.iter().zip(some).collect();
        new.retain(|(hash, _)| !known.contains(hash.as_bytes().as_slice()));
        // Sorted, so that processes that write the same contents cannot deadlock.
        new.sort_by_key(|(hash, _)| hash.as_bytes());
        for (hash, content) in new {
            failpoint.reach();
            query(
                "INSERT INTO content (hash, bytes, packed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(hash.as_bytes().as_slice())
            .bind(sql(content.reference().bytes))
            .bind(pack(content.text()))
            .execute(connection)
            .await?;
        }
    }
    Ok(())
}

/// Records that a session uses contents.
pub(super) async fn share(
    connection: &mut impl SqlConnection,
    session: &str,
    hashes: &[ContentHash],
) -> Result<(), StoreError> {
    let row = |hash: &ContentHash| [hash.as_bytes().as_slice().into(), Value::from(session)];
    let insert = query("INSERT INTO content_use (hash, session) ");
    let insert = insert.push_rows(hashes.iter().map(row)).push(" ON CONFLICT DO NOTHING");
    insert.execute(connection).await?;
    Ok(())
}

pub(super) async fn set_removed(
    store: &SqlStore<impl Backend>,
    session: SessionId,
    at: Option<Millis>,
) -> Result<(), StoreError> {
    let mut transaction = store.begin().await?;
    store.backend.check(&mut *transaction, session).await?;
    let update = query("UPDATE session SET removed_at = $1 WHERE id = $2");
    let update = update.bind(at.map(|at| at.0)).bind(session.to_string());
    changed(session, update.execute(&mut *transaction).await?)?;
    Ok(transaction.commit().await?)
}

pub(super) async fn rename(
    store: &SqlStore<impl Backend>,
    session: SessionId,
    name: &str,
) -> Result<(), StoreError> {
    let update = query("UPDATE session SET name = $1 WHERE id = $2");
    let update = update.bind(text_value(name)).bind(session.to_string());
    changed(session, update.execute(&mut *store.pool.acquire().await?).await?)
}

fn changed(session: SessionId, rows: u64) -> Result<(), StoreError> {
    match rows {
        0 => Err(StoreError::NoSession(session)),
        _ => Ok(()),
    }
}

pub(super) async fn remove(
    store: &SqlStore<impl Backend>,
    session: SessionId,
) -> Result<(), StoreError> {
    let id = session.to_string();
    let mut transaction = store.begin().await?;
    store.backend.check(&mut *transaction, session).await?;
    transaction.lock_contents().await?;
    transaction.remove_from_index(session).await?;
    transaction.remove_shared(session).await?;
    let removed =
        query("DELETE FROM session WHERE id = $1").bind(&id).execute(&mut *transaction).await?;
    if removed == 0 {
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
        query(statement).bind(&id).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

pub(in crate::store) fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Database(Box::new(error)))
}
