//! Offers: the sessions with a turn to run, and the nodes that may claim them.

use convoke_protocol::event::StopReason;
use convoke_protocol::id::{EventNumber, MemberName, Millis, SessionId, TurnId};
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::PostgresStore;
use super::connection::CHANNEL;
use super::lease::SessionLease;
use crate::sharing::{NextTurn, NodeOffer, ProjectOrigin, SharedState, TurnRequirements};
use crate::store::INBOX_LIMIT;
use crate::store::sql::write::json;
use crate::store::sql::{SqlRow as _, sql};
use crate::store::{Holder, StoreError};

/// Writes the row of an offer. A repeated offer of the same turn keeps its position.
const SET_OFFER: &str = "INSERT INTO offer (session, since, turn, member, agent, node, guard) \
     VALUES ($1, clock_timestamp(), $2, $3, $4, $5, $6) ON CONFLICT (session) DO UPDATE SET \
     since = CASE WHEN offer.turn = excluded.turn THEN offer.since ELSE excluded.since END, \
     turn = excluded.turn, member = excluded.member, agent = excluded.agent, node = excluded.node, \
     guard = excluded.guard";

impl PostgresStore {
    /// Claims the session with the oldest offer that a node can take, in one statement. The claim uses the
    /// database's time, not the holder's.
    ///
    /// Excluded sessions are skipped as long as the same turn is offered. The statement waits for no other
    /// process: writers lock the lease before the offer, so waiting could deadlock. A session whose offer or
    /// lease is locked is skipped.
    pub async fn claim_offered(
        &self,
        node: &str,
        offered: &NodeOffer,
        excluded: &[(SessionId, Option<TurnId>)],
        holder: &Holder,
    ) -> Result<Option<(SessionId, SessionLease)>, StoreError> {
        let fence = &self.backend.fence;
        fence.finish_releases().await;
        let bytes = |text: &String| text.as_bytes().to_vec();
        let agents: Vec<Vec<u8>> = offered.agents.iter().map(bytes).collect();
        let names: Vec<Vec<u8>> =
            offered.labels.iter().map(bytes).chain([node.as_bytes().to_vec()]).collect();
        let (sessions, turns): (Vec<String>, Vec<Option<i64>>) = excluded
            .iter()
            .map(|(session, turn)| (session.to_string(), turn.map(|turn| sql(turn.0))))
            .unzip();
        let until = tokio::time::Instant::now() + fence.duration();
        let claimed: Option<(String, i64)> = sqlx::query_as(
            "WITH next AS (SELECT offer.session FROM offer JOIN lease ON lease.session = offer.session \
             WHERE (turn IS NULL OR (agent = ANY($1) AND (node IS NULL OR node = ANY($2))) \
             OR EXISTS (SELECT 1 FROM inbox WHERE inbox.session = offer.session)) \
             AND NOT EXISTS (SELECT 1 FROM UNNEST($3, $7) AS excluded (session, turn) \
             WHERE excluded.session = offer.session AND excluded.turn IS NOT DISTINCT FROM offer.turn) \
             AND lease.until < clock_timestamp() \
             AND EXISTS (SELECT 1 FROM session WHERE id = offer.session AND removed_at IS NULL) \
             ORDER BY offer.since LIMIT 1 FOR UPDATE SKIP LOCKED) \
             UPDATE lease SET epoch = lease.epoch + 1, \
             until = clock_timestamp() + make_interval(secs => $4), pid = $5, host = $6, \
             since = (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT, stopped = NULL \
             FROM next WHERE lease.session = next.session RETURNING lease.session, lease.epoch",
        )
        .bind(agents)
        .bind(names)
        .bind(sessions)
        .bind(fence.duration().as_secs_f64())
        .bind(i64::from(holder.pid))
        .bind(holder.host.as_bytes())
        .bind(turns)
        .fetch_optional(&self.pool)
        .await?;
        let Some((session, epoch)) = claimed else { return Ok(None) };
        let session = session.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?;
        Ok(Some((session, fence.claimed(session, epoch, until))))
    }

