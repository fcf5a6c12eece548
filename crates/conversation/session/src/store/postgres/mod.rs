//! A store in a PostgreSQL database, for processes on several machines.

mod clock;
mod commits;
mod connection;
mod lease;
mod nodes;
mod offer;
mod schema;
mod search;
mod sharing;
mod signal;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoke_protocol::id::{EventNumber, Millis, SessionId};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};

use self::clock::DatabaseClock;
use self::commits::Announcements;
pub use self::commits::Commits;
use self::lease::Fence;
pub use self::lease::SessionLease;
pub use self::nodes::NodeRegistration;
pub use self::signal::Attendance;
use super::failpoint::Failpoint;
use super::sql::{Backend, OpenImport, SqlStore, write};
use super::{Commit, Holder, ServerFailure, SharedStore, StoreError};

/// The duration of a lease without a heartbeat.
const LEASE: Duration = Duration::from_secs(15);

/// The time limit for the first connection, and for later ones.
const FIRST_CONNECT_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The maximum number of connections of a process, besides the one that listens.
const MAX_CONNECTIONS: u32 = 8;
/// The time limit for releasing leases and closing connections.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// The time between two attempts to connect to a server that has no free connection.
const CROWDED_PAUSE: Duration = Duration::from_millis(250);

/// Sessions in a PostgreSQL database. Clones share its connections and leases.
pub type PostgresStore = SqlStore<PostgresServer>;

/// A whole session that is being imported into a server.
pub type PostgresImport = OpenImport<PostgresServer>;

/// A server that several machines share.
#[derive(Debug, Clone)]
pub struct PostgresServer {
    fence: Fence,
    announcements: Announcements,
    clock: DatabaseClock,
}

impl Backend for PostgresServer {
    type Connection = PgConnection;
    type Hold = SessionLease;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<SessionLease, StoreError> {
        self.fence.claim(session, &holder).await
    }

    async fn check(
        &self,
        connection: &mut PgConnection,
        session: SessionId,
    ) -> Result<(), StoreError> {
        self.fence.check(connection, session).await
    }

    async fn snapshot(&self, of: &PgPool) -> Result<PgPool, StoreError> {
        // The single connection reads in one transaction, which sees the database as of its first statement.
        let pool = pool(1).connect_with(of.connect_options().as_ref().clone()).await?;
        let begin =
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1 FROM session LIMIT 1;";
        sqlx::raw_sql(begin).execute(&pool).await?;
        Ok(pool)
    }

    /// Writes a commit even if the connection fails in the middle, as long as the lease lasts.
    async fn commit(
        store: &PostgresStore,
        session: SessionId,
        commit: Commit,
    ) -> Result<EventNumber, StoreError> {
        match store.backend.fence.epoch(session) {
            Ok(_) => store.commit_surely(session, commit).await,
            // Nobody holds the session, or another process does, which the transaction finds out.
            Err(_) => write::commit(store, session, commit).await,
        }
    }

    fn sharing(store: &PostgresStore) -> Option<&SharedStore> {
        Some(store)
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }
}

impl PostgresStore {
    /// Opens the store at a URL such as `postgres://user@host/database`. Creates the tables if necessary;
    /// tables of another version are refused.
    ///
    /// Without a password, the one in the URL, `PGPASSWORD` or `~/.pgpass` is used. Connections to other
    /// machines are encrypted, and the certificate is verified, unless the URL sets `sslmode`.
    pub async fn open(url: &str, password: Option<&str>) -> Result<Self, StoreError> {
        Self::open_with_lease(url, password, LEASE).await
    }

    /// Opens the store at a URL with leases of another duration.
    pub async fn open_with_lease(
        url: &str,
        password: Option<&str>,
        lease: Duration,
    ) -> Result<Self, StoreError> {
        Self::open_with(connect_options(url, password)?, lease, Failpoint::default()).await
    }

    /// Opens the store with the options of a connection, the duration of a lease and a failpoint.
    pub async fn open_with(
        options: PgConnectOptions,
        lease: Duration,
        failpoint: Failpoint,
    ) -> Result<Self, StoreError> {
        let options = options.application_name("convoke");
        first_connection(&options).await?.close().await?;
        let clock = DatabaseClock::default();
        let idle = Arc::<IdleConnections>::default();
        let pool = writing_pool(lease, &clock, &idle).connect_with(options).await?;
        schema::prepare(&pool).await?;
        let fence = Fence::new(pool.clone(), lease, idle, clock.clone());
        let announcements = Announcements::default();
        let backend = PostgresServer { fence, announcements, clock };
        Ok(Self { pool, failpoint, backend })
    }

    /// Migrates a database of an older format, once its operator has made a backup. Returns the format that was found.
    pub async fn migrate(url: &str, password: Option<&str>) -> Result<i64, StoreError> {
        Self::migrate_with(connect_options(url, password)?, &Failpoint::default()).await
    }

