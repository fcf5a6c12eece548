//! Access control: any program of this machine can connect, and so can a web page in a browser. Only requests with the
//! secret of the server's address are answered and recorded.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{CONTENT_TYPE, HOST, ORIGIN, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode, Uri};
use uuid::Uuid;

/// The user name of the proxy address; the secret is the password.
const PROXY_USER: &str = "convoke";

/// Content types that a web page may send anywhere without a preflight request.
const FORM_TYPES: [&str; 3] =
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// The address of a server, and the secret that is part of it.
#[derive(Debug)]
pub(crate) struct Access {
    address: SocketAddr,
    secret: String,
}

/// The reason why a request is refused unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("requests of web pages are refused")]
    Origin,
    #[error("the host is not the server's own")]
    Host,
    #[error("this content-type is refused; send application/json")]
    ContentType,
    #[error("the path lacks the secret of the server's address")]
    Secret,
    #[error("the proxy needs the secret of its address")]
    ProxySecret,
}

impl Refused {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Origin | Self::Host => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Secret => StatusCode::NOT_FOUND,
            Self::ProxySecret => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        }
    }
}

impl Access {
    /// Creates an access with a new secret of 122 random bits.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, secret: Uuid::new_v4().simple().to_string() }
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the base address, without a slash at its end.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/{}", self.address, self.secret)
    }

    /// Returns the address for use as a proxy.
    pub(crate) fn proxy_url(&self) -> String {
        format!("http://{PROXY_USER}:{}@{}", self.secret, self.address)
    }

    /// Checks a request, and removes the secret from its path.
    pub(crate) fn admit(&self, parts: &mut Parts) -> Result<(), Refused> {
        if parts.headers.contains_key(ORIGIN) {
            return Err(Refused::Origin);
        }
        if self.elsewhere(&parts.uri).is_some() {
            return self.has_proxy_secret(parts).then_some(()).ok_or(Refused::ProxySecret);
        }
        if !self.is_own_host(parts) {
            return Err(Refused::Host);
        }
        if may_be_a_form(parts) {
            return Err(Refused::ContentType);
        }
        parts.uri = self.without_secret(&parts.uri).ok_or(Refused::Secret)?;
        Ok(())
    }

    /// Returns the requested host, if this server is used as a proxy.
    pub(crate) fn elsewhere<'u>(&self, uri: &'u Uri) -> Option<&'u str> {
        let authority = uri.authority()?.as_str();
        (authority != self.address.to_string()).then_some(authority)
    }

    fn is_own_host(&self, parts: &Parts) -> bool {
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let port = self.address.port();
        host.is_some_and(|host| {
            host == self.address.to_string() || host == format!("localhost:{port}")
        })
    }

    fn without_secret(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path_and_query().map_or("", PathAndQuery::as_str);
        let rest = path.strip_prefix('/')?.strip_prefix(&self.secret)?;
        match rest.bytes().next() {
            None => Some(Uri::from_static("/")),
            Some(b'/') => rest.parse().ok(),
            Some(b'?') => format!("/{rest}").parse().ok(),
            Some(_) => None,
        }
    }

    fn has_proxy_secret(&self, parts: &Parts) -> bool {
        let given = parts.headers.get(PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, value)| {
            let expected = STANDARD.encode(format!("{PROXY_USER}:{}", self.secret));
            scheme.eq_ignore_ascii_case("basic") && value.trim() == expected
        })
    }
}

fn may_be_a_form(parts: &Parts) -> bool {
    let mut types = parts.headers.get_all(CONTENT_TYPE).iter().peekable();
    let is_untyped = types.peek().is_none() && parts.method == Method::POST;
    is_untyped
        || types.any(|value| {
            let essence = value.as_bytes().split(|&b| b == b';').next().unwrap_or_default();
            let essence = essence.trim_ascii();
            FORM_TYPES.iter().any(|form| essence.eq_ignore_ascii_case(form.as_bytes()))
        })
}
