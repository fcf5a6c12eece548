//! What the shared queries need of a database: how it runs a statement, and the few statements in which databases differ.

use convoke_protocol::id::{EventNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::FoundMessage;

use super::query::Query;
use crate::sharing::NextTurn;
use crate::store::StoreError;

/// The result of a step.
type Done = Result<(), StoreError>;

/// A connection to a database. The steps without a result are those that only some databases need.
pub trait SqlConnection: sqlx::Connection + 'static {
    /// A row of a result.
    type Row: SqlRow;

    /// Starts a transaction that writes.
    const BEGIN: &str;
    /// Starts a transaction that may wait for its source.
    const BEGIN_IMPORT: &str;
    /// Advances the head of a session.
    const MOVE_HEAD: &str;
    /// The beginning of a message's text.
    const BEGINNING: &str;
    /// The attempts, costs and tokens of a session, by member.
    const COSTS: &str;

    /// Runs a statement, and returns the number of rows that it changed.
    fn run(&mut self, query: Query) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Returns the rows of a query.
    fn rows(
        &mut self,
        query: Query,
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// Finds messages through the index for full-text search.
    fn search(
        &mut self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<FoundMessage>, StoreError>> + Send;

    /// Puts a message into the inbox of a session, in one statement. Returns whether there is a session with room for it.
    fn put_message(
        &mut self,
        session: SessionId,
        said: Vec<u8>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Locks a thread against other writers until the transaction ends.
    fn lock_thread(&mut self, _: &ThreadId) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Locks the contents against other writers until the transaction ends. Otherwise, another writer could rely on
    /// a content that is about to be removed.
    fn lock_contents(&mut self) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Adds a message to the index for full-text search.
    fn index_message(&mut self, _: SessionId, _: &Message) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Removes a session from the index for full-text search.
    fn remove_from_index(&mut self, _: SessionId) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Offers a turn to other processes.
    fn set_offer(&mut self, _: SessionId, _: &NextTurn) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Removes the signals for a turn that has ended.
    fn remove_signals(&mut self, _: SessionId, _: TurnId) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Removes the rows that processes share about a session.
    fn remove_shared(&mut self, _: SessionId) -> impl Future<Output = Done> + Send {
        nothing()
    }

    /// Announces the head of a session to other processes when the transaction commits.
    fn notify(&mut self, _: SessionId, _: EventNumber) -> impl Future<Output = Done> + Send {
        nothing()
    }
}

fn nothing() -> std::future::Ready<Done> {
    std::future::ready(Ok(()))
}

/// A row of a result. A column that is absent or of another type is an error; one without a value is `None`.
pub trait SqlRow: Send + Sync + 'static {
    fn integer(&self, column: &str) -> Result<Option<i64>, StoreError>;

    fn real(&self, column: &str) -> Result<Option<f64>, StoreError>;

    /// Returns a text of ours: an id, a word, JSON.
    fn word(&self, column: &str) -> Result<Option<&str>, StoreError>;

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, StoreError>;

    /// Returns a text of somebody else, which may contain any characters.
    fn text(&self, column: &str) -> Result<Option<String>, StoreError>;

    /// Returns the column [`SqlConnection::BEGINNING`], named `beginning`.
    fn beginning(&self) -> Result<Option<String>, StoreError> {
        self.text("beginning")
    }

    /// Returns a column as the type that is asked for.
    fn get<'r, T: FromColumn<'r>>(&'r self, column: &str) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        T::from_column(self, column)
    }
}

/// A type of a column.
pub trait FromColumn<'r>: Sized {
    /// Reads a column of a row.
    fn from_column(row: &'r impl SqlRow, column: &str) -> Result<Self, StoreError>;
}

/// Implements a type of a column, with or without a value, by a method of a row.
macro_rules! column_type {
    ($($type:ty = $method:ident;)+) => {$(
        impl<'r> FromColumn<'r> for Option<$type> {
            fn from_column(row: &'r impl SqlRow, column: &str) -> Result<Self, StoreError> {
                Ok(row.$method(column)?.map(Into::into))
            }
        }

        impl<'r> FromColumn<'r> for $type {
            fn from_column(row: &'r impl SqlRow, column: &str) -> Result<Self, StoreError> {
                let value: Option<$type> = row.get(column)?;
                value.ok_or_else(|| StoreError::Damaged(format!("`{column}` has no value")))
            }
        }
    )+};
}

column_type! {
    i64 = integer;
    f64 = real;
    &'r str = word;
    String = word;
    &'r [u8] = bytes;
    Vec<u8> = bytes;
}

/// Returns a column that is a number.
pub(super) fn number(row: &impl SqlRow, column: &str) -> Result<u64, StoreError> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| StoreError::Damaged(format!("`{column}` is {number}")))
}

/// Returns a column that is a text of somebody else.
pub(in crate::store) fn text(row: &impl SqlRow, column: &str) -> Result<String, StoreError> {
    row.text(column)?.ok_or_else(|| StoreError::Damaged(format!("`{column}` has no value")))
}
