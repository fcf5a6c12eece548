//! The guard: decides which requests are answered.
//!
//! Every request must name this server in its `Host` header, or a page of another domain could reach it (DNS
//! rebinding). A request of a web page must come from this server's own origin. Every path below `/api/` needs the
//! token. No response has a CORS header.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::App;
use crate::error::ApiError;

/// The time in which a response must begin.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// The content security policy: only this server's own scripts, styles and images.
pub const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// The secret that a client of the API must know.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a token of 244 random bits.
    pub fn generate() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// Parses a token that was generated before; `None` if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 64 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a text is the token, in constant time.
    fn is(&self, given: &str) -> bool {
        Sha256::digest(given) == Sha256::digest(&self.0)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The names that a server accepts, and its token.
#[derive(Debug)]
pub struct Guard {
    /// The accepted values of `Host`, in lower case.
    hosts: Vec<String>,
    /// The accepted values of `Origin`, in lower case.
    origins: Vec<String>,
    token: Token,
}

impl Guard {
    /// Creates the guard of a server on a port. Each further name is accepted exactly as it is written, and with the
    /// port of the server if it has none.
    pub fn new(port: u16, allowed_hosts: Vec<String>, token: Token) -> Self {
        let mut hosts: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")).into();
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        for name in allowed_hosts.into_iter().map(|name| name.to_ascii_lowercase()) {
            let with_port = format!("{name}:{port}");
            for host in [name, with_port] {
                // A forwarding proxy may speak TLS.
                origins.extend([format!("http://{host}"), format!("https://{host}")]);
                hosts.push(host);
            }
        }
        Self { hosts, origins, token }
    }

    /// Returns the token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Checks a request. Fails with the refusal.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let host = only(headers, &HOST)
            .ok_or_else(|| ApiError::forbidden("exactly one Host header is required"))?;
        // An absolute target would override the header.
        if request.uri().authority().is_some() || !is_one_of(&self.hosts, host) {
            return Err(ApiError::forbidden(
                "this server does not answer for that host; `--allow-host NAME` allows a name",
            ));
        }
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN).unwrap_or("null");
            if !is_one_of(&self.origins, origin) {
                return Err(ApiError::forbidden("cross-origin requests are refused"));
            }
        }
        if !request.uri().path().starts_with("/api/") {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            return if is_read {
                Ok(())
            } else {
                Err(ApiError::forbidden("this path accepts no actions"))
            };
        }
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(ApiError::forbidden("cross-origin requests are refused"));
        }
        let given = only(headers, &AUTHORIZATION).and_then(|given| given.strip_prefix("Bearer "));
        if !given.is_some_and(|given| self.token.is(given)) {
            return Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; it follows the # in the printed address",
            ));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let kind = only(headers, &CONTENT_TYPE).unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            // Any page can send a form or plain text without a preflight request, but not JSON.
            if !kind.eq_ignore_ascii_case("application/json") {
                return Err(ApiError::forbidden("the body must be application/json"));
            }
        }
        Ok(())
    }
}

/// Returns the value of a header that occurs once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

fn is_one_of(allowed: &[String], given: &str) -> bool {
    allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(given))
}

/// Checks a request before it is routed, bounds its time, and sets the headers of every response.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match app.guard.check(&request) {
        Ok(()) => match tokio::time::timeout(RESPONSE_TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ApiError::new(StatusCode::REQUEST_TIMEOUT, "the request took too long")
                .into_response(),
        },
        Err(refused) => refused.into_response(),
    };
    let fixed = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
