//! Full-text search of messages, and the costs of a session.

use convoke_agent::usage::Usage;
use sqlx::sqlite::{Sqlite, SqlitePool, SqliteRow};
use sqlx::{QueryBuilder, Row};

use super::read::number;
use super::sql;
use crate::id::{MemberName, MessageNumber, SessionId};
use crate::session::{FoundMessage, MemberCost};
use crate::store::StoreError;

/// The characters of an excerpt.
const EXCERPT: usize = 160;
/// The characters of an excerpt in front of the match.
const EXCERPT_LEAD: usize = 40;

/// Finds messages through the index; words of scripts that are written without spaces, which the index cannot
/// separate, are looked for in the text.
pub(super) async fn messages(
    pool: &SqlitePool,
    words: &[String],
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
    let rows = query.build().fetch_all(pool).await?;
    let found = |row: &SqliteRow| {
        let session: String = row.try_get("session")?;
        Ok(FoundMessage {
            session: session.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?,
            number: MessageNumber(number(row, "number")?),
            excerpt: excerpt(row.try_get("content")?, words),
        })
    };
    rows.iter().map(found).collect()
}

/// Returns whether words of this character's script are not separated by spaces.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Returns one line around the first match of any word.
fn excerpt(content: &str, words: &[String]) -> String {
    let first =
        words.iter().filter_map(|word| find_ignoring_case(content, word)).min().unwrap_or(0);
    let lead = content[..first].char_indices().rev().take(EXCERPT_LEAD).last();
    let start = lead.map_or(first, |(index, _)| index);
    let mut line = String::new();
    for word in content[start..].split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().nth(EXCERPT).is_some() {
            break;
        }
    }
    let cut: String = line.chars().take(EXCERPT).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if cut.len() < line.len() { "…" } else { "" };
    format!("{before}{cut}{after}")
}

/// Returns where `word` begins in `text`. ASCII letters match in either case.
fn find_ignoring_case(text: &str, word: &str) -> Option<usize> {
    let (bytes, length) = (text.as_bytes(), word.len());
    if length == 0 || bytes.len() < length {
        return None;
    }
    bytes
        .windows(length)
        .position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
        .filter(|index| text.is_char_boundary(*index))
}

pub(super) async fn costs(
    pool: &SqlitePool,
    session: SessionId,
) -> Result<Vec<MemberCost>, StoreError> {
    let rows = sqlx::query(
        "SELECT turn.member AS member, COUNT(*) AS attempts, \
         SUM(JSON_EXTRACT(record, '$.ended.costUsd')) AS cost, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.input')) AS input, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cached')) AS cached, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.cacheWrite')) AS cache_write, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.output')) AS output, \
         SUM(JSON_EXTRACT(record, '$.ended.usage.reasoning')) AS reasoning \
         FROM attempt JOIN turn ON turn.session = attempt.session AND turn.number = attempt.turn \
         WHERE attempt.session = $1 GROUP BY turn.member ORDER BY turn.member",
    )
    .bind(session.to_string())
    .fetch_all(pool)
    .await?;
    rows.iter().map(member_cost).collect()
}

fn member_cost(row: &SqliteRow) -> Result<MemberCost, StoreError> {
    let tokens = |column: &str| -> Result<Option<u64>, StoreError> {
        let sum: Option<i64> = row.try_get(column)?;
        Ok(sum.map(|sum| u64::try_from(sum).unwrap_or(0)))
    };
    let usage = match tokens("input")? {
        None => None,
        Some(input) => Some(Usage {
            input,
            cached: tokens("cached")?.unwrap_or(0),
            cache_write: tokens("cache_write")?.unwrap_or(0),
            output: tokens("output")?.unwrap_or(0),
            reasoning: tokens("reasoning")?.unwrap_or(0),
        }),
    };
    Ok(MemberCost {
        member: MemberName::new(row.try_get::<String, _>("member")?),
        attempts: number(row, "attempts")?,
        cost_usd: row.try_get("cost")?,
        usage,
    })
}
