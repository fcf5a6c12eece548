//! Connections to the endpoint: directly or through the user's proxy, encrypted unless it is on this
//! machine.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::proxy::{Proxy, proxy_for};
use crate::upstream::Upstream;

/// The time until a connection is accepted and encrypted.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of a proxy's answer.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Variables that name certificates which the user's programs trust beside the system's.
const EXTRA_ROOTS: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"];

/// Opens connections to one endpoint.
pub(crate) struct Connector {
    upstream: Upstream,
    proxy: Option<Proxy>,
    tls: Option<TlsConnector>,
}

/// A reason why no connection was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot reach {0}: {1}")]
    Connect(String, io::Error),
    #[error("{0} did not accept a connection within 30 s")]
    TimedOut(String),
    #[error("the proxy refused a connection to {0}: {1}")]
    Proxy(String, String),
    #[error("cannot communicate with {0}: {1}")]
    Http(String, hyper::Error),
}

impl Connector {
    /// Prepares connections; the error says what is wrong with the environment.
    pub fn new(upstream: Upstream, env: &[(OsString, OsString)]) -> Result<Self, String> {
        let proxy = proxy_for(env, &upstream).map_err(|name| {
            format!("the variable `{name}` does not hold the address of an HTTP proxy")
        })?;
        let tls = upstream.is_tls.then(|| tls(env)).transpose()?;
        Ok(Self { upstream, proxy, tls })
    }

    /// Opens a connection.
    pub async fn open<B>(&self) -> Result<Connection<B>, ConnectError>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.connect());
        opened.await.map_err(|_| ConnectError::TimedOut(self.upstream.authority.clone()))?
    }

    async fn connect<B>(&self) -> Result<Connection<B>, ConnectError>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Upstream { host, port, authority, .. } = &self.upstream;
        let failed = |error| ConnectError::Connect(authority.clone(), error);
        let (to_host, to_port) =
            self.proxy.as_ref().map_or((&**host, *port), |proxy| (&*proxy.host, proxy.port));
        let mut stream = TcpStream::connect((to_host, to_port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if let Some(proxy) = &self.proxy {
            tunnel(&mut stream, proxy, host, *port)
                .await
                .map_err(|error| ConnectError::Proxy(authority.clone(), error.to_string()))?;
        }
        match &self.tls {
            None => self.handshake(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| failed(io::Error::other(error)))?;
                self.handshake(tls.connect(name, stream).await.map_err(failed)?).await
            }
        }
    }

    async fn handshake<S, B>(&self, stream: S) -> Result<Connection<B>, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |error| ConnectError::Http(self.upstream.authority.clone(), error);
        let builder = {
            let mut builder = http1::Builder::new();
            builder.preserve_header_case(true);
            builder
        };
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // The request that it carries reports how it ends.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, driver })
    }
}

/// A connection to the endpoint. Dropping it ends it at once, and the request that it carries.
pub(crate) struct Connection<B> {
    pub sender: SendRequest<B>,
    driver: JoinHandle<()>,
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn tls(env: &[(OsString, OsString)]) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots: Vec<CertificateDer<'static>> = Vec::new();
    for name in EXTRA_ROOTS {
        let file = env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value);
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            let certificates = CertificateDer::pem_file_iter(file)
                .map_err(|error| format!("cannot read the certificates of `{name}`: {error}"))?;
            roots.extend(certificates.flatten());
        }
    }
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider))
        .map_err(|error| format!("cannot use the system's certificates: {error}"))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Opens a connection through a proxy.
pub(crate) async fn tunnel(
    stream: &mut TcpStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> io::Result<()> {
    let authorization = proxy.authorization.as_ref();
    let authorization = authorization.map(|it| format!("Proxy-Authorization: {it}\r\n"));
    let authorization = authorization.unwrap_or_default();
    let head =
        format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the endpoint.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_HEAD_BYTES {
            return Err(io::Error::other("its response head is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(line.to_owned())),
    }
}
