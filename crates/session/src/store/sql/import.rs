//! Imports a whole session in one transaction, page by page.

use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::id::{Head, SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::{NewSession, State};
use convoke_protocol::thread::ThreadLine;
use sqlx::{QueryBuilder, Transaction};

use super::database::{BEGIN_IMPORT, Database, notify, sql, text_value};
use super::write::{
    ROWS, create, insert_messages, json, share, write_attempts, write_contents, write_turns,
};
use super::{Writer, requests, threads};
use crate::store::failpoint::Failpoint;
use crate::store::{Page, SessionImport, StoreError};

/// A whole session that is being imported.
pub struct OpenImport {
    transaction: Transaction<'static, Database>,
    failpoint: Failpoint,
    session: SessionId,
    thread: Option<OpenThread>,
}

/// The thread whose rows are being written.
struct OpenThread {
    id: ThreadId,
    lines: u64,
    last_request: Option<RequestRecord>,
}

impl OpenImport {
    pub(super) async fn begin(writer: &Writer, new: NewSession) -> Result<Self, StoreError> {
        let Writer { pool, failpoint, .. } = writer;
        failpoint.reach();
        let (session, failpoint) = (new.id, failpoint.clone());
        let mut transaction = pool.begin_with(BEGIN_IMPORT).await?;
        create(&mut transaction, new).await?;
        Ok(Self { transaction, failpoint, session, thread: None })
    }

    /// Returns the thread, and starts it if the previous row was of another thread.
    async fn open(&mut self, id: &ThreadId) -> Result<&mut OpenThread, StoreError> {
        match &mut self.thread {
            Some(open) if open.id == *id => {}
            open => {
                if !threads::name(&mut self.transaction, id, Some(self.session)).await? {
                    return Err(ThreadStoreError::Changed(id.clone()).into());
                }
                *open = Some(OpenThread { id: id.clone(), lines: 0, last_request: None });
            }
        }
        self.thread.as_mut().ok_or_else(|| ThreadStoreError::Changed(id.clone()).into())
    }

    async fn write_lines(&mut self, lines: &[(ThreadId, ThreadLine)]) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(lines.len());
        for (thread, line) in lines {
            let open = self.open(thread).await?;
            rows.push((thread, open.lines, line));
            open.lines += 1;
        }
        let mut insert =
            QueryBuilder::new("INSERT INTO thread_line (thread, number, line, as_of) ");
        insert.push_values(rows, |mut row, (thread, number, line)| {
            row.push_bind(thread.as_str()).push_bind(sql(number)).push_bind(text_value(&line.text));
            row.push_bind(line.as_of.map(|number| sql(number.0)));
        });
        insert.build().execute(&mut *self.transaction).await?;
        Ok(())
    }
}

impl SessionImport for OpenImport {
    async fn write(&mut self, page: Page) -> Result<(), StoreError> {
        self.failpoint.reach();
        let Page { contents, shared, messages, turns, attempts, lines, requests } = page;
        let (session, id) = (self.session, self.session.to_string());
        let connection = &mut *self.transaction;
        let recorded = |what: &str| StoreError::Recorded { session, what: what.to_owned() };
        write_contents(connection, &self.failpoint, &id, &contents).await?;
        for chunk in shared.chunks(ROWS) {
            share(connection, &id, chunk).await?;
        }
        let mut messages = messages.into_iter();
        loop {
            let some: Vec<_> = messages.by_ref().take(ROWS).collect();
            let expected = some.len() as u64;
            if expected == 0 {
                break;
            }
            if insert_messages(connection, &id, some).await? != expected {
                return Err(recorded("a message"));
            }
        }
        for chunk in turns.chunks(ROWS) {
            if write_turns(connection, &id, chunk).await? != chunk.len() as u64 {
                return Err(recorded("a turn"));
            }
        }
        for chunk in attempts.chunks(ROWS) {
            if write_attempts(connection, &id, chunk).await? != chunk.len() as u64 {
                return Err(recorded("an attempt"));
            }
        }
        for chunk in lines.chunks(ROWS) {
            self.write_lines(chunk).await?;
        }
        for record in requests {
            let mut last = self.open(&record.thread).await?.last_request.take();
            requests::import(&mut self.transaction, session, &mut last, record).await?;
            self.thread.iter_mut().for_each(|open| open.last_request = last.take());
        }
        Ok(())
    }

    async fn finish(mut self, state: State) -> Result<(), StoreError> {
        self.failpoint.reach();
        sqlx::query(
            "UPDATE session SET head = 1, state = $1, messages = $2, turns = $3 WHERE id = $4",
        )
        .bind(json(&state)?)
        .bind(sql(state.last_message.0))
        .bind(sql(state.last_turn.0))
        .bind(self.session.to_string())
        .execute(&mut *self.transaction)
        .await?;
        notify(&mut self.transaction, self.session, Head(1)).await?;
        self.failpoint.reach();
        self.transaction.commit().await?;
        self.failpoint.reach();
        Ok(())
    }
}
