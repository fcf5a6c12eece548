//! Errors of requests, and whether a retry can help.

use std::time::Duration;

use convoke_protocol::verdict::{Failure, FailureReason};
use serde_json::Value;

use super::retry::MAX_ASKED_WAIT;
use crate::wire::dialect::CHAT;

/// The maximum length of a server's message.
const MESSAGE_BYTES: usize = 1000;

/// The start of the message for status 404.
const NOT_FOUND: &str = "not found; check `base-url` and `wire`";

/// Returns whether a turn on the Responses wire failed in the way that it fails with a Chat Completions server.
pub fn may_speak_chat(failure: &Failure) -> bool {
    let named = format!("--wire {CHAT}");
    failure.reason == FailureReason::Request
        && (failure.message.contains(NOT_FOUND)
            || failure.message.contains("(status 405")
            || failure.message.contains(&named))
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server responded with an error status.
    #[error("{message} (status {status}{})", asked(*.after))]
    Status {
        /// The HTTP status.
        status: u16,
        reason: FailureReason,
        /// The server's message.
        message: String,
        /// The wait that the server asks for.
        after: Option<Duration>,
    },
    /// The stream contains an error event.
    #[error("{message}")]
    Reported {
        reason: FailureReason,
        /// The server's message.
        message: String,
    },
    /// An event has an invalid format; a retry would not help.
    #[error("the model's server does not support this wire format: {0}")]
    Shape(String),
    /// The response exceeds a limit; a retry would not help.
    #[error("the response of the model's server exceeds a limit: {0}")]
    OverLimit(String),
    /// The response is complete but unusable.
    #[error("{0}")]
    Useless(&'static str),
    /// The server cannot be reached.
    #[error("cannot reach the model's server: {0}")]
    Connect(String),
    /// The connection was lost before the response began.
    #[error("the connection to the model's server was lost: {0}")]
    Lost(String),
    /// The server's certificate is invalid.
    #[error("the model's server cannot be trusted: {0}")]
    Tls(String),
    /// The stream ended or broke before its terminal event.
    #[error("the response stream ended early: {0}")]
    Cut(String),
    /// No data arrived for too long.
    #[error("the model's server sent nothing for {} s", .0.as_secs_f32())]
    Idle(Duration),
    /// The request exceeded its time limit.
    #[error("the response took longer than {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The response exceeds its size limit.
    #[error("the response is longer than {0} bytes")]
    Flood(u64),
}

impl CallError {
    /// Parses an error response.
    pub(super) fn from_answer(status: u16, body: &str, after: Option<Duration>) -> Self {
        let error = ErrorObject::read(body);
        let reason = error.reason_with(status);
        let message = match error.message.trim() {
            "" => "the model's server gave no reason".to_owned(),
            message => shortened(message),
        };
        let message = match (status, reason) {
            // More often caused by a wrong address than by the server.
            (404, FailureReason::Request) => {
                format!("{NOT_FOUND}: {message}")
            }
            _ => message,
        };
        Self::Status { status, reason, message, after }
    }

    /// Parses an error event of a stream.
    pub(crate) fn from_event(error: &Value) -> Self {
        let error = ErrorObject::from_value(error);
        let message = match error.message.trim() {
            "" => "the model's server reported a failure".to_owned(),
            message => shortened(message),
        };
        let reason = match error.status {
            Some(status) => error.reason_with(status),
            None => error.reason().unwrap_or(FailureReason::Server),
        };
        Self::Reported { reason, message }
    }

    /// Returns the kind of failure.
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::Status { reason, .. } | Self::Reported { reason, .. } => *reason,
            Self::Connect(_) | Self::Tls(_) => FailureReason::Unreachable,
            Self::Lost(_) | Self::Idle(_) | Self::TimedOut(_) => FailureReason::Network,
            Self::Shape(_) => FailureReason::Server,
            Self::Useless(_) | Self::Cut(_) => FailureReason::Incomplete,
            Self::Flood(_) | Self::OverLimit(_) => FailureReason::Flood,
        }
    }

    /// Returns whether the request failed before any part of it was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Tls(_))
    }

    /// Returns the HTTP status, if the server responded with an error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the wait that the server asks for.
    pub fn asked_wait(&self) -> Option<Duration> {
        match self {
            Self::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns whether a retry can succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status { after: Some(after), .. } if *after > MAX_ASKED_WAIT => false,
            // The status decides; the server's message can only make a failure final.
            Self::Status { status, reason, .. } => match status {
                408 | 409 | 425 => true,
                429 => *reason == FailureReason::RateLimit,
                500.. => *reason == FailureReason::Server,
                _ => false,
            },
            Self::Reported { reason, .. } => {
                matches!(reason, FailureReason::Server | FailureReason::RateLimit)
            }
            Self::Connect(_) | Self::Lost(_) | Self::Cut(_) | Self::Idle(_) => true,
            Self::Shape(_)
            | Self::OverLimit(_)
            | Self::Useless(_)
            | Self::Tls(_)
            | Self::TimedOut(_)
            | Self::Flood(_) => false,
        }
    }

    /// Returns the error with changed messages, for example without secrets.
    #[must_use]
    pub(super) fn with_message(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Status { status, reason, message, after } => {
                Self::Status { status, reason, message: change(&message), after }
            }
            Self::Reported { reason, message } => {
                Self::Reported { reason, message: change(&message) }
            }
            Self::Shape(words) => Self::Shape(change(&words)),
            Self::OverLimit(words) => Self::OverLimit(change(&words)),
            Self::Connect(words) => Self::Connect(change(&words)),
            Self::Lost(words) => Self::Lost(change(&words)),
            Self::Tls(words) => Self::Tls(change(&words)),
            Self::Cut(words) => Self::Cut(change(&words)),
            other => other,
        }
    }
}

