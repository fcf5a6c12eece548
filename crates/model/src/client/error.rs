//! Why a call failed, and whether another attempt can help.

use std::time::Duration;

use convoke_agent::verdict::Reason;
use serde_json::Value;

use super::retry::LONGEST_ASKED;

/// Messages of servers are cut to this many bytes.
const MESSAGE_BYTES: usize = 1000;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("{message} (status {status})")]
    Status {
        /// The HTTP status.
        status: u16,
        /// What the server says of it.
        reason: Reason,
        /// In its own words.
        message: String,
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// The answer itself says that it failed.
    #[error("{message}")]
    Said {
        /// Why.
        reason: Reason,
        /// In the server's words.
        message: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach the model's server: {0}")]
    Connect(String),
    /// The server is not who it should be.
    #[error("the model's server cannot be trusted: {0}")]
    Tls(String),
    /// The stream ended, or broke, before its terminal event.
    #[error("the answer broke off: {0}")]
    Cut(String),
    /// Nothing came for too long.
    #[error("the model's server sent nothing for {} s", .0.as_secs_f32())]
    Idle(Duration),
    /// The whole took too long.
    #[error("the answer took longer than {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The answer is longer than anything may be.
    #[error("the answer is longer than {0} bytes")]
    Flood(u64),
}

impl CallError {
    /// Reads the error that a server answered with.
    pub(super) fn from_answer(status: u16, body: &str, after: Option<Duration>) -> Self {
        let said = Said::read(body);
        let reason = match said.reason() {
            Some(reason) => reason,
            None => Reason::from_status(status),
        };
        let message = match said.message.trim() {
            "" => format!("the model's server answered with status {status}"),
            message => shortened(message),
        };
        Self::Status { status, reason, message, after }
    }

    /// Creates the error that a stream says itself.
    pub(crate) fn said(error: &Value) -> Self {
        let said = Said::from_value(error);
        let message = match said.message.trim() {
            "" => "the model's server said that the answer failed".to_owned(),
            message => shortened(message),
        };
        Self::Said { reason: said.reason().unwrap_or(Reason::Server), message }
    }

    /// Returns the kind of failure.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Status { reason, .. } | Self::Said { reason, .. } => *reason,
            Self::Connect(_) | Self::Tls(_) | Self::Idle(_) | Self::TimedOut(_) => Reason::Network,
            Self::Cut(_) => Reason::Incomplete,
            Self::Flood(_) => Reason::Flood,
        }
    }

    /// Returns the HTTP status, when the server gave one that is an error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns how long the server asks to wait.
    pub fn asked_wait(&self) -> Option<Duration> {
        match self {
            Self::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns whether the same request can succeed when it is sent again.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status { after: Some(after), .. } if *after > LONGEST_ASKED => false,
            // No credit is no matter of waiting.
            Self::Status { status, reason, .. } => match reason {
                Reason::RateLimit => *status != 402,
                Reason::Server => true,
                _ => *status == 408 || *status == 409 || *status == 425,
            },
            Self::Said { reason, .. } => matches!(reason, Reason::Server | Reason::RateLimit),
            Self::Connect(_) | Self::Cut(_) | Self::Idle(_) => true,
            Self::Tls(_) | Self::TimedOut(_) | Self::Flood(_) => false,
        }
    }

    /// Returns the same error, its words changed, for example to take secrets out.
    #[must_use]
    pub(super) fn with_words(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Status { status, reason, message, after } => {
                Self::Status { status, reason, message: change(&message), after }
            }
            Self::Said { reason, message } => Self::Said { reason, message: change(&message) },
            Self::Connect(words) => Self::Connect(change(&words)),
            Self::Tls(words) => Self::Tls(change(&words)),
            Self::Cut(words) => Self::Cut(change(&words)),
            other => other,
        }
    }
}

/// What an error object says, in the forms that servers use.
#[derive(Default)]
struct Said {
    message: String,
    /// `code` and `type`, which servers use for the same things.
    words: String,
}

impl Said {
    fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => {
                let error = value.get("error").filter(|error| !error.is_null());
                Self::from_value(error.unwrap_or(&value))
            }
            // An error page of a gateway is no message for a person.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: body.to_owned(), words: String::new() },
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
        Self { message: message.to_owned(), words: words.to_ascii_lowercase() }
    }

    /// Returns the reason where its words say more than a status does.
    fn reason(&self) -> Option<Reason> {
        let has = |word: &str| self.words.contains(word);
        let message = self.message.to_ascii_lowercase();
        let is_too_long = ["context length", "context window", "context size", "too many tokens"]
            .iter()
            .any(|words| message.contains(words));
        if has("context_length_exceeded") || has("exceed_context_size") || is_too_long {
            Some(Reason::ContextFull)
        } else if has("insufficient_quota") || has("usage_not_included") {
            Some(Reason::Budget)
        } else if has("rate_limit") {
            Some(Reason::RateLimit)
        } else if has("invalid_api_key") || has("authentication") {
            Some(Reason::Auth)
        } else if has("model_not_found") {
            Some(Reason::Model)
        } else if has("invalid_prompt") {
            Some(Reason::Request)
        } else if has("server_error") || has("overloaded") {
            Some(Reason::Server)
        } else {
            None
        }
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
    fn errors_are_told_apart_by_their_words_and_then_by_their_status() {
        let cases = [
            (401, r#"{"error":{"message":"no","code":"invalid_api_key"}}"#, Reason::Auth, false),
            (403, "", Reason::Auth, false),
            (400, r#"{"error":{"message":"bad"}}"#, Reason::Request, false),
            (404, r#"{"error":"no such model"}"#, Reason::Model, false),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, Reason::RateLimit, true),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, Reason::Budget, false),
            (402, "", Reason::RateLimit, false),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, Reason::ContextFull, false),
            (500, r#"{"error":{"type":"exceed_context_size_error"}}"#, Reason::ContextFull, false),
            (500, "<html>", Reason::Server, true),
            (503, r#"{"detail":"loading"}"#, Reason::Server, true),
            (408, "", Reason::Request, true),
        ];
        for (status, body, reason, passing) in cases {
            let error = CallError::from_answer(status, body, None);
            assert_eq!((error.reason(), error.is_passing()), (reason, passing), "{status} {body}");
            assert!(!error.to_string().contains('<'));
        }
    }

    #[test]
    fn a_server_that_asks_to_wait_too_long_is_not_waited_for() {
        let error = CallError::from_answer(429, "", Some(Duration::from_hours(1)));
        assert!(!error.is_passing());
    }
}
