//! Makes the logs of a store that had none, in one transaction.

use super::connection::{SqlConnection, SqlRow as _, number, text};
use super::query::{query, sql};
use super::{log, pieces, projection, read, write};
use crate::legacy::{self, LegacyAttempt, LegacyMessage, LegacySession, LegacyTurn, StoredAttempt};
use crate::running_text::RunningText;
use crate::store::failpoint::Failpoint;
use crate::store::{Piece, StoreError};
use convoke_core::ConversationMessage;
use convoke_protocol::content::ContentHash;
use convoke_protocol::event::Event;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::session::State;
use serde_json::Value;

/// Converts every session: its rows become events, from which the rows are made anew. Memory: one session.
pub(in crate::store) async fn make_logs(
    connection: &mut impl SqlConnection,
    failpoint: &Failpoint,
) -> Result<(), StoreError> {
    for row in query("SELECT id FROM session ORDER BY id").fetch_all(connection).await? {
        failpoint.reach();
        let id: &str = row.get("id")?;
        let session =
            id.parse().map_err(|error| StoreError::Damaged(format!("session `{id}`: {error}")))?;
        make_log(connection, failpoint, session).await?;
    }
    // The events of agents were contents.
    query(
        "DELETE FROM content WHERE NOT EXISTS (SELECT 1 FROM content_use WHERE content_use.hash = content.hash)",
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn make_log(
    connection: &mut impl SqlConnection,
    failpoint: &Failpoint,
    session: SessionId,
) -> Result<(), StoreError> {
    let rows = read_rows(connection, session).await?;
    let id = session.to_string();
    let used: Vec<ContentHash> = rows
        .turns
        .iter()
        .flat_map(|turn| &turn.attempts)
        .filter_map(|attempt| attempt.attempt.ended.as_ref()?.events)
        .map(|content| content.hash)
        .collect();
    let unfinished = unfinished_texts(&rows);
    let created = Event { migrated: true, ..write::created_event(&rows.began) };
    let events = legacy::events(rows);
    connection.remove_from_index(session).await?;
    for statement in [
        "DELETE FROM message WHERE session = $1",
        "DELETE FROM mail WHERE session = $1",
        "DELETE FROM turn WHERE session = $1",
        "DELETE FROM attempt WHERE session = $1",
    ] {
        query(statement).bind(&id).execute(connection).await?;
    }
    for hash in used {
        query("DELETE FROM content_use WHERE hash = $1 AND session = $2")
            .bind(hash.as_bytes().as_slice())
            .bind(&id)
            .execute(connection)
            .await?;
    }
    failpoint.reach();
    let mut state = State::default();
    state.apply(&created.kind);
    for event in &events {
        state.apply(&event.kind);
    }
    log::append(connection, &id, std::slice::from_ref(&created)).await?;
    log::append(connection, &id, &events).await?;
    projection::apply(connection, failpoint, session, &events).await?;
    for piece in &unfinished {
        pieces::write(connection, session, piece).await?;
    }
    query("UPDATE session SET events = $1, state = $2 WHERE id = $3")
        .bind(sql(events.len() as u64 + 1))
        .bind(write::json(&state)?)
        .bind(&id)
        .execute(connection)
        .await?;
    Ok(())
}

async fn read_rows(
    connection: &mut impl SqlConnection,
    session: SessionId,
) -> Result<LegacySession, StoreError> {
    let stored = read::session(connection, session).await?;
    let rows = query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 ORDER BY number",
    )
    .bind(session.to_string())
    .fetch_all(connection)
    .await?;
    let mut messages = Vec::with_capacity(rows.len());
    for row in &rows {
        let number = MessageNumber(number(row, "number")?);
        let damaged = |error: &dyn std::fmt::Display| {
            StoreError::Damaged(format!("session {session}: message {number}: {error}"))
        };
        let rest: &str = row.get("rest")?;
        let rest: Value = serde_json::from_str(rest).map_err(|error| damaged(&error))?;
        let mut message =
            ConversationMessage::from_json_with_id(rest).map_err(|error| damaged(&error))?;
        message.content = text(row, "content")?;
        let answers: Option<i64> = row.get("answers")?;
        let answers = answers.map(|answers| MessageNumber(answers.cast_unsigned()));
        messages.push(LegacyMessage { number, answers, message });
    }
    let rows = query("SELECT * FROM turn WHERE session = $1 ORDER BY number")
        .bind(session.to_string())
        .fetch_all(connection)
        .await?;
    let mut turns = Vec::with_capacity(rows.len());
    for row in &rows {
        let turn = read::turn(session, row)?;
        let attempts = read_attempts(connection, session, turn.id).await?;
        turns.push(LegacyTurn { turn, attempts });
    }
    Ok(LegacySession { began: stored.began, state: stored.state, messages, turns })
}

async fn read_attempts(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
) -> Result<Vec<LegacyAttempt>, StoreError> {
    let records =
        query("SELECT record FROM attempt WHERE session = $1 AND turn = $2 ORDER BY number")
            .bind(session.to_string())
            .bind(sql(turn.0))
            .fetch_all(connection)
            .await?;
    let mut attempts = Vec::with_capacity(records.len());
    for row in &records {
        let record = serde_json::from_str(row.get("record")?);
        let mut attempt: LegacyAttempt = record.map_err(|error| {
            StoreError::Damaged(format!("session {session}: an attempt of turn {turn}: {error}"))
        })?;
        if let Some(ended) = &attempt.attempt.ended {
            if let Some(events) = ended.events {
                attempt.lines = read::content(connection, events.hash).await?;
            }
        } else {
            let number = attempt.attempt.number;
            attempt.lines = read_progress(connection, session, turn, number).await?;
        }
        attempts.push(attempt);
    }
    Ok(attempts)
}

/// Returns the stored events of an attempt that was running.
async fn read_progress(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
) -> Result<String, StoreError> {
    let batches = query(
        "SELECT events FROM progress WHERE session = $1 AND turn = $2 AND attempt = $3 ORDER BY number",
    )
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .fetch_all(connection)
    .await?;
    batches.iter().map(|row| row.get::<String>("events")).collect()
}

/// Returns the incomplete texts of the attempts that were running.
fn unfinished_texts(rows: &LegacySession) -> Vec<Piece> {
    let attempts = rows.turns.iter().flat_map(|turn| &turn.attempts);
    let running = attempts.filter(|attempt| attempt.attempt.ended.is_none());
    let pieces = running.map(|attempt| {
        let mut text = RunningText::default();
        legacy::agent_events(&attempt.lines).for_each(|(_, event)| text.add(&event));
        let StoredAttempt { turn, number, .. } = attempt.attempt;
        Piece { turn, attempt: number, position: 0, text: text.into_pieces() }
    });
    pieces.filter(|piece| !piece.text.is_empty()).collect()
}
