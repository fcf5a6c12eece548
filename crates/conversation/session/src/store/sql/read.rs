//! Queries, all by primary key or index.

use std::collections::BTreeSet;

use super::connection::{SqlConnection, SqlRow, number, text};
use super::packed::unpack;
use super::query::{Query, query, sql, text_value};
use crate::store::{ContextReader, StoreError, Window};
use convoke_core::marker::Intent;
use convoke_core::name::NameKey;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, Rehearsal, RemovedSession, Session, State, Summary};
use convoke_protocol::turn::{Attempt, Turn, TurnState};

pub(super) async fn session(
    connection: &mut impl SqlConnection,
    id: SessionId,
) -> Result<Session, StoreError> {
    let row = query(
        "SELECT created_at, updated_at, name, directory, team, first_task, rehearsal, events, state FROM session \
         WHERE id = $1",
    )
    .bind(id.to_string())
    .fetch_optional(connection)
    .await?
    .ok_or(StoreError::NoSession(id))?;
    let state: State = serde_json::from_str(row.get("state")?)
        .map_err(|error| damaged(id, "the state of the conversation", &error))?;
    Ok(Session {
        began: NewSession {
            id,
            created_at: Millis(row.get("created_at")?),
            name: row.text("name")?,
            directory: text(&row, "directory")?,
            team: text(&row, "team")?,
            task: row.text("first_task")?,
            rehearsal: rehearsal(&row)?,
        },
        updated_at: Millis(row.get("updated_at")?),
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

fn summaries<C: SqlConnection>(rest: &str) -> Query {
    query(SUMMARY).push(C::BEGINNING).push(SUMMARY_END).push(rest)
}

pub(super) async fn sessions<C: SqlConnection>(
    connection: &mut C,
) -> Result<Vec<Summary>, StoreError> {
    let listed = " WHERE removed_at IS NULL ORDER BY updated_at DESC, id DESC";
    summaries::<C>(listed).fetch_all(connection).await?.iter().map(summary).collect()
}

pub(super) async fn removed_sessions<C: SqlConnection>(
    connection: &mut C,
) -> Result<Vec<RemovedSession>, StoreError> {
    let listed = " WHERE removed_at IS NOT NULL ORDER BY removed_at DESC, id DESC";
    let rows = summaries::<C>(listed).fetch_all(connection).await?;
    let removed = |row: &C::Row| {
        Ok(RemovedSession { session: summary(row)?, removed_at: Millis(row.get("removed_at")?) })
    };
    rows.iter().map(removed).collect()
}

fn rehearsal(row: &impl SqlRow) -> Result<Option<Rehearsal>, StoreError> {
    let word: Option<&str> = row.get("rehearsal")?;
    let Some(word) = word else { return Ok(None) };
    let known = Rehearsal::ALL.into_iter().find(|known| known.as_str() == word);
    let unknown = || StoreError::Damaged(format!("unknown kind of rehearsal `{word}`"));
    known.map(Some).ok_or_else(unknown)
}

fn summary(row: &impl SqlRow) -> Result<Summary, StoreError> {
    let id: &str = row.get("id")?;
    Ok(Summary {
        id: id.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?,
        name: row.text("name")?,
        directory: text(row, "directory")?,
        rehearsal: rehearsal(row)?,
        created_at: Millis(row.get("created_at")?),
        updated_at: Millis(row.get("updated_at")?),
        messages: number(row, "messages")?,
        turns: number(row, "turns")?,
        waiting: number(row, "waiting")?,
        beginning: row.beginning()?,
    })
}

pub(super) async fn message(
    connection: &mut impl SqlConnection,
    session: SessionId,
    number: MessageNumber,
) -> Result<Message, StoreError> {
    let row = query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number = $2",
    )
    .bind(session.to_string())
    .bind(sql(number.0))
    .fetch_optional(connection)
    .await?
    .ok_or(StoreError::NoMessage { session, number })?;
    message_of_row(session, &row)
}

pub(super) async fn messages_after(
    connection: &mut impl SqlConnection,
    session: SessionId,
    after: MessageNumber,
    limit: usize,
) -> Result<Vec<Message>, StoreError> {
    let rows = query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number > $2 \
         ORDER BY number LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| message_of_row(session, row)).collect()
}

pub(super) async fn window(
    connection: &mut impl SqlConnection,
    session: SessionId,
    window: &Window,
) -> Result<Vec<Message>, StoreError> {
    if window.limit == 0 {
        return Ok(Vec::new());
    }
    let mut found = siblings(connection, session, window).await?;
    let left = window.limit - found.len();
    if left > 0 {
        found.extend(match &window.reader {
            ContextReader::Everything => before(connection, session, window.answers, left).await?,
            ContextReader::Member(names) => {
                visible_before(connection, session, window.answers, left, names).await?
            }
        });
    }
    Ok(found)
}

/// Returns the other answers to the same message, newest first.
async fn siblings(
    connection: &mut impl SqlConnection,
    session: SessionId,
    window: &Window,
) -> Result<Vec<Message>, StoreError> {
    // Read in pages, because messages that the member does not see are skipped.
    let mut found = Vec::new();
    let mut below = window.as_of.next();
    loop {
        let page = window.limit.max(16);
        let rows = query(
            "SELECT number, answers, content, rest FROM message WHERE session = $1 AND answers = $2 \
             AND number > $2 AND number < $3 ORDER BY number DESC LIMIT $4",
        )
        .bind(session.to_string())
        .bind(sql(window.answers.0))
        .bind(sql(below.0))
        .bind(sql(page as u64))
        .fetch_all(connection)
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
    connection: &mut impl SqlConnection,
    session: SessionId,
    number: MessageNumber,
    limit: usize,
) -> Result<Vec<Message>, StoreError> {
    let rows = query(
        "SELECT number, answers, content, rest FROM message WHERE session = $1 AND number < $2 \
         ORDER BY number DESC LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(number.0))
    .bind(sql(limit as u64))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| message_of_row(session, row)).collect()
}

/// Merges messages to everyone with messages to each name, with one short index scan per name.
async fn visible_before(
    connection: &mut impl SqlConnection,
    session: SessionId,
    number: MessageNumber,
    limit: usize,
    names: &[NameKey],
) -> Result<Vec<Message>, StoreError> {
    let mut numbers = BTreeSet::new();
    for reader in names.iter().map(NameKey::as_str).chain([""]) {
        let rows = query(
            "SELECT number FROM mail WHERE session = $1 AND reader = $2 AND number < $3 \
             ORDER BY number DESC LIMIT $4",
        )
        .bind(session.to_string())
        .bind(text_value(reader))
        .bind(sql(number.0))
        .bind(sql(limit as u64))
        .fetch_all(connection)
        .await?;
        for row in &rows {
            numbers.insert(self::number(row, "number")?);
        }
    }
    let mut found = Vec::with_capacity(limit.min(numbers.len()));
    for number in numbers.into_iter().rev().take(limit) {
        found.push(message(connection, session, MessageNumber(number)).await?);
    }
    Ok(found)
}

pub(super) async fn open_turns(
    connection: &mut impl SqlConnection,
    session: SessionId,
) -> Result<Vec<Turn>, StoreError> {
    let rows = query(
        "SELECT number, member, answers, intent, asker, state, reply, problem, attempts, \
         queued_at, ended_at FROM turn WHERE session = $1 AND state IN ('queued', 'running') ORDER BY number",
    )
    .bind(session.to_string())
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| turn(session, row)).collect()
}

pub(super) async fn turns_after(
    connection: &mut impl SqlConnection,
    session: SessionId,
    after: TurnId,
    limit: usize,
) -> Result<Vec<Turn>, StoreError> {
    let rows = query(
        "SELECT number, member, answers, intent, asker, state, reply, problem, attempts, \
         queued_at, ended_at FROM turn WHERE session = $1 AND number > $2 ORDER BY number LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| turn(session, row)).collect()
}

pub(super) async fn attempts(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
) -> Result<Vec<Attempt>, StoreError> {
    let rows = query("SELECT record FROM attempt WHERE session = $1 AND turn = $2 ORDER BY number")
        .bind(session.to_string())
        .bind(sql(turn.0))
        .fetch_all(connection)
        .await?;
    let damaged = |error| damaged(session, &format!("an attempt of turn {turn}"), &error);
    rows.iter().map(|row| serde_json::from_str(row.get("record")?).map_err(damaged)).collect()
}

pub(super) async fn content(
    connection: &mut impl SqlConnection,
    hash: ContentHash,
) -> Result<String, StoreError> {
    let row = query("SELECT bytes, packed FROM content WHERE hash = $1")
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(connection)
        .await?
        .ok_or(StoreError::NoContent(hash))?;
    let packed: &[u8] = row.get("packed")?;
    unpack(hash, number(&row, "bytes")?, packed)
}

fn message_of_row(session: SessionId, row: &impl SqlRow) -> Result<Message, StoreError> {
    let rest: &str = row.get("rest")?;
    let mut message: Message = serde_json::from_str(rest).map_err(|error| {
        let number: i64 = row.get("number").unwrap_or_default();
        damaged(session, &format!("message {number}"), &error)
    })?;
    let is_same = message.text.is_empty() && message.message.content.is_empty();
    message.message.content = text(row, "content")?;
    if is_same {
        message.text.clone_from(&message.message.content);
    }
    Ok(message)
}

pub(in crate::store) fn turn(session: SessionId, row: &impl SqlRow) -> Result<Turn, StoreError> {
    let id = TurnId(number(row, "number")?);
    let unknown =
        |word: &str| StoreError::Damaged(format!("session {session}: turn {id} is `{word}`"));
    let state: &str = row.get("state")?;
    let intent: &str = row.get("intent")?;
    let reply: Option<i64> = row.get("reply")?;
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
        problem: row.text("problem")?,
        attempts: u32::try_from(number(row, "attempts")?).unwrap_or(u32::MAX),
        queued_at: Millis(row.get("queued_at")?),
        ended_at: row.get::<Option<i64>>("ended_at")?.map(Millis),
    })
}

fn damaged(session: SessionId, what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("session {session}: {what} cannot be read: {error}"))
}
