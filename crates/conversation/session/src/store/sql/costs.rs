//! The costs of a session.

use convoke_protocol::id::{MemberName, SessionId};
use convoke_protocol::session::MemberCost;
use convoke_protocol::usage::Usage;
use sqlx::Row as _;

use super::database::{COSTS, DatabaseRow, Pool, text};
use super::read::number;
use crate::store::StoreError;

pub(super) async fn of_session(
    pool: &Pool,
    session: SessionId,
) -> Result<Vec<MemberCost>, StoreError> {
    let rows = sqlx::query(COSTS).bind(session.to_string()).fetch_all(pool).await?;
    rows.iter().map(member_cost).collect()
}

fn member_cost(row: &DatabaseRow) -> Result<MemberCost, StoreError> {
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
        member: MemberName::new(text(row, "member")?),
        attempts: number(row, "attempts")?,
        cost_usd: row.try_get("cost")?,
        usage,
    })
}
