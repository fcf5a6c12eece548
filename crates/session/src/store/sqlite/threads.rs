//! The threads of model members: each is a log of lines that only grows.

use super::{SqliteStore, sql};
use crate::store::StoreError;

/// What came of adding lines to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// They are there for good.
    Done,
    /// The thread has other lines than the caller has read; nothing was added.
    Conflict,
}

impl SqliteStore {
    /// Returns the lines of a thread, oldest first; none when there is no such thread.
    pub async fn thread_lines(&self, thread: &str) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT line FROM thread_line WHERE thread = $1 ORDER BY number")
                .bind(thread)
                .fetch_all(&self.pool)
                .await?;
        Ok(rows.into_iter().map(|(line,)| line).collect())
    }

    /// Adds lines to a thread of which `known` have been read: all of them or none.
    pub async fn append_thread_lines(
        &self,
        thread: &str,
        known: usize,
        lines: &[String],
    ) -> Result<Appended, StoreError> {
        self.failpoint.reach();
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let (there,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM thread_line WHERE thread = $1")
            .bind(thread)
            .fetch_one(&mut *transaction)
            .await?;
        if there != sql(known as u64) {
            return Ok(Appended::Conflict);
        }
        for (line, number) in lines.iter().zip(there..) {
            sqlx::query("INSERT INTO thread_line (thread, number, line) VALUES ($1, $2, $3)")
                .bind(thread)
                .bind(number)
                .bind(line)
                .execute(&mut *transaction)
                .await?;
        }
        self.failpoint.reach();
        transaction.commit().await?;
        self.failpoint.reach();
        Ok(Appended::Done)
    }
}