/// An error object, in the forms that servers use.
#[derive(Default)]
struct ErrorObject {
    message: String,
    /// `code` and `type`, which servers use interchangeably.
    words: String,
    /// The status, if `code` is one. A stream has no other status.
    status: Option<u16>,
}

impl ErrorObject {
    fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => {
                let error = value.get("error").filter(|error| !error.is_null());
                Self::from_value(error.unwrap_or(&value))
            }
            // The HTML page of a gateway is not a useful message.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: body.to_owned(), ..Self::default() },
        }
    }

    fn from_value(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = match error {
            Value::String(message) => message.as_str(),
            _ => ["message", "detail", "msg"]
                .into_iter()
                .map(text)
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
        };
        let words = format!("{} {}", text("code"), text("type"));
        let status = error.get("code").and_then(Value::as_u64);
        let status = status.and_then(|code| u16::try_from(code).ok());
        Self {
            message: message.to_owned(),
            words: words.to_ascii_lowercase(),
            status: status.filter(|status| (400..=599).contains(status)),
        }
    }

    /// Returns the reason for a status. The message counts only if the status is ambiguous.
    fn reason_with(&self, status: u16) -> FailureReason {
        let (own, open): (_, &[FailureReason]) = match status {
            401 => (None, &[]),
            429 => (self.coded(), &[FailureReason::Budget]),
            400..=499 => (self.reason(), &OF_THE_REQUEST),
            500 => (self.reason(), &[FailureReason::ContextFull, FailureReason::Budget]),
            // A busy gateway that mentions tokens means its rate limits.
            _ => (self.coded(), &[FailureReason::ContextFull, FailureReason::Budget]),
        };
        match own.filter(|own| open.contains(own)) {
            Some(own) => own,
            None if status == 404 && self.mentions("model") => FailureReason::Model,
            // A valid key may lack permission, and the path may not exist.
            None if status == 403 || status == 404 => FailureReason::Request,
            None => FailureReason::from_status(status),
        }
    }

    /// Returns the reason from the codes, else from the message.
    fn reason(&self) -> Option<FailureReason> {
        let is_too_long = ["context length", "context window", "context size", "too many tokens"]
            .iter()
            .any(|words| self.mentions(words));
        match self.coded() {
            Some(reason) => Some(reason),
            None if is_too_long => Some(FailureReason::ContextFull),
            None if self.words.contains("server_error") => Some(FailureReason::Server),
            None => None,
        }
    }

    /// Returns the reason from the codes, if they are unambiguous.
    fn coded(&self) -> Option<FailureReason> {
        let has = |word: &str| self.words.contains(word);
        if has("context_length_exceeded") || has("exceed_context_size") {
            Some(FailureReason::ContextFull)
        } else if has("insufficient_quota") || has("usage_not_included") {
            Some(FailureReason::Budget)
        } else if has("rate_limit") {
            Some(FailureReason::RateLimit)
        } else if has("invalid_api_key") || has("authentication") {
            Some(FailureReason::Auth)
        } else if has("model_not_found") {
            Some(FailureReason::Model)
        } else if has("invalid_prompt") {
            Some(FailureReason::Request)
        } else if has("overloaded") {
            Some(FailureReason::Server)
        } else {
            None
        }
    }

    fn mentions(&self, words: &str) -> bool {
        self.message.to_ascii_lowercase().contains(words)
    }
}

/// The reasons of a rejected request.
const OF_THE_REQUEST: [FailureReason; 4] =
    [FailureReason::ContextFull, FailureReason::Budget, FailureReason::Auth, FailureReason::Model];

