//! The costs of a session.

use super::connection::{SqlConnection, SqlRow, number, text};
use super::query::query;
use crate::store::StoreError;
use convoke_protocol::id::{MemberName, SessionId};
use convoke_protocol::session::MemberCost;
use convoke_protocol::usage::Usage;

pub(super) async fn of_session<C: SqlConnection>(
    connection: &mut C,
    session: SessionId,
) -> Result<Vec<MemberCost>, StoreError> {
    let rows = query(C::COSTS).bind(session.to_string()).fetch_all(connection).await?;
    rows.iter().map(member_cost).collect()
}

fn member_cost(row: &impl SqlRow) -> Result<MemberCost, StoreError> {
    let tokens = |column: &str| -> Result<Option<u64>, StoreError> {
        let sum: Option<i64> = row.get(column)?;
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
        cost_usd: row.get("cost")?,
        usage,
    })
}
