//! Guesses the reasons of failures from error messages, because the CLIs have no codes for most of them.

use std::borrow::Cow;

use convoke_protocol::verdict::{Failure, FailureReason};
use memchr::memchr;
use serde::Deserialize;

use crate::ending::{Ending, Exit, stderr_tail};
use crate::process::guardian::{CANNOT_START, CANNOT_START_WORDS};

/// Lines of the error output without information about a failure.
const CHATTER: &[&str] = &[
    "256-color support",
    "Basic terminal detected",
    "Ripgrep is not available",
    "[STARTUP]",
    "YOLO mode is enabled",
    "Reading prompt from stdin",
    "Reading additional input from stdin",
    "WARNING: proceeding, even though we could not",
    "codex_core::responses_retry",
];

/// Explains an end without a closing event, from the error output.
pub fn explain_ending(ending: &Ending<'_>) -> Failure {
    let is_chatter = |line: &&str| CHATTER.iter().any(|chatter| line.contains(chatter));
    let says_something = |line: &&str| line.contains(char::is_alphanumeric);
    let stderr = without_colour(ending.stderr);
    let lines = stderr.lines().filter(|line| !is_chatter(line) && !is_stack_frame(line));
    let lines = lines.filter(says_something);
    let words = stderr_tail(&lines.collect::<Vec<_>>());
    let reason = match ending.exit {
        Exit::Code(code)
            if code == i32::from(CANNOT_START) && words.starts_with(CANNOT_START_WORDS) =>
        {
            FailureReason::Start
        }
        _ => reason_in_words(&words).unwrap_or(FailureReason::Incomplete),
    };
    let end = match ending.exit {
        Exit::Dismissed => "closed its output".to_owned(),
        exit => format!("ended with {exit}"),
    };
    let message = if words.is_empty() {
        format!("{end} before the turn was complete")
    } else {
        format!("{end}: {words}")
    };
    Failure::new(reason, message)
}

/// Removes terminal colour sequences.
pub fn without_colour(text: &str) -> Cow<'_, str> {
    if memchr(ESCAPE, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(char::from(ESCAPE));
    let mut clean = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = match piece.strip_prefix('[') {
            Some(sequence) => {
                let mut end = sequence.trim_start_matches(|c| matches!(c, ' '..='?')).chars();
                end.next();
                end.as_str()
            }
            None => piece,
        };
        clean.push_str(rest);
    }
    Cow::Owned(clean)
}

const ESCAPE: u8 = 0x1b;

/// Returns whether a line is part of a Node stack trace.
fn is_stack_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") && (line.ends_with(')') || line.contains("://"))
}

/// Extracts the message from a server's JSON error, with or without text around it.
pub fn plain_words(message: String) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Problem,
    }
    #[derive(Deserialize)]
    struct Problem {
        message: String,
    }
    let inner = message.find('{').and_then(|at| {
        let mut values = serde_json::Deserializer::from_str(&message[at..]).into_iter::<Answer>();
        values.next()?.ok()
    });
    match inner {
        Some(answer) if !answer.error.message.trim().is_empty() => answer.error.message,
        _ => message,
    }
}

/// Returns whether a message says that the program has no credentials, so that it sent nothing.
pub(crate) fn is_signed_out(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let signs = ["not logged in", "auth method", "missing environment variable"];
    status_in_words(&words).is_none() && signs.iter().any(|sign| words.contains(sign))
}

/// Returns whether a message says that the connection failed.
pub(crate) fn is_unconnected(words: &str) -> bool {
    const SIGNS: &[&str] = &[
        "connection refused",
        "connectionrefused",
        "econnrefused",
        "enotfound",
        "eai_again",
        "failed to lookup address",
        "does not resolve",
        "network is unreachable",
        "no route to host",
        "unable to connect",
    ];
    let words = words.to_ascii_lowercase();
    SIGNS.iter().any(|sign| words.contains(sign))
}

