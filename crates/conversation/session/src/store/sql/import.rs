//! Imports a whole session in one transaction, page by page.

use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{EventNumber, SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::{NewSession, State};
use convoke_protocol::thread::ThreadLine;
use sqlx::Transaction;

use super::connection::SqlConnection;
use super::query::{Value, query, sql, text_value};
use super::write::{ROWS, create, json, share, write_contents};
use super::{Backend, DatabaseOf, SqlStore, log, projection, requests, threads};
use crate::store::failpoint::Failpoint;
use crate::store::{Page, SessionImport, StoreError};

/// A whole session that is being imported.
pub struct OpenImport<B: Backend> {
    transaction: Transaction<'static, DatabaseOf<B::Connection>>,
    failpoint: Failpoint,
    session: SessionId,
    head: EventNumber,
    state: State,
    thread: Option<OpenThread>,
}

/// The thread whose rows are being written.
struct OpenThread {
    id: ThreadId,
    lines: u64,
    last_request: Option<RequestRecord>,
}

impl<B: Backend> OpenImport<B> {
    pub(super) async fn begin(store: &SqlStore<B>, new: NewSession) -> Result<Self, StoreError> {
        let (session, failpoint) = (new.id, store.failpoint.clone());
        failpoint.reach();
        let mut transaction = store.pool.begin_with(B::Connection::BEGIN_IMPORT).await?;
        let mut state = State::default();
        state.apply(&EventKind::created(&new));
        create(&mut *transaction, &failpoint, new).await?;
        let head = EventNumber(1);
        Ok(Self { transaction, failpoint, session, head, state, thread: None })
    }

    /// Returns the thread, and starts it if the previous row was of another thread.
    async fn open(&mut self, id: &ThreadId) -> Result<&mut OpenThread, StoreError> {
        match &mut self.thread {
            Some(open) if open.id == *id => {}
            open => {
                if !threads::name(&mut *self.transaction, id, Some(self.session)).await? {
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
            let (number, as_of) = (sql(open.lines), line.as_of.map(|number| sql(number.0)));
            let text = text_value(line.text.as_str());
            rows.push([thread.as_str().into(), number.into(), text.into(), Value::from(as_of)]);
            open.lines += 1;
        }
        let insert = query("INSERT INTO thread_line (thread, number, line, as_of) ");
        insert.push_rows(rows).execute(&mut *self.transaction).await?;
        Ok(())
    }
}

impl<B: Backend> SessionImport for OpenImport<B> {
    async fn write(&mut self, page: Page) -> Result<(), StoreError> {
        self.failpoint.reach();
        let Page { contents, shared, events, lines, requests } = page;
        let (session, id) = (self.session, self.session.to_string());
        let connection = &mut *self.transaction;
        write_contents(connection, &self.failpoint, &id, &contents).await?;
        for chunk in shared.chunks(ROWS) {
            share(connection, &id, chunk).await?;
        }
        self.head = log::check_numbers(session, self.head, &events)?;
        for event in &events {
            self.state.apply(&event.kind);
        }
        log::append(connection, &id, &events).await?;
        projection::apply(connection, &self.failpoint, session, &events).await?;
        for chunk in lines.chunks(ROWS) {
            self.write_lines(chunk).await?;
        }
        for record in requests {
            let mut last = self.open(&record.thread).await?.last_request.take();
            requests::import(&mut *self.transaction, session, &mut last, record).await?;
            self.thread.iter_mut().for_each(|open| open.last_request = last.take());
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), StoreError> {
        self.failpoint.reach();
        query(
            "UPDATE session SET events = $1, state = $2, messages = $3, turns = $4 WHERE id = $5",
        )
        .bind(sql(self.head.0))
        .bind(json(&self.state)?)
        .bind(sql(self.state.last_message.0))
        .bind(sql(self.state.last_turn.0))
        .bind(self.session.to_string())
        .execute(&mut *self.transaction)
        .await?;
        self.transaction.notify(self.session, self.head).await?;
        self.failpoint.reach();
        self.transaction.commit().await?;
        self.failpoint.reach();
        Ok(())
    }
}
