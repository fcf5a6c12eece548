//! Full-text search of messages.

use convoke_protocol::id::SessionId;
use convoke_protocol::session::FoundMessage;
use sqlx::QueryBuilder;
use sqlx::sqlite::{Sqlite, SqliteConnection};

use crate::store::StoreError;
use crate::store::excerpt::is_written_without_spaces;
use crate::store::sql::{found_message, sql};

/// Finds messages through the index. Words of scripts without spaces, which the index cannot separate, are
/// searched for in the text.
pub(super) async fn messages(
    connection: &mut SqliteConnection,
    words: &[String],
    within: Option<&[SessionId]>,
    limit: usize,
) -> Result<Vec<FoundMessage>, StoreError> {
    let (unspaced, spaced): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.contains(is_written_without_spaces));
    let mut query = QueryBuilder::<Sqlite>::new(
        "SELECT message.session AS session, message.number AS number, message.content AS content \
         FROM message JOIN session ON session.id = message.session",
    );
    if !spaced.is_empty() {
        query.push(" JOIN message_search ON message_search.rowid = message.rowid");
    }
    query.push(" WHERE session.removed_at IS NULL");
    if let Some(within) = within {
        let ids: Vec<String> = within.iter().map(|id| format!("\"{id}\"")).collect();
        query.push(" AND message.session IN (SELECT value FROM json_each(");
        query.push_bind(format!("[{}]", ids.join(","))).push("))");
    }
    if !spaced.is_empty() {
        let phrases: Vec<String> =
            spaced.iter().map(|word| format!("\"{}\"*", word.replace('"', "\"\""))).collect();
        query.push(" AND message_search MATCH ").push_bind(phrases.join(" AND "));
    }
    for word in unspaced {
        query.push(" AND INSTR(message.content, ").push_bind(word).push(") > 0");
    }
    let order = if spaced.is_empty() { "session.updated_at DESC" } else { "message_search.rank" };
    query.push(format!(" ORDER BY {order}, message.session DESC, message.number DESC LIMIT "));
    query.push_bind(sql(limit as u64));
    let rows = query.build().fetch_all(connection).await?;
    rows.iter().map(|row| found_message(row, words)).collect()
}
