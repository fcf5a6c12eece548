//! The user's own proxy, between the relay and the endpoint.

use std::ffi::OsString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;

use crate::upstream::Upstream;

/// A proxy.
pub(crate) struct Proxy {
    pub host: String,
    pub port: u16,
    /// The value of its `proxy-authorization` header.
    pub authorization: Option<String>,
}

/// Returns the proxy for an endpoint; the error names the variable that holds no usable one.
pub(crate) fn proxy_for(
    env: &[(OsString, OsString)],
    upstream: &Upstream,
) -> Result<Option<Proxy>, &'static str> {
    if upstream.is_loopback() || is_excepted(env, &upstream.host) {
        return Ok(None);
    }
    let scheme: [&'static str; 2] =
        if upstream.is_tls { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
    let mut names = scheme.into_iter().chain(["all_proxy", "ALL_PROXY"]);
    let named = names.find_map(|name| Some((name, value(env, name)?)));
    let Some((name, address)) = named else { return Ok(None) };
    parse(address).map(Some).ok_or(name)
}

fn value<'e>(env: &'e [(OsString, OsString)], name: &str) -> Option<&'e str> {
    let found = env.iter().rev().find(|(key, _)| key == name)?;
    found.1.to_str().map(str::trim).filter(|value| !value.is_empty())
}

fn parse(address: &str) -> Option<Proxy> {
    let address =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let uri: Uri = address.parse().ok()?;
    let authority = uri.authority()?;
    let credentials = authority.as_str().rsplit_once('@').map(|(credentials, _)| credentials);
    (uri.scheme_str() == Some("http")).then(|| Proxy {
        host: authority.host().to_owned(),
        port: authority.port_u16().unwrap_or(80),
        authorization: credentials.map(|it| format!("Basic {}", STANDARD.encode(it))),
    })
}

fn is_excepted(env: &[(OsString, OsString)], host: &str) -> bool {
    let lists = ["no_proxy", "NO_PROXY"].into_iter().filter_map(|name| value(env, name));
    lists.flat_map(|list| list.split(',')).map(str::trim).any(|entry| {
        let suffix = entry.trim_start_matches('*').trim_start_matches('.');
        let ends =
            || host.strip_suffix(suffix).is_some_and(|it| it.is_empty() || it.ends_with('.'));
        entry == "*" || (!suffix.is_empty() && ends())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_proxy_is_used_unless_the_host_is_excepted() {
        let env = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let found = |pairs: &[(&str, &str)]| {
            let upstream = Upstream::parse("https://api.example.com").unwrap();
            proxy_for(&env(pairs), &upstream).map(|it| it.map(|it| (it.host, it.port)))
        };
        let proxy = |host: &str, port| Ok(Some((host.to_owned(), port)));
        assert_eq!(found(&[("HTTPS_PROXY", "http://u:p@proxy:3128")]), proxy("proxy", 3128));
        assert_eq!(found(&[("all_proxy", "proxy:1")]), proxy("proxy", 1));
        assert_eq!(found(&[("HTTP_PROXY", "http://proxy:3128")]), Ok(None));
        assert_eq!(
            found(&[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "x, .example.com")]),
            Ok(None)
        );
        assert_eq!(
            found(&[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "ample.com")]),
            proxy("p", 80)
        );
        assert_eq!(found(&[("HTTPS_PROXY", "socks5://p")]), Err("HTTPS_PROXY"));
    }
}
