//! Announced commits. One connection per process listens, for all readers in the process. While they wait, it also carries
//! the few statements of a process that is idle, which then needs no other connection.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_protocol::id::{EventNumber, SessionId};
use sqlx::PgPool;
use sqlx::postgres::{PgExecutor, PgListener, PgNotification};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::connection::CHANNEL;
use crate::store::StoreError;

/// The number of commits that a reader may fall behind. Beyond it, the reader has to read again.
const BEHIND: usize = 1024;
/// The idle time after which the server is checked, and the time limit for its response.
const SILENCE: Duration = Duration::from_secs(15);
/// The number of statements that wait for the listening connection.
const ERRANDS: usize = 16;
/// The time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// A commit: the session and its head. `None` after commits may have been missed.
type Announced = Option<(SessionId, EventNumber)>;

/// The commits of all processes, as they happen. A reader starts to listen before it reads, so that it misses
/// none. After a lost connection, some may be missing and the reader has to read again.
#[derive(Debug)]
pub struct Commits(Receiver<Announced>);

impl Commits {
    /// Waits for the next commit; `None` if some may have been missed.
    pub async fn next(&mut self) -> Result<Option<(SessionId, EventNumber)>, StoreError> {
        match self.0.recv().await {
            Ok(announced) => Ok(announced),
            Err(RecvError::Lagged(_)) => Ok(None),
            Err(RecvError::Closed) => Err(sqlx::Error::PoolClosed.into()),
        }
    }

    /// Waits until a session may have changed. The caller then reads the session, including everything
    /// announced so far.
    pub async fn wait_for(&mut self, session: SessionId) -> Result<(), StoreError> {
        while self.next().await?.is_some_and(|(changed, _)| changed != session) {}
        self.0 = self.0.resubscribe();
        Ok(())
    }

    /// Waits until any session may have changed. The caller then reads them, including everything announced so
    /// far.
    pub async fn wait(&mut self) -> Result<(), StoreError> {
        self.next().await?;
        self.0 = self.0.resubscribe();
        Ok(())
    }
}

/// A statement for the listening connection, whose arguments and result are text.
#[derive(Debug)]
struct Errand {
    statement: &'static str,
    arguments: Vec<String>,
    answer: oneshot::Sender<sqlx::Result<Option<String>>>,
}

impl Errand {
    /// Runs the statement. Fails only if the server does not respond.
    async fn run(self, listener: &mut PgListener) -> sqlx::Result<()> {
        // The caller has given up, and may have undone the effect of the statement.
        if self.answer.is_closed() {
            return Ok(());
        }
        let silence = || sqlx::Error::Io(ErrorKind::TimedOut.into());
        let answered = timeout(SILENCE, fetch(self.statement, &self.arguments, listener)).await;
        let is_silent = answered.is_err();
        // Who has asked may be gone meanwhile.
        let _ = self.answer.send(answered.unwrap_or_else(|_| Err(silence())));
        if is_silent { Err(silence()) } else { Ok(()) }
    }
}

/// Returns the text of a statement's first row, if there is one.
async fn fetch<'c>(
    statement: &'static str,
    arguments: &[String],
    connection: impl PgExecutor<'c>,
) -> sqlx::Result<Option<String>> {
    let mut query = sqlx::query_scalar::<_, Option<String>>(statement);
    for argument in arguments {
        query = query.bind(argument);
    }
    Ok(query.fetch_optional(connection).await?.flatten())
}

/// The listening connection. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Announcements(Arc<Mutex<Option<Listening>>>);

#[derive(Debug)]
struct Listening {
    commits: Sender<Announced>,
    errands: mpsc::Sender<Errand>,
    task: AbortHandle,
}

