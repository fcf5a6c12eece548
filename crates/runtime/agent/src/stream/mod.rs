//! Parses the output of agents into [`AgentEvent`]s.
//!
//! A reader parses line by line, keeps only the `TurnProgress` and does no I/O, so every output can be tested
//! without a CLI.

pub mod acp;
pub mod lenient;
pub mod lines;
pub mod plain;
mod shorten;
mod surrogate;
pub mod words;

use std::borrow::Cow;
use std::collections::BTreeSet;

use convoke_core::Diagnostic;
use convoke_core::figures::thousands;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, Verdict};
use serde::Deserialize;

use self::lenient::Text;
pub use self::words::{explain_ending, reason_in_words};
pub(crate) use self::words::{is_signed_out, is_unconnected};
use crate::diagnostics;
use crate::ending::{Ending, Exit, decide};
use crate::turn::TurnResult;

/// The number of recent warnings that a new one is compared with.
const SAID_AGAIN: usize = 32;

/// A consumer of events.
pub type Sink<'s> = dyn FnMut(AgentEvent<'_>) + 's;

/// The phase of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPhase {
    /// The agent is running, or is waiting for sub-agents.
    Running,
    /// The agent has replied. Its background tasks may cause another reply.
    Answered,
    /// The agent has closed its turn.
    Over,
}

/// Parses one agent's output.
pub trait EventReader: Send {
    /// Reads a line, without its newline.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>);

    /// Reads a line of the error output, for agents that report retries there.
    fn error_line(&mut self, _line: &str, _sink: &mut Sink<'_>) {}

    /// Returns the progress of the turn.
    fn progress(&self) -> &TurnProgress;

    /// Returns the progress of the turn, mutably.
    fn progress_mut(&mut self) -> &mut TurnProgress;

    /// Returns whether the output is text. Most agents write lines of JSON.
    fn is_text(&self) -> bool {
        false
    }

    /// Sets the number of bytes that were cut from the next line.
    fn line_lacks(&mut self, bytes: u64) {
        self.progress_mut().line_lacks(bytes);
    }

    /// Returns the phase of the turn.
    fn phase(&self) -> TurnPhase {
        self.progress().phase()
    }

    /// Returns the id of the agent's session, once the agent has named it.
    fn session(&self) -> Option<&str> {
        self.progress().session.as_deref()
    }

    /// Returns the result of the turn, after the last line. It has no resume handle, because a reader does not
    /// know the session's working directory and model.
    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult;
}

/// The result of a turn while its output is read; shared by all readers.
#[derive(Debug, Default)]
pub struct TurnProgress {
    /// The id of the session.
    pub session: Option<String>,
    /// The program's name of the last thing in its session, to which it can return.
    pub mark: Option<String>,
    /// The version of the program.
    pub version: Option<String>,
    /// The tokens of the last request.
    pub window: Option<u64>,
    pub model: Option<String>,
    /// The tokens.
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    /// The verdict of the closing event.
    pub closing: Option<Verdict>,
    reply: String,
    reply_limit: usize,
    reply_cut: u64,
    /// The number of bytes that were cut from the current line.
    line_lacks: u64,
    /// Whether the next text begins a new reply, as after a tool call.
    reply_over: bool,
    /// Deltas whose whole text has not arrived. They are the partial reply if the turn ends.
    preview: String,
    /// The number of retries, as counted by the agent or by Convoke.
    attempts: u64,
    /// The number of requests per reported failure.
    pub requests_per_notice: u64,
    unknown: BTreeSet<String>,
    noise: u64,
    damaged: u64,
    diagnostics: Vec<Diagnostic>,
}

impl TurnProgress {
    /// Creates the progress of a turn whose reply has a limit.
    pub fn new(reply_limit: usize) -> Self {
        Self { reply_limit, requests_per_notice: 1, ..Self::default() }
    }

    /// Returns the phase of a turn that ends with its closing event.
    pub fn phase(&self) -> TurnPhase {
        if self.closing.is_some() { TurnPhase::Over } else { TurnPhase::Running }
    }

    /// Adds a delta.
    pub fn preview(&mut self, delta: &str) {
        let room = self.reply_limit.saturating_sub(self.preview.len());
        self.preview.push_str(&delta[..delta.floor_char_boundary(room.min(delta.len()))]);
    }

    /// Discards the deltas of a text that starts over.
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
        self.reply_cut += cut.len() as u64 + std::mem::take(&mut self.line_lacks);
    }

    /// Sets the number of bytes that were cut from the next line.
    pub fn line_lacks(&mut self, bytes: u64) {
        self.line_lacks = bytes;
    }

    /// Returns whether a part of the current line was cut.
    pub fn is_line_cut(&self) -> bool {
        self.line_lacks > 0
    }

    /// Makes the next text begin a new reply.
    pub fn pause(&mut self) {
        self.reply_over = true;
    }

    /// Sets the whole reply.
    pub fn reply_is(&mut self, text: &str) {
        self.reply_over = true;
        self.say(text);
        self.reply_over = false;
    }

    /// Returns whether the reply is empty so far.
    pub fn has_no_reply(&self) -> bool {
        self.reply.is_empty()
    }

    /// Ends the reply. Without any text after the last pause it is empty: what the agent said before a tool call is no answer.
    pub fn reply_nothing_new(&mut self) {
        if self.reply_over {
            self.reply_is("");
        }
    }

    /// Returns the number of a failed attempt: the agent's own count, else Convoke's.
    pub fn attempt(&mut self, counted: Option<u64>) -> u64 {
        self.attempts = counted.unwrap_or(self.attempts + 1);
        self.attempts
    }

