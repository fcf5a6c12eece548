//! Signals: requests of people to the process that runs a turn, on any machine.

use std::time::Duration;

use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::PostgresStore;
use super::connection::CHANNEL;
use crate::kept_running::kept_running;
use crate::sharing::TurnSignal;
use crate::store::StoreError;
use crate::store::sql::{sql, text};

impl PostgresStore {
    /// Asks for the running turns of a session to be cancelled, in one statement. Returns the number of running
    /// turns. Waits for a turn that is ending, which then is not counted.
    pub async fn cancel_turns(&self, session: SessionId) -> Result<usize, StoreError> {
        let asked = sqlx::query(
            "WITH running AS (SELECT number FROM turn WHERE session = $1 AND state = 'running' FOR SHARE), \
             asked AS (INSERT INTO signal (session, turn, attempt, question) \
             SELECT $1, number, 0, '' FROM running ON CONFLICT (session, turn, attempt, question) \
             DO UPDATE SET answer = NULL RETURNING turn) \
             SELECT asked.turn FROM asked, session, pg_notify($2, $1 || ' ' || session.events) \
             WHERE session.id = $1",
        );
        let asked = asked.bind(session.to_string()).bind(CHANNEL);
        Ok(asked.fetch_all(&self.pool).await?.len())
    }

    /// Answers a question of a running turn's agent, in one statement. Returns `false` if the question was
    /// already answered or its attempt has ended.
    pub async fn answer_question(
        &self,
        session: SessionId,
        question: &QuestionId,
        answer: PermissionAnswer,
    ) -> Result<bool, StoreError> {
        let added = sqlx::query(
            "WITH running AS (SELECT number, attempts FROM turn WHERE session = $1 AND number = $3 \
             AND attempts = $4 AND state = 'running' FOR SHARE), \
             added AS (INSERT INTO signal (session, turn, attempt, question, answer) \
             SELECT $1, number, attempts, $5, $6 FROM running ON CONFLICT DO NOTHING RETURNING turn) \
             SELECT added.turn FROM added, session, pg_notify($2, $1 || ' ' || session.events) \
             WHERE session.id = $1",
        )
        .bind(session.to_string())
        .bind(CHANNEL)
        .bind(sql(question.turn.0))
        .bind(i64::from(question.attempt))
        .bind(question.id.as_bytes())
        .bind(answer.as_str())
        .fetch_optional(&self.pool)
        .await?;
        Ok(added.is_some())
    }

    /// Returns the signals for the turns of a session that this process holds; none if another process may hold
    /// it.
    pub async fn signals(&self, session: SessionId) -> Result<Vec<TurnSignal>, StoreError> {
        let rows = sqlx::query(
            "SELECT turn, attempt, question, answer FROM signal \
             JOIN lease ON lease.session = signal.session \
             WHERE signal.session = $1 AND epoch = $2 AND until > clock_timestamp()",
        )
        .bind(session.to_string())
        .bind(self.backend.fence.epoch(session)?)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(signal).collect()
    }

    /// Returns whether a process can ask a person about a session.
    pub async fn is_attended(&self, session: SessionId) -> Result<bool, StoreError> {
        let (is_attended,): (bool,) = sqlx::query_as(
            "SELECT EXISTS (SELECT 1 FROM attendance WHERE session = $1 AND until > clock_timestamp())",
        )
        .bind(session.to_string())
        .fetch_one(&self.pool)
        .await?;
        Ok(is_attended)
    }

    /// Announces that this process can ask a person about a session, until the attendance is dropped.
    pub async fn attend(&self, session: SessionId) -> Result<Attendance, StoreError> {
        let process = SessionId::generate().to_string();
        let duration = self.lease_duration();
        extend(self, session, &process, duration).await?;
        let (store, name) = (self.clone(), process.clone());
        let beats = tokio::spawn(async move {
            let beat = || {
                let (store, name) = (store.clone(), name.clone());
                async move {
                    loop {
                        tokio::time::sleep(duration / 3).await;
                        // The next heartbeat tries again.
                        let _ = extend(&store, session, &name, duration).await;
                    }
                }
            };
            kept_running("the heartbeat of an attendance", beat).await;
        });
        let (store, runtime) = (self.clone(), Handle::current());
        Ok(Attendance { store, session, process, beats: beats.abort_handle(), runtime })
    }
}

/// The attendance of a process at a session. Kept by heartbeats, ended on drop.
#[derive(Debug)]
pub struct Attendance {
    store: PostgresStore,
    session: SessionId,
    process: String,
    beats: AbortHandle,
    runtime: Handle,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.beats.abort();
        let (store, session) = (self.store.clone(), self.session);
        let process = std::mem::take(&mut self.process);
        let ended = self.runtime.spawn(async move {
            let removed = sqlx::query("DELETE FROM attendance WHERE session = $1 AND process = $2");
            let removed = removed.bind(session.to_string()).bind(process);
            if let Err(error) = removed.execute(&store.pool).await {
                tracing::debug!("the attendance of session {session} ends with its time: {error}");
            }
        });
        self.store.backend.fence.finish_with(ended);
    }
}

/// Extends an attendance, and removes those that have ended.
async fn extend(
    store: &PostgresStore,
    session: SessionId,
    process: &str,
    duration: Duration,
) -> Result<(), StoreError> {
    let statement = "WITH ended AS (DELETE FROM attendance WHERE session = $1 AND process <> $2 \
         AND until < clock_timestamp()) \
         INSERT INTO attendance (session, process, until) \
         VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3::DOUBLE PRECISION)) \
         ON CONFLICT (session, process) \
         DO UPDATE SET until = clock_timestamp() + make_interval(secs => $3::DOUBLE PRECISION)";
    let duration = duration.as_secs_f64().to_string();
    store.ask_quietly(statement, vec![session.to_string(), process.to_owned(), duration]).await?;
    Ok(())
}

/// Removes the signals for a turn that has ended.
pub(super) async fn remove_signals(
    connection: &mut PgConnection,
    session: SessionId,
    turn: TurnId,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM signal WHERE session = $1 AND turn = $2")
        .bind(session.to_string())
        .bind(sql(turn.0))
        .execute(connection)
        .await?;
    Ok(())
}

fn signal(row: &PgRow) -> Result<TurnSignal, StoreError> {
    let (turn, attempt): (i64, i64) = (row.try_get("turn")?, row.try_get("attempt")?);
    let turn = TurnId(u64::try_from(turn).unwrap_or_default());
    let answer: Option<String> = row.try_get("answer")?;
    let Some(answer) = answer else { return Ok(TurnSignal::Cancel(turn)) };
    let known = PermissionAnswer::ALL.into_iter().find(|known| known.as_str() == answer);
    let answer = known.ok_or_else(|| StoreError::Damaged(format!("an answer `{answer}`")))?;
    let attempt = u32::try_from(attempt).unwrap_or_default();
    let question = QuestionId { turn, attempt, id: text(row, "question")? };
    Ok(TurnSignal::Answer(question, answer))
}
