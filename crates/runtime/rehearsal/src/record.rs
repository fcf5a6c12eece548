//! Recorded requests, without secrets in headers and addresses.

use std::time::Duration;

use bytes::Bytes;
use convoke_protocol::usage::Usage;
use convoke_wire::{AnswerEnd, CREDENTIAL_HEADERS, ModelCall, RequestKind};
use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};

/// One recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The number, from 1.
    pub number: usize,
    /// The time of arrival after the start of the server.
    pub after: Duration,
    pub method: String,
    /// The path and query, with keys redacted; the whole address if another host was requested.
    pub target: String,
    /// The headers, in order, with secrets redacted.
    pub headers: Vec<(String, String)>,
    /// The exact body.
    pub body: Bytes,
    /// The bytes that were sent, where the body is a copy without the fields that identify an account.
    pub sent: Option<Sent>,
    pub kind: RequestKind,
    /// The response.
    pub answered: Answered,
    /// The status of the answer.
    pub status: u16,
    /// The tokens that the answer reports; `None` if it reports none.
    pub usage: Option<Usage>,
    /// Why the model stopped; `None` if the answer does not say.
    pub end: Option<AnswerEnd>,
}

/// The bytes of a request on its way to a model's own endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Their number.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// The places of the fields that are masked in the recorded body.
    pub masked: Vec<String>,
}

impl Recorded {
    /// Returns the model call, if it is one.
    pub fn model_call(&self) -> Option<&ModelCall> {
        match &self.kind {
            RequestKind::ModelCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns whether it is a model call that is not a side request.
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

/// The response to a request.
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
    /// The smallest value of the schema in a side request.
    Schema,
    /// An answer of the real endpoint, in a capture of a real run.
    Endpoint,
    /// A fixed response.
    Fixed { status: u16 },
}

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

/// Returns whether a header is secret, by a list and by words in its name.
fn is_secret(name: &str) -> bool {
    CREDENTIAL_HEADERS.contains(&name)
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
