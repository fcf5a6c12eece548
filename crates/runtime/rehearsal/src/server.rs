//! The server: accepts connections on the loopback interface, and shuts down.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use crate::connection::{self, ServerState};
use crate::record::Recorded;
use crate::script::Script;
use crate::vendor_hosts::CertificateError;

/// Starts a server that answers from a script, on a free port of 127.0.0.1.
pub async fn start(script: Script) -> Result<Rehearsal, StartError> {
    start_with(script, Limits::default()).await
}

/// Starts a server with custom limits.
pub async fn start_with(script: Script, limits: Limits) -> Result<Rehearsal, StartError> {
    // Loopback only: clients of this server could read the user's prompts.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let shared = Arc::new(ServerState::new(script, limits, address));
    let (stop, stopped) = watch::channel(Stop::No);
    let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), stopped));
    Ok(Rehearsal { address, shared, stop, accepting })
}

/// A running server. Dropping it ends it at once.
#[derive(Debug)]
pub struct Rehearsal {
    address: SocketAddr,
    shared: Arc<ServerState>,
    stop: watch::Sender<Stop>,
    accepting: JoinHandle<()>,
}

impl Rehearsal {
    /// Returns the address, `http://127.0.0.1:PORT/SECRET`, without a final slash. Requests without the secret are
    /// refused and not recorded.
    pub fn base_url(&self) -> String {
        self.shared.access.base_url()
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.shared.access.port()
    }

    /// Returns the address of the server as a proxy, with the secret. Requests to other hosts are refused and
    /// recorded.
    pub fn proxy_url(&self) -> String {
        self.shared.access.proxy_url()
    }

    /// Answers for hosts of a vendor when the server is used as a proxy, with 404 to everything. Returns the certificate in
    /// PEM with which a program trusts it.
    pub fn answer_for(&self, hosts: &[&str]) -> Result<String, CertificateError> {
        self.shared.vendor_hosts.name(hosts)
    }

    /// Returns the number of requests refused by the access control.
    pub fn refused(&self) -> usize {
        self.shared.refused()
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.requests()
    }

    /// Returns the model calls so far, without side requests.
    pub fn model_calls(&self) -> Vec<Recorded> {
        let mut requests = self.requests();
        requests.retain(Recorded::is_turn);
        requests
    }

    /// Returns the requests from now on, as they arrive.
    pub fn feed(&self) -> RequestFeed {
        let arrivals = self.shared.arrivals();
        let seen = self.shared.requests_after(0).len();
        RequestFeed { shared: Arc::clone(&self.shared), arrivals, seen, waiting: VecDeque::new() }
    }

    /// Waits until there are `count` model calls, without side requests; `false` after `time_limit`.
    pub async fn has_model_calls(&self, count: usize, time_limit: Duration) -> bool {
        let mut arrivals = self.shared.arrivals();
        let enough = arrivals.wait_for(|_| self.model_calls().len() >= count);
        matches!(tokio::time::timeout(time_limit, enough).await, Ok(Ok(_)))
    }

    /// Shuts down and returns all requests. Running responses may complete within [`Limits::grace`]; then connections
    /// are closed.
    pub async fn shutdown(mut self) -> Vec<Recorded> {
        self.stop.send_replace(Stop::Gracefully);
        // The accepting task ends in bounded time and fails only by panicking.
        let _ = (&mut self.accepting).await;
        self.shared.requests()
    }
}

/// The requests that reach a server, in the order in which they arrive.
#[derive(Debug)]
pub struct RequestFeed {
    shared: Arc<ServerState>,
    arrivals: watch::Receiver<usize>,
    seen: usize,
    waiting: VecDeque<Recorded>,
}

impl RequestFeed {
    /// Waits for the next request. Cancel safe.
    pub async fn next(&mut self) -> Recorded {
        loop {
            if let Some(request) = self.take() {
                return request;
            }
            let seen = self.seen;
            if self.arrivals.wait_for(|number| *number > seen).await.is_err() {
                // The sender lives in `shared`, which this holds.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the next request, if one has arrived.
    pub fn take(&mut self) -> Option<Recorded> {
        if self.waiting.is_empty() {
            let fresh = self.shared.requests_after(self.seen);
            self.seen += fresh.len();
            self.waiting.extend(fresh);
        }
        self.waiting.pop_front()
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum size of a body; larger ones are refused with 413.
    pub body_bytes: usize,
    /// The maximum size of all recorded bodies; then requests are refused with 507.
    pub recorded_bytes: usize,
    /// The maximum number of connections; more wait to be accepted.
    pub connections: usize,
    /// The time for running responses at shutdown.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            recorded_bytes: 512 << 20,
            connections: 256,
            grace: Duration::from_millis(500),
        }
    }
}

/// The server could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on 127.0.0.1")]
pub struct StartError(#[from] std::io::Error);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    Gracefully,
}

/// Reports a connection that panicked: its program gets no answer.
#[expect(clippy::needless_pass_by_value, reason = "the listener gives it away")]
fn note_failure(error: JoinError) {
    tracing::error!("a connection failed: {error}");
}

async fn accept(
    listener: TcpListener,
    shared: Arc<ServerState>,
    mut stopped: watch::Receiver<Stop>,
) {
    let limits = shared.limits;
    let (state, for_connections) = (shared, stopped.clone());
    let stop = async move {
        // An error means that the server is gone.
        let _ = stopped.changed().await;
    };
    let serve =
        |stream, _| Some(connection::serve(stream, Arc::clone(&state), for_connections.clone()));
    let mut connections =
        convoke_listener::accept(listener, limits.connections, stop, serve, note_failure).await;
    let ended = async {
        while let Some(ended) = connections.join_next().await {
            ended.unwrap_or_else(note_failure);
        }
    };
    if tokio::time::timeout(limits.grace, ended).await.is_err() {
        connections.shutdown().await;
    }
}