    /// Returns the state of a session between the processes that share it.
    pub async fn shared_state(&self, session: SessionId) -> Result<SharedState, StoreError> {
        let row = sqlx::query(
            "SELECT lease.until > clock_timestamp() AS is_held, pid, host, lease.since AS since, stopped, \
             offer.session IS NOT NULL AS continues, turn, member, agent, node, guard, \
             EXISTS (SELECT 1 FROM inbox WHERE inbox.session = session.id) AS has_messages \
             FROM session LEFT JOIN lease ON lease.session = session.id \
             LEFT JOIN offer ON offer.session = session.id \
             WHERE session.id = $1 AND removed_at IS NULL",
        )
        .bind(session.to_string())
        .fetch_optional(&self.pool)
        .await?
        .ok_or(StoreError::NoSession(session))?;
        let is_held: Option<bool> = row.try_get("is_held")?;
        let holder = if is_held == Some(true) { Some(holder(&row)?) } else { None };
        let stopped: Option<String> = row.try_get("stopped")?;
        Ok(SharedState {
            holder,
            continues: row.try_get("continues")?,
            next: offer(&row)?,
            has_messages: row.try_get("has_messages")?,
            stopped: stopped.map(|text| from_json::<StopReason>(&text)).transpose()?,
        })
    }

    /// Returns a text that changes with everything that [`Self::shared_state`] and the head say of a session; `None` if the
    /// session is gone, or if its next turn is offered and depends on the nodes, too. It takes no connection of its own.
    pub(crate) async fn glance(&self, session: SessionId) -> Result<Option<String>, StoreError> {
        let statement = "SELECT CONCAT_WS(' ', events, epoch, lease.until > clock_timestamp(), stopped, \
             (SELECT MAX(number) FROM inbox WHERE inbox.session = session.id)) \
             FROM session LEFT JOIN lease ON lease.session = session.id \
             WHERE session.id = $1 AND removed_at IS NULL \
             AND NOT EXISTS (SELECT 1 FROM offer WHERE offer.session = session.id)";
        self.ask_quietly(statement, vec![session.to_string()]).await
    }

    /// Releases a session whose conversation has stopped. Returns `false`, and releases nothing, if the inbox
    /// has messages.
    pub(crate) async fn stop(
        &self,
        session: SessionId,
        head: EventNumber,
        stop: &StopReason,
    ) -> Result<bool, StoreError> {
        let id = session.to_string();
        let mut transaction = self.pool.begin().await?;
        self.end_lease(&mut transaction, session, head, Some(json(stop)?)).await?;
        // A message that is being added either has locked this row, or adds a row after it.
        sqlx::query("DELETE FROM offer WHERE session = $1")
            .bind(&id)
            .execute(&mut *transaction)
            .await?;
        let waits = sqlx::query("SELECT 1 FROM inbox WHERE session = $1 LIMIT 1").bind(&id);
        if waits.fetch_optional(&mut *transaction).await?.is_some() {
            transaction.rollback().await?;
            return Ok(false);
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Releases a session and offers its next turn.
    pub(crate) async fn hand_over(
        &self,
        session: SessionId,
        head: EventNumber,
        offer: &NextTurn,
    ) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        self.end_lease(&mut transaction, session, head, None).await?;
        set_offer(&mut transaction, session, offer).await?;
        Ok(transaction.commit().await?)
    }

    /// Ends this process's lease of a session, and notifies other processes.
    async fn end_lease(
        &self,
        connection: &mut PgConnection,
        session: SessionId,
        head: EventNumber,
        stopped: Option<String>,
    ) -> Result<(), StoreError> {
        let epoch = self.backend.fence.epoch(session)?;
        let ended = sqlx::query(
            "UPDATE lease SET until = '-infinity', stopped = $3 \
             WHERE session = $1 AND epoch = $2 AND until > clock_timestamp() \
             RETURNING pg_notify($4, session || ' ' || $5)",
        );
        let ended = ended.bind(session.to_string()).bind(epoch).bind(stopped);
        let ended = ended.bind(CHANNEL).bind(head.0.to_string());
        match ended.execute(connection).await?.rows_affected() {
            0 => Err(StoreError::HoldLost { session }),
            _ => Ok(()),
        }
    }

    /// Stores the origin of a session's project.
    pub async fn set_origin(
        &self,
        session: SessionId,
        origin: &ProjectOrigin,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO project (session, remote, revision, below) VALUES ($1, $2, $3, $4) \
             ON CONFLICT DO NOTHING",
        )
        .bind(session.to_string())
        .bind(origin.remote.as_bytes())
        .bind(&origin.revision)
        .bind(origin.below.as_bytes())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns the origin of a session's project.
    pub async fn origin(&self, session: SessionId) -> Result<Option<ProjectOrigin>, StoreError> {
        let found: Option<(Vec<u8>, String, Vec<u8>)> =
            sqlx::query_as("SELECT remote, revision, below FROM project WHERE session = $1")
                .bind(session.to_string())
                .fetch_optional(&self.pool)
                .await?;
        Ok(found.map(|(remote, revision, below)| ProjectOrigin {
            remote: String::from_utf8_lossy(&remote).into_owned(),
            revision,
            below: String::from_utf8_lossy(&below).into_owned(),
        }))
    }
}

/// Offers a turn to other processes.
pub(super) async fn set_offer(
    connection: &mut PgConnection,
    session: SessionId,
    offer: &NextTurn,
) -> Result<(), StoreError> {
    let NextTurn { turn, member, requirements, guard } = offer;
    sqlx::query(SET_OFFER)
        .bind(session.to_string())
        .bind(sql(turn.0))
        .bind(member.as_str().as_bytes())
        .bind(requirements.agent.as_bytes())
        .bind(requirements.node.as_ref().map(String::as_bytes))
        .bind(json(guard)?)
        .execute(connection)
        .await?;
    Ok(())
}

fn offer(row: &PgRow) -> Result<Option<NextTurn>, StoreError> {
    let turn: Option<i64> = row.try_get("turn")?;
    let (member, agent) = (row.text("member")?, row.text("agent")?);
    let (Some(turn), Some(member), Some(agent)) = (turn, member, agent) else { return Ok(None) };
    let guard: Option<String> = row.try_get("guard")?;
    Ok(Some(NextTurn {
        turn: TurnId(u64::try_from(turn).unwrap_or_default()),
        member: MemberName::new(member),
        requirements: TurnRequirements { agent, node: row.text("node")? },
        guard: guard.map(|text| from_json(&text)).transpose()?.unwrap_or_default(),
    }))
}

pub(super) fn holder(row: &PgRow) -> Result<Holder, StoreError> {
    let (pid, since): (i64, i64) = (row.try_get("pid")?, row.try_get("since")?);
    let host: Vec<u8> = row.try_get("host")?;
    Ok(Holder {
        pid: u32::try_from(pid).unwrap_or_default(),
        host: String::from_utf8_lossy(&host).into_owned(),
        since: Millis(since),
    })
}

pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(error.to_string()))
}

