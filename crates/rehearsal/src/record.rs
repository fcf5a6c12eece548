//! The record of a request: everything that was sent, except secrets in headers and addresses.

use std::time::Duration;

use bytes::Bytes;
use convoke_wire::{Kind, ModelCall, Usage};
use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};

/// One request, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its number, from 1.
    pub number: usize,
    /// The time from the start of the server to its arrival.
    pub after: Duration,
    /// The method.
    pub method: String,
    /// The path and query, keys in it redacted; of a request for elsewhere, its whole address.
    pub target: String,
    /// The headers, in order, secrets in them redacted.
    pub headers: Vec<(String, String)>,
    /// The body, to the byte.
    pub body: Bytes,
    /// What it asked for.
    pub kind: Kind,
    /// What it was answered.
    pub answered: Answered,
    /// The status of the answer.
    pub status: u16,
    /// The tokens that the answer reports; `None` if it reports none.
    pub usage: Option<Usage>,
}

impl Recorded {
    /// Returns the call, if it was one of a model.
    pub fn model_call(&self) -> Option<&ModelCall> {
        match &self.kind {
            Kind::ModelCall(call) => Some(call),
            _ => None,
        }
    }

    /// Says whether it calls a model for a turn, and not for an aside.
    pub fn is_turn(&self) -> bool {
        self.model_call().is_some_and(|call| !call.aside)
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum Answered {
    /// An answer of the script.
    Script {
        /// Its index in the script.
        answer: usize,
    },
    /// The default answer.
    Default,
    /// The smallest value of the schema that an aside gave.
    Schema,
    /// An answer of the real endpoint, in a capture of a real run.
    Endpoint,
    /// What the server always answers to this.
    Fixed {
        /// The status.
        status: u16,
    },
}

const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"];

/// Returns the headers in order, with secrets replaced by their length.
pub(crate) fn headers(parts: &Parts) -> Vec<(String, String)> {
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = if is_secret(name.as_str()) {
            format!("[redacted: {} bytes]", value.len())
        } else {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        (name.as_str().to_owned(), value)
    });
    headers.collect()
}

/// By list, and by name for headers that nobody has thought of.
fn is_secret(name: &str) -> bool {
    SECRET_HEADERS.contains(&name)
        || ["token", "secret", "password", "credential"].iter().any(|word| name.contains(word))
}

/// Returns the address, with the value of a `key` in its query replaced by its length.
pub(crate) fn target(parts: &Parts) -> String {
    let text = parts.uri.to_string();
    let Some((path, query)) = text.split_once('?') else {
        return text;
    };
    let fields = query.split('&').map(|field| match field.split_once('=') {
        Some((name, value)) if is_secret(name) || name.ends_with("key") => {
            format!("{name}=[redacted:{}]", value.len())
        }
        _ => field.to_owned(),
    });
    format!("{path}?{}", fields.collect::<Vec<_>>().join("&"))
}
