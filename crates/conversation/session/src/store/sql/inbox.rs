//! Inboxes: people's messages that the holder of the session has not stored yet.

use convoke_core::NewMessage;
use convoke_protocol::attachment::Attachment;
use convoke_protocol::id::SessionId;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::connection::{SqlConnection, SqlRow};
use super::query::query;
use crate::sharing::SEND_KEY;
use crate::store::{ArrivalNumber, StoreError};

/// Puts a message into the inbox of a session.
pub(super) async fn say(
    connection: &mut impl SqlConnection,
    session: SessionId,
    message: &NewMessage,
) -> Result<(), StoreError> {
    if connection.put_message(session, row(message).to_string().into_bytes()).await? {
        return Ok(());
    }
    let known = query("SELECT 1 FROM session WHERE id = $1 AND removed_at IS NULL");
    Err(match known.bind(session.to_string()).fetch_optional(connection).await? {
        Some(_) => StoreError::InboxFull { session },
        None => StoreError::NoSession(session),
    })
}

/// Reads the inbox of a session, in order.
pub(super) async fn messages(
    connection: &mut impl SqlConnection,
    session: SessionId,
) -> Result<Vec<(ArrivalNumber, NewMessage)>, StoreError> {
    let rows = query("SELECT number, said FROM inbox WHERE session = $1 ORDER BY number")
        .bind(session.to_string())
        .fetch_all(connection)
        .await?;
    let message = |row| {
        let message = serde_json::from_slice(SqlRow::get(row, "said")?).and_then(message_of_row);
        let message = message
            .map_err(|error| StoreError::Damaged(format!("a message in an inbox: {error}")))?;
        Ok((ArrivalNumber(SqlRow::get(row, "number")?), message))
    };
    rows.iter().map(message).collect()
}

/// Removes a message from the inbox of a session. Returns whether it was there.
pub(super) async fn take_message(
    connection: &mut impl SqlConnection,
    session: SessionId,
    number: ArrivalNumber,
) -> Result<bool, StoreError> {
    let taken = query("DELETE FROM inbox WHERE session = $1 AND number = $2");
    let taken = taken.bind(session.to_string()).bind(number.0).execute(connection).await?;
    Ok(taken == 1)
}

/// Returns the stored form of a message.
fn row(message: &NewMessage) -> Value {
    json!({
        "person": message.speaker.name(), "text": message.content, "to": message.addressees(),
        "attachments": Attachment::from_message(message), "key": message.extra.get(SEND_KEY),
    })
}

fn message_of_row(mut row: Value) -> serde_json::Result<NewMessage> {
    let person = String::deserialize(row["person"].take())?;
    let message = NewMessage::from_person(person, String::deserialize(row["text"].take())?);
    let mut message = message.to(Vec::<String>::deserialize(row["to"].take())?);
    Attachment::add(Vec::deserialize(row["attachments"].take())?, &mut message);
    if let Value::String(key) = row["key"].take() {
        message.extra.insert(SEND_KEY.to_owned(), key.into());
    }
    Ok(message)
}
