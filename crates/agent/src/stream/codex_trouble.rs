//! Codex's troubles: requests that are tried again, and errors that may or may not end the turn.

use std::borrow::Cow;

use convoke_core::Diagnostic;

use super::words::{plain_words, status_in_words};
use super::{Sink, TurnProgress, reason_in_words};
use crate::diagnostics;
use crate::event::{Event, EventKind};
use crate::verdict::{Ending, Failure, Reason, Verdict};

/// Creates the failure that Codex's message stands for.
pub(super) fn failure(message: String) -> Failure {
    let reason = reason_in_words(&message).unwrap_or(Reason::Other);
    let message = match plain_words(message) {
        empty if empty.trim().is_empty() => "codex gave no reason".to_owned(),
        words => words,
    };
    Failure::new(reason, message)
}

/// A notice that a request is tried again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Retry<'m> {
    /// Which attempt failed, where Codex counts them.
    pub attempt: Option<u64>,
    pub max: Option<u64>,
    pub status: Option<u16>,
    pub reason: &'m str,
}

impl<'m> Retry<'m> {
    /// Reads `Reconnecting... 2/5 (why)`; the count and the reason may be missing.
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

    /// Tells of it. What was said of the answer so far is void.
    pub fn tell(self, tally: &mut TurnProgress, sink: &mut Sink<'_>) {
        tally.forget_preview();
        sink(Event::own(EventKind::Retry {
            attempt: tally.attempt(self.attempt),
            max: self.max,
            status: self.status,
            wait_ms: None,
            reason: Cow::Borrowed(self.reason),
        }));
    }
}

/// The last error, until it is known whether the turn fails for it: then its verdict says the same, and
/// it need not be said twice.
#[derive(Debug, Default)]
pub(super) struct Trouble(Option<String>);

impl Trouble {
    /// Takes note of an error.
    pub fn told(&mut self, message: String, tally: &mut TurnProgress, sink: &mut Sink<'_>) {
        self.passed(tally, sink);
        self.0 = Some(message);
    }

    /// The turn went on: the error was a notice.
    pub fn passed(&mut self, tally: &mut TurnProgress, sink: &mut Sink<'_>) {
        if let Some(message) = self.0.take() {
            tally.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, plain_words(message)), sink);
        }
    }

    /// The turn was closed with this verdict.
    pub fn ended(&mut self, verdict: &Verdict, tally: &mut TurnProgress, sink: &mut Sink<'_>) {
        let said = self.0.take_if(|message| match verdict {
            Verdict::Failed(failure) => plain_words(message.clone()) == failure.message,
            _ => false,
        });
        if said.is_none() {
            self.passed(tally, sink);
        }
    }

    /// The program ended: an error that nothing followed is why, unless it was us who ended it.
    pub fn at_end(
        &mut self,
        ending: &Ending<'_>,
        tally: &mut TurnProgress,
        sink: &mut Sink<'_>,
    ) -> Option<Failure> {
        if ending.stop.is_some() {
            self.passed(tally, sink);
        }
        self.0.take().map(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
