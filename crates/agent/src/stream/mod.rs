//! Streams: what each vendor's CLI writes to standard output, read into [`Event`]s.
//!
//! A reader takes one line after the other and keeps nothing of them but the account of the turn. It
//! does no I/O, so that everything that a CLI can write is tested without one.

pub mod claude;
pub mod codex_app;
pub mod codex_exec;
mod codex_item;
pub mod gemini;
mod lenient;
pub mod lines;
pub mod plain;

use std::borrow::Cow;
use std::collections::BTreeSet;

use convoke_core::{Code, Diagnostic};
use serde::Deserialize;

use self::lenient::Text;
use crate::event::{Event, EventKind};
use crate::usage::Usage;
use crate::verdict::{Ending, Exit, Failure, Reason, Verdict, decide, last_words};

/// Takes events as they are read.
pub type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// Reads one agent's output.
pub trait Reader: Send {
    /// Reads a line, without its newline.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>);

    /// Returns whether the agent has closed its turn.
    fn is_over(&self) -> bool;

    /// Returns the account of the turn, after the last line.
    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> Account;
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// How it ended.
    pub verdict: Verdict,
    /// The agent's reply; what there is of it when the turn was not done.
    pub reply: String,
    /// The tokens, when the agent counted them.
    pub usage: Option<Usage>,
    /// The money, when the agent counted it, in US dollars.
    pub cost_usd: Option<f64>,
    /// The session, when the agent named it.
    pub session: Option<String>,
    /// The model, when the agent named it.
    pub model: Option<String>,
    /// The kinds of events that are not known, each once.
    pub unknown: Vec<String>,
    /// What a user should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// The account while it grows: what all readers share.
#[derive(Debug)]
pub(crate) struct Tally {
    pub session: Option<String>,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    pub closing: Option<Verdict>,
    reply: String,
    reply_limit: usize,
    reply_cut: u64,
    /// The next text begins a new reply: what came before a tool call is interim talk.
    reply_over: bool,
    /// Deltas whose whole has not come; all that there is when the turn ends before it does.
    preview: String,
    unknown: BTreeSet<String>,
    noise: u64,
    damaged: u64,
    diagnostics: Vec<Diagnostic>,
}

impl Tally {
    pub fn new(reply_limit: usize) -> Self {
        Self {
            session: None,
            model: None,
            usage: None,
            cost_usd: None,
            closing: None,
            reply: String::new(),
            reply_limit,
            reply_cut: 0,
            reply_over: false,
            preview: String::new(),
            unknown: BTreeSet::new(),
            noise: 0,
            damaged: 0,
            diagnostics: Vec::new(),
        }
    }

    /// Takes note of a piece of text whose whole is yet to come.
    pub fn preview(&mut self, delta: &str) {
        let room = self.reply_limit.saturating_sub(self.preview.len());
        self.preview.push_str(&delta[..delta.floor_char_boundary(room.min(delta.len()))]);
    }

    /// Forgets pieces whose whole will not come, because it is begun anew.
    pub fn forget_preview(&mut self) {
        self.preview.clear();
    }

    /// Adds text of the agent to its reply.
    pub fn say(&mut self, text: &str) {
        self.preview.clear();
        if std::mem::take(&mut self.reply_over) {
            self.reply.clear();
            self.reply_cut = 0;
        }
        let room = self.reply_limit.saturating_sub(self.reply.len());
        let end = text.floor_char_boundary(room.min(text.len()));
        let (kept, cut) = text.split_at(end);
        self.reply.push_str(kept);
        self.reply_cut += cut.len() as u64;
    }

    /// Says that the next text begins a new reply.
    pub fn pause(&mut self) {
        self.reply_over = true;
    }

    /// Sets the whole reply.
    pub fn reply_is(&mut self, text: &str) {
        self.reply_over = true;
        self.say(text);
        self.reply_over = false;
    }