    /// Resets the count of attempts after a response.
    pub fn answered(&mut self) {
        self.attempts = 0;
    }

    /// Emits a warning, and adds it to the result. The result contains a repeated warning once, with a count.
    pub fn warn(&mut self, diagnostic: Diagnostic, sink: &mut Sink<'_>) {
        sink(AgentEvent::own(AgentEventKind::Warning(diagnostic.clone())));
        let said = self.diagnostics.iter_mut().rev().take(SAID_AGAIN);
        let mut same =
            said.filter(|d| d.code == diagnostic.code && d.message == diagnostic.message);
        match same.next() {
            Some(first) => first.count = Some(first.count.unwrap_or(1) + 1),
            None => self.diagnostics.push(diagnostic),
        }
    }

    /// Forwards an event of an unknown kind, and reports the kind the first time.
    pub fn unknown(&mut self, name: &str, line: &str, sink: &mut Sink<'_>) {
        sink(AgentEvent::own(AgentEventKind::Unknown {
            name: Cow::Borrowed(name),
            json: Cow::Borrowed(line),
        }));
        // Bounded, because a stream may contain any number of kinds.
        if self.unknown.len() < 64 && self.unknown.insert(name.to_owned()) {
            let message = format!("unknown event type `{name}`");
            self.warn(Diagnostic::new(diagnostics::AGENT_EVENT_UNKNOWN, message), sink);
        }
    }

    /// Counts a line that is not an event.
    pub fn noise(&mut self, line: &str) {
        self.noise += u64::from(!line.trim_ascii().is_empty());
    }

    /// Returns a line as text; invalid UTF-8 is replaced.
    pub fn text<'l>(&mut self, line: &'l [u8]) -> Cow<'l, str> {
        // Several times faster than lossy decoding, which hardly any line needs.
        if let Ok(text) = std::str::from_utf8(line) {
            return Cow::Borrowed(text);
        }
        self.damaged += 1;
        String::from_utf8_lossy(line)
    }

    /// Returns a line as JSON text, without a byte order mark and with lone surrogates replaced.
    pub fn json<'l>(&mut self, line: &'l [u8]) -> Cow<'l, str> {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let text = self.text(line);
        match surrogate::mended(&text) {
            Some(mended) => {
                self.damaged += 1;
                Cow::Owned(mended)
            }
            None => text,
        }
    }

    /// Handles a line that does not parse as a known event.
    pub fn unreadable(&mut self, line: &str, sink: &mut Sink<'_>) {
        match serde_json::from_str::<TypedLine<'_>>(line) {
            Ok(TypedLine { kind: Text(Some(kind)) }) => self.unknown(&kind, line, sink),
            _ => self.noise(line),
        }
    }

    /// Determines the verdict and returns the result.
    pub fn close(
        &mut self,
        ending: &Ending<'_>,
        explain: impl FnOnce(&Ending<'_>) -> Failure,
        sink: &mut Sink<'_>,
    ) -> TurnResult {
        if self.noise > 0 {
            let message = format!("{} of output {} no event", lines(self.noise), is(self.noise));
            let noise =
                Diagnostic::new(diagnostics::AGENT_OUTPUT_NOISE, message).with_count(self.noise);
            self.warn(noise, sink);
        }
        if self.damaged > 0 {
            let message = format!(
                "{} of output {} broken characters",
                lines(self.damaged),
                has(self.damaged)
            );
            let damage = Diagnostic::new(diagnostics::AGENT_OUTPUT_DAMAGED, message)
                .with_count(self.damaged);
            self.warn(damage, sink);
        }
        if self.reply_cut > 0 {
            let message = format!(
                "{} bytes of the reply were cut; the limit is {}",
                thousands(self.reply_cut),
                thousands(self.reply_limit as u64)
            );
            let cut = Diagnostic::new(diagnostics::AGENT_REPLY_TRUNCATED, message)
                .with_bytes(self.reply_cut);
            self.warn(cut, sink);
        }
        let verdict = decide(self.closing.take(), ending, explain);
        if verdict != Verdict::Done && !self.preview.is_empty() {
            let preview = std::mem::take(&mut self.preview);
            self.reply_is(&preview);
        }
        if verdict == Verdict::Done
            && ending.stop.is_none()
            && !matches!(
                ending.exit,
                Exit::Code(0) | Exit::Dismissed | Exit::Resting | Exit::Unknown
            )
        {
            let message = format!("the turn completed, but the program ended with {}", ending.exit);
            self.warn(Diagnostic::new(diagnostics::AGENT_EXIT_DISAGREES, message), sink);
        }
        TurnResult {
            reply: std::mem::take(&mut self.reply),
            usage: self.usage,
            cost_usd: self.cost_usd,
            model: self.model.take(),
            diagnostics: std::mem::take(&mut self.diagnostics),
            ..TurnResult::new(verdict)
        }
    }
}

/// The field that all formats share.
#[derive(Deserialize)]
struct TypedLine<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
}

fn lines(count: u64) -> String {
    format!("{count} line{}", if count == 1 { "" } else { "s" })
}

fn is(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn has(count: u64) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_is_what_was_said_after_the_last_pause() {
        let mut progress = TurnProgress::new(100);
        progress.say("I will look.");
        progress.pause();
        progress.say("It is ");
        progress.say("four.");
        progress.pause();
        assert_eq!(progress.reply, "It is four.");
    }

    #[test]
    fn a_long_reply_is_cut_at_a_character() {
        let mut progress = TurnProgress::new(5);
        progress.say("你好");
        assert_eq!((progress.reply.as_str(), progress.reply_cut), ("你", 3));
    }
}
