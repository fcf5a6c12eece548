//! SQLite for the shared queries. Most steps between processes are not needed: every writing transaction excludes other
//! writers, triggers keep the search index, and other processes poll the file.

use convoke_protocol::id::SessionId;
use convoke_protocol::session::FoundMessage;
use sqlx::query::Query as BoundQuery;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::store::INBOX_LIMIT;
use crate::store::StoreError;
use crate::store::sql::{Query, SqlConnection, SqlRow, Value, sql};

impl SqlConnection for SqliteConnection {
    type Row = SqliteRow;

    /// Takes the write lock immediately; a transaction that reads first may fail to get it later.
    const BEGIN: &str = "BEGIN IMMEDIATE";
    const BEGIN_IMPORT: &str = Self::BEGIN;
    const MOVE_HEAD: &str = "UPDATE session SET events = $7, updated_at = $1, state = $2, \
         messages = $3, turns = $4 WHERE id = $5 AND events = $6";
    const BEGINNING: &str = "SUBSTR(message.content, 1, 200)";
    const COSTS: &str = "SELECT turn.member AS member, COUNT(*) AS attempts, \
         SUM(JSON_EXTRACT(record, '$.ended.costUsd')) AS cost, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.input')) AS input, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cached')) AS cached, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cacheWrite')) AS cache_write, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.output')) AS output, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.reasoning')) AS reasoning \
         FROM attempt JOIN turn ON turn.session = attempt.session AND turn.number = attempt.turn \
         WHERE attempt.session = $1 GROUP BY turn.member ORDER BY turn.member";

    async fn run(&mut self, query: Query) -> Result<u64, StoreError> {
        Ok(bound(query).execute(self).await?.rows_affected())
    }

    async fn rows(&mut self, query: Query) -> Result<Vec<SqliteRow>, StoreError> {
        Ok(bound(query).fetch_all(self).await?)
    }

    async fn search(
        &mut self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        super::search::messages(self, words, within, limit).await
    }

    async fn put_message(&mut self, session: SessionId, said: Vec<u8>) -> Result<bool, StoreError> {
        let added = sqlx::query(
            "INSERT INTO inbox (session, said) SELECT id, $2 FROM session \
             WHERE id = $1 AND removed_at IS NULL \
             AND (SELECT COUNT(*) FROM inbox WHERE session = $1) < $3",
        );
        let added = added.bind(session.to_string()).bind(said).bind(sql(INBOX_LIMIT as u64));
        Ok(added.execute(self).await?.rows_affected() == 1)
    }
}

/// Returns a statement with its values for the driver.
fn bound(query: Query) -> BoundQuery<'static, Sqlite, SqliteArguments> {
    let bound = match query.statement {
        std::borrow::Cow::Borrowed(statement) => sqlx::query(statement),
        std::borrow::Cow::Owned(statement) => sqlx::query(AssertSqlSafe(statement)),
    };
    query.values.into_iter().fold(bound, |bound, value| match value {
        Value::Integer(number) => bound.bind(number),
        Value::Word(text) | Value::Text(text) => bound.bind(text),
        Value::Bytes(bytes) => bound.bind(bytes),
    })
}

impl SqlRow for SqliteRow {
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
        Ok(self.try_get(column)?)
    }
}
