//! The tables that follow from the log: messages with their readers, turns and attempts.
//!
//! Each is changed by the events of the same transaction, and by nothing else.

use std::collections::HashSet;

use convoke_core::ConversationMessage;
use convoke_core::name::NameKey;
use convoke_protocol::agent_event::TextPart;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use sqlx::QueryBuilder;

use super::database::{Connection, index_messages, owned_text, remove_signals, sql, text_value};
use super::write::{ROWS, json};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;

/// Applies events of a session to its tables.
pub(super) async fn apply(
    connection: &mut Connection,
    failpoint: &Failpoint,
    session: SessionId,
    events: &[Event],
) -> Result<(), StoreError> {
    let ended = events.iter().filter_map(|event| match &event.kind {
        EventKind::TurnEnded { turn, .. } | EventKind::TurnInterrupted { turn, .. } => Some(*turn),
        _ => None,
    });
    let ended: HashSet<TurnId> = ended.collect();
    for event in events {
        if changes_tables(&event.kind, &ended) {
            failpoint.reach();
            apply_one(connection, session, event).await?;
        }
    }
    Ok(())
}

/// Returns whether an event changes a table. The pieces of a text are removed by the whole one, unless its attempt ends in the
/// same step.
fn changes_tables(event: &EventKind, ended: &HashSet<TurnId>) -> bool {
    matches!(
        event,
        EventKind::Message(_)
            | EventKind::TurnQueued { .. }
            | EventKind::TurnDropped { .. }
            | EventKind::TurnRetried { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::TurnInterrupted { .. }
            | EventKind::TurnEnded { .. }
    ) || (matches!(event.own_text(), Some((_, TextPart::Whole)))
        && event.turn().is_some_and(|turn| !ended.contains(&turn)))
}

async fn apply_one(
    connection: &mut Connection,
    session: SessionId,
    event: &Event,
) -> Result<(), StoreError> {
    let at = event.at;
    let id = session.to_string();
    let recorded = |what: String| StoreError::Recorded { session, what };
    match &event.kind {
        EventKind::Message(message) => {
            if insert_messages(connection, &id, std::slice::from_ref(message)).await? == 0 {
                return Err(recorded(format!("message {}", message.number)));
            }
            if let Some(turn) = message.turn {
                let change = TurnChange { reply: Some(message.number), ..TurnState::Done.into() };
                change.write(connection, session, turn, Some(at)).await?;
            }
        }
        EventKind::TurnQueued { turn, member, answers, intent, asker } => {
            let turn = Turn {
                id: *turn,
                member: member.clone(),
                answers: *answers,
                intent: *intent,
                asker: asker.clone(),
                state: TurnState::Queued,
                reply: None,
                problem: None,
                attempts: 0,
                queued_at: at,
                ended_at: None,
            };
            if insert_turn(connection, &id, &turn).await? == 0 {
                return Err(recorded(format!("turn {}", turn.id)));
            }
        }
        EventKind::TurnDropped { turn, problem, .. } => {
            let change =
                TurnChange { problem: Some(problem.clone()), ..TurnState::Cancelled.into() };
            change.write(connection, session, *turn, Some(at)).await?;
        }
        EventKind::TurnRetried { turn, .. } => {
            TurnChange::from(TurnState::Queued).write(connection, session, *turn, None).await?;
        }
        EventKind::TurnStarted { turn, attempt, .. } => {
            let attempts = Some(*attempt);
            let change = TurnChange { attempts, ..TurnState::Running.into() };
            change.write(connection, session, *turn, None).await?;
            let Some(attempt) = Attempt::started(event) else { return Ok(()) };
            insert_attempt(connection, session, &attempt).await?;
        }
        EventKind::TurnInterrupted { turn, attempt, result, .. } => {
            TurnChange::from(TurnState::Queued).write(connection, session, *turn, None).await?;
            end_attempt(connection, session, *turn, *attempt, result).await?;
        }
        EventKind::TurnEnded { turn, attempt, state, result, .. } => {
            if *state != TurnState::Done {
                let problem = Some(result.verdict.to_string());
                let change = TurnChange { problem, ..(*state).into() };
                change.write(connection, session, *turn, Some(at)).await?;
            }
            if *attempt > 0 {
                end_attempt(connection, session, *turn, *attempt, result).await?;
            }
        }
        // The whole text replaces its pieces.
        EventKind::Agent { turn, .. } => {
            sqlx::query("DELETE FROM piece WHERE session = $1 AND turn = $2")
                .bind(id)
                .bind(sql(turn.0))
                .execute(connection)
                .await?;
        }
        _ => {}
    }
    Ok(())
}

/// The columns of a turn that an event changes.
struct TurnChange {
    state: TurnState,
    reply: Option<MessageNumber>,
    problem: Option<String>,
    /// `None` if the number of attempts stays.
    attempts: Option<u32>,
}

impl From<TurnState> for TurnChange {
    fn from(state: TurnState) -> Self {
        Self { state, reply: None, problem: None, attempts: None }
    }
}

impl TurnChange {
    /// Changes a turn that is not done.
    async fn write(
        self,
        connection: &mut Connection,
        session: SessionId,
        turn: TurnId,
        ended_at: Option<Millis>,
    ) -> Result<(), StoreError> {
        let changed = sqlx::query(
            "UPDATE turn SET state = $1, reply = $2, problem = $3, attempts = COALESCE($4, attempts), \
             ended_at = $5 WHERE session = $6 AND number = $7 AND state <> 'done'",
        )
        .bind(self.state.as_str())
        .bind(self.reply.map(|number| sql(number.0)))
        .bind(self.problem.as_deref().map(text_value))
        .bind(self.attempts.map(i64::from))
        .bind(ended_at.map(|at| at.0))
        .bind(session.to_string())
        .bind(sql(turn.0))
        .execute(&mut *connection)
        .await?;
        if changed.rows_affected() == 0 {
            let what = format!("the end of turn {turn}");
            return Err(StoreError::Recorded { session, what });
        }
        if !self.state.is_open() {
            remove_signals(connection, session, turn).await?;
        }
        Ok(())
    }
}

async fn insert_turn(
    connection: &mut Connection,
    session: &str,
    turn: &Turn,
) -> Result<u64, StoreError> {
    let inserted = sqlx::query(
        "INSERT INTO turn (session, number, member, answers, intent, asker, state, attempts, queued_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8) ON CONFLICT DO NOTHING",
    )
    .bind(session)
    .bind(sql(turn.id.0))
    .bind(text_value(turn.member.as_str()))
    .bind(sql(turn.answers.0))
    .bind(format!("{:?}", turn.intent))
    .bind(text_value(turn.asker.as_str()))
    .bind(turn.state.as_str())
    .bind(turn.queued_at.0)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected())
}

