//! Tunnels to the hosts that a program signs in with, for one that can reach no port but the relay's.
//!
//! The program uses the relay as its proxy. What passes through a tunnel is encrypted between the program
//! and the host; the relay reads the name in the first message, and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

use crate::connect::{self, CONNECT_TIMEOUT};
use crate::forward::own;
use crate::proxy::proxy_for;
use crate::public_address::is_public;
use crate::tee::AnswerBody;
use crate::upstream::Upstream;

/// The only port that a tunnel leads to.
const PORT: u16 = 443;
/// The maximum number of tunnels at a time.
const MAX_TUNNELS: usize = 32;
/// The longest first message of an encrypted connection.
const MAX_HELLO_BYTES: usize = 64 << 10;
/// The maximum number of refused hosts that are remembered.
const MAX_REFUSED: usize = 64;
/// The user name of the proxy's address; the secret is the password.
const USER: &str = "convoke";

/// The tunnels of a relay.
pub(crate) struct Tunnels {
    address: SocketAddr,
    /// 122 random bits.
    secret: String,
    hosts: Vec<String>,
    env: Vec<(OsString, OsString)>,
    slots: Arc<Semaphore>,
    /// The bytes that may pass through all tunnels together, and what is left of them.
    max_bytes: u64,
    bytes_left: AtomicU64,
    refused: Mutex<BTreeSet<String>>,
}

/// A tunnel whose far end is connected.
pub(crate) struct Tunnel {
    host: String,
    near: OnUpgrade,
    far: TcpStream,
    _slot: OwnedSemaphorePermit,
}

/// A reason not to open a tunnel, with its status.
type Refusal = (StatusCode, String);

impl Tunnels {
    /// Creates tunnels to these hosts, with a new secret. The user's own proxy is read from the environment.
    pub fn new(
        address: SocketAddr,
        hosts: &[String],
        max_bytes: u64,
        env: Vec<(OsString, OsString)>,
    ) -> Self {
        Self {
            address,
            secret: Uuid::new_v4().simple().to_string(),
            hosts: hosts.iter().map(|host| normal(host)).collect(),
            env,
            slots: Arc::new(Semaphore::new(MAX_TUNNELS)),
            max_bytes,
            bytes_left: AtomicU64::new(max_bytes),
            refused: Mutex::default(),
        }
    }

    /// Returns the address of the proxy, with the secret.
    pub fn proxy_url(&self) -> String {
        format!("http://{USER}:{}@{}", self.secret, self.address)
    }

    /// Returns the hosts that a tunnel was refused to.
    pub fn refused_hosts(&self) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().cloned().collect()
    }

    /// Opens the tunnel that a request asks for, and returns the answer to the request.
    pub async fn open(
        &self,
        mut request: Request<Incoming>,
    ) -> (Option<Tunnel>, Response<AnswerBody>) {
        let near = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        match self.connect(&parts).await {
            Ok((host, far, slot)) => {
                let tunnel = Tunnel { host, near, far, _slot: slot };
                (Some(tunnel), Response::new(AnswerBody::Own(http_body_util::Full::default())))
            }
            Err(refusal) => (None, refused(&refusal)),
        }
    }

    /// Refuses a request that a program sends to another host through the relay, unencrypted.
    pub fn refuse_unencrypted(&self, parts: &Parts, host: &str) -> Response<AnswerBody> {
        if let Err(refusal) = self.check_secret(parts) {
            return refused(&refusal);
        }
        self.note_refused(host);
        let reason = format!("the relay sends nothing to {host} unencrypted");
        refused(&(StatusCode::FORBIDDEN, reason))
    }

    async fn connect(
        &self,
        parts: &Parts,
    ) -> Result<(String, TcpStream, OwnedSemaphorePermit), Refusal> {
        self.check_secret(parts)?;
        let authority = parts.uri.authority();
        let invalid = || (StatusCode::BAD_REQUEST, "a tunnel needs a host and a port".to_owned());
        let authority = authority.ok_or_else(invalid)?;
        let host = normal(authority.host());
        if authority.port_u16() != Some(PORT) || !self.hosts.contains(&host) {
            self.note_refused(&named(authority, &host));
            let reason = format!("the relay has no tunnel to {authority}, only to sign-in hosts");
            return Err((StatusCode::FORBIDDEN, reason));
        }
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let reason = format!("{MAX_TUNNELS} tunnels are open already");
            (StatusCode::SERVICE_UNAVAILABLE, reason)
        })?;
        let far = timeout(CONNECT_TIMEOUT, self.reach(&host)).await.unwrap_or_else(|_| {
            let reason = format!("{host} did not accept a connection within 30 s");
            Err((StatusCode::GATEWAY_TIMEOUT, reason))
        })?;
        Ok((host, far, slot))
    }

    fn check_secret(&self, parts: &Parts) -> Result<(), Refusal> {
        let given = parts.headers.get(PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        let expected = STANDARD.encode(format!("{USER}:{}", self.secret));
        let is_known = given.is_some_and(|(scheme, value)| {
            scheme.eq_ignore_ascii_case("basic") && value.trim() == expected
        });
        let reason = "a tunnel needs the secret of the relay's address";
        let refusal = || (StatusCode::PROXY_AUTHENTICATION_REQUIRED, reason.to_owned());
        is_known.then_some(()).ok_or_else(refusal)
    }

    /// Connects to a host: through the user's proxy if there is one, else to a public address of it.
    async fn reach(&self, host: &str) -> Result<TcpStream, Refusal> {
        let failed = |reason: &dyn std::fmt::Display| {
            (StatusCode::BAD_GATEWAY, format!("cannot reach {host}: {reason}"))
        };
        let upstream = Upstream::parse(&format!("https://{host}")).map_err(|it| failed(&it))?;
        let proxy = proxy_for(&self.env, &upstream).map_err(|name| failed(&name))?;
        if let Some(proxy) = proxy {
            let stream = TcpStream::connect((&*proxy.host, proxy.port)).await;
            let mut stream = stream.map_err(|it| failed(&it))?;
            connect::tunnel(&mut stream, &proxy, host, PORT).await.map_err(|it| failed(&it))?;
            return Ok(stream);
        }
        let found = lookup_host((host, PORT)).await.map_err(|it| failed(&it))?;
        // A name that leads to this machine or its network is an attempt to get there.
        let public: Vec<SocketAddr> = found.filter(|it| is_public(it.ip())).collect();
        if public.is_empty() {
            self.note_refused(host);
            let reason = format!("{host} has no public address");
            return Err((StatusCode::FORBIDDEN, reason));
        }
        TcpStream::connect(&*public).await.map_err(|it| failed(&it))
    }

    fn note_refused(&self, host: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < MAX_REFUSED {
            refused.insert(host.to_owned());
        }
    }

    /// Takes bytes from what may still pass; returns whether there were enough.
    fn spend(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let rest = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        before.is_ok_and(|before| before >= bytes)
    }
}

