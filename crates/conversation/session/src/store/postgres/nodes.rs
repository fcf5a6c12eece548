//! Registered nodes: one row each, valid as long as its heartbeats arrive.

use std::collections::HashMap;

use convoke_protocol::event::EventKind;
use convoke_protocol::id::SessionId;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::PostgresStore;
use super::offer::{from_json, holder};
use crate::running_text::open_questions;
use crate::sharing::{NodeOffer, NodeState, NodeTurn};
use crate::store::sql::read::turn;
use crate::store::sql::text;
use crate::store::sql::write::json;
use crate::store::{Holder, Store as _, StoreError};

/// The registration of a node.
#[derive(Debug, Clone)]
pub struct NodeRegistration {
    name: String,
    epoch: i64,
}

impl PostgresStore {
    /// Registers a node, in one statement, and removes nodes that were lost a day ago. Fails if another living
    /// process has the name.
    pub async fn register_node(
        &self,
        name: &str,
        offer: &NodeOffer,
        holder: &Holder,
    ) -> Result<NodeRegistration, StoreError> {
        let registered: Option<(i64,)> = sqlx::query_as(
            "WITH gone AS (DELETE FROM node WHERE name <> $1 \
             AND until < clock_timestamp() - INTERVAL '1 day') \
             INSERT INTO node (name, epoch, until, pid, host, since, about) \
             VALUES ($1, 1, clock_timestamp() + make_interval(secs => $2), $3, $4, $5, $6) \
             ON CONFLICT (name) DO UPDATE SET epoch = node.epoch + 1, \
             until = clock_timestamp() + make_interval(secs => $2), \
             pid = excluded.pid, host = excluded.host, since = excluded.since, about = excluded.about \
             WHERE node.until < clock_timestamp() RETURNING epoch",
        )
        .bind(name.as_bytes())
        .bind(self.lease_duration().as_secs_f64())
        .bind(i64::from(holder.pid))
        .bind(holder.host.as_bytes())
        .bind(holder.since.0)
        .bind(json(offer)?)
        .fetch_optional(&self.pool)
        .await?;
        let Some((epoch,)) = registered else {
            let row = sqlx::query("SELECT pid, host, since FROM node WHERE name = $1")
                .bind(name.as_bytes())
                .fetch_one(&self.pool)
                .await?;
            let holder = self::holder(&row)?;
            return Err(StoreError::NodeExists { name: name.to_owned(), holder });
        };
        Ok(NodeRegistration { name: name.to_owned(), epoch })
    }

    /// Extends a registration. Returns `false` if another process has the name.
    pub async fn beat_node(
        &self,
        node: &NodeRegistration,
        offer: &NodeOffer,
    ) -> Result<bool, StoreError> {
        let extended = sqlx::query(
            "UPDATE node SET until = clock_timestamp() + make_interval(secs => $3), about = $4 \
             WHERE name = $1 AND epoch = $2",
        )
        .bind(node.name.as_bytes())
        .bind(node.epoch)
        .bind(self.lease_duration().as_secs_f64())
        .bind(json(offer)?)
        .execute(&self.pool)
        .await?;
        Ok(extended.rows_affected() == 1)
    }

    /// Removes a node that has stopped.
    pub async fn remove_node(&self, node: &NodeRegistration) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM node WHERE name = $1 AND epoch = $2")
            .bind(node.name.as_bytes())
            .bind(node.epoch)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Lists the nodes with the turns that they run, in the order of their names.
    pub async fn nodes(&self) -> Result<Vec<NodeState>, StoreError> {
        let running = sqlx::query(
            "SELECT lease.pid AS pid, lease.host AS host, lease.since AS since, turn.* FROM lease JOIN turn ON turn.session = lease.session AND turn.state = 'running' \
             WHERE lease.until > clock_timestamp() ORDER BY lease.since, lease.session, turn.number",
        )
        .fetch_all(&self.pool)
        .await?;
        let mut turns: HashMap<(u32, String), Vec<NodeTurn>> = HashMap::new();
        for row in &running {
            let held = holder(row)?;
            let session: String = row.try_get("session")?;
            let session = parse(&session)?;
            let turn = turn(session, row)?;
            let asked = match self.attempts(session, turn.id).await?.pop() {
                Some(attempt) => open_questions(self, session, &attempt).await?,
                None => Vec::new(),
            };
            let question = |kind| match kind {
                EventKind::PermissionAsked { question, .. } => {
                    Some(format!("{}: {}", question.tool, question.summary))
                }
                _ => None,
            };
            turns.entry((held.pid, held.host)).or_default().push(NodeTurn {
                session,
                turn: turn.id,
                member: turn.member,
                since: held.since,
                questions: asked.into_iter().filter_map(question).collect(),
            });
        }
        let rows = sqlx::query(
            "SELECT name, until > clock_timestamp() AS is_alive, pid, host, since, about FROM node \
             ORDER BY name",
        )
        .fetch_all(&self.pool)
        .await?;
        let node = |row: &PgRow| {
            let holder = holder(row)?;
            let about: String = row.try_get("about")?;
            Ok(NodeState {
                name: text(row, "name")?,
                turns: turns.remove(&(holder.pid, holder.host.clone())).unwrap_or_default(),
                holder,
                is_alive: row.try_get("is_alive")?,
                offer: from_json(&about)?,
            })
        };
        rows.iter().map(node).collect()
    }
}

fn parse(session: &str) -> Result<SessionId, StoreError> {
    session.parse().map_err(|error| StoreError::Damaged(format!("{error}")))
}
