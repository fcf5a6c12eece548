//! Hosts of a vendor that the server answers for as a proxy, with 404 to everything.
//!
//! A program that asks its vendor for settings before its first request tries again, for seconds, while connections to the
//! vendor are refused. An answer at once costs nothing. Such requests are encrypted, so the server has a certificate of its
//! own, which only the program that is given it trusts.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// The time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The hosts that a server answers for; none until they are named.
#[derive(Default)]
pub(crate) struct VendorHosts(OnceLock<Named>);

struct Named {
    /// `host:port`, as proxies are asked for it.
    authorities: Vec<String>,
    acceptor: TlsAcceptor,
}

/// The certificate of the server could not be made, or the hosts are named already.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate or its key could not be made.
    #[error("cannot make a certificate")]
    Made(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot use the certificate")]
    Used(#[from] rustls::Error),
    /// A server answers for one list of hosts.
    #[error("the hosts are named already")]
    Named,
}

impl VendorHosts {
    /// Names the hosts, and returns the certificate in PEM with which a program trusts the server in their place.
    pub fn name(&self, hosts: &[&str]) -> Result<String, CertificateError> {
        let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        let named = Named {
            authorities: hosts.iter().map(|host| format!("{host}:443")).collect(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        self.0.set(named).map_err(|_| CertificateError::Named)?;
        Ok(made.cert.pem())
    }

    /// Returns whether the server answers for an authority.
    pub fn include(&self, authority: &str) -> bool {
        self.0.get().is_some_and(|named| named.authorities.iter().any(|it| it == authority))
    }

    /// Answers the requests of a tunnel. A program that does not trust the certificate ends it, as if it had been refused.
    pub async fn answer(&self, tunnel: Upgraded) {
        let Some(named) = self.0.get() else { return };
        let handshake = named.acceptor.accept(TokioIo::new(tunnel));
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, handshake).await else { return };
        let connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(
            TokioIo::new(stream),
            service_fn(async |_| Ok::<_, Infallible>(not_found())),
        );
        // A broken connection is not an error here.
        let _ = connection.await;
    }
}

fn not_found() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

impl fmt::Debug for VendorHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorities = self.0.get().map_or(&[][..], |named| &named.authorities);
        f.debug_list().entries(authorities).finish()
    }
}
