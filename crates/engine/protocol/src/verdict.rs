//! The verdict: how a turn ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict of a turn.
///
/// Exhaustive on purpose: a caller has to handle every verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The agent closed the turn as complete.
    Done,
    /// The turn failed.
    Failed(Failure),
    /// A person cancelled the turn.
    Cancelled,
    /// A person cancelled the turn before anything was sent.
    Withdrawn,
    /// The turn exceeded its time limit.
    TimedOut,
}

impl Verdict {
    /// Returns the name of the verdict.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Cancelled | Self::Withdrawn => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }
}

impl Verdict {
    /// Returns whether the prompt was sent: to the agent's program, or to the model's server.
    pub const fn is_sent(&self) -> bool {
        match self {
            Self::Failed(failure) => !failure.reason.is_before_sending(),
            Self::Withdrawn => false,
            Self::Done | Self::Cancelled | Self::TimedOut => true,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "failed: {failure}"),
            other => f.write_str(other.as_str()),
        }
    }
}

/// The reason of a failed turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", reason.prefix())]
pub struct Failure {
    /// The kind of failure, which decides how to recover.
    pub reason: FailureReason,
    /// The agent's message, or Convoke's if there is none.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureReason {
    /// A missing or wrong key, or no permission to use the model.
    Auth,
    /// The agent's program is not signed in and has sent nothing.
    SignedOut,
    /// Too many requests, or no credit left.
    RateLimit,
    /// The model's server failed or is overloaded.
    Server,
    /// The connection to the model failed or was cut.
    Network,
    /// No connection to the model was possible, so nothing was sent.
    Unreachable,
    /// The server rejected the request as invalid.
    Request,
    /// The model does not exist.
    Model,
    /// The conversation exceeds the model's context window.
    ContextFull,
    /// The model stopped at its output limit.
    OutputFull,
    /// The model refused, or its reply was blocked.
    Refused,
    /// A limit on rounds or money was reached.
    Budget,
    /// The session to resume does not exist.
    Session,
    /// The agent's program rejected its arguments.
    Usage,
    /// The agent's program refuses to run in a directory that the user has not trusted.
    Untrusted,
    /// The agent's program could not be started.
    Start,
    /// The agent exceeded its output limit.
    Flood,
    /// The program exited before the agent closed its turn.
    Incomplete,
    /// Anything else.
    Other,
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auth | Self::SignedOut => "not signed in",
            Self::RateLimit => "rate limit",
            Self::Server => "model server error",
            Self::Network | Self::Unreachable => "network error",
            Self::Request => "request refused",
            Self::Model => "unknown model",
            Self::ContextFull => "context full",
            Self::OutputFull => "output limit",
            Self::Refused => "refused",
            Self::Budget => "budget reached",
            Self::Session => "unknown session",
            Self::Usage => "bad usage",
            Self::Untrusted => "untrusted directory",
            Self::Start => "cannot start",
            Self::Flood => "too much output",
            Self::Incomplete => "ended early",
            Self::Other => "failed",
        })
    }
}

impl FailureReason {
    /// Returns the reason for an HTTP status of the model's server.
    pub const fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 | 429 => Self::RateLimit,
            404 => Self::Model,
            413 => Self::ContextFull,
            400..=499 => Self::Request,
            500..=599 => Self::Server,
            _ => Self::Other,
        }
    }

    /// Returns the prefix of a failure's message; empty for [`FailureReason::Other`].
    fn prefix(self) -> String {
        match self {
            Self::Other => String::new(),
            known => format!("{known}: "),
        }
    }

    /// Returns whether the turn failed before its prompt was sent.
    pub const fn is_before_sending(self) -> bool {
        matches!(
            self,
            Self::Start | Self::Usage | Self::Untrusted | Self::Unreachable | Self::SignedOut
        )
    }

    /// Returns whether repeating the request is pointless.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Auth | Self::SignedOut | Self::Request | Self::Model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_known_reason_is_called_failed_once() {
        let failed = |reason| Verdict::Failed(Failure::new(reason, "no luck")).to_string();
        assert_eq!(failed(FailureReason::Other), "failed: no luck");
        assert_eq!(failed(FailureReason::Network), "failed: network error: no luck");
    }
}
