//! A statement with its values, for any database.

use std::borrow::Cow;

use super::connection::SqlConnection;
use crate::store::StoreError;

/// A value of a statement; `None` is `NULL` of the type.
#[derive(Debug)]
pub enum Value {
    Integer(Option<i64>),
    /// A text of ours: an id, a word, JSON.
    Word(Option<String>),
    Bytes(Option<Vec<u8>>),
    /// A text of somebody else, which may contain any characters.
    Text(Option<String>),
}

/// A text of somebody else, which may contain any characters.
pub(super) struct Text(String);

/// Marks a text that may contain any characters.
pub(super) fn text_value(text: impl Into<String>) -> Text {
    Text(text.into())
}

/// Converts a number for SQL.
pub(in crate::store) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Implements the conversion of a type, and of an optional one, to a value.
macro_rules! value_of {
    ($($type:ty = $value:ident($from:ident => $into:expr);)+) => {$(
        impl From<$type> for Value {
            fn from($from: $type) -> Self {
                Self::$value(Some($into))
            }
        }

        impl From<Option<$type>> for Value {
            fn from(value: Option<$type>) -> Self {
                Self::$value(value.map(|$from| $into))
            }
        }
    )+};
}

value_of! {
    i64 = Integer(value => value);
    String = Word(value => value);
    &str = Word(value => value.to_owned());
    &String = Word(value => value.clone());
    Vec<u8> = Bytes(value => value);
    &[u8] = Bytes(value => value.to_owned());
    Text = Text(value => value.0);
}

/// A statement with its values.
#[derive(Debug)]
pub struct Query {
    pub(in crate::store) statement: Cow<'static, str>,
    pub(in crate::store) values: Vec<Value>,
}

/// Starts a statement.
pub(super) fn query(statement: impl Into<Cow<'static, str>>) -> Query {
    Query { statement: statement.into(), values: Vec::new() }
}

impl Query {
    /// Adds the value of the next parameter.
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Adds text to the statement.
    pub(super) fn push(mut self, text: &str) -> Self {
        self.statement.to_mut().push_str(text);
        self
    }

    /// Adds a parameter with its value to the statement.
    pub(super) fn push_bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        let number = self.values.len();
        self.push(&format!("${number}"))
    }

    /// Adds a list of values, separated by commas.
    pub(super) fn push_list(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self = self.push(", ");
            }
            self = self.push_bind(value);
        }
        self
    }

    /// Adds rows of values to a statement that inserts them.
    pub(super) fn push_rows<const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = [Value; N]>,
    ) -> Self {
        self = self.push("VALUES ");
        for (index, row) in rows.into_iter().enumerate() {
            self = self.push(if index > 0 { ", (" } else { "(" }).push_list(row).push(")");
        }
        self
    }

    /// Runs the statement, and returns the number of rows that it changed.
    pub(super) async fn execute(
        self,
        connection: &mut impl SqlConnection,
    ) -> Result<u64, StoreError> {
        connection.run(self).await
    }

    /// Returns all rows.
    pub(super) async fn fetch_all<C: SqlConnection>(
        self,
        connection: &mut C,
    ) -> Result<Vec<C::Row>, StoreError> {
        connection.rows(self).await
    }

    /// Returns the first row, if there is one.
    pub(super) async fn fetch_optional<C: SqlConnection>(
        self,
        connection: &mut C,
    ) -> Result<Option<C::Row>, StoreError> {
        Ok(connection.rows(self).await?.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_lists_are_numbered_in_the_order_of_their_values() {
        let rows = [[Value::from(1), "a".into()], [Value::from(2), "b".into()]];
        let query = query("INSERT INTO x (n, w) ").push_rows(rows).push(" ON CONFLICT DO NOTHING");
        assert_eq!(
            query.statement,
            "INSERT INTO x (n, w) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING"
        );
        assert_eq!(query.values.len(), 4);
        let listed = super::query("x IN (").push_list([Value::from(7), Value::from(8)]).push(")");
        assert_eq!(listed.statement, "x IN ($1, $2)");
    }
}
