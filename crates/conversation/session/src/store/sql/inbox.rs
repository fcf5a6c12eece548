//! Inboxes: people's messages that the holder of the session has not stored yet.

use convoke_core::NewMessage;
use convoke_protocol::attachment::Attachment;
use convoke_protocol::id::SessionId;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::database::{Connection, Pool, put_message};
use crate::shared::{InboxNumber, SEND_KEY};
use crate::store::StoreError;

/// Puts a message into the inbox of a session.
pub(super) async fn say(
    pool: &Pool,
    session: SessionId,
    message: &NewMessage,
) -> Result<(), StoreError> {
    if put_message(pool, session, row(message).to_string().as_bytes()).await? {
        return Ok(());
    }
    let known = sqlx::query("SELECT 1 FROM session WHERE id = $1 AND removed_at IS NULL");
    Err(match known.bind(session.to_string()).fetch_optional(pool).await? {
        Some(_) => StoreError::InboxFull { session },
        None => StoreError::NoSession(session),
    })
}

/// Reads the inbox of a session, in order.
pub(super) async fn messages(
    pool: &Pool,
    session: SessionId,
) -> Result<Vec<(InboxNumber, NewMessage)>, StoreError> {
    let rows: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT number, said FROM inbox WHERE session = $1 ORDER BY number")
            .bind(session.to_string())
            .fetch_all(pool)
            .await?;
    let message = |(number, said): (i64, Vec<u8>)| {
        let message = serde_json::from_slice(&said).and_then(message_of_row);
        let message = message
            .map_err(|error| StoreError::Damaged(format!("a message in an inbox: {error}")))?;
        Ok((InboxNumber(number), message))
    };
    rows.into_iter().map(message).collect()
}

/// Removes a message from the inbox of a session. Returns whether it was there.
pub(super) async fn take_message(
    connection: &mut Connection,
    session: SessionId,
    number: InboxNumber,
) -> Result<bool, StoreError> {
    let taken = sqlx::query("DELETE FROM inbox WHERE session = $1 AND number = $2");
    let taken = taken.bind(session.to_string()).bind(number.0).execute(connection).await?;
    Ok(taken.rows_affected() == 1)
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
