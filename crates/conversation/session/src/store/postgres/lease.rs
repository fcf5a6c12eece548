//! Session leases: one process at a time can write a session, by the database's clock.
//!
//! A lease has an epoch, which rises with each claim. Every transaction that writes a session checks that the
//! lease has the process's own epoch and has not expired, and locks the lease's row until the transaction ends.
//! A process whose lease has expired can therefore write nothing, however late it notices.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_agent::clock::now;
use convoke_agent::turn_input::HeldUntil;
use convoke_protocol::id::{Millis, SessionId};
use sqlx::postgres::{PgConnection, PgPool};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::clock::DatabaseClock;
use super::{CLOSE_LIMIT, IdleConnections};
use crate::store::{Holder, SessionHold, StoreError};

/// The leases that this process holds in a store. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Fence {
    leases: Arc<Leases>,
}

#[derive(Debug)]
struct Leases {
    pool: PgPool,
    /// The duration of a lease without a heartbeat.
    duration: Duration,
    epochs: Mutex<HashMap<SessionId, LeaseState>>,
    idle: Arc<IdleConnections>,
    clock: DatabaseClock,
    /// Releases that have not reached the database yet.
    releases: Mutex<Vec<JoinHandle<()>>>,
}

/// The local state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// The lease with this epoch, until it expires.
    Epoch(i64),
    /// The lease was lost. Nothing that was started under it may be written.
    Lost,
}

/// The lease of a session. Kept by heartbeats, released on drop.
#[derive(Debug)]
pub struct SessionLease {
    session: SessionId,
    epoch: i64,
    leases: Arc<Leases>,
    heartbeat: AbortHandle,
    lost: watch::Receiver<bool>,
    /// The time at which the lease expires without another heartbeat.
    until: watch::Receiver<Instant>,
    /// Whether the release was written to the database.
    is_released: bool,
    runtime: Handle,
}

impl Fence {
    /// Returns the connections that are open and unused.
    pub(super) fn idle(&self) -> &IdleConnections {
        &self.leases.idle
    }

    pub(super) fn new(
        pool: PgPool,
        duration: Duration,
        idle: Arc<IdleConnections>,
        clock: DatabaseClock,
    ) -> Self {
        let (epochs, releases) = (Mutex::default(), Mutex::default());
        Self { leases: Arc::new(Leases { pool, duration, epochs, idle, clock, releases }) }
    }

    /// Claims a session in one statement.
    pub(super) async fn claim(
        &self,
        session: SessionId,
        holder: &Holder,
    ) -> Result<SessionLease, StoreError> {
        self.finish_releases().await;
        let leases = &self.leases;
        let sent = Instant::now();
        // The statement may wait for a transaction that its holder left open, until that holder's lease has
        // ended. Its own lease begins after the wait; `excluded.until` would have been computed before it.
        let claimed: Option<(i64, f64)> = sqlx::query_as(
            "INSERT INTO lease (session, epoch, until, pid, host, since) \
             VALUES ($1, 1, clock_timestamp() + make_interval(secs => $2), $3, $4, $5) \
             ON CONFLICT (session) DO UPDATE SET epoch = lease.epoch + 1, \
             until = clock_timestamp() + make_interval(secs => $2), \
             pid = excluded.pid, host = excluded.host, since = excluded.since, stopped = NULL \
             WHERE lease.until < clock_timestamp() \
             RETURNING epoch, EXTRACT(EPOCH FROM until - statement_timestamp())::DOUBLE PRECISION",
        )
        .bind(session.to_string())
        .bind(leases.duration.as_secs_f64())
        .bind(i64::from(holder.pid))
        .bind(holder.host.as_bytes())
        .bind(holder.since.0)
        .fetch_optional(&leases.pool)
        .await?;
        let Some((epoch, seconds)) = claimed else {
            return Err(StoreError::Held { session, holder: self.holder(session).await? });
        };
        let until = sent + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(self.claimed(session, epoch, until))
    }