impl Tunnel {
    /// Passes bytes on until both sides have ended; the error is why the tunnel was cut.
    pub async fn run(self, tunnels: &Tunnels) -> Result<(), String> {
        let Self { host, near, far, _slot } = self;
        // A program that is gone gets no answer.
        let Ok(near) = near.await else { return Ok(()) };
        let mut near: TokioIo<Upgraded> = TokioIo::new(near);
        let Ok(Ok((name, hello))) = timeout(CONNECT_TIMEOUT, read_hello(&mut near)).await else {
            return Err(format!("a tunnel to {host} did not begin with TLS"));
        };
        // One address serves many names; the tunnel is for one.
        if name != host {
            tunnels.note_refused(&name);
            return Err(format!("a tunnel to {host} was used for `{name}`"));
        }
        let (mut near_read, mut near_write) = tokio::io::split(near);
        let (mut far_read, mut far_write) = far.into_split();
        if !tunnels.spend(hello.len()) || far_write.write_all(&hello).await.is_err() {
            return Ok(());
        }
        let out = pass(&mut near_read, &mut far_write, tunnels);
        let back = pass(&mut far_read, &mut near_write, tunnels);
        match tokio::try_join!(out, back) {
            Err(Cut::Spent) => {
                Err(format!("more than {} bytes would pass through tunnels", tunnels.max_bytes))
            }
            Ok(_) | Err(Cut::Broken) => Ok(()),
        }
    }
}

/// The reason why a direction of a tunnel ended early.
enum Cut {
    /// No more bytes may pass.
    Spent,
    /// A connection broke.
    Broken,
}

async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    tunnels: &Tunnels,
) -> Result<(), Cut> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) => return to.shutdown().await.map_err(|_| Cut::Broken),
            Ok(read) if tunnels.spend(read) => {
                let written = to.write_all(&buffer[..read]).await;
                written.map_err(|_| Cut::Broken)?;
                to.flush().await.map_err(|_| Cut::Broken)?;
            }
            Ok(_) => return Err(Cut::Spent),
            Err(_) => return Err(Cut::Broken),
        }
    }
}

/// Reads the first message of an encrypted connection. Returns the host that it names, and its bytes.
async fn read_hello(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(String, Vec<u8>)> {
    let mut acceptor = Acceptor::default();
    let mut hello = Vec::new();
    let mut buffer = [0; 4096];
    while hello.len() < MAX_HELLO_BYTES {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hello.extend_from_slice(&buffer[..read]);
        let mut unread = &buffer[..read];
        while !unread.is_empty() {
            if acceptor.read_tls(&mut unread)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| io::Error::other(error))? {
            let name = accepted.client_hello().server_name().map(normal).unwrap_or_default();
            return Ok((name, hello));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn refused((status, reason): &Refusal) -> Response<AnswerBody> {
    let mut response = own(*status, reason);
    if *status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        let challenge = HeaderValue::from_static("Basic realm=\"convoke\"");
        response.headers_mut().insert(PROXY_AUTHENTICATE, challenge);
    }
    response
}

/// Returns a host as hosts are compared.
fn normal(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns a host for a message, with its port unless it is the usual one.
fn named(authority: &Authority, host: &str) -> String {
    match authority.port_u16() {
        Some(port) if port != PORT => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}