    /// Migrates a database with the options of a connection and a failpoint.
    pub async fn migrate_with(
        options: PgConnectOptions,
        failpoint: &Failpoint,
    ) -> Result<i64, StoreError> {
        first_connection(&options).await?.close().await?;
        let pool = pool(1).connect_with(options).await?;
        let found = schema::migrate(&pool, failpoint).await;
        pool.close().await;
        found
    }

    /// Returns whether a process holds a session.
    pub async fn is_held(&self, session: SessionId) -> Result<bool, StoreError> {
        self.backend.fence.is_held(session).await
    }

    /// Returns the time of the database, which all machines share.
    pub fn now(&self) -> Millis {
        self.backend.clock.now()
    }

    /// Releases all leases and closes the connections. If the server does not respond, the leases end with their time.
    pub async fn close(&self) {
        let closed = async {
            self.backend.fence.finish_releases().await;
            self.backend.announcements.close();
            self.pool.close().await;
        };
        if tokio::time::timeout(CLOSE_LIMIT, closed).await.is_err() {
            tracing::debug!("the server does not respond; its connections were left open");
        }
    }

    /// Listens to the commits of all processes. All listeners in this process share a connection.
    pub async fn listen(&self) -> Result<Commits, StoreError> {
        self.backend.announcements.listen(&self.pool).await
    }

    /// Runs a statement of a process that waits, without another connection than the one that listens.
    async fn ask_quietly(
        &self,
        statement: &'static str,
        arguments: Vec<String>,
    ) -> Result<Option<String>, StoreError> {
        self.backend.announcements.ask(&self.pool, statement, arguments).await
    }

    /// Closes the connections that are not used, unless this process holds a session.
    pub(crate) async fn rest(&self) {
        let idle = self.backend.fence.idle();
        while !idle.holds_session()
            && let Some(connection) = self.pool.try_acquire()
        {
            idle.take();
            // One that the server has closed is closed.
            let _ = connection.close().await;
        }
    }

    /// Returns the duration of a lease without a heartbeat.
    pub fn lease_duration(&self) -> Duration {
        self.backend.fence.duration()
    }

    /// Writes a commit even if the connection fails in the middle, as long as the lease lasts. Only the holder
    /// of a session advances its head, so the head tells whether the commit was written.
    async fn commit_surely(
        &self,
        session: SessionId,
        commit: Commit,
    ) -> Result<EventNumber, StoreError> {
        let (on, head) = (commit.on, commit.head());
        let deadline = tokio::time::Instant::now() + self.lease_duration();
        let lost = || StoreError::HoldLost { session };
        let mut written =
            tokio::time::timeout_at(deadline, write::commit(self, session, commit.clone()));
        loop {
            match written.await.map_err(|_| lost())? {
                Err(error) if error.is_transient() => {}
                other => return other,
            }
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                match tokio::time::timeout_at(deadline, self.own_head(session)).await {
                    Err(_) => return Err(lost()),
                    Ok(Err(error)) if error.is_transient() => {}
                    Ok(Err(error)) => return Err(error),
                    Ok(Ok(found)) if found == on => break,
                    Ok(Ok(_)) => return Ok(head),
                }
            }
            written =
                tokio::time::timeout_at(deadline, write::commit(self, session, commit.clone()));
        }
    }

    /// Returns the head of a session that this process holds.
    async fn own_head(&self, session: SessionId) -> Result<EventNumber, StoreError> {
        let epoch = self.backend.fence.epoch(session)?;
        let head: Option<(i64,)> = sqlx::query_as(
            "SELECT events FROM session JOIN lease ON lease.session = session.id \
             WHERE session.id = $1 AND epoch = $2",
        )
        .bind(session.to_string())
        .bind(epoch)
        .fetch_optional(&self.pool)
        .await?;
        let head = head.ok_or(StoreError::HoldLost { session })?;
        Ok(EventNumber(u64::try_from(head.0).unwrap_or_default()))
    }
}

/// Connects for the first time, and waits for a free connection of the server. A pool would retry any error, and then
/// report only a timeout.
async fn first_connection(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let deadline = tokio::time::Instant::now() + FIRST_CONNECT_LIMIT;
    let mut refusal = None;
    loop {
        let error: StoreError = match tokio::time::timeout_at(deadline, options.connect()).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => error.into(),
            Err(_) => return Err(refusal.unwrap_or_else(StoreError::unanswered)),
        };
        let is_crowded = error.server_failure() == Some(ServerFailure::TooManyConnections);
        if !is_crowded || tokio::time::Instant::now() >= deadline {
            return Err(error);
        }
        refusal = Some(error);
        tokio::time::sleep(CROWDED_PAUSE).await;
    }
}

