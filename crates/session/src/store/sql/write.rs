//! Writes: every change to a session is one transaction.

use std::collections::HashSet;

use convoke_core::ConversationMessage;
use convoke_core::name::NameKey;
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{Head, Millis, SessionId};
use convoke_protocol::session::{NewSession, NumberedMessage, Rehearsal, State};
use convoke_protocol::turn::{Attempt, Turn};
use sqlx::QueryBuilder;

use super::Writer;
use super::database::{
    BEGIN, Connection, MOVE_HEAD, QueryResult, index_messages, lock_contents, owned_text,
    remove_from_index, remove_shared, remove_signals, set_offer, sql, take_message, text_value,
};
use super::packed::pack;
use super::threads;
use crate::progress::Progress;
use crate::store::failpoint::Failpoint;
use crate::store::{Commit, StoreError};

/// The maximum number of rows per statement, below the limits of databases.
pub(super) const ROWS: usize = 512;

pub(super) async fn create(
    connection: &mut Connection,
    session: NewSession,
) -> Result<(), StoreError> {
    let id = session.id;
    let state = State { task: session.task.clone(), next_message_id: 1, ..State::default() };
    let created = sqlx::query(
        "INSERT INTO session (id, created_at, updated_at, name, directory, team, first_task, \
         rehearsal, head, state, messages, turns) VALUES ($1, $2, $2, $3, $4, $5, $6, $7, 0, $8, 0, 0) \
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
    .execute(connection)
    .await?;
    if created.rows_affected() == 0 {
        return Err(StoreError::SessionExists(id));
    }
    Ok(())
}

pub(super) async fn commit(
    writer: &Writer,
    session: SessionId,
    commit: Commit,
) -> Result<Head, StoreError> {
    let Commit { on, at, contents, messages, turns, attempts, progress, .. } = commit;
    let (appends, state) = (commit.threads, commit.state);
    let Writer { pool, failpoint, fence } = writer;
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    fence.check(&mut transaction, session).await?;
    let id = session.to_string();
    let moved = sqlx::query(MOVE_HEAD)
        .bind(at.0)
        .bind(json(&state)?)
        .bind(sql(state.last_message.0))
        .bind(sql(state.last_turn.0))
        .bind(&id)
        .bind(sql(on.0))
        .execute(&mut *transaction)
        .await?;
    if moved.rows_affected() == 0 {
        let known = sqlx::query("SELECT 1 FROM session WHERE id = $1").bind(&id);
        return Err(match known.fetch_optional(&mut *transaction).await? {
            Some(_) => StoreError::Conflict { session },
            None => StoreError::NoSession(session),
        });
    }
    let recorded = |what: String| StoreError::Recorded { session, what };
    failpoint.reach();
    write_contents(&mut transaction, failpoint, &id, &contents).await?;
    for message in messages {
        failpoint.reach();
        let number = message.number;
        if insert_messages(&mut transaction, &id, vec![message]).await? == 0 {
            return Err(recorded(format!("message {number}")));
        }
    }
    for turn in &turns {
        failpoint.reach();
        if write_turns(&mut transaction, &id, std::slice::from_ref(turn)).await? == 0 {
            return Err(recorded(format!("the end of turn {}", turn.id)));
        }
    }
    remove_signals(&mut transaction, session, &turns).await?;
    for attempt in &attempts {
        failpoint.reach();
        if write_attempts(&mut transaction, &id, std::slice::from_ref(attempt)).await? == 0 {
            let what = format!("the end of attempt {} of turn {}", attempt.number, attempt.turn);
            return Err(recorded(what));
        }
        if attempt.ended.is_some() {
            remove_progress(&mut transaction, &id, attempt).await?;
        }
    }
    for batch in &progress {
        failpoint.reach();
        if !write_progress(&mut transaction, &id, batch).await? {
            let what = format!("the end of attempt {} of turn {}", batch.attempt, batch.turn);
            return Err(recorded(what));
        }
    }
    for append in &appends {
        let as_of = state.last_message;
        threads::append(&mut transaction, failpoint, session, append, as_of).await?;
    }
    if let Some(number) = commit.taken
        && !take_message(&mut transaction, session, number).await?
    {
        return Err(recorded(format!("message {} of the inbox", number.0)));
    }
    if let Some(offer) = &commit.offer {
        set_offer(&mut transaction, session, offer).await?;
    }
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(on.next())
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

/// Inserts at most [`ROWS`] messages and their readers. Returns the number of new messages.
pub(super) async fn insert_messages(
    connection: &mut Connection,
    session: &str,
    messages: Vec<NumberedMessage>,
) -> Result<u64, StoreError> {
    index_messages(&mut *connection, session, &messages).await?;
    let (mut rows, mut mail) = (Vec::with_capacity(messages.len()), Vec::new());
    for NumberedMessage { number, answers, mut message } in messages {
        mail.extend(readers(&message).into_iter().map(|reader| (reader, number)));
        let content = std::mem::take(&mut message.content);
        rows.push((number, answers, content, json(&message)?));
    }
    let mut insert =
        QueryBuilder::new("INSERT INTO message (session, number, answers, content, rest) ");
    insert.push_values(rows, |mut row, (number, answers, content, rest)| {
        row.push_bind(session).push_bind(sql(number.0));
        row.push_bind(answers.map(|number| sql(number.0)));
        row.push_bind(owned_text(content)).push_bind(rest);
    });
    insert.push(" ON CONFLICT DO NOTHING");
    let inserted = insert.build().execute(&mut *connection).await?.rows_affected();
    for chunk in mail.chunks(ROWS) {
        let mut insert = QueryBuilder::new("INSERT INTO mail (session, reader, number) ");
        insert.push_values(chunk, |mut row, (reader, number)| {
            row.push_bind(session).push_bind(text_value(reader)).push_bind(sql(number.0));
        });
        insert.push(" ON CONFLICT DO NOTHING");
        insert.build().execute(&mut *connection).await?;
    }
    Ok(inserted)
}

/// Returns the names that see a message with `visibility = "addressed"`; `''` means everyone.
fn readers(message: &ConversationMessage) -> Vec<String> {
    if message.is_to_everyone() {
        return vec![String::new()];
    }
    let speaker = &message.speaker;
    let names = [&*speaker.role_id, speaker.name()].into_iter();
    let names = names.chain(message.addressees().iter().map(String::as_str));
    names.map(|name| NameKey::new(name).as_str().to_owned()).collect()
}

/// Writes at most [`ROWS`] turns. Returns the number of turns that were not done before.
pub(super) async fn write_turns(
    connection: &mut Connection,
    session: &str,
    turns: &[Turn],
) -> Result<u64, StoreError> {
    let mut write = QueryBuilder::new(
        "INSERT INTO turn (session, number, member, answers, intent, asker, state, reply, problem, \
         attempts, queued_at, ended_at) ",
    );
    write.push_values(turns, |mut row, turn| {
        row.push_bind(session)
            .push_bind(sql(turn.id.0))
            .push_bind(text_value(turn.member.as_str()));
        row.push_bind(sql(turn.answers.0)).push_bind(format!("{:?}", turn.intent));
        row.push_bind(text_value(turn.asker.as_str())).push_bind(turn.state.as_str());
        row.push_bind(turn.reply.map(|number| sql(number.0)));
        row.push_bind(turn.problem.as_deref().map(text_value));
        row.push_bind(i64::from(turn.attempts))
            .push_bind(turn.queued_at.0)
            .push_bind(turn.ended_at.map(|at| at.0));
    });
    write.push(
        " ON CONFLICT (session, number) DO UPDATE SET state = excluded.state, reply = excluded.reply, \
         problem = excluded.problem, attempts = excluded.attempts, ended_at = excluded.ended_at \
         WHERE turn.state <> 'done'",
    );
    Ok(write.build().execute(connection).await?.rows_affected())
}

/// Writes at most [`ROWS`] attempts. Returns the number of attempts that had not ended before.
pub(super) async fn write_attempts(
    connection: &mut Connection,
    session: &str,
    attempts: &[Attempt],
) -> Result<u64, StoreError> {
    let records = attempts.iter().map(json).collect::<Result<Vec<_>, _>>()?;
    let mut write =
        QueryBuilder::new("INSERT INTO attempt (session, turn, number, has_ended, record) ");
    write.push_values(attempts.iter().zip(records), |mut row, (attempt, record)| {
        row.push_bind(session).push_bind(sql(attempt.turn.0)).push_bind(i64::from(attempt.number));
        row.push_bind(i64::from(attempt.ended.is_some())).push_bind(record);
    });
    write.push(
        " ON CONFLICT (session, turn, number) DO UPDATE SET has_ended = excluded.has_ended, \
         record = excluded.record WHERE attempt.has_ended = 0",
    );
    Ok(write.build().execute(connection).await?.rows_affected())
}

async fn remove_progress(
    connection: &mut Connection,
    session: &str,
    attempt: &Attempt,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM progress WHERE session = $1 AND turn = $2 AND attempt = $3")
        .bind(session)
        .bind(sql(attempt.turn.0))
        .bind(i64::from(attempt.number))
        .execute(connection)
        .await?;
    Ok(())
}

/// Adds a batch of progress. Returns `false` if the attempt is not running.
async fn write_progress(
    connection: &mut Connection,
    session: &str,
    batch: &Progress,
) -> Result<bool, StoreError> {
    let written = sqlx::query(
        "INSERT INTO progress (session, turn, attempt, number, events) SELECT $1, $2, $3, \
         (SELECT COALESCE(MAX(number), 0) + 1 FROM progress WHERE session = $1 AND turn = $2 \
          AND attempt = $3), $4 FROM attempt WHERE session = $1 AND turn = $2 AND number = $3 \
         AND has_ended = 0",
    )
    .bind(session)
    .bind(sql(batch.turn.0))
    .bind(i64::from(batch.attempt))
    .bind(&batch.events)
    .execute(connection)
    .await?;
    Ok(written.rows_affected() == 1)
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
        "DELETE FROM progress WHERE session = $1",
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
