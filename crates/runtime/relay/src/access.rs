//! Access to the relay: only the program that was given the address is forwarded.

use std::io::Read as _;
use std::net::SocketAddr;

use hyper::header::{HOST, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use nix::unistd::Uid;
use uuid::Uuid;

use crate::upstream::Upstream;

/// The address of a relay, and the secret that is part of it.
#[derive(Debug)]
pub(crate) struct Access {
    address: SocketAddr,
    /// `/SECRET/AUTHORITY`.
    prefix: String,
}

impl Access {
    /// Creates an access with a new secret of 122 random bits.
    pub fn new(address: SocketAddr, upstream: &Upstream) -> Self {
        let secret = Uuid::new_v4().simple();
        Self { address, prefix: format!("/{secret}/{}", upstream.authority) }
    }

    /// Returns the secret.
    pub fn secret(&self) -> &str {
        self.prefix.split('/').nth(1).unwrap_or_default()
    }

    /// Returns the base URL that takes the place of the endpoint's own. The endpoint's host is part of its
    /// path, by which some programs tell providers apart.
    pub fn base_url(&self, upstream: &Upstream) -> String {
        format!("http://{}{}{}", self.address, self.prefix, upstream.path)
    }

    /// Returns the path and query to forward; the error is why a request is not forwarded.
    pub fn admit(&self, parts: &Parts) -> Result<PathAndQuery, &'static str> {
        if parts.headers.contains_key(ORIGIN) {
            return Err("requests of web pages are refused");
        }
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        if parts.uri.authority().is_some()
            || host.is_none_or(|host| host != self.address.to_string())
        {
            return Err("the host is not the relay's own");
        }
        let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        let rest = path.strip_prefix(&*self.prefix);
        let rest = rest.ok_or("the path lacks the secret of the relay's address, or its host")?;
        let rest = match rest.bytes().next() {
            None => "/".to_owned(),
            Some(b'/') => rest.to_owned(),
            Some(b'?') => format!("/{rest}"),
            Some(_) => return Err("the relay forwards to one host only"),
        };
        rest.parse().map_err(|_| "the path is invalid")
    }
}

/// Returns whether a connection was opened by this user, if the system reports it.
///
/// A base URL may be in an argument list, which every user of the machine can read.
pub(crate) fn is_of_this_user(peer: SocketAddr, own: SocketAddr) -> bool {
    let (SocketAddr::V4(peer), SocketAddr::V4(own)) = (peer, own) else { return false };
    let mut table = String::new();
    let Ok(file) = std::fs::File::open("/proc/net/tcp") else { return true };
    #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
    let read = file.take(64 << 20).read_to_string(&mut table);
    let address = |ip: u32, port: u16| format!("{:08X}:{port:04X}", ip.swap_bytes());
    let local = address((*peer.ip()).into(), peer.port());
    let remote = address((*own.ip()).into(), own.port());
    let user = table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next() == Some(&*local) && fields.next() == Some(&*remote);
        is_it.then(|| fields.nth(4)?.parse::<u32>().ok()).flatten()
    });
    read.is_err() || user.is_none_or(|user| user == Uid::effective().as_raw())
}
