//! Codex's retries and errors, which may or may not end the turn.

use std::borrow::Cow;
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};

use convoke_agent::diagnostics;
use convoke_agent::ending::Ending;
use convoke_agent::stream::words::{plain_words, status_in_words, without_colour};
use convoke_agent::stream::{Sink, TurnProgress, explain_ending, reason_in_words};
use convoke_agent::turn::TurnResult;

/// Converts Codex's message to a failure.
pub(super) fn failure(message: String) -> Failure {
    let reason = reason(&message);
    let message = match plain_words(message) {
        empty if empty.trim().is_empty() => "codex gave no reason".to_owned(),
        words => words,
    };
    Failure::new(reason, message)
}

/// Returns the reason of an error message. "Stream disconnected" can also mean that the server sent an error,
/// whose text then follows.
fn reason(message: &str) -> FailureReason {
    const OWN_WORDS: &[&str] =
        &["stream closed", "sending request", "UTF8", "ransport", "idle timeout", "decoding"];
    if message.contains("reason: content_filter") {
        return FailureReason::Refused;
    }
    let ended = message.split_once("stream disconnected before completion: ");
    match ended.map(|(_, words)| words) {
        Some(words) if !OWN_WORDS.iter().any(|own| words.contains(own)) => {
            reason_in_words(words).unwrap_or(FailureReason::Server)
        }
        _ => reason_in_words(message).unwrap_or(FailureReason::Other),
    }
}

/// Parses a line of Codex's log with the wait before the next request:
/// `retrying sampling request (1/3 in 3599.99s)... sampling_error=why`.
fn logged_wait(line: &str) -> Option<(Retry<'_>, Duration)> {
    let (_, rest) = line.split_once("retrying sampling request (")?;
    let (count, rest) = rest.split_once(" in ")?;
    let (seconds, rest) = rest.split_once("s)")?;
    let wait = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    let (attempt, max) = count.split_once('/')?;
    let reason = rest.split_once("sampling_error=").map_or("", |(_, reason)| reason);
    let status = status_in_words(&reason.to_ascii_lowercase());
    let retry = Retry { attempt: attempt.parse().ok(), max: max.parse().ok(), status, reason };
    Some((retry, wait))
}

/// Reports a long wait that only the log mentions.
fn report_logged_wait(line: &str, sink: &mut Sink<'_>) {
    const LONG: Duration = Duration::from_mins(1);
    let line = without_colour(line);
    if let Some((retry, wait)) = logged_wait(&line).filter(|(_, wait)| *wait > LONG) {
        sink(AgentEvent::own(AgentEventKind::Retry {
            attempt: retry.attempt.unwrap_or(1),
            max: retry.max,
            status: retry.status,
            wait: Some(wait),
            reason: Cow::Borrowed(retry.reason),
        }));
    }
}

/// A notice of a retry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Retry<'m> {
    /// The number of the failed attempt, if Codex counts them.
    pub attempt: Option<u64>,
    pub max: Option<u64>,
    pub status: Option<u16>,
    pub reason: &'m str,
}

impl<'m> Retry<'m> {
    /// Parses `Reconnecting... 2/5 (why)`. The count and the reason are optional.
    pub fn read(message: &'m str) -> Option<Self> {
        let rest = message.strip_prefix("Reconnecting")?.trim_start_matches(['.', '…', ' ']);
        let (count, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let counted = count.split_once('/').and_then(|(attempt, max)| {
            let attempt = attempt.parse().ok()?;
            Some((attempt, max.parse().ok()))
        });
        let ((attempt, max), reason) = match counted {
            Some((attempt, max)) => ((Some(attempt), max), reason),
            None => ((None, None), rest),
        };
        let reason = reason.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(reason);
        let status = status_in_words(&reason.to_ascii_lowercase());
        Some(Self { attempt, max, status, reason })
    }

    /// Reports the retry and discards the partial text.
    pub fn report(self, progress: &mut TurnProgress, sink: &mut Sink<'_>) {
        progress.forget_preview();
        // A broken stream was one request; a stream that never started was retried silently.
        let repeated = self.status.is_some()
            || reason_in_words(self.reason).is_some_and(|reason| reason == FailureReason::Server)
            || self.reason.contains("error sending request");
        let requests = if repeated { progress.requests_per_notice } else { 1 };
        sink(AgentEvent::own(AgentEventKind::Retry {
            attempt: progress.attempt(self.attempt).saturating_mul(requests),
            max: self.max.map(|max| max.saturating_mul(requests)),
            status: self.status,
            wait: None,
            reason: Cow::Borrowed(self.reason),
        }));
    }
}

/// The line of Codex's log about an item of an answer that it does not know. It passes over the item without an event, and
/// with it over a message in which the model refuses.
const UNREAD_ITEM: &str = "failed to parse ResponseItem";

/// The last error, held back until it is known whether the turn fails because of it.
#[derive(Debug, Default)]
pub(super) struct PendingError {
    last: Option<String>,
    /// Whether the program passed over an item of an answer.
    has_unread_item: bool,
}

impl PendingError {
    /// Reads a line of the program's log.
    pub fn logged(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.has_unread_item |= line.contains(UNREAD_ITEM);
        report_logged_wait(line, sink);
    }

