//! Full-text search of messages.
//!
//! Texts are split into words here and not by PostgreSQL, whose parser keeps paths and addresses whole.

use std::collections::BTreeSet;

use convoke_protocol::id::SessionId;
use convoke_protocol::message::Message;
use convoke_protocol::session::FoundMessage;
use sqlx::QueryBuilder;
use sqlx::postgres::{PgConnection, Postgres};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::store::StoreError;
use crate::store::excerpt::is_written_without_spaces;
use crate::store::sql::{found_message, sql};

/// The maximum number of words per row. Together with the length of a word, it keeps a row below the limit of a
/// TSVECTOR.
const ROW_WORDS: usize = 4096;
/// The number of characters of a word that are compared.
const WORD_CHARS: usize = 48;

/// Adds a message to the index.
pub(super) async fn index_message(
    connection: &mut PgConnection,
    session: SessionId,
    message: &Message,
) -> Result<(), StoreError> {
    let words: Vec<String> =
        words(&message.message.content).collect::<BTreeSet<_>>().into_iter().collect();
    for (part, words) in words.chunks(ROW_WORDS).enumerate() {
        sqlx::query(
            "INSERT INTO message_words (session, number, part, words) \
             VALUES ($1, $2, $3, array_to_tsvector($4)) ON CONFLICT DO NOTHING",
        )
        .bind(session.to_string())
        .bind(sql(message.number.0))
        .bind(sql(part as u64))
        .bind(words)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Removes a session from the index.
pub(super) async fn remove_from_index(
    connection: &mut PgConnection,
    session: SessionId,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM message_words WHERE session = $1")
        .bind(session.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

/// Finds messages through the index. Words of scripts without spaces are searched for in the text.
pub(super) async fn messages(
    connection: &mut PgConnection,
    wanted: &[String],
    within: Option<&[SessionId]>,
    limit: usize,
) -> Result<Vec<FoundMessage>, StoreError> {
    let (unspaced, spaced): (Vec<&String>, Vec<&String>) =
        wanted.iter().partition(|word| word.contains(is_written_without_spaces));
    let mut query = QueryBuilder::<Postgres>::new(
        "SELECT message.session AS session, message.number AS number, message.content AS content \
         FROM message JOIN session ON session.id = message.session WHERE session.removed_at IS NULL",
    );
    if let Some(within) = within {
        let ids: Vec<String> = within.iter().map(SessionId::to_string).collect();
        query.push(" AND message.session = ANY(").push_bind(ids).push(")");
    }
    for word in spaced.into_iter().flat_map(|word| words(word)) {
        query.push(
            " AND EXISTS (SELECT 1 FROM message_words WHERE message_words.session = message.session \
             AND message_words.number = message.number AND words @@ ",
        );
        query.push_bind(format!("'{word}':*")).push("::TSQUERY)");
    }
    for word in unspaced {
        query.push(" AND POSITION(").push_bind(word.as_bytes()).push(" IN message.content) > 0");
    }
    query.push(
        " ORDER BY session.updated_at DESC, message.session DESC, message.number DESC LIMIT ",
    );
    query.push_bind(sql(limit as u64));
    let rows = query.build().fetch_all(connection).await?;
    rows.iter().map(|row| found_message(row, wanted)).collect()
}

/// Returns the words of a text: runs of letters and digits, in lower case and without accents.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c));
    words.filter(|word| !word.is_empty()).map(|word| {
        let plain = word.nfd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase);
        plain.take(WORD_CHARS).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_plain_and_small() {
        let cases: [(&str, &[&str]); 4] = [
            ("Über-Café, x_1", &["uber", "cafe", "x", "1"]),
            ("crates/core.rs", &["crates", "core", "rs"]),
            ("'; DROP\0 TABLE", &["drop", "table"]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