/// Formats the wait that the server asks for.
fn asked(after: Option<Duration>) -> String {
    match after {
        None | Some(Duration::ZERO) => String::new(),
        Some(after) if after > MAX_ASKED_WAIT => format!(
            "; it asks to wait {} s, but the longest wait is {} s",
            after.as_secs_f32(),
            MAX_ASKED_WAIT.as_secs()
        ),
        Some(after) => format!("; it asks to wait {} s", after.as_secs_f32()),
    }
}

fn shortened(message: &str) -> String {
    let message = message.trim();
    if message.len() <= MESSAGE_BYTES {
        return message.to_owned();
    }
    format!("{}…", &message[..message.floor_char_boundary(MESSAGE_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_distinguished_by_their_status_and_then_by_their_words() {
        let too_many =
            r#"{"error":{"message":"Too many tokens, please wait before trying again."}}"#;
        let cases = [
            (
                401,
                r#"{"error":{"message":"no","code":"invalid_api_key"}}"#,
                FailureReason::Auth,
                false,
            ),
            (
                401,
                r#"{"error":{"message":"no","type":"server_error"}}"#,
                FailureReason::Auth,
                false,
            ),
            (403, "", FailureReason::Request, false),
            (403, r#"{"error":{"code":"invalid_api_key"}}"#, FailureReason::Auth, false),
            (400, r#"{"error":{"message":"bad"}}"#, FailureReason::Request, false),
            (
                400,
                r#"{"error":{"message":"hm","type":"server_error"}}"#,
                FailureReason::Request,
                false,
            ),
            (400, r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailureReason::Request, false),
            (400, r#"{"error":{"type":"overloaded_error"}}"#, FailureReason::Request, false),
            (400, too_many, FailureReason::ContextFull, false),
            (404, r#"{"error":"no such model"}"#, FailureReason::Model, false),
            (404, "404 page not found", FailureReason::Request, false),
            (404, "", FailureReason::Request, false),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailureReason::RateLimit, true),
            (429, too_many, FailureReason::RateLimit, true),
            (
                429,
                r#"{"error":{"code":"context_length_exceeded"}}"#,
                FailureReason::RateLimit,
                true,
            ),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, FailureReason::Budget, false),
            (402, "", FailureReason::RateLimit, false),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded"}}"#,
                FailureReason::ContextFull,
                false,
            ),
            (413, "", FailureReason::ContextFull, false),
            (
                500,
                r#"{"error":{"type":"exceed_context_size_error"}}"#,
                FailureReason::ContextFull,
                false,
            ),
            (500, "<html>", FailureReason::Server, true),
            (500, r#"{"error":"the context size is exceeded"}"#, FailureReason::ContextFull, false),
            (503, too_many, FailureReason::Server, true),
            (503, r#"{"detail":"loading"}"#, FailureReason::Server, true),
            (503, r#"{"error":{"code":"invalid_api_key"}}"#, FailureReason::Server, true),
            (408, "", FailureReason::Request, true),
        ];
        for (status, body, reason, passing) in cases {
            let error = CallError::from_answer(status, body, None);
            assert_eq!((error.reason(), error.is_passing()), (reason, passing), "{status} {body}");
            assert!(!error.to_string().contains('<'));
            assert_eq!(error.to_string().matches("status").count(), 1, "{error}");
        }
    }

    #[test]
    fn an_error_in_a_stream_goes_by_the_status_that_is_its_code() {
        let cases = [
            (r#"{"code":429,"message":"too many tokens"}"#, FailureReason::RateLimit, true),
            (r#"{"code":400,"type":"server_error","message":"no"}"#, FailureReason::Request, false),
            (
                r#"{"code":"rate_limit_exceeded","message":"too many tokens"}"#,
                FailureReason::RateLimit,
                true,
            ),
            (r#"{"code":70000,"message":"no"}"#, FailureReason::Server, true),
        ];
        for (error, reason, passing) in cases {
            let error = CallError::from_event(&serde_json::from_str(error).unwrap());
            assert_eq!((error.reason(), error.is_passing()), (reason, passing), "{error}");
        }
    }

    #[test]
    fn a_server_that_asks_to_wait_too_long_is_not_waited_for_and_the_error_says_so() {
        let slow =
            |asked| CallError::from_answer(429, "slow down", Some(Duration::from_secs(asked)));
        let (short, long) = (slow(120), slow(3600));
        assert!(short.is_passing() && !long.is_passing());
        assert_eq!(short.to_string(), "slow down (status 429; it asks to wait 120 s)");
        assert_eq!(
            long.to_string(),
            "slow down (status 429; it asks to wait 3600 s, but the longest wait is 300 s)"
        );
    }
}
