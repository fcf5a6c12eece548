//! The end of an agent's process, and the verdict that follows from it.
//!
//! The verdict comes from the event with which an agent closes its turn. An exit code is not enough: the CLIs
//! exit with 0 after failures, and with errors after complete replies.

use std::fmt;
use std::time::Duration;

use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_wire::{AnswerEnd, EndKind};

/// The exit status of an agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// The process exited with this code.
    Code(i32),
    /// The process was killed by this signal.
    Signal(i32),
    /// The process did not exit after its turn, or after closing its output, and Convoke terminated it.
    Dismissed,
    /// The program has not ended: it waits for the next turn.
    Resting,
    /// The exit status is unknown.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Dismissed => f.write_str("no exit until it was terminated"),
            Self::Resting => f.write_str("no exit, because it waits for another turn"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// The reason why Convoke terminated a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TerminationCause {
    /// A person cancelled the turn.
    Cancelled,
    /// The turn exceeded its time limit.
    TimedOut,
    /// The output exceeded its limit.
    OutputLimit,
    /// The system could not read the output.
    Unreadable,
    /// The model's server returned a status that no retry can change.
    PermanentError(u16),
    /// The agent exceeded the retry limit of a request, which failed for this reason.
    RetryLimit(FailureReason),
    /// The agent would retry a request that failed for this reason, but only after this delay.
    RetryTooLate(FailureReason, Duration),
}

/// The end of a process.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// The exit status.
    pub exit: Exit,
    /// The reason why Convoke terminated the process; `None` if it exited by itself.
    pub stop: Option<TerminationCause>,
    /// The tail of the standard error output.
    pub stderr: &'a str,
}

/// Determines the verdict of a turn: from the agent's closing event, else from why Convoke stopped it, else
/// from the exit status.
pub fn decide(
    closing: Option<Verdict>,
    ending: &Ending<'_>,
    explain: impl FnOnce(&Ending<'_>) -> Failure,
) -> Verdict {
    match (closing, ending.stop) {
        (Some(Verdict::Done), _) => Verdict::Done,
        (_, Some(TerminationCause::Cancelled)) => Verdict::Cancelled,
        (_, Some(TerminationCause::TimedOut)) => Verdict::TimedOut,
        (_, Some(TerminationCause::OutputLimit)) => Verdict::Failed(Failure::new(
            FailureReason::Flood,
            "the agent exceeded the turn's output limit",
        )),
        (_, Some(TerminationCause::Unreadable)) => Verdict::Failed(Failure::new(
            FailureReason::Incomplete,
            "the output of the agent could not be read to its end",
        )),
        (Some(Verdict::Failed(failure)), _) => Verdict::Failed(failure),
        (_, Some(TerminationCause::PermanentError(status))) => Verdict::Failed(Failure::new(
            FailureReason::from_status(status),
            format!("the model's server answered with status {status}"),
        )),
        (_, Some(TerminationCause::RetryLimit(reason))) => Verdict::Failed(Failure::new(
            reason,
            "the agent exceeded the turn's retry limit for requests to its model",
        )),
        (_, Some(TerminationCause::RetryTooLate(reason, wait))) => Verdict::Failed(Failure::new(
            reason,
            format!("the model's server asks to wait {} s before the next request", wait.as_secs()),
        )),
        (Some(verdict), None) => verdict,
        (None, None) => Verdict::Failed(explain(ending)),
    }
}

/// Corrects a verdict by why the model stopped its last answer, which not every program reports. A failure for another
/// reason that is known stays.
pub fn correct_by_answer(verdict: &mut Verdict, end: &AnswerEnd) {
    let (reason, what) = match end.kind {
        EndKind::Complete => return,
        EndKind::OutputFull => (FailureReason::OutputFull, "stopped at its output limit"),
        EndKind::ContextFull => (FailureReason::ContextFull, "filled its context window"),
        EndKind::Refused => (FailureReason::Refused, "refused, or a filter stopped it"),
        EndKind::Unfinished => (FailureReason::Incomplete, "stopped before it was done"),
    };
    let told = format!("the model {what} (`{}`)", end.word);
    match verdict {
        Verdict::Done => *verdict = Verdict::Failed(Failure::new(reason, told)),
        Verdict::Failed(failure) if is_vague(failure.reason) => {
            failure.reason = reason;
            // A reader may know the end already.
            if !failure.message.contains(&told) {
                failure.message = format!("{}: {told}", failure.message.trim_end_matches('.'));
            }
        }
        Verdict::Failed(_) | Verdict::Cancelled | Verdict::Withdrawn | Verdict::TimedOut => {}
    }
}

/// Returns whether a program reports a failure in this way when it does not know why its model stopped.
fn is_vague(reason: FailureReason) -> bool {
    matches!(
        reason,
        FailureReason::Network
            | FailureReason::Server
            | FailureReason::Incomplete
            | FailureReason::Other
    )
}

/// Returns the last lines of an error output, at most 400 bytes.
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
        Failure::new(FailureReason::Incomplete, "no closing event")
    }

    #[test]
    fn what_the_agent_said_beats_the_exit_code() {
        let verdict = decide(Some(Verdict::Done), &ending(None, Exit::Code(1)), unexplained);
        assert_eq!(verdict, Verdict::Done);
    }

    #[test]
    fn an_exit_code_of_zero_without_a_closing_event_is_a_failure() {
        let verdict = decide(None, &ending(None, Exit::Code(0)), unexplained);
        assert_eq!(verdict.as_str(), "failed");
    }

    #[test]
    fn a_turn_that_was_done_before_the_cancel_came_is_done() {
        let end = ending(Some(TerminationCause::Cancelled), Exit::Signal(9));
        assert_eq!(decide(Some(Verdict::Done), &end, unexplained), Verdict::Done);
        assert_eq!(decide(None, &end, unexplained), Verdict::Cancelled);
    }

    #[test]
    fn the_end_of_the_last_answer_corrects_what_a_program_does_not_know() {
        use FailureReason::{Auth, Incomplete, Network, OutputFull, Refused};
        let failed = |reason| Verdict::Failed(Failure::new(reason, "no luck"));
        for (verdict, word, expected) in [
            (Verdict::Done, "end_turn", None),
            (Verdict::Done, "MAX_TOKENS", Some(OutputFull)),
            (Verdict::Done, "SAFETY", Some(Refused)),
            (Verdict::Done, "pause_turn", Some(Incomplete)),
            (failed(Network), "content_filter", Some(Refused)),
            (failed(Network), "STOP", Some(Network)),
            (failed(Auth), "content_filter", Some(Auth)),
        ] {
            let mut corrected = verdict.clone();
            correct_by_answer(&mut corrected, &AnswerEnd::from_word(word));
            let reason = match &corrected {
                Verdict::Failed(failure) => Some(failure.reason),
                _ => None,
            };
            assert_eq!(reason, expected, "{verdict} {word}");
        }
        let mut cancelled = Verdict::Cancelled;
        correct_by_answer(&mut cancelled, &AnswerEnd::from_word("SAFETY"));
        assert_eq!(cancelled, Verdict::Cancelled);
    }

    #[test]
    fn the_last_words_are_few() {
        let long = "é".repeat(1000);
        assert_eq!(stderr_tail(&["a", "", "b  "]), "a\nb");
        assert_eq!(stderr_tail(&[&long, "the end"]), "the end");
        assert_eq!(stderr_tail(&[&long]).len(), 400);
    }
}