async fn insert_attempt(
    connection: &mut Connection,
    session: SessionId,
    attempt: &Attempt,
) -> Result<(), StoreError> {
    let inserted = sqlx::query(
        "INSERT INTO attempt (session, turn, number, has_ended, record) VALUES ($1, $2, $3, 0, $4) \
         ON CONFLICT DO NOTHING",
    )
    .bind(session.to_string())
    .bind(sql(attempt.turn.0))
    .bind(i64::from(attempt.number))
    .bind(json(attempt)?)
    .execute(connection)
    .await?;
    if inserted.rows_affected() == 0 {
        let what = format!("attempt {} of turn {}", attempt.number, attempt.turn);
        return Err(StoreError::Recorded { session, what });
    }
    Ok(())
}

/// Stores the result of a running attempt, and removes the text that it was writing.
async fn end_attempt(
    connection: &mut Connection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
    result: &AttemptResult,
) -> Result<(), StoreError> {
    let recorded = || {
        let what = format!("the end of attempt {attempt} of turn {turn}");
        StoreError::Recorded { session, what }
    };
    let running: Option<(String,)> = sqlx::query_as(
        "SELECT record FROM attempt WHERE session = $1 AND turn = $2 AND number = $3 AND has_ended = 0",
    )
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .fetch_optional(&mut *connection)
    .await?;
    let (record,) = running.ok_or_else(recorded)?;
    let mut record: Attempt = serde_json::from_str(&record)
        .map_err(|error| StoreError::Damaged(format!("an attempt of turn {turn}: {error}")))?;
    record.ended = Some(result.clone());
    sqlx::query(
        "UPDATE attempt SET has_ended = 1, record = $1 WHERE session = $2 AND turn = $3 AND number = $4",
    )
    .bind(json(&record)?)
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .execute(&mut *connection)
    .await?;
    remove_pieces(connection, session, turn, attempt).await
}

pub(super) async fn remove_pieces(
    connection: &mut Connection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM piece WHERE session = $1 AND turn = $2 AND attempt = $3")
        .bind(session.to_string())
        .bind(sql(turn.0))
        .bind(i64::from(attempt))
        .execute(connection)
        .await?;
    Ok(())
}

/// Inserts at most [`ROWS`] messages and their readers. Returns the number of new messages.
async fn insert_messages(
    connection: &mut Connection,
    session: &str,
    messages: &[impl std::borrow::Borrow<Message>],
) -> Result<u64, StoreError> {
    let (mut rows, mut mail) = (Vec::with_capacity(messages.len()), Vec::new());
    for message in messages {
        let message = message.borrow();
        index_messages(&mut *connection, session, message).await?;
        mail.extend(readers(&message.message).into_iter().map(|reader| (reader, message.number)));
        // The content has a column of its own. Without either, the rest tells that the text is the same.
        let mut rest = message.clone();
        let content = message.message.content.clone();
        if !rest.text.is_empty() || content.is_empty() {
            rest.message.content.clear();
        }
        if rest.text == content {
            rest.text.clear();
        }
        rows.push((message.number, message.answers, content, json(&rest)?));
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