    /// Warns, in the stream and in the account.
    pub fn warn(&mut self, diagnostic: Diagnostic, sink: &mut Sink<'_>) {
        sink(Event::own(EventKind::Warning(diagnostic.clone())));
        self.diagnostics.push(diagnostic);
    }

    /// Passes on an event of an unknown kind, and reports the kind the first time.
    pub fn unknown(&mut self, name: &str, line: &str, sink: &mut Sink<'_>) {
        sink(Event::own(EventKind::Unknown {
            name: Cow::Borrowed(name),
            json: Cow::Borrowed(line),
        }));
        // A stream of ever new kinds must not grow the account without end.
        if self.unknown.len() < 64 && self.unknown.insert(name.to_owned()) {
            let message = format!("events of the kind `{name}` are not known");
            self.warn(Diagnostic::new(Code::AgentEventUnknown, message), sink);
        }
    }

    /// Counts a line that is no event.
    pub fn noise(&mut self, line: &str) {
        self.noise += u64::from(!line.trim_ascii().is_empty());
    }

    /// Returns a line as text; bytes that are not UTF-8 are replaced, so that the rest can be read.
    pub fn text<'l>(&mut self, line: &'l [u8]) -> Cow<'l, str> {
        // Several times faster than the lossy reading, which nearly no line needs.
        if let Ok(text) = std::str::from_utf8(line) {
            return Cow::Borrowed(text);
        }
        self.damaged += 1;
        String::from_utf8_lossy(line)
    }

    /// Takes a line that does not read as an event: one of an unknown form, or none at all.
    pub fn unreadable(&mut self, line: &str, sink: &mut Sink<'_>) {
        match serde_json::from_str::<Kind<'_>>(line) {
            Ok(Kind { kind: Text(Some(kind)) }) => self.unknown(&kind, line, sink),
            _ => self.noise(line),
        }
    }

    /// Closes the account.
    pub fn close(
        &mut self,
        ending: &Ending<'_>,
        explain: impl FnOnce(&Ending<'_>) -> Failure,
        sink: &mut Sink<'_>,
    ) -> Account {
        if self.noise > 0 {
            let message = format!("{} lines of output are no events", self.noise);
            let noise = Diagnostic::new(Code::AgentOutputNoise, message).with_count(self.noise);
            self.warn(noise, sink);
        }
        if self.damaged > 0 {
            let message = format!("{} lines of output are not UTF-8", self.damaged);
            let damage =
                Diagnostic::new(Code::AgentOutputDamaged, message).with_count(self.damaged);
            self.warn(damage, sink);
        }
        if self.reply_cut > 0 {
            let message = format!(
                "the reply is over {} bytes; its last {} were cut",
                self.reply_limit, self.reply_cut
            );
            let cut =
                Diagnostic::new(Code::AgentReplyTruncated, message).with_bytes(self.reply_cut);
            self.warn(cut, sink);
        }
        let verdict = decide(self.closing.take(), ending, explain);
        if verdict != Verdict::Done && !self.preview.is_empty() {
            let preview = std::mem::take(&mut self.preview);
            self.reply_is(&preview);
        }
        if verdict == Verdict::Done
            && ending.stop.is_none()
            && !matches!(ending.exit, Exit::Code(0) | Exit::Unseen)
        {
            let message = format!("the turn is done, and the program ended with {}", ending.exit);
            self.warn(Diagnostic::new(Code::AgentExitDisagrees, message), sink);
        }
        Account {
            verdict,
            reply: std::mem::take(&mut self.reply),
            usage: self.usage,
            cost_usd: self.cost_usd,
            session: self.session.take(),
            model: self.model.take(),
            unknown: std::mem::take(&mut self.unknown).into_iter().collect(),
            diagnostics: std::mem::take(&mut self.diagnostics),
        }
    }
}

/// The one field that all formats share.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
}

/// What the CLIs write to their error output in every turn, and what explains nothing.
const CHATTER: &[&str] = &[
    "256-color support",
    "Basic terminal detected",
    "Ripgrep is not available",
    "[STARTUP]",
    "YOLO mode is enabled",
    "Reading prompt from stdin",
    "WARNING: proceeding, even though we could not",
];

