//! Accepts a bounded number of connections.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until `stopped`, at most `most` at a time; more wait to be accepted. `serve` refuses a connection by
/// `None`. A connection that panicked is given to `failed`: its client gets no answer.
///
/// Returns the connections that are left. Dropping them, or the future, closes them.
pub async fn accept<C: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    stopped: impl Future<Output = ()>,
    mut serve: impl FnMut(TcpStream, SocketAddr) -> Option<C>,
    mut failed: impl FnMut(JoinError),
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return connections,
            Some(ended) = connections.join_next() => ended.unwrap_or_else(&mut failed),
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((stream, peer)) => {
                    if let Some(connection) = serve(stream, peer) {
                        connections.spawn(connection);
                    }
                }
                // Out of file descriptors, or closed before it was accepted: the listener continues.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}
