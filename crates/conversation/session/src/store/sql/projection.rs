//! The tables that follow from the log: messages with their readers, turns and attempts.
//!
//! Each is changed by the events of the same transaction, and by nothing else.

use std::collections::HashSet;

use super::connection::{SqlConnection, SqlRow as _};
use super::query::{Value, query, sql, text_value};
use super::write::{ROWS, json};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;
use convoke_core::ConversationMessage;
use convoke_protocol::agent_event::TextPart;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};

/// Applies events of a session to its tables.
pub(super) async fn apply(
    connection: &mut impl SqlConnection,
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
    connection: &mut impl SqlConnection,
    session: SessionId,
    event: &Event,
) -> Result<(), StoreError> {
    let at = event.at;
    let id = session.to_string();
    let recorded = |what: String| StoreError::Recorded { session, what };
    match &event.kind {
        EventKind::Message(message) => {
            if insert_message(connection, session, message).await? == 0 {
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
            query("DELETE FROM piece WHERE session = $1 AND turn = $2")
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
        connection: &mut impl SqlConnection,
        session: SessionId,
        turn: TurnId,
        ended_at: Option<Millis>,
    ) -> Result<(), StoreError> {
        let changed = query(
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
        .execute(connection)
        .await?;
        if changed == 0 {
            let what = format!("the end of turn {turn}");
            return Err(StoreError::Recorded { session, what });
        }
        if !self.state.is_open() {
            connection.remove_signals(session, turn).await?;
        }
        Ok(())
    }
}

async fn insert_turn(
    connection: &mut impl SqlConnection,
    session: &str,
    turn: &Turn,
) -> Result<u64, StoreError> {
    let inserted = query(
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
    Ok(inserted)
}

async fn insert_attempt(
    connection: &mut impl SqlConnection,
    session: SessionId,
    attempt: &Attempt,
) -> Result<(), StoreError> {
    let inserted = query(
        "INSERT INTO attempt (session, turn, number, has_ended, record) VALUES ($1, $2, $3, 0, $4) \
         ON CONFLICT DO NOTHING",
    )
    .bind(session.to_string())
    .bind(sql(attempt.turn.0))
    .bind(i64::from(attempt.number))
    .bind(json(attempt)?)
    .execute(connection)
    .await?;
    if inserted == 0 {
        let what = format!("attempt {} of turn {}", attempt.number, attempt.turn);
        return Err(StoreError::Recorded { session, what });
    }
    Ok(())
}

/// Stores the result of a running attempt, and removes the text that it was writing.
async fn end_attempt(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
    result: &AttemptResult,
) -> Result<(), StoreError> {
    let recorded = || {
        let what = format!("the end of attempt {attempt} of turn {turn}");
        StoreError::Recorded { session, what }
    };
    let running = query(
        "SELECT record FROM attempt WHERE session = $1 AND turn = $2 AND number = $3 AND has_ended = 0",
    )
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .fetch_optional(connection)
    .await?;
    let running = running.ok_or_else(recorded)?;
    let mut record: Attempt = serde_json::from_str(running.get("record")?)
        .map_err(|error| StoreError::Damaged(format!("an attempt of turn {turn}: {error}")))?;
    record.ended = Some(result.clone());
    query(
        "UPDATE attempt SET has_ended = 1, record = $1 WHERE session = $2 AND turn = $3 AND number = $4",
    )
    .bind(json(&record)?)
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .execute(connection)
    .await?;
    remove_pieces(connection, session, turn, attempt).await
}

pub(super) async fn remove_pieces(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
) -> Result<(), StoreError> {
    query("DELETE FROM piece WHERE session = $1 AND turn = $2 AND attempt = $3")
        .bind(session.to_string())
        .bind(sql(turn.0))
        .bind(i64::from(attempt))
        .execute(connection)
        .await?;
    Ok(())
}

/// Inserts a message and its readers. Returns the number of new messages.
async fn insert_message(
    connection: &mut impl SqlConnection,
    session: SessionId,
    message: &Message,
) -> Result<u64, StoreError> {
    connection.index_message(session, message).await?;
    let id = session.to_string();
    // The content has a column of its own. Without either, the rest tells that the text is the same.
    let mut rest = message.clone();
    let content = message.message.content.clone();
    if !rest.text.is_empty() || content.is_empty() {
        rest.message.content.clear();
    }
    if rest.text == content {
        rest.text.clear();
    }
    let inserted = query(
        "INSERT INTO message (session, number, answers, content, rest) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT DO NOTHING",
    )
    .bind(&id)
    .bind(sql(message.number.0))
    .bind(message.answers.map(|number| sql(number.0)))
    .bind(text_value(content))
    .bind(json(&rest)?)
    .execute(connection)
    .await?;
    let number = sql(message.number.0);
    for readers in readers(&message.message).chunks(ROWS) {
        let row = |reader: &String| [(&id).into(), text_value(reader).into(), Value::from(number)];
        let insert = query("INSERT INTO mail (session, reader, number) ");
        let insert = insert.push_rows(readers.iter().map(row)).push(" ON CONFLICT DO NOTHING");
        insert.execute(connection).await?;
    }
    Ok(inserted)
}

/// Returns the names that see a message with `visibility = "addressed"`; `''` means everyone.
fn readers(message: &ConversationMessage) -> Vec<String> {
    if message.is_to_everyone() {
        return vec![String::new()];
    }
    convoke_core::context::readers(message).map(|name| name.as_str().to_owned()).collect()
}
