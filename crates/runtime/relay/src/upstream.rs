//! The endpoint that a relay forwards to.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// The endpoint that a relay forwards to: one host, and the path that base URLs of programs end with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port, as in a URL.
    pub(crate) authority: String,
    /// The path, without a slash at its end.
    pub(crate) path: String,
}

/// A URL that cannot be forwarded to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUpstream {
    /// It is not a URL.
    #[error("not a URL")]
    NotAUrl,
    /// It has a scheme other than http and https.
    #[error("unsupported scheme `{0}`; use https")]
    Scheme(String),
    /// It holds a name or a password.
    #[error("the URL must not contain a name or a password")]
    Credentials,
    /// It would send credentials over the network unencrypted.
    #[error("http is supported for this machine only; use https for `{0}`")]
    Unencrypted(String),
}

impl Upstream {
    /// Parses a base URL. Plain http is allowed for this machine only.
    pub fn parse(url: &str) -> Result<Self, InvalidUpstream> {
        let uri: Uri = url.trim().parse().map_err(|_| InvalidUpstream::NotAUrl)?;
        let scheme = uri.scheme_str().ok_or(InvalidUpstream::NotAUrl)?;
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            other => return Err(InvalidUpstream::Scheme(other.to_owned())),
        };
        let authority = uri.authority().ok_or(InvalidUpstream::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(InvalidUpstream::Credentials);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(InvalidUpstream::NotAUrl);
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path().trim_end_matches('/').to_owned();
        let upstream = Self { is_tls, host, port, authority: authority.to_string(), path };
        if !is_tls && !upstream.is_loopback() {
            return Err(InvalidUpstream::Unencrypted(upstream.host));
        }
        Ok(upstream)
    }

    /// Returns whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_https_or_on_this_machine() {
        for (url, shown) in [
            ("https://api.anthropic.com", "https://api.anthropic.com"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("http://[::1]:1", "http://[::1]:1"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(Upstream::parse(url).unwrap().to_string(), shown);
        }
        let refused = |url: &str| Upstream::parse(url).unwrap_err();
        assert_eq!(refused("http://h/v1"), InvalidUpstream::Unencrypted("h".to_owned()));
        assert_eq!(refused("https://me:pw@h/"), InvalidUpstream::Credentials);
        assert_eq!(refused("ftp://h/"), InvalidUpstream::Scheme("ftp".to_owned()));
        assert_eq!(refused("h"), InvalidUpstream::NotAUrl);
    }
}