    /// Registers a lease that ends at `until`, or a little later.
    pub(super) fn claimed(&self, session: SessionId, epoch: i64, until: Instant) -> SessionLease {
        let leases = &self.leases;
        lock(&leases.epochs).insert(session, LeaseState::Epoch(epoch));
        leases.idle.held.fetch_add(1, Ordering::SeqCst);
        let (tell, lost) = watch::channel(false);
        let (extend, until) = watch::channel(until);
        let heartbeat = tokio::spawn(beat(Arc::clone(leases), session, epoch, extend, tell));
        SessionLease {
            session,
            epoch,
            leases: Arc::clone(leases),
            heartbeat: heartbeat.abort_handle(),
            lost,
            until,
            is_released: false,
            runtime: Handle::current(),
        }
    }

    /// Returns the duration of a lease without a heartbeat.
    pub(super) fn duration(&self) -> Duration {
        self.leases.duration
    }

    /// Returns the epoch of this process's lease.
    pub(super) fn epoch(&self, session: SessionId) -> Result<i64, StoreError> {
        match lock(&self.leases.epochs).get(&session) {
            Some(LeaseState::Epoch(epoch)) => Ok(*epoch),
            Some(LeaseState::Lost) | None => Err(StoreError::HoldLost { session }),
        }
    }

    async fn holder(&self, session: SessionId) -> Result<Holder, StoreError> {
        let (pid, host, since): (i64, Vec<u8>, i64) =
            sqlx::query_as("SELECT pid, host, since FROM lease WHERE session = $1")
                .bind(session.to_string())
                .fetch_one(&self.leases.pool)
                .await?;
        Ok(Holder {
            pid: u32::try_from(pid).unwrap_or_default(),
            host: String::from_utf8_lossy(&host).into_owned(),
            since: Millis(since),
        })
    }

    /// Returns whether a process holds a session.
    pub(super) async fn is_held(&self, session: SessionId) -> Result<bool, StoreError> {
        let held: Option<(bool,)> =
            sqlx::query_as("SELECT until > clock_timestamp() FROM lease WHERE session = $1")
                .bind(session.to_string())
                .fetch_optional(&self.leases.pool)
                .await?;
        Ok(held.is_some_and(|(held,)| held))
    }

    /// Refuses to write a session that another process may hold. A lease of this process must have its own
    /// epoch and not have expired. No process can claim the session before the transaction ends.
    pub(super) async fn check(
        &self,
        connection: &mut PgConnection,
        session: SessionId,
    ) -> Result<(), StoreError> {
        let own = lock(&self.leases.epochs).get(&session).copied();
        let lease: Option<(i64, bool)> = sqlx::query_as(
            "SELECT epoch, until > clock_timestamp() FROM lease WHERE session = $1 FOR SHARE",
        )
        .bind(session.to_string())
        .fetch_optional(connection)
        .await?;
        match (own, lease) {
            (Some(LeaseState::Epoch(own)), Some((epoch, true))) if own == epoch => Ok(()),
            (None, None | Some((_, false))) => Ok(()),
            _ => Err(StoreError::HoldLost { session }),
        }
    }

    /// Waits for the releases of dropped leases.
    pub(super) async fn finish_releases(&self) {
        self.leases.finish_releases().await;
    }

    /// Adds a task to wait for when releases are finished.
    pub(super) fn finish_with(&self, task: JoinHandle<()>) {
        lock(&self.leases.releases).push(task);
    }
}

impl Leases {
    async fn finish_releases(&self) {
        let releases = std::mem::take(&mut *lock(&self.releases));
        let released = async {
            for release in releases {
                if let Err(error) = release.await {
                    tracing::warn!("a lease was not released and ends with its time: {error}");
                }
            }
        };
        if tokio::time::timeout(CLOSE_LIMIT, released).await.is_err() {
            tracing::debug!("the server does not respond; leases end with their time");
        }
    }
}

impl SessionHold for SessionLease {
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.lost.clone();
        async move {
            // Without a sender, the lease was dropped.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn held_until(&self) -> Option<HeldUntil> {
        Some(HeldUntil::new(self.until.clone()))
    }

