//! The relay: listens on the loopback interface, and ends with everything that it forwards.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use convoke_redact::Redactor;
use convoke_wire::Exchange;
use hyper::body::Incoming;
use hyper::header::USER_AGENT;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::access::{Access, is_of_this_user};
use crate::connect::Connector;
use crate::copy::Passing;
use crate::forward;
use crate::tunnel::{Tunnel, Tunnels};
use crate::upstream::Upstream;

/// The maximum number of connections of a program at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 256;

/// The maximum number of exchanges that wait to be taken.
const MAX_WAITING: usize = 64;

/// The maximum number of requests that are not reported whole. Beyond it a request waits before it is forwarded, so
/// that what no reader takes does not pile up.
const MAX_REPORTS: usize = 2 * MAX_CONNECTIONS;

/// The maximum number of credentials of a program that are remembered.
const MAX_CREDENTIALS: usize = 256;

/// The time that copies have to be read when the relay ends. A request of 50 MB takes some ten seconds on a busy machine.
const GRACE: Duration = Duration::from_mins(1);

/// The settings of a relay.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// The endpoint.
    pub upstream: Upstream,
    /// The user's environment: proxies and certificates are read from it.
    pub env: Vec<(OsString, OsString)>,
    /// The beginnings of the user agents that are the program's own; empty if every request is its own.
    /// A program that the agent runs in a shell inherits the address, and its requests are forwarded and
    /// not recorded.
    pub own_user_agents: Vec<String>,
    /// The maximum number of bytes of a request that are kept; a larger one is forwarded, and recorded without its
    pub max_body_bytes: usize,
    /// The hosts that the program may have a tunnel to, on port 443.
    pub tunnel_hosts: Vec<String>,
    /// The maximum number of bytes that pass through all tunnels, in both directions. Signing in takes thousands.
    pub max_tunnel_bytes: u64,
}

impl RelayOptions {
    /// Creates the settings for an endpoint, with an empty environment.
    pub fn new(upstream: Upstream) -> Self {
        Self {
            upstream,
            env: Vec::new(),
            own_user_agents: Vec::new(),
            max_body_bytes: 64 << 20,
            tunnel_hosts: Vec::new(),
            max_tunnel_bytes: 64 << 20,
        }
    }
}

/// A relay could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no port.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(#[from] std::io::Error),
    /// Connections cannot be prepared.
    #[error("{0}")]
    Environment(String),
}

/// A running relay. Dropping it ends it at once, and every request that it forwards.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<RelayState>,
    accepting: JoinHandle<()>,
}

/// The parts of a relay that its connections share.
pub(crate) struct RelayState {
    pub upstream: Upstream,
    pub access: Access,
    pub connector: Connector,
    pub tunnels: Tunnels,
    pub numbers: AtomicU64,
    pub max_body_bytes: usize,
    /// The bytes of all requests that are kept at the moment.
    pub kept_bytes: Arc<AtomicUsize>,
    own_user_agents: Vec<String>,
    /// The calls of a model that were forwarded and are not the program's own.
    pub uncounted: AtomicU64,
    exchanges: mpsc::Sender<Exchange>,
    reports: Mutex<JoinSet<Result<(), JoinError>>>,
    report_slots: Arc<Semaphore>,
    failure: StdMutex<Option<String>>,
    stop: watch::Sender<bool>,
    /// The credentials of the requests so far, and a redactor that knows them.
    credentials: StdMutex<BTreeSet<String>>,
    secrets: watch::Sender<Redactor>,
}

impl std::fmt::Debug for RelayState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayState").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

impl RelayState {
    /// Reports a request and its answer when they have passed.
    pub async fn report(&self, passing: Passing) {
        let Ok(slot) = Arc::clone(&self.report_slots).acquire_owned().await else { return };
        let (exchanges, mut stopped) = (self.exchanges.clone(), self.stop.subscribe());
        let ended = async move {
            // Without a sender there is no relay either.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
            tokio::time::sleep(GRACE).await;
        };
        let mut reports = self.reports.lock().await;
        while let Some(ended) = reports.try_join_next() {
            self.ended(ended.unwrap_or_else(Err));
        }
        reports.spawn(async move {
            let reported = passing.report(exchanges, ended).await;
            drop(slot);
            reported
        });
    }

    /// Remembers the credentials of a request: a server or a tool may repeat them.
    pub fn learn(&self, credentials: Vec<String>) {
        let mut known = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in credentials {
            if known.len() < MAX_CREDENTIALS && known.insert(secret.clone()) {
                self.secrets.send_modify(|redactor| *redactor = redactor.and_key(&secret));
            }
        }
    }

    /// Records that a report or a connection panicked, so that a request or its body may be missing.
    fn ended(&self, task: Result<(), JoinError>) {
        if let Err(error) = task
            && error.is_panic()
        {
            self.fail(&format!("a request was not recorded whole: {error}"));
        }
    }