/// Explains an end without a closing event from what stands in the error output.
pub(crate) fn explain_ending(ending: &Ending<'_>) -> Failure {
    let is_chatter = |line: &&str| CHATTER.iter().any(|chatter| line.contains(chatter));
    let lines: Vec<&str> = ending.stderr.lines().filter(|line| !is_chatter(line)).collect();
    let words = last_words(&lines);
    let reason = reason_in_words(&words).unwrap_or(Reason::Incomplete);
    let message = if words.is_empty() {
        format!("it ended with {} and did not close its turn", ending.exit)
    } else {
        format!("it ended with {}: {words}", ending.exit)
    };
    Failure::new(reason, message)
}

/// Guesses a reason from an error message. The CLIs have no codes for most of these.
pub(crate) fn reason_in_words(words: &str) -> Option<Reason> {
    const SIGNS: &[(&str, Reason)] = &[
        ("no conversation found", Reason::Session),
        ("no rollout found", Reason::Session),
        ("session id", Reason::Session),
        ("session identifier", Reason::Session),
        ("context window", Reason::ContextFull),
        ("prompt is too long", Reason::ContextFull),
        ("max_output_tokens", Reason::OutputFull),
        ("output token maximum", Reason::OutputFull),
        ("safety settings", Reason::Refused),
        ("usage policy", Reason::Refused),
        ("rate limit", Reason::RateLimit),
        ("too many requests", Reason::RateLimit),
        ("resource_exhausted", Reason::RateLimit),
        ("quota", Reason::RateLimit),
        ("api key", Reason::Auth),
        ("unauthorized", Reason::Auth),
        ("not logged in", Reason::Auth),
        ("missing environment variable", Reason::Auth),
        ("auth method", Reason::Auth),
        ("permission_denied", Reason::Auth),
        ("forbidden", Reason::Auth),
        ("not inside a trusted directory", Reason::Untrusted),
        ("trusted folder", Reason::Untrusted),
        ("stream disconnected", Reason::Network),
        ("stream closed", Reason::Network),
        ("connection", Reason::Network),
        ("fetch failed", Reason::Network),
        ("high demand", Reason::Server),
        ("overloaded", Reason::Server),
        ("internal server error", Reason::Server),
        ("invalid_request", Reason::Request),
        ("invalid_argument", Reason::Request),
        ("not_found", Reason::Model),
        ("unexpected argument", Reason::Usage),
        ("unknown option", Reason::Usage),
        ("unknown argument", Reason::Usage),
        ("argument", Reason::Usage),
        ("unknown feature flag", Reason::Usage),
        ("no prompt provided", Reason::Usage),
        ("no input provided", Reason::Usage),
        ("input must be provided", Reason::Usage),
        ("cannot use both", Reason::Usage),
        ("not valid utf-8", Reason::Usage),
    ];
    let words = words.to_ascii_lowercase();
    if let Some(status) = status_in_words(&words) {
        return Some(Reason::from_status(status));
    }
    SIGNS.iter().find(|(sign, _)| words.contains(sign)).map(|&(_, reason)| reason)
}

/// Finds the HTTP status in the two forms that the CLIs use: `status 401` and `"code":401`.
pub(crate) fn status_in_words(words: &str) -> Option<u16> {
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
    fn the_reply_is_what_was_said_after_the_last_pause() {
        let mut tally = Tally::new(100);
        tally.say("I will look.");
        tally.pause();
        tally.say("It is ");
        tally.say("four.");
        tally.pause();
        assert_eq!(tally.reply, "It is four.");
    }

    #[test]
    fn a_long_reply_is_cut_at_a_character() {
        let mut tally = Tally::new(5);
        tally.say("你好");
        assert_eq!((tally.reply.as_str(), tally.reply_cut), ("你", 3));
    }
}