impl Listening {
    fn subscribe(&self) -> Option<Commits> {
        (!self.task.is_finished()).then(|| Commits(self.commits.subscribe()))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Announcements {
    /// Starts to listen, on the existing connection or a new one.
    pub(super) async fn listen(&self, pool: &PgPool) -> Result<Commits, StoreError> {
        let known = self.lock().as_ref().and_then(Listening::subscribe);
        if let Some(commits) = known {
            return Ok(commits);
        }
        let listener = connect(pool).await?;
        let mut listening = self.lock();
        // Another task may have connected meanwhile.
        if let Some(commits) = listening.as_ref().and_then(Listening::subscribe) {
            return Ok(commits);
        }
        let (commits, receiver) = channel(BEHIND);
        let (errands, waiting) = mpsc::channel(ERRANDS);
        let passing = pass_on(listener, pool.clone(), commits.clone(), waiting);
        let task = tokio::spawn(passing).abort_handle();
        *listening = Some(Listening { commits, errands, task });
        Ok(Commits(receiver))
    }

    /// Runs a statement with arguments of text on the listening connection, or on another one if none listens at the moment.
    /// Returns the text of its first row.
    pub(super) async fn ask(
        &self,
        pool: &PgPool,
        statement: &'static str,
        arguments: Vec<String>,
    ) -> Result<Option<String>, StoreError> {
        let errands = self.lock().as_ref().map(|listening| listening.errands.clone());
        if let Some(errands) = errands {
            let (answer, answered) = oneshot::channel();
            let errand = Errand { statement, arguments: arguments.clone(), answer };
            if errands.send(errand).await.is_ok()
                && let Ok(answered) = answered.await
            {
                return Ok(answered?);
            }
        }
        Ok(fetch(statement, &arguments, pool).await?)
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Listening>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects outside the pool, because the connection stays in use while there is a listener.
async fn connect(pool: &PgPool) -> Result<PgListener, StoreError> {
    let options = pool.connect_options().as_ref().clone();
    let mut listener =
        PgListener::connect_with(&super::pool(1).connect_with(options).await?).await?;
    // A lost connection is replaced as a whole, so that a statement never interrupts that.
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Waits for the next announcement, and runs statements meanwhile. Fails if the connection is lost, or if the server does
/// not respond.
async fn receive(
    listener: &mut PgListener,
    errands: &mut mpsc::Receiver<Errand>,
) -> sqlx::Result<PgNotification> {
    loop {
        tokio::select! {
            received = timeout(SILENCE, listener.try_recv()) => {
                if let Ok(received) = received {
                    return received?.ok_or(sqlx::Error::Io(ErrorKind::ConnectionAborted.into()));
                }
                let check = sqlx::raw_sql("SELECT 1").execute(&mut *listener);
                let answered = timeout(SILENCE, check).await;
                answered.map_err(|_| sqlx::Error::Io(ErrorKind::TimedOut.into()))??;
            }
            Some(errand) = errands.recv() => errand.run(listener).await?,
        }
    }
}

/// Forwards announcements until the store is closed. Reconnects if the connection is lost.
async fn pass_on(
    mut listener: PgListener,
    pool: PgPool,
    commits: Sender<Announced>,
    mut errands: mpsc::Receiver<Errand>,
) {
    loop {
        if let Ok(notification) = receive(&mut listener, &mut errands).await {
            let commit = notification.payload().split_once(' ').and_then(|(session, head)| {
                Some((session.parse().ok()?, EventNumber(head.parse().ok()?)))
            });
            // Other programs may use the channel too. Sending fails without a reader, which is fine.
            if commit.is_some() {
                let _ = commits.send(commit);
            }
            continue;
        }
        let mut reconnecting = pin!(reconnect(&pool));
        listener = loop {
            tokio::select! {
                again = &mut reconnecting => match again {
                    Some(listener) => break listener,
                    None => return,
                },
                // The one who asks finds out that the server is away.
                Some(errand) = errands.recv() => drop(errand),
            }
        };
        let _ = commits.send(None);
    }
}

/// Connects as soon as the server can be reached; `None` if the store is closed before.
async fn reconnect(pool: &PgPool) -> Option<PgListener> {
    while !pool.is_closed() {
        if let Ok(listener) = connect(pool).await {
            return Some(listener);
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}
