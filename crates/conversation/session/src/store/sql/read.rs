//! Queries, all by primary key or index.

use std::collections::BTreeSet;

use convoke_core::marker::Intent;
use convoke_core::name::NameKey;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, Rehearsal, RemovedSession, Session, State, Summary};
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use sqlx::{QueryBuilder, Row};

use super::database::{
    BEGINNING, Database, DatabaseRow, Pool, beginning, optional_text, sql, text, text_value,
};
use super::packed::unpack;
use crate::store::{ContextReader, StoreError, Window};

pub(super) async fn session(pool: &Pool, id: SessionId) -> Result<Session, StoreError> {
    session_on(pool, id).await
}

pub(super) async fn session_on(
    executor: impl sqlx::Executor<'_, Database = Database>,
    id: SessionId,
) -> Result<Session, StoreError> {
    let row = sqlx::query(
        "SELECT created_at, updated_at, name, directory, team, first_task, rehearsal, events, state FROM session \
         WHERE id = $1",
    )
    .bind(id.to_string())
    .fetch_optional(executor)
    .await?
    .ok_or(StoreError::NoSession(id))?;
    let state: String = row.try_get("state")?;
    let state: State = serde_json::from_str(&state)
        .map_err(|error| damaged(id, "the state of the conversation", &error))?;
    Ok(Session {
        began: NewSession {
            id,
            created_at: Millis(row.try_get("created_at")?),
            name: optional_text(&row, "name")?,
            directory: text(&row, "directory")?,
            team: text(&row, "team")?,
            task: optional_text(&row, "first_task")?,
            rehearsal: rehearsal(&row)?,
        },
        updated_at: Millis(row.try_get("updated_at")?),
        head: EventNumber(number(&row, "events")?),
        state,
    })
}

/// The query for a list of sessions, before and after the text of the first message.
const SUMMARY: &str = "SELECT id, created_at, updated_at, name, directory, rehearsal, messages, turns, removed_at, \
     (SELECT COUNT(*) FROM turn WHERE turn.session = session.id \
      AND turn.state IN ('queued', 'running')) AS waiting, (SELECT ";
const SUMMARY_END: &str = " FROM message WHERE message.session = session.id AND message.number = 1) \
     AS beginning FROM session";

fn summaries() -> QueryBuilder<Database> {
    let mut query = QueryBuilder::new(SUMMARY);
    query.push(BEGINNING).push(SUMMARY_END);
    query
}

pub(super) async fn sessions(pool: &Pool) -> Result<Vec<Summary>, StoreError> {
    let mut query = summaries();
    query.push(" WHERE removed_at IS NULL ORDER BY updated_at DESC, id DESC");
    query.build().fetch_all(pool).await?.iter().map(summary).collect()
}

pub(super) async fn removed_sessions(pool: &Pool) -> Result<Vec<RemovedSession>, StoreError> {
    let mut query = summaries();
    query.push(" WHERE removed_at IS NOT NULL ORDER BY removed_at DESC, id DESC");
    let rows = query.build().fetch_all(pool).await?;
    let removed = |row: &DatabaseRow| {
        Ok(RemovedSession {
            session: summary(row)?,
            removed_at: Millis(row.try_get("removed_at")?),
        })
    };
    rows.iter().map(removed).collect()
}

fn rehearsal(row: &DatabaseRow) -> Result<Option<Rehearsal>, StoreError> {
    let word: Option<&str> = row.try_get("rehearsal")?;
    let Some(word) = word else { return Ok(None) };
    let known = Rehearsal::ALL.into_iter().find(|known| known.as_str() == word);
    let unknown = || StoreError::Damaged(format!("unknown kind of rehearsal `{word}`"));
    known.map(Some).ok_or_else(unknown)
}

fn summary(row: &DatabaseRow) -> Result<Summary, StoreError> {
    let id: String = row.try_get("id")?;
    Ok(Summary {
        id: id.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?,
        name: optional_text(row, "name")?,
        directory: text(row, "directory")?,
        rehearsal: rehearsal(row)?,
        created_at: Millis(row.try_get("created_at")?),
        updated_at: Millis(row.try_get("updated_at")?),
        messages: number(row, "messages")?,
        turns: number(row, "turns")?,
        waiting: number(row, "waiting")?,
        beginning: beginning(row)?,
    })
}

