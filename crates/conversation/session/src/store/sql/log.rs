//! The log of a session.

use super::connection::{SqlConnection, SqlRow, number};
use super::packed::{pack, unpack_text};
use super::query::{Value, query, sql};
use super::write::ROWS;
use crate::store::StoreError;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use serde::{Deserialize, Serialize};

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
    connection: &mut impl SqlConnection,
    session: &str,
    events: &[Event],
) -> Result<(), StoreError> {
    for chunk in events.chunks(ROWS) {
        let mut rows = Vec::with_capacity(chunk.len());
        for Event { kind, at, number, migrated, .. } in chunk {
            let number = number.ok_or_else(|| unnumbered(kind))?;
            let stored = StoredEvent { at: *at, migrated: *migrated, event: kind };
            let body = super::write::json(&stored)?;
            let (number, bytes) = (sql(number.0), sql(body.len() as u64));
            rows.push([session.into(), number.into(), bytes.into(), Value::from(pack(&body))]);
        }
        let insert = query("INSERT INTO event (session, number, bytes, packed) ");
        insert.push_rows(rows).execute(connection).await?;
    }
    Ok(())
}

fn unnumbered(kind: &EventKind) -> StoreError {
    StoreError::Damaged(format!("an event without a number cannot be stored: {kind:?}"))
}

/// Returns at most `limit` events after one, in order.
pub(super) async fn after(
    connection: &mut impl SqlConnection,
    session: SessionId,
    after: EventNumber,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let rows = query(
        "SELECT number, bytes, packed FROM event WHERE session = $1 AND number > $2 ORDER BY number \
         LIMIT $3",
    )
    .bind(session.to_string())
    .bind(sql(after.0))
    .bind(sql(limit as u64))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| event(session, row)).collect()
}

fn event(session: SessionId, row: &impl SqlRow) -> Result<Event, StoreError> {
    let place = EventNumber(number(row, "number")?);
    let damaged = |why: &dyn std::fmt::Display| {
        StoreError::Damaged(format!("session {session}: event {place} cannot be read: {why}"))
    };
    let packed: &[u8] = row.get("packed")?;
    let body = unpack_text(number(row, "bytes")?, packed).map_err(|why| damaged(&why))?;
    let StoredEvent { at, migrated, event } =
        serde_json::from_str(&body).map_err(|error| damaged(&error))?;
    Ok(Event { kind: event, session, at, number: Some(place), migrated })
}