    async fn release(self) {
        let leases = Arc::clone(&self.leases);
        drop(self);
        leases.finish_releases().await;
    }

    fn forget(mut self) {
        self.is_released = true;
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.heartbeat.abort();
        self.leases.idle.held.fetch_sub(1, Ordering::SeqCst);
        let own = LeaseState::Epoch(self.epoch);
        let mut epochs = lock(&self.leases.epochs);
        if epochs.get(&self.session) == Some(&own) {
            if *self.lost.borrow() {
                epochs.insert(self.session, LeaseState::Lost);
            } else {
                epochs.remove(&self.session);
            }
        }
        drop(epochs);
        if self.is_released {
            return;
        }
        let leases = Arc::clone(&self.leases);
        let (pool, session, epoch) = (self.leases.pool.clone(), self.session, self.epoch);
        let release = self.runtime.spawn(async move {
            let released = sqlx::query(
                "UPDATE lease SET until = '-infinity' WHERE session = $1 AND epoch = $2",
            );
            match released.bind(session.to_string()).bind(epoch).execute(&pool).await {
                Ok(released) if released.rows_affected() == 0 => {
                    // Another process holds the session, so nothing that still runs here may write.
                    lock(&leases.epochs).entry(session).or_insert(LeaseState::Lost);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("the lease of session {session} was not released: {error}");
                }
            }
        });
        lock(&self.leases.releases).push(release);
    }
}

/// Extends a lease three times per duration, and reports when that failed for the whole duration. An expired
/// lease is not extended.
async fn beat(
    leases: Arc<Leases>,
    session: SessionId,
    epoch: i64,
    until: watch::Sender<Instant>,
    lost: watch::Sender<bool>,
) {
    let lost = LossReport { session, lost };
    loop {
        tokio::time::sleep(leases.duration / 3).await;
        let (begun, asked) = (Instant::now(), now());
        // Either clock may have been set since the connection was opened.
        let extend = sqlx::query_as::<_, (i64,)>(
            "UPDATE lease SET until = clock_timestamp() + make_interval(secs => $3) \
             WHERE session = $1 AND epoch = $2 AND until > clock_timestamp() \
             RETURNING (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT",
        );
        let extend =
            extend.bind(session.to_string()).bind(epoch).bind(leases.duration.as_secs_f64());
        let end = *until.borrow();
        let extended = tokio::time::timeout_at(end, extend.fetch_optional(&leases.pool)).await;
        let is_lost = match extended {
            Ok(Ok(Some((there,)))) => {
                leases.clock.set(asked, there);
                until.send_replace(begun + leases.duration);
                false
            }
            Ok(Ok(None)) => true,
            Ok(Err(_)) | Err(_) => Instant::now() >= end,
        };
        if is_lost {
            tracing::warn!("the lease of session {session} is lost");
            lost.report();
            return;
        }
    }
}

/// Reports the loss of a lease, also if its heartbeat panics: nothing extends the lease any more.
struct LossReport {
    session: SessionId,
    lost: watch::Sender<bool>,
}

impl LossReport {
    fn report(&self) {
        self.lost.send_replace(true);
    }
}

impl Drop for LossReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                "the heartbeat of session {} panicked; its lease is lost",
                self.session
            );
            self.report();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_heartbeat_that_panics_loses_the_lease() {
        let (tell, mut lost) = watch::channel(false);
        let beating = tokio::spawn(async move {
            let _report = LossReport { session: SessionId::generate(), lost: tell };
            tokio::task::yield_now().await;
            panic!("a heartbeat");
        });
        assert!(lost.wait_for(|lost| *lost).await.is_ok());
        assert!(beating.await.unwrap_err().is_panic());
    }

    #[tokio::test]
    async fn a_heartbeat_that_is_ended_reports_nothing() {
        let (tell, mut lost) = watch::channel(false);
        drop(LossReport { session: SessionId::generate(), lost: tell });
        assert!(lost.wait_for(|lost| *lost).await.is_err());
    }
}
