//! The log of a session.

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Row as _};

use super::database::{Connection, DatabaseRow, Pool, sql};
use super::packed::{pack, unpack_text};
use super::read::number;
use super::write::ROWS;
use crate::store::StoreError;

/// An event as it is stored, without the columns of its row.
#[derive(Serialize, Deserialize)]
struct StoredEvent<K> {
    at: Millis,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    migrated: bool,
    event: K,
}

/// Checks that events continue the log of a session after an event, and returns the last one.
pub(super) fn check_numbers(
    session: SessionId,
    mut head: EventNumber,
    events: &[Event],
) -> Result<EventNumber, StoreError> {
    for event in events {
        head = head.next();
        if event.number != Some(head) {
            let what = format!("event {head} as {:?}", event.number);
            return Err(StoreError::Recorded { session, what });
        }
    }
    Ok(head)
}

/// Adds events to the log of a session.
pub(super) async fn append(
    connection: &mut Connection,
    session: &str,
    events: &[Event],
) -> Result<(), StoreError> {
    for chunk in events.chunks(ROWS) {
        let mut rows = Vec::with_capacity(chunk.len());
        for Event { kind, at, number, migrated, .. } in chunk {
            let number = number.ok_or_else(|| unnumbered(kind))?;
            let stored = StoredEvent { at: *at, migrated: *migrated, event: kind };
            let body = super::write::json(&stored)?;
            rows.push((number, body.len(), pack(&body)));
        }
        let mut insert = QueryBuilder::new("INSERT INTO event (session, number, bytes, packed) ");
        insert.push_values(rows, |mut row, (number, bytes, packed)| {
            row.push_bind(session).push_bind(sql(number.0));
            row.push_bind(sql(bytes as u64)).push_bind(packed);
        });
        insert.build().execute(&mut *connection).await?;
    }
    Ok(())
}

fn unnumbered(kind: &EventKind) -> StoreError {
    StoreError::Damaged(format!("an event without a number cannot be stored: {kind:?}"))
}

/// Returns at most `limit` events after one, in order.
pub(super) async fn after(
    pool: &Pool,
    session: SessionId,
    after: EventNumber,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let rows = sqlx::query(
        "SELECT number, bytes, packed FROM event WHERE session = $1 AND number > $2 ORDER BY number \
         LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| event(session, row)).collect()
}

fn event(session: SessionId, row: &DatabaseRow) -> Result<Event, StoreError> {
    let place = EventNumber(number(row, "number")?);
    let damaged = |why: &dyn std::fmt::Display| {
        StoreError::Damaged(format!("session {session}: event {place} cannot be read: {why}"))
    };
    let packed: &[u8] = row.try_get("packed")?;
    let body = unpack_text(number(row, "bytes")?, packed).map_err(|why| damaged(&why))?;
    let StoredEvent { at, migrated, event } =
        serde_json::from_str(&body).map_err(|error| damaged(&error))?;
    Ok(Event { kind: event, session, at, number: Some(place), migrated })
}
