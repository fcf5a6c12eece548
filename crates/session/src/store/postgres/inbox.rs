//! Inboxes: people's messages for sessions that another process holds.

use convoke_core::NewMessage;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::PostgresStore;
use super::database::{CHANNEL, Connection};
use crate::attachment::Attachment;
use crate::coordinator::INBOX_LIMIT;
use crate::id::SessionId;
use crate::shared::{InboxNumber, SEND_KEY};
use crate::store::StoreError;

impl PostgresStore {
    /// Puts a message into the inbox of a session, in one statement. The holder of the session stores it
    /// between two turns; if there is no holder, the session is offered.
    pub async fn say(&self, session: SessionId, message: &NewMessage) -> Result<(), StoreError> {
        let said = row(message).to_string();
        let added: Option<(i64,)> = sqlx::query_as(
            "WITH added AS (INSERT INTO inbox (session, said) SELECT id, $2 FROM session \
             WHERE id = $1 AND removed_at IS NULL \
             AND (SELECT COUNT(*) FROM inbox WHERE session = $1) < $3 RETURNING number), \
             offered AS (INSERT INTO offer (session, since) SELECT $1, clock_timestamp() FROM added \
             ON CONFLICT (session) DO UPDATE SET since = offer.since RETURNING since), \
             claimable AS (INSERT INTO lease (session, epoch, until, pid, host, since) \
             SELECT $1, 0, '-infinity', 0, '', 0 FROM added ON CONFLICT DO NOTHING) \
             SELECT added.number FROM added, offered, session, pg_notify($4, $1 || ' ' || session.head) \
             WHERE session.id = $1",
        )
        .bind(session.to_string())
        .bind(said.as_bytes())
        .bind(i64::try_from(INBOX_LIMIT).unwrap_or(i64::MAX))
        .bind(CHANNEL)
        .fetch_optional(&self.writer.pool)
        .await?;
        if added.is_none() {
            let known = sqlx::query("SELECT 1 FROM session WHERE id = $1 AND removed_at IS NULL");
            let known = known.bind(session.to_string()).fetch_optional(&self.writer.pool).await?;
            return Err(match known {
                Some(_) => StoreError::InboxFull { session },
                None => StoreError::NoSession(session),
            });
        }
        Ok(())
    }

    /// Returns the messages in the inbox of a session, in order. A commit that stores a message removes it.
    pub async fn inbox(
        &self,
        session: SessionId,
    ) -> Result<Vec<(InboxNumber, NewMessage)>, StoreError> {
        let rows: Vec<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT number, said FROM inbox WHERE session = $1 ORDER BY number")
                .bind(session.to_string())
                .fetch_all(&self.writer.pool)
                .await?;
        let message = |(number, said): (i64, Vec<u8>)| {
            let message = serde_json::from_slice(&said).and_then(message_of_row);
            let message = message
                .map_err(|error| StoreError::Damaged(format!("a message in an inbox: {error}")))?;
            Ok((InboxNumber(number), message))
        };
        rows.into_iter().map(message).collect()
    }
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

/// Removes the rows that processes share about a session.
pub(super) async fn remove_shared(
    connection: &mut Connection,
    session: &str,
) -> Result<(), StoreError> {
    for statement in [
        "DELETE FROM inbox WHERE session = $1",
        "DELETE FROM offer WHERE session = $1",
        "DELETE FROM signal WHERE session = $1",
        "DELETE FROM attendance WHERE session = $1",
        "DELETE FROM project WHERE session = $1",
    ] {
        sqlx::query(statement).bind(session).execute(&mut *connection).await?;
    }
    Ok(())
}
