//! PostgreSQL for the shared queries. Texts of people are bytes there, because it refuses some characters.

use convoke_protocol::id::{EventNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::FoundMessage;
use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::query::Query as BoundQuery;
use sqlx::{AssertSqlSafe, Row as _};

use super::{offer, search, signal};
use crate::sharing::NextTurn;
use crate::store::StoreError;
use crate::store::sql::{Query, SqlConnection, SqlRow, Value};

/// The channel on which new heads are announced.
pub(super) const CHANNEL: &str = "convoke";
/// The maximum number of characters of a beginning.
const BEGINNING_CHARS: usize = 200;

impl SqlConnection for PgConnection {
    type Row = PgRow;

    const BEGIN: &str = "BEGIN";
    /// The transaction waits for its source, for longer than a lease.
    const BEGIN_IMPORT: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0";
    /// Announces the head to other processes, too. Listeners get the announcement when the transaction commits, and read the
    /// rows themselves.
    const MOVE_HEAD: &str = "UPDATE session SET events = $7, updated_at = $1, state = $2, \
         messages = $3, turns = $4 WHERE id = $5 AND events = $6 \
         RETURNING pg_notify('convoke', id || ' ' || events)";
    /// Cut at a byte boundary.
    const BEGINNING: &str = "SUBSTR(message.content, 1, 800)";
    const COSTS: &str = "SELECT turn.member AS member, COUNT(*) AS attempts, \
         SUM((record::JSON #>> '{ended,costUsd}')::FLOAT8) AS cost, \
         SUM((record::JSON #>> '{ended,usage,input}')::BIGINT)::BIGINT AS input, \
         SUM((record::JSON #>> '{ended,usage,cached}')::BIGINT)::BIGINT AS cached, \
         SUM((record::JSON #>> '{ended,usage,cacheWrite}')::BIGINT)::BIGINT AS cache_write, \
         SUM((record::JSON #>> '{ended,usage,output}')::BIGINT)::BIGINT AS output, \
         SUM((record::JSON #>> '{ended,usage,reasoning}')::BIGINT)::BIGINT AS reasoning \
         FROM attempt JOIN turn ON turn.session = attempt.session AND turn.number = attempt.turn \
         WHERE attempt.session = $1 GROUP BY turn.member ORDER BY turn.member";

    async fn run(&mut self, query: Query) -> Result<u64, StoreError> {
        Ok(bound(query).execute(self).await?.rows_affected())
    }

    async fn rows(&mut self, query: Query) -> Result<Vec<PgRow>, StoreError> {
        Ok(bound(query).fetch_all(self).await?)
    }

    async fn search(
        &mut self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        search::messages(self, words, within, limit).await
    }

    /// If no process holds the session, it is offered.
    async fn put_message(&mut self, session: SessionId, said: Vec<u8>) -> Result<bool, StoreError> {
        offer::put_message(self, session, said).await
    }

    async fn lock_thread(&mut self, thread: &ThreadId) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(thread.as_str())
            .execute(self)
            .await?;
        Ok(())
    }

    async fn lock_contents(&mut self) -> Result<(), StoreError> {
        sqlx::query("LOCK TABLE content_use IN SHARE ROW EXCLUSIVE MODE").execute(self).await?;
        Ok(())
    }

    async fn index_message(
        &mut self,
        session: SessionId,
        message: &Message,
    ) -> Result<(), StoreError> {
        search::index_message(self, session, message).await
    }

    async fn remove_from_index(&mut self, session: SessionId) -> Result<(), StoreError> {
        search::remove_from_index(self, session).await
    }

    async fn set_offer(&mut self, session: SessionId, offer: &NextTurn) -> Result<(), StoreError> {
        offer::set_offer(self, session, offer).await
    }

    async fn remove_signals(&mut self, session: SessionId, turn: TurnId) -> Result<(), StoreError> {
        signal::remove_signals(self, session, turn).await
    }

    async fn remove_shared(&mut self, session: SessionId) -> Result<(), StoreError> {
        offer::remove_shared(self, &session.to_string()).await
    }

    async fn notify(&mut self, session: SessionId, head: EventNumber) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(format!("{session} {}", head.0))
            .execute(self)
            .await?;
        Ok(())
    }
}

/// Returns a statement with its values for the driver.
fn bound(query: Query) -> BoundQuery<'static, Postgres, PgArguments> {
    let bound = match query.statement {
        std::borrow::Cow::Borrowed(statement) => sqlx::query(statement),
        std::borrow::Cow::Owned(statement) => sqlx::query(AssertSqlSafe(statement)),
    };
    query.values.into_iter().fold(bound, |bound, value| match value {
        Value::Integer(number) => bound.bind(number),
        Value::Word(text) => bound.bind(text),
        Value::Bytes(bytes) => bound.bind(bytes),
        Value::Text(text) => bound.bind(text.map(String::into_bytes)),
    })
}

impl SqlRow for PgRow {
    fn integer(&self, column: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn real(&self, column: &str) -> Result<Option<f64>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn word(&self, column: &str) -> Result<Option<&str>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, StoreError> {
        Ok(self.try_get(column)?)
    }

    fn text(&self, column: &str) -> Result<Option<String>, StoreError> {
        let bytes: Option<Vec<u8>> = self.try_get(column)?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| StoreError::Damaged(format!("`{column}` is not UTF-8")))
    }

    fn beginning(&self) -> Result<Option<String>, StoreError> {
        let beginning = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).chars().take(BEGINNING_CHARS).collect::<String>()
        };
        Ok(self.bytes("beginning")?.map(beginning))
    }
}