/// Puts a message into the inbox of a session, in one statement. Returns whether there is a session with room for it. If
/// no process holds the session, it is offered.
pub(super) async fn put_message(
    connection: &mut PgConnection,
    session: SessionId,
    said: Vec<u8>,
) -> Result<bool, StoreError> {
    let added: Option<(i64,)> = sqlx::query_as(
        "WITH added AS (INSERT INTO inbox (session, said) SELECT id, $2 FROM session \
         WHERE id = $1 AND removed_at IS NULL \
         AND (SELECT COUNT(*) FROM inbox WHERE session = $1) < $3 RETURNING number), \
         offered AS (INSERT INTO offer (session, since) SELECT $1, clock_timestamp() FROM added \
         ON CONFLICT (session) DO UPDATE SET since = offer.since RETURNING since), \
         claimable AS (INSERT INTO lease (session, epoch, until, pid, host, since) \
         SELECT $1, 0, '-infinity', 0, '', 0 FROM added ON CONFLICT DO NOTHING) \
         SELECT added.number FROM added, offered, session, pg_notify($4, $1 || ' ' || session.events) \
         WHERE session.id = $1",
    )
    .bind(session.to_string())
    .bind(said)
    .bind(i64::try_from(INBOX_LIMIT).unwrap_or(i64::MAX))
    .bind(CHANNEL)
    .fetch_optional(connection)
    .await?;
    Ok(added.is_some())
}

/// Removes the rows that processes share about a session.
pub(super) async fn remove_shared(
    connection: &mut PgConnection,
    session: &str,
) -> Result<(), StoreError> {
    for statement in [
        "DELETE FROM offer WHERE session = $1",
        "DELETE FROM signal WHERE session = $1",
        "DELETE FROM attendance WHERE session = $1",
        "DELETE FROM project WHERE session = $1",
    ] {
        sqlx::query(statement).bind(session).execute(&mut *connection).await?;
    }
    Ok(())
}