/// Returns the options of the pool for writes. A process that is stopped in the middle of a transaction keeps
/// the row of its lease locked, so the server aborts the transaction when the lease expires.
fn writing_pool(
    lease: Duration,
    clock: &DatabaseClock,
    idle: &Arc<IdleConnections>,
) -> PgPoolOptions {
    let clock = clock.clone();
    let (taken, given_back) = (Arc::clone(idle), Arc::clone(idle));
    let before = Liveness::new(lease / 3);
    let after = before.clone();
    pool(MAX_CONNECTIONS)
        .after_connect(move |connection, _| {
            let limit = format!("SET idle_in_transaction_session_timeout = {}", lease.as_millis());
            let clock = clock.clone();
            Box::pin(async move {
                sqlx::raw_sql(sqlx::AssertSqlSafe(limit)).execute(&mut *connection).await?;
                clock.compare(connection).await
            })
        })
        // Without a time limit, both would wait for a dead connection.
        .test_before_acquire(false)
        // An unused connection stays open, but only one.
        .idle_timeout(None)
        .before_acquire(move |connection, meta| {
            taken.take();
            let liveness = before.clone();
            Box::pin(async move { liveness.check(connection, meta.idle_for).await })
        })
        .after_release(move |connection, _| {
            let (liveness, idle) = (after.clone(), Arc::clone(&given_back));
            Box::pin(async move {
                let is_alive = liveness.check(connection, Duration::ZERO).await?;
                Ok(is_alive && idle.keep())
            })
        })
}

/// The connections that are open and unused. A process that holds no session, because it follows one or waits for a
/// turn, needs at most one connection; there may be many such processes, and a server has few connections.
#[derive(Debug, Default)]
struct IdleConnections {
    idle: AtomicUsize,
    /// The number of sessions that this process holds.
    held: AtomicUsize,
}

impl IdleConnections {
    /// Counts an unused connection as used.
    fn take(&self) {
        let less = |idle: usize| idle.checked_sub(1);
        let _ = self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    fn holds_session(&self) -> bool {
        self.held.load(Ordering::SeqCst) > 0
    }

    /// Returns whether a connection stays open although it is not used, and counts it.
    fn keep(&self) -> bool {
        let most = if self.holds_session() { MAX_CONNECTIONS as usize } else { 1 };
        let more = |idle: usize| (idle < most).then_some(idle + 1);
        self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// Finds dead connections that were never closed, because the network dropped them or the server is stopped.
#[derive(Debug, Clone)]
struct Liveness {
    /// The time limit for a response.
    limit: Duration,
    /// The last time at which a connection did not respond.
    silent: Arc<Mutex<Option<Instant>>>,
}

impl Liveness {
    fn new(limit: Duration) -> Self {
        Self { limit: limit.max(Duration::from_secs(1)), silent: Arc::default() }
    }

    /// Checks whether the server responds. A connection at least as old as one that did not respond is not
    /// checked again.
    async fn check(&self, connection: &mut PgConnection, idle: Duration) -> sqlx::Result<bool> {
        let silent = || self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let silence = || sqlx::Error::Io(ErrorKind::TimedOut.into());
        if silent().is_some_and(|silent| silent.elapsed() < idle) {
            return Err(silence());
        }
        let Ok(answered) = tokio::time::timeout(self.limit, connection.ping()).await else {
            *silent() = Some(Instant::now());
            return Err(silence());
        };
        answered.map(|()| true)
    }
}

/// Returns the options of a pool.
fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(CONNECT_LIMIT)
        .idle_timeout(Duration::from_mins(1))
        .max_lifetime(None)
}

fn connect_options(url: &str, password: Option<&str>) -> Result<PgConnectOptions, StoreError> {
    let mut options: PgConnectOptions = url.parse()?;
    if let Some(password) = password {
        options = options.password(password);
    }
    if !is_local(&options) && !url.contains("sslmode=") {
        options = options.ssl_mode(PgSslMode::VerifyFull);
    }
    Ok(options)
}

fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_other_machines_are_encrypted_unless_the_url_says_otherwise() {
        for (url, is_verified) in [
            ("postgres://convoke@db.example/team", true),
            ("postgres://convoke@10.0.0.7:5433/team", true),
            ("postgres://convoke@127.0.0.1.example/team", true),
            ("postgres://convoke@localhost/team?host=db.example", true),
            ("postgres://convoke@db.example/team?sslmode=disable", false),
            ("postgres://convoke@localhost/team", false),
            ("postgres://convoke@127.0.0.1/team", false),
            ("postgres:///team?host=/run/postgresql", false),
        ] {
            let options = connect_options(url, Some("secret")).unwrap();
            let mode = options.get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::VerifyFull), is_verified, "{url}: {mode:?}");
        }
    }
}
