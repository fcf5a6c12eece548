//! Announced commits. One connection per process listens, for all readers in the process.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgNotification};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::database::CHANNEL;
use crate::id::{Head, SessionId};
use crate::store::StoreError;

/// The number of commits that a reader may fall behind. Beyond it, the reader has to read again.
const BEHIND: usize = 1024;
/// The idle time after which the server is checked, and the time limit for its response.
const SILENCE: Duration = Duration::from_secs(15);
/// The time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// A commit: the session and its head. `None` after commits may have been missed.
type Announced = Option<(SessionId, Head)>;

/// The commits of all processes, as they happen. A reader starts to listen before it reads, so that it misses
/// none. After a lost connection, some may be missing and the reader has to read again.
#[derive(Debug)]
pub struct Commits(Receiver<Announced>);

impl Commits {
    /// Waits for the next commit; `None` if some may have been missed.
    pub async fn next(&mut self) -> Result<Option<(SessionId, Head)>, StoreError> {
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

/// The listening connection. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Announcements(Arc<Mutex<Option<Listening>>>);

#[derive(Debug)]
struct Listening {
    commits: Sender<Announced>,
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
        let task = tokio::spawn(pass_on(listener, pool.clone(), commits.clone())).abort_handle();
        *listening = Some(Listening { commits, task });
        Ok(Commits(receiver))
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
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Waits for the next announcement. Fails if the server does not respond while idle.
async fn receive(listener: &mut PgListener) -> sqlx::Result<Option<PgNotification>> {
    loop {
        if let Ok(received) = timeout(SILENCE, listener.try_recv()).await {
            return received;
        }
        let answered = timeout(SILENCE, sqlx::raw_sql("SELECT 1").execute(&mut *listener)).await;
        answered.map_err(|_| sqlx::Error::Io(ErrorKind::TimedOut.into()))??;
    }
}

/// Forwards announcements until the store is closed. Reconnects if the connection is lost.
async fn pass_on(mut listener: PgListener, pool: PgPool, commits: Sender<Announced>) {
    loop {
        match receive(&mut listener).await {
            Ok(Some(notification)) => {
                let commit = notification.payload().split_once(' ').and_then(|(session, head)| {
                    Some((session.parse().ok()?, Head(head.parse().ok()?)))
                });
                // Other programs may use the channel too. Sending fails without a reader, which is fine.
                if commit.is_some() {
                    let _ = commits.send(commit);
                }
            }
            Ok(None) => {
                let _ = commits.send(None);
            }
            Err(_) => {
                while !pool.is_closed() {
                    tokio::time::sleep(PAUSE).await;
                    if let Ok(again) = connect(&pool).await {
                        listener = again;
                        break;
                    }
                }
                if pool.is_closed() {
                    return;
                }
                let _ = commits.send(None);
            }
        }
    }
}