    /// Records an error.
    pub fn record(&mut self, message: String, progress: &mut TurnProgress, sink: &mut Sink<'_>) {
        self.report(progress, sink);
        self.last = Some(message);
    }

    /// Reports the error as a notice, because the turn continued.
    pub fn report(&mut self, progress: &mut TurnProgress, sink: &mut Sink<'_>) {
        if let Some(message) = self.last.take() {
            progress.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, plain_words(message)), sink);
        }
    }

    /// Handles the end of the turn.
    pub fn ended(&mut self, verdict: &Verdict, progress: &mut TurnProgress, sink: &mut Sink<'_>) {
        let said = self.last.take_if(|message| match verdict {
            Verdict::Failed(failure) => plain_words(message.clone()) == failure.message,
            _ => false,
        });
        if said.is_none() {
            self.report(progress, sink);
        }
    }

    /// Returns the result of a turn whose program has ended. An error that nothing followed is the reason,
    /// unless Convoke stopped the program.
    pub fn close(
        &mut self,
        ending: &Ending<'_>,
        progress: &mut TurnProgress,
        sink: &mut Sink<'_>,
    ) -> TurnResult {
        if ending.stop.is_some() {
            self.report(progress, sink);
        }
        let pending_error = self.last.take().map(failure);
        if self.has_unread_item
            && progress.closing == Some(Verdict::Done)
            && progress.has_no_reply()
        {
            let message = "the model answered with something that codex does not read, as it does when it refuses";
            let refused = Failure::new(FailureReason::Refused, message);
            progress.closing = Some(Verdict::Failed(refused));
        }
        let explain = |ending: &Ending<'_>| pending_error.unwrap_or_else(|| explain_ending(ending));
        progress.close(ending, explain, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_failed_is_distinguished_from_a_connection_that_broke() {
        for (words, expected) in [
            ("Incomplete response returned, reason: content_filter", FailureReason::Refused),
            ("Incomplete response returned, reason: max_output_tokens", FailureReason::OutputFull),
            ("the model crashed", FailureReason::Server),
            ("Rate limit reached for gpt-5", FailureReason::RateLimit),
            ("stream closed before response.completed", FailureReason::Network),
            ("error sending request for url (http://127.0.0.1/v1)", FailureReason::Network),
        ] {
            let message = format!("stream disconnected before completion: {words}");
            assert_eq!(failure(message).reason, expected, "{words}");
        }
    }

    #[test]
    fn a_long_wait_is_read_from_the_log() {
        let line = "2026-01-01T00:00:00Z  WARN codex_core::responses_retry: stream disconnected - retrying \
                    sampling request (1/3 in 3599.5s)... turn_id=1 sampling_error=exceeded retry limit, \
                    last status: 429 Too Many Requests";
        let (retry, wait) = logged_wait(line).unwrap();
        assert_eq!(
            (retry.attempt, retry.status, wait),
            (Some(1), Some(429), Duration::from_millis(3_599_500))
        );
        assert_eq!(logged_wait("a line of something else"), None);
    }

    #[test]
    fn a_notice_of_reconnecting_is_a_retry_with_or_without_a_count() {
        for (notice, attempt, max, reason) in [
            ("Reconnecting... 2/5 (status lost)", Some(2), Some(5), "status lost"),
            ("Reconnecting… 2/5 (status lost)", Some(2), Some(5), "status lost"),
            ("Reconnecting... 2/5", Some(2), Some(5), ""),
            ("Reconnecting... (the stream broke off)", None, None, "the stream broke off"),
            ("Reconnecting...", None, None, ""),
        ] {
            let retry = Retry { attempt, max, status: None, reason };
            assert_eq!(Retry::read(notice), Some(retry), "{notice}");
        }
        let refused = Retry::read("Reconnecting... 1/5 (unexpected status 401 Unauthorized: no)");
        assert_eq!(refused.and_then(|retry| retry.status), Some(401));
        assert_eq!(Retry::read("something else"), None);
    }
}
