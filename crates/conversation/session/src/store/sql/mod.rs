//! The store on a database that speaks SQL: written once, over what a database is ([`SqlConnection`]) and how processes share
//! it ([`Backend`]).

mod connection;
mod costs;
mod import;
mod inbox;
mod log;
pub(super) mod migration;
mod packed;
mod pieces;
mod projection;
mod query;
pub(super) mod read;
mod requests;
mod store;
mod threads;
pub(super) mod write;

use std::fmt;

use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId};
use convoke_protocol::session::FoundMessage;
use sqlx::Transaction;

pub(super) use self::connection::{SqlConnection, SqlRow, text};
pub use self::import::OpenImport;
pub(super) use self::query::{Query, Value, sql};
use super::excerpt::excerpt;
use super::failpoint::Failpoint;
use super::{Commit, Holder, SessionHold, SharedStore, StoreError};

/// The database of connections of a type.
type DatabaseOf<C> = <C as sqlx::Connection>::Database;

/// How processes share a database.
pub trait Backend: Clone + fmt::Debug + Send + Sync + 'static {
    /// A connection to the database.
    type Connection: SqlConnection;
    /// The lock of a session for one process.
    type Hold: SessionHold;

    /// Locks a session for this process. Fails with the current holder if a live process has it.
    fn hold(
        &self,
        session: SessionId,
        holder: Holder,
    ) -> impl Future<Output = Result<Self::Hold, StoreError>> + Send;

    /// Refuses to write a session that another process may hold.
    fn check(
        &self,
        connection: &mut Self::Connection,
        session: SessionId,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Returns a connection that reads the database as it is now.
    fn snapshot(
        &self,
        pool: &sqlx::Pool<DatabaseOf<Self::Connection>>,
    ) -> impl Future<Output = Result<sqlx::Pool<DatabaseOf<Self::Connection>>, StoreError>> + Send;

    /// Returns the space of removed rows to the file system.
    fn give_back_pages(
        _: &sqlx::Pool<DatabaseOf<Self::Connection>>,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Writes a commit.
    fn commit(
        store: &SqlStore<Self>,
        session: SessionId,
        commit: Commit,
    ) -> impl Future<Output = Result<EventNumber, StoreError>> + Send {
        write::commit(store, session, commit)
    }

    /// Returns how machines share the database, if they do.
    fn sharing(_: &SqlStore<Self>) -> Option<&SharedStore> {
        None
    }

    /// Returns the time by which the database orders sessions.
    fn now(&self) -> Millis {
        convoke_agent::clock::now()
    }
}

/// Sessions in a database. Clones share its connections.
pub struct SqlStore<B: Backend> {
    pub(super) pool: sqlx::Pool<DatabaseOf<B::Connection>>,
    pub(super) failpoint: Failpoint,
    pub(super) backend: B,
}

impl<B: Backend> Clone for SqlStore<B> {
    fn clone(&self) -> Self {
        let Self { pool, failpoint, backend } = self;
        Self { pool: pool.clone(), failpoint: failpoint.clone(), backend: backend.clone() }
    }
}

impl<B: Backend> fmt::Debug for SqlStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl<B: Backend> SqlStore<B> {
    /// Starts a transaction that writes.
    async fn begin(&self) -> Result<Transaction<'static, DatabaseOf<B::Connection>>, StoreError> {
        Ok(self.pool.begin_with(B::Connection::BEGIN).await?)
    }

    /// Ends a transaction, durably.
    async fn end(
        &self,
        transaction: Transaction<'static, DatabaseOf<B::Connection>>,
    ) -> Result<(), StoreError> {
        self.failpoint.reach();
        transaction.commit().await?;
        self.failpoint.reach();
        Ok(())
    }

    /// Holds a session for one write.
    async fn hold_briefly(&self, session: SessionId) -> Result<B::Hold, StoreError> {
        let holder = Holder::this_process(Millis(0));
        self.backend.hold(session, holder).await
    }
}

/// Returns the message of a row with `session`, `number` and `content`, with an excerpt around the words that were searched for.
pub(super) fn found_message(
    row: &impl SqlRow,
    words: &[String],
) -> Result<FoundMessage, StoreError> {
    let session: &str = row.get("session")?;
    Ok(FoundMessage {
        session: session.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?,
        number: MessageNumber(connection::number(row, "number")?),
        excerpt: excerpt(&text(row, "content")?, words),
    })
}
