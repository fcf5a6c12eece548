//! The verdict: how a turn ended.
//!
//! It comes from the event with which an agent closes its turn. An exit code alone decides nothing:
//! the CLIs end with 0 after failures and with errors after answers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The agent said that it was done.
    Done,
    /// It failed.
    Failed(Failure),
    /// It was cancelled.
    Cancelled,
    /// It ran over its time.
    TimedOut,
}

impl Verdict {
    /// Returns the verdict as one word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "failed: {failure}"),
            other => f.write_str(other.word()),
        }
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    /// The kind of failure, which decides what can be done about it.
    pub reason: Reason,
    /// The agent's own words, or ours when it said nothing.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No key, a wrong key, or no right to use the model.
    Auth,
    /// Too many requests, or no credit left.
    RateLimit,
    /// The model's server failed or is overloaded.
    Server,
    /// The connection to the model failed or broke off.
    Network,
    /// The request was refused as wrong.
    Request,
    /// There is no such model.
    Model,
    /// The conversation does not fit into the model's context.
    ContextFull,
    /// The model stopped at its output limit.
    OutputFull,
    /// The model refused, or its answer was blocked.
    Refused,
    /// A limit on rounds or money was reached.
    Budget,
    /// There is no such session to resume.
    Session,
    /// The agent's program was called in a way that it does not take.
    Usage,
    /// The agent's program does not work in this directory until the user trusts it.
    Untrusted,
    /// The agent's program could not be started.
    Start,
    /// The agent wrote more than it may.
    Flood,
    /// The program ended, or was killed, before the agent had closed its turn.
    Incomplete,
    /// Anything else.
    Other,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auth => "not signed in",
            Self::RateLimit => "rate limit",
            Self::Server => "model server error",
            Self::Network => "network error",
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

impl Reason {
    /// Returns the reason that an HTTP status of the model's server stands for.
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

    /// Returns whether another attempt of the same request cannot help.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Auth | Self::Request | Self::Model)
    }
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody saw its end.
    Unseen,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unseen => f.write_str("an end that nobody saw"),
        }
    }
}

/// Why we ended a turn, when it was us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminationCause {
    /// The user cancelled.
    Cancelled,
    /// The time was over.
    TimedOut,
    /// The output was over its limit.
    OutputLimit,
    /// The model's server answers that no further attempt can change.
    PermanentError(u16),
    /// The agent repeats a request, which fails for this reason, more often than it may.
    RetryLimit(Reason),
}

/// Everything that is known about the end of a process.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// How the process ended.
    pub exit: Exit,
    /// Why we ended it, if we did.
    pub stop: Option<TerminationCause>,
    /// The end of what it wrote to standard error.
    pub stderr: &'a str,
}

/// Decides over a turn: what the agent said comes first, then what we did, then how it exited.
pub fn decide(
    closing: Option<Verdict>,
    ending: &Ending<'_>,
    explain: impl FnOnce(&Ending<'_>) -> Failure,
) -> Verdict {
    match (closing, ending.stop) {
        (Some(Verdict::Done), _) => Verdict::Done,
        (_, Some(TerminationCause::Cancelled)) => Verdict::Cancelled,
        (_, Some(TerminationCause::TimedOut)) => Verdict::TimedOut,
        (_, Some(TerminationCause::OutputLimit)) => {
            Verdict::Failed(Failure::new(Reason::Flood, "the agent wrote more than a turn may"))
        }
        (Some(Verdict::Failed(failure)), _) => Verdict::Failed(failure),
        (_, Some(TerminationCause::PermanentError(status))) => Verdict::Failed(Failure::new(
            Reason::from_status(status),
            format!("the model's server answered with status {status}"),
        )),
        (_, Some(TerminationCause::RetryLimit(reason))) => Verdict::Failed(Failure::new(
            reason,
            "the agent repeated a request to its model more often than a turn may",
        )),
        (Some(verdict), None) => verdict,
        (None, None) => Verdict::Failed(explain(ending)),
    }
}

/// Returns the last lines of an error output, short enough for a message.
pub fn stderr_tail(lines: &[&str]) -> String {
    const LIMIT: usize = 400;
    let mut last: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for line in lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        bytes += line.len() + 1;
        if bytes > LIMIT && !last.is_empty() {
            break;
        }
        last.push(line);
    }
    last.reverse();
    let mut words = last.join("\n");
    words.truncate(words.floor_char_boundary(LIMIT.min(words.len())));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(stop: Option<TerminationCause>, exit: Exit) -> Ending<'static> {
        Ending { exit, stop, stderr: "" }
    }

    fn unexplained(_: &Ending<'_>) -> Failure {
        Failure::new(Reason::Incomplete, "no closing event")
    }

    #[test]
    fn what_the_agent_said_beats_the_exit_code() {
        let verdict = decide(Some(Verdict::Done), &ending(None, Exit::Code(1)), unexplained);
        assert_eq!(verdict, Verdict::Done);
    }

    #[test]
    fn an_exit_code_of_zero_without_a_closing_event_is_a_failure() {
        let verdict = decide(None, &ending(None, Exit::Code(0)), unexplained);
        assert_eq!(verdict.word(), "failed");
    }

    #[test]
    fn a_turn_that_was_done_before_the_cancel_came_is_done() {
        let end = ending(Some(TerminationCause::Cancelled), Exit::Signal(9));
        assert_eq!(decide(Some(Verdict::Done), &end, unexplained), Verdict::Done);
        assert_eq!(decide(None, &end, unexplained), Verdict::Cancelled);
    }

    #[test]
    fn the_last_words_are_few() {
        let long = "é".repeat(1000);
        assert_eq!(stderr_tail(&["a", "", "b  "]), "a\nb");
        assert_eq!(stderr_tail(&[&long, "the end"]), "the end");
        assert_eq!(stderr_tail(&[&long]).len(), 400);
    }
}