pub(super) async fn message(
    pool: &Pool,
    session: SessionId,
    number: MessageNumber,
) -> Result<Message, StoreError> {
    let row = sqlx::query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number = $2",
    )
    .bind(session.to_string())
    .bind(sql(number.0))
    .fetch_optional(pool)
    .await?
    .ok_or(StoreError::NoMessage { session, number })?;
    message_of_row(session, &row)
}

pub(super) async fn messages_after(
    pool: &Pool,
    session: SessionId,
    after: MessageNumber,
    limit: usize,
) -> Result<Vec<Message>, StoreError> {
    let rows = sqlx::query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number > $2 \
         ORDER BY number LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| message_of_row(session, row)).collect()
}

pub(super) async fn window(
    pool: &Pool,
    session: SessionId,
    window: &Window,
) -> Result<Vec<Message>, StoreError> {
    if window.limit == 0 {
        return Ok(Vec::new());
    }
    let mut found = siblings(pool, session, window).await?;
    let left = window.limit - found.len();
    if left > 0 {
        found.extend(match &window.reader {
            ContextReader::Everything => before(pool, session, window.answers, left).await?,
            ContextReader::Member(names) => {
                visible_before(pool, session, window.answers, left, names).await?
            }
        });
    }
    Ok(found)
}

/// Returns the other answers to the same message, newest first.
async fn siblings(
    pool: &Pool,
    session: SessionId,
    window: &Window,
) -> Result<Vec<Message>, StoreError> {
    // Read in pages, because messages that the member does not see are skipped.
    let mut found = Vec::new();
    let mut below = window.as_of.next();
    loop {
        let page = window.limit.max(16);
        let rows = sqlx::query(
            "SELECT number, answers, content, rest FROM message WHERE session = $1 AND answers = $2 \
             AND number > $2 AND number < $3 ORDER BY number DESC LIMIT $4",
        )
        .bind(session.to_string())
        .bind(sql(window.answers.0))
        .bind(sql(below.0))
        .bind(sql(page as u64))
        .fetch_all(pool)
        .await?;
        for row in &rows {
            let sibling = message_of_row(session, row)?;
            below = sibling.number;
            let is_seen = match &window.reader {
                ContextReader::Everything => true,
                ContextReader::Member(names) => {
                    convoke_core::context::is_visible_to(&sibling.message, names)
                }
            };
            if is_seen {
                found.push(sibling);
                if found.len() == window.limit {
                    return Ok(found);
                }
            }
        }
        if rows.len() < page {
            return Ok(found);
        }
    }
}

async fn before(
    pool: &Pool,
    session: SessionId,
    number: MessageNumber,
    limit: usize,
) -> Result<Vec<Message>, StoreError> {
    let rows = sqlx::query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number < $2 \
         ORDER BY number DESC LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(number.0))
    .bind(sql(limit as u64))
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| message_of_row(session, row)).collect()
}

/// Merges messages to everyone with messages to each name, with one short index scan per name.
async fn visible_before(
    pool: &Pool,
    session: SessionId,
    number: MessageNumber,
    limit: usize,
    names: &[NameKey],
) -> Result<Vec<Message>, StoreError> {
    let mut numbers = BTreeSet::new();
    for reader in names.iter().map(NameKey::as_str).chain([""]) {
        let rows = sqlx::query(
            "SELECT number FROM mail WHERE session = $1 AND reader = $2 AND number < $3 \
             ORDER BY number DESC LIMIT $4",
        )
        .bind(session.to_string())
        .bind(text_value(reader))
        .bind(sql(number.0))
        .bind(sql(limit as u64))
        .fetch_all(pool)
        .await?;
        for row in &rows {
            numbers.insert(self::number(row, "number")?);
        }
    }
    let mut found = Vec::with_capacity(limit.min(numbers.len()));
    for number in numbers.into_iter().rev().take(limit) {
        found.push(message(pool, session, MessageNumber(number)).await?);
    }
    Ok(found)
}

