//! The stored parts of a request's head: the allowed headers, and the target without secrets.

use convoke_wire::CREDENTIAL_HEADERS;
use hyper::HeaderMap;
use hyper::header::COOKIE;
use hyper::http::uri::PathAndQuery;

/// The headers that are stored. Any other may carry a credential or an identity: users configure headers
/// of their own.
const STORED_HEADERS: [&str; 22] = [
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "content-encoding",
    "content-length",
    "content-type",
    "openai-beta",
    "originator",
    "transfer-encoding",
    "user-agent",
    "version",
    "x-app",
    "x-goog-api-client",
    "x-stainless-arch",
    "x-stainless-helper-method",
    "x-stainless-lang",
    "x-stainless-os",
    "x-stainless-package-version",
    "x-stainless-runtime",
    "x-stainless-runtime-version",
];

/// Returns the headers that are stored, in order.
pub(crate) fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let stored = headers.iter().filter(|(name, _)| STORED_HEADERS.contains(&name.as_str()));
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    stored.map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
}

/// Returns the secrets of a request's head.
pub(crate) fn credentials(headers: &HeaderMap, target: &PathAndQuery) -> Vec<String> {
    let given = headers.iter().filter(|(name, _)| {
        CREDENTIAL_HEADERS.contains(&name.as_str()) || is_users_own(name.as_str())
    });
    let secrets = given.flat_map(|(name, value)| {
        let value = value.to_str().unwrap_or_default();
        let cookies = value.split(';').filter_map(|cookie| Some(cookie.split_once('=')?.1));
        // A scheme such as `Bearer` precedes the secret.
        let secret = value.rsplit(' ').next().filter(|_| name != COOKIE);
        secret
            .into_iter()
            .chain(cookies.filter(|_| name == COOKIE))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    let fields = target.query().into_iter().flat_map(|query| query.split('&'));
    let hidden = fields.filter_map(|field| field.split_once('='));
    let hidden = hidden.filter(|(name, _)| !is_plain(name)).map(|(_, value)| value.to_owned());
    secrets.chain(hidden).filter(|secret| secret.len() >= 8).collect()
}

/// Returns whether a header is one that users configure, and not one that programs send of themselves.
fn is_users_own(name: &str) -> bool {
    const OF_PROGRAMS: [&str; 26] = [
        "accept",
        "account",
        "agent",
        "app",
        "beta",
        "cache",
        "client",
        "connection",
        "content",
        "date",
        "encoding",
        "expect",
        "goog",
        "host",
        "id",
        "language",
        "metadata",
        "organization",
        "origin",
        "project",
        "request",
        "session",
        "stainless",
        "timeout",
        "trace",
        "version",
    ];
    let mut words = name.split(['-', '_']);
    !STORED_HEADERS.contains(&name)
        && !CREDENTIAL_HEADERS.contains(&name)
        && !words.any(|word| OF_PROGRAMS.iter().any(|it| word.starts_with(it)))
}

/// The fields of a query that are stored.
fn is_plain(name: &str) -> bool {
    ["alt", "beta", "api-version", "client_version", "stream"].contains(&name)
}

/// Returns the path and query, with the values of unknown fields replaced.
pub(crate) fn target(target: &PathAndQuery) -> String {
    let Some(query) = target.query() else { return target.path().to_owned() };
    let fields = query.split('&').map(|field| match field.split_once('=') {
        Some((name, _)) if !is_plain(name) => format!("{name}={}", convoke_wire::mask::MASKED),
        _ => field.to_owned(),
    });
    format!("{}?{}", target.path(), fields.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_stored_without_its_secrets() {
        let mut given = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer sk-ant-oat01-secret"),
            ("content-type", "application/json"),
            ("chatgpt-account-id", "account"),
            ("x-my-own", "secret-of-mine"),
            ("cookie", "a=first-cookie; b=second-cookie"),
            ("x-client-request-id", "0123456789"),
        ] {
            given.insert(name, value.parse().unwrap());
        }
        assert_eq!(headers(&given), [("content-type".to_owned(), "application/json".to_owned())]);
        let path: PathAndQuery = "/v1/x?alt=sse&key=AIzaSecret1".parse().unwrap();
        assert_eq!(target(&path), "/v1/x?alt=sse&key=[masked]");
        let secrets = [
            "sk-ant-oat01-secret",
            "secret-of-mine",
            "first-cookie",
            "second-cookie",
            "AIzaSecret1",
        ];
        assert_eq!(credentials(&given, &path), secrets);
    }
}
