//! The endpoint of a model: address, wire format and proxies.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;

use convoke_thread::config::Wire;
use reqwest::{NoProxy, Proxy, Url};

/// The endpoint of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    base: Url,
    /// The wire format.
    pub wire: Wire,
}

/// An invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL.
    #[error("`base-url` is not an address: {0}; write it like https://api.example.com/v1")]
    NotAnAddress(String),
    /// The scheme is not supported.
    #[error("unsupported scheme `{0}` in `base-url`; use http or https")]
    Scheme(String),
    /// The address contains credentials.
    #[error(
        "`base-url` contains credentials; put the key into a variable and name it in `key-env`"
    )]
    Credentials,
    /// A proxy variable does not contain a valid address.
    #[error("the variable `{0}` does not contain the address of a proxy")]
    Proxy(&'static str),
}

impl Endpoint {
    /// Parses an address.
    pub fn new(base_url: &str, wire: Wire) -> Result<Self, EndpointError> {
        let base = Url::parse(base_url.trim())
            .map_err(|error| EndpointError::NotAnAddress(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(EndpointError::Scheme(base.scheme().to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        if base.host_str().is_none_or(str::is_empty) {
            return Err(EndpointError::NotAnAddress("it has no host".to_owned()));
        }
        Ok(Self { base, wire })
    }

    /// Returns the address of a path below the base. The query of the base is kept.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let below = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&below);
        url
    }

    /// Returns whether another endpoint is on the same server, which may get the same key.
    pub fn is_of_same_server(&self, other: &Self) -> bool {
        self.base.origin() == other.base.origin()
    }

    /// Returns whether the endpoint is on this machine, for which no proxy is used.
    pub fn is_loopback(&self) -> bool {
        let host = self.base.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for Endpoint {
    /// Formats the address without its query, which may contain a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.base.clone();
        shown.set_query(None);
        f.write_str(shown.as_str().trim_end_matches('/'))
    }
}

/// The proxies of an environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Named>,
    https: Option<Named>,
    all: Option<Named>,
    except: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Named {
    variable: &'static str,
    address: String,
}

impl fmt::Debug for Proxies {
    /// Hides the addresses, which may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [&self.http, &self.https, &self.all];
        let names = named.iter().filter_map(|it| it.as_ref().map(|it| it.variable));
        f.debug_tuple("Proxies").field(&names.collect::<Vec<_>>()).finish()
    }
}

impl Proxies {
    /// Reads the standard variables. Lower-case names take precedence, and upper-case `HTTP_PROXY` is ignored
    /// in a CGI program, where a client could set it.
    pub fn from_env(env: &[(OsString, OsString)]) -> Self {
        let value = |name: &str| {
            let found = env.iter().rev().find(|(key, _)| key == name);
            let value = found.and_then(|(_, value)| value.to_str()).map(str::trim);
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let named = |variables: &[&'static str]| {
            let mut found = variables
                .iter()
                .filter_map(|&variable| Some(Named { variable, address: value(variable)? }));
            found.next()
        };
        let is_cgi = value("REQUEST_METHOD").is_some();
        let http: &[&'static str] =
            if is_cgi { &["http_proxy"] } else { &["http_proxy", "HTTP_PROXY"] };
        Self {
            http: named(http),
            https: named(&["https_proxy", "HTTPS_PROXY"]),
            all: named(&["all_proxy", "ALL_PROXY"]),
            except: value("no_proxy").or_else(|| value("NO_PROXY")),
        }
    }

    /// Returns the proxies for an endpoint, most specific first.
    pub(crate) fn towards(&self, endpoint: &Endpoint) -> Result<Vec<Proxy>, EndpointError> {
        if endpoint.is_loopback() {
            return Ok(Vec::new());
        }
        let except = self.except.as_deref().and_then(NoProxy::from_string);
        let make = |named: &Option<Named>, build: fn(&str) -> reqwest::Result<Proxy>| {
            let Some(Named { variable, address }) = named else { return Ok(None) };
            // Addresses without a scheme are common in these variables.
            let address =
                if address.contains("://") { address.clone() } else { format!("http://{address}") };
            let proxy = build(&address).map_err(|_| EndpointError::Proxy(variable))?;
            Ok(Some(proxy.no_proxy(except.clone())))
        };
        let found = [
            make(&self.http, |address| Proxy::http(address))?,
            make(&self.https, |address| Proxy::https(address))?,
            make(&self.all, |address| Proxy::all(address))?,
        ];
        Ok(found.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_base_whatever_its_end() {
        for (base, url) in [
            ("http://h/v1", "http://h/v1/responses"),
            ("http://h/v1/", "http://h/v1/responses"),
            ("http://h", "http://h/responses"),
            ("https://h/o?api-version=1", "https://h/o/responses?api-version=1"),
        ] {
            let endpoint = Endpoint::new(base, Wire::Responses).unwrap();
            assert_eq!(endpoint.url("/responses").as_str(), url);
        }
    }

    #[test]
    fn an_address_with_a_secret_is_refused_and_a_query_is_not_shown() {
        let refused = Endpoint::new("https://me:hunter2@h/v1", Wire::Chat).unwrap_err();
        assert!(!refused.to_string().contains("hunter2"));
        let endpoint = Endpoint::new("https://h/v1?key=hunter2", Wire::Chat).unwrap();
        assert_eq!(endpoint.to_string(), "https://h/v1");
        assert!(Endpoint::new("ftp://h", Wire::Chat).is_err());
        assert!(Endpoint::new("h:1", Wire::Chat).is_err());
        assert!(Endpoint::new("", Wire::Chat).is_err());
    }

    #[test]
    fn the_way_to_this_machine_has_no_proxy() {
        let env = vec![("ALL_PROXY".into(), "proxy.example:3128".into())];
        let proxies = Proxies::from_env(&env);
        for (base, count) in [
            ("http://127.0.0.1:1/v1", 0),
            ("http://[::1]:1/v1", 0),
            ("http://LOCALHOST/v1", 0),
            ("http://model.example/v1", 1),
        ] {
            let endpoint = Endpoint::new(base, Wire::Chat).unwrap();
            assert_eq!(proxies.towards(&endpoint).unwrap().len(), count, "{base}");
        }
    }

    #[test]
    fn a_broken_proxy_is_named_by_its_variable_alone() {
        let env = vec![("HTTPS_PROXY".into(), "http://me:hunter2@[broken".into())];
        let proxies = Proxies::from_env(&env);
        let endpoint = Endpoint::new("https://h/v1", Wire::Chat).unwrap();
        assert_eq!(proxies.towards(&endpoint).unwrap_err(), EndpointError::Proxy("HTTPS_PROXY"));
        assert!(!format!("{proxies:?}").contains("hunter2"));
    }
}