pub(super) async fn open_turns(pool: &Pool, session: SessionId) -> Result<Vec<Turn>, StoreError> {
    let rows = sqlx::query(
        "SELECT number, member, answers, intent, asker, state, reply, problem, attempts, \
         queued_at, ended_at FROM turn WHERE session = $1 AND state IN ('queued', 'running') ORDER BY number",
    )
    .bind(session.to_string())
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| turn(session, row)).collect()
}

pub(super) async fn turns_after(
    pool: &Pool,
    session: SessionId,
    after: TurnId,
    limit: usize,
) -> Result<Vec<Turn>, StoreError> {
    let rows = sqlx::query(
        "SELECT number, member, answers, intent, asker, state, reply, problem, attempts, \
         queued_at, ended_at FROM turn WHERE session = $1 AND number > $2 ORDER BY number LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| turn(session, row)).collect()
}

pub(super) async fn attempts(
    pool: &Pool,
    session: SessionId,
    turn: TurnId,
) -> Result<Vec<Attempt>, StoreError> {
    let rows =
        sqlx::query("SELECT record FROM attempt WHERE session = $1 AND turn = $2 ORDER BY number")
            .bind(session.to_string())
            .bind(sql(turn.0))
            .fetch_all(pool)
            .await?;
    let attempt = |row: &DatabaseRow| {
        let record: String = row.try_get("record")?;
        serde_json::from_str(&record)
            .map_err(|error| damaged(session, &format!("an attempt of turn {turn}"), &error))
    };
    rows.iter().map(attempt).collect()
}

pub(super) async fn content(pool: &Pool, hash: ContentHash) -> Result<String, StoreError> {
    let row = sqlx::query("SELECT bytes, packed FROM content WHERE hash = $1")
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(pool)
        .await?
        .ok_or(StoreError::NoContent(hash))?;
    let packed: &[u8] = row.try_get("packed")?;
    unpack(hash, number(&row, "bytes")?, packed)
}

fn message_of_row(session: SessionId, row: &DatabaseRow) -> Result<Message, StoreError> {
    let rest: &str = row.try_get("rest")?;
    let mut message: Message = serde_json::from_str(rest).map_err(|error| {
        let number: i64 = row.try_get("number").unwrap_or_default();
        damaged(session, &format!("message {number}"), &error)
    })?;
    let is_same = message.text.is_empty() && message.message.content.is_empty();
    message.message.content = text(row, "content")?;
    if is_same {
        message.text.clone_from(&message.message.content);
    }
    Ok(message)
}

pub(super) fn turn(session: SessionId, row: &DatabaseRow) -> Result<Turn, StoreError> {
    let id = TurnId(number(row, "number")?);
    let unknown =
        |word: &str| StoreError::Damaged(format!("session {session}: turn {id} is `{word}`"));
    let state: &str = row.try_get("state")?;
    let intent: &str = row.try_get("intent")?;
    let reply: Option<i64> = row.try_get("reply")?;
    Ok(Turn {
        id,
        member: MemberName::new(text(row, "member")?),
        answers: MessageNumber(number(row, "answers")?),
        intent: match intent {
            "P1" => Intent::P1,
            "P2" => Intent::P2,
            "P3" => Intent::P3,
            other => return Err(unknown(other)),
        },
        asker: MemberName::new(text(row, "asker")?),
        state: TurnState::ALL
            .into_iter()
            .find(|known| known.as_str() == state)
            .ok_or_else(|| unknown(state))?,
        reply: reply.map(|number| MessageNumber(number.cast_unsigned())),
        problem: optional_text(row, "problem")?,
        attempts: u32::try_from(number(row, "attempts")?).unwrap_or(u32::MAX),
        queued_at: Millis(row.try_get("queued_at")?),
        ended_at: row.try_get::<Option<i64>, _>("ended_at")?.map(Millis),
    })
}

pub(super) fn number(row: &DatabaseRow, column: &str) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| StoreError::Damaged(format!("`{column}` is {number}")))
}

fn damaged(session: SessionId, what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("session {session}: {what} cannot be read: {error}"))
}