/// Guesses a reason from an error message.
pub fn reason_in_words(words: &str) -> Option<FailureReason> {
    const SIGNS: &[(&str, FailureReason)] = &[
        ("no conversation found", FailureReason::Session),
        ("no rollout found", FailureReason::Session),
        ("no message found with message.uuid", FailureReason::Session),
        ("turn not found", FailureReason::Session),
        ("session id", FailureReason::Session),
        ("session identifier", FailureReason::Session),
        ("context window", FailureReason::ContextFull),
        ("prompt is too long", FailureReason::ContextFull),
        ("max_output_tokens", FailureReason::OutputFull),
        ("output token maximum", FailureReason::OutputFull),
        ("safety settings", FailureReason::Refused),
        ("usage policy", FailureReason::Refused),
        ("rate limit", FailureReason::RateLimit),
        ("too many requests", FailureReason::RateLimit),
        ("resource_exhausted", FailureReason::RateLimit),
        ("quota", FailureReason::RateLimit),
        ("api key", FailureReason::Auth),
        ("unauthorized", FailureReason::Auth),
        ("not logged in", FailureReason::Auth),
        ("missing environment variable", FailureReason::Auth),
        ("auth method", FailureReason::Auth),
        ("permission_denied", FailureReason::Auth),
        ("forbidden", FailureReason::Auth),
        ("not inside a trusted directory", FailureReason::Untrusted),
        ("trusted folder", FailureReason::Untrusted),
        ("stream disconnected", FailureReason::Network),
        ("stream closed", FailureReason::Network),
        ("without a finish reason", FailureReason::Network),
        ("connection", FailureReason::Network),
        ("fetch failed", FailureReason::Network),
        ("high demand", FailureReason::Server),
        ("overloaded", FailureReason::Server),
        ("internal server error", FailureReason::Server),
        ("invalid_request", FailureReason::Request),
        ("invalid_argument", FailureReason::Request),
        ("not_found", FailureReason::Model),
        ("modelnotfounderror", FailureReason::Model),
        ("model_not_found", FailureReason::Model),
        ("unexpected argument", FailureReason::Usage),
        ("unknown option", FailureReason::Usage),
        ("unknown argument", FailureReason::Usage),
        ("argument", FailureReason::Usage),
        ("unknown feature flag", FailureReason::Usage),
        ("no prompt provided", FailureReason::Usage),
        ("no input provided", FailureReason::Usage),
        ("input must be provided", FailureReason::Usage),
        ("cannot use both", FailureReason::Usage),
        ("not valid utf-8", FailureReason::Usage),
    ];
    /// An error that servers return with the status of an invalid request.
    const WRONG_KEY: &str = "api key not valid";

    let words = words.to_ascii_lowercase();
    if words.contains(WRONG_KEY) {
        return Some(FailureReason::Auth);
    }
    if let Some(status) = status_in_words(&words) {
        return Some(FailureReason::from_status(status));
    }
    SIGNS.iter().find(|(sign, _)| words.contains(sign)).map(|&(_, reason)| reason)
}

/// Finds an HTTP status in the forms `status 401` and `"code":401`.
pub fn status_in_words(words: &str) -> Option<u16> {
    let digits_after = |mark: &str| {
        let rest = words.split_once(mark)?.1.trim_start_matches([' ', ':']);
        let digits = rest.get(..3)?;
        let status: u16 = digits.parse().ok()?;
        let ends = !rest[3..].starts_with(|c: char| c.is_ascii_digit());
        ((400..600).contains(&status) && ends).then_some(status)
    };
    ["unexpected status", "\"code\"", "last status", "with status", "http"]
        .iter()
        .find_map(|mark| digits_after(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_in_the_words_of_every_cli() {
        for (words, status) in [
            ("unexpected status 401 unauthorized: x", Some(401)),
            (r#"[api error: {"error":{"code":403,"message":"x"}}]"#, Some(403)),
            ("exceeded retry limit, last status: 429 too many requests", Some(429)),
            ("http://127.0.0.1:4000/v1", None),
            ("we have 500 files", None),
        ] {
            assert_eq!(status_in_words(words), status, "{words}");
        }
    }

    #[test]
    fn a_message_in_json_is_reported_in_its_own_words() {
        for (message, words) in [
            (r#"{"error": {"message": "bad request", "code": null}}"#, "bad request"),
            (r#"[API Error: {"error":{"code":400,"message":"no key"}}]"#, "no key"),
            (r#"{"error": {"message": ""}}"#, r#"{"error": {"message": ""}}"#),
            ("a {brace} in words", "a {brace} in words"),
        ] {
            assert_eq!(plain_words(message.to_owned()), words);
        }
    }

    #[test]
    fn an_end_is_explained_without_the_trace_below_the_error() {
        let stderr = "Ripgrep is not available.\nError: no such file 'x'\n    at read (file://a.js:1:2)\n    at async main (file://b.js:3:4)\n";
        let ending = Ending { exit: Exit::Code(1), stop: None, stderr };
        assert_eq!(
            explain_ending(&ending).message,
            "ended with exit code 1: Error: no such file 'x'"
        );
    }

    #[test]
    fn an_end_is_explained_without_colours() {
        let stderr = "\u{1b}[1;31mno key\u{1b}[0m is set\u{1b}[m\n}\n";
        let ending = Ending { exit: Exit::Code(1), stop: None, stderr };
        assert_eq!(explain_ending(&ending).message, "ended with exit code 1: no key is set");
        for odd in ["\u{1b}", "\u{1b}[", "\u{1b}[31", "\u{1b}[é", "\u{1b}[1é x"] {
            without_colour(odd);
        }
    }

    #[test]
    fn a_wrong_key_is_not_a_wrong_request() {
        let words = r#"[API Error: {"error":{"code":400,"message":"API key not valid."}}]"#;
        assert_eq!(reason_in_words(words), Some(FailureReason::Auth));
    }
}