    /// Records why a request was not forwarded or not answered by a model.
    pub fn fail(&self, reason: &str) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(reason.to_owned());
    }

    /// Returns whether a request is the program's own.
    pub fn is_own_program(&self, headers: &HeaderMap) -> bool {
        let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        self.own_user_agents.is_empty()
            || agent.is_some_and(|it| self.own_user_agents.iter().any(|own| it.starts_with(own)))
    }
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1. The exchanges end when the relay has; requests wait while no reader takes
    /// them.
    pub async fn start(
        options: RelayOptions,
    ) -> Result<(Self, mpsc::Receiver<Exchange>), StartError> {
        let RelayOptions {
            upstream,
            env,
            own_user_agents,
            max_body_bytes,
            tunnel_hosts,
            max_tunnel_bytes,
        } = options;
        let connector = Connector::new(upstream.clone(), &env).map_err(StartError::Environment)?;
        // Loopback only: other clients would not get the user's credentials, but would add to the record.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (exchanges, receiver) = mpsc::channel(MAX_WAITING);
        let (stop, stopped) = watch::channel(false);
        let access = Access::new(address, &upstream);
        let secrets = watch::Sender::new(Redactor::default().and_key(access.secret()));
        let shared = Arc::new(RelayState {
            access,
            upstream,
            connector,
            tunnels: Tunnels::new(address, &tunnel_hosts, max_tunnel_bytes, env),
            numbers: AtomicU64::new(0),
            max_body_bytes,
            kept_bytes: Arc::default(),
            own_user_agents,
            uncounted: AtomicU64::new(0),
            exchanges,
            reports: Mutex::default(),
            report_slots: Arc::new(Semaphore::new(MAX_REPORTS)),
            failure: StdMutex::default(),
            stop,
            credentials: StdMutex::default(),
            secrets,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), stopped));
        Ok((Self { address, shared, accepting }, receiver))
    }

    /// Returns the address that takes the place of the endpoint's base URL.
    pub fn base_url(&self) -> String {
        self.shared.access.base_url(&self.shared.upstream)
    }

    /// Returns a redactor that knows the secret of the address and, as soon as a request is forwarded, its credentials.
    pub fn secrets(&self) -> watch::Receiver<Redactor> {
        self.shared.secrets.subscribe()
    }

    /// Returns the secret of the address, which is to be kept out of everything that is stored.
    pub fn secret(&self) -> &str {
        self.shared.access.secret()
    }

    /// Returns the address of the relay as a proxy, which opens tunnels to the hosts of its settings and to no
    /// others.
    pub fn proxy_url(&self) -> String {
        self.shared.tunnels.proxy_url()
    }

    /// Returns the hosts that a tunnel was refused to, in alphabetical order.
    pub fn refused_hosts(&self) -> Vec<String> {
        self.shared.tunnels.refused_hosts()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns whether the relay ended by itself, so that it refuses connections.
    pub fn has_ended(&self) -> bool {
        self.accepting.is_finished()
    }

    /// Returns why a request was not forwarded or not answered by a model, the last time that this happened.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of calls of a model that were forwarded and not reported, because their user agent is not the
    /// program's.
    pub fn uncounted(&self) -> u64 {
        self.shared.uncounted.load(Ordering::Relaxed)
    }

    /// Ends the relay: open requests are cut, and the copies of all that passed are reported. The exchanges have to be
    /// taken meanwhile.
    pub async fn shutdown(mut self) {
        self.shared.stop.send_replace(true);
        self.shared.ended((&mut self.accepting).await);
        let mut reports = std::mem::take(&mut *self.shared.reports.lock().await);
        while let Some(ended) = reports.join_next().await {
            self.shared.ended(ended.unwrap_or_else(Err));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<RelayState>,
    mut stopped: watch::Receiver<bool>,
) {
    let own = listener.local_addr().ok();
    let stop = async move {
        // An error means that the relay is gone.
        let _ = stopped.changed().await;
    };
    let serve = |stream, peer| {
        let is_own = own.is_some_and(|own| is_of_this_user(peer, own));
        is_own.then(|| serve(stream, Arc::clone(&shared)))
    };
    let failed = |error| shared.ended(Err(error));
    convoke_listener::accept(listener, MAX_CONNECTIONS, stop, serve, failed).await.shutdown().await;
}

async fn serve(stream: TcpStream, shared: Arc<RelayState>) {
    let _ = stream.set_nodelay(true);
    let upstream = Arc::default();
    // A connection that becomes a tunnel carries no further request.
    let tunnel: Arc<StdMutex<Option<Tunnel>>> = Arc::default();
    let service = service_fn(|request: Request<Incoming>| {
        let (shared, upstream, tunnel) =
            (Arc::clone(&shared), Arc::clone(&upstream), Arc::clone(&tunnel));
        async move {
            if request.method() != Method::CONNECT {
                return forward::answer(request, shared, upstream).await;
            }
            let (opened, answer) = shared.tunnels.open(request).await;
            *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = opened;
            Ok(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .preserve_header_case(true)
        .auto_date_header(false)
        // A program that goes away ends its request.
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // The request that it carried reports a broken connection.
    let _ = connection.await;
    let tunnel = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(tunnel) = tunnel
        && let Err(reason) = tunnel.run(&shared.tunnels).await
    {
        shared.fail(&reason);
    }
}
