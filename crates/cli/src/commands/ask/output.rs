//! Showing an answer as it comes, and the account of it.

use std::io::{self, Write, stderr, stdout};

use convoke_agent::event::{Event, EventKind, Part};
use convoke_agent::redact::{Pieces, Redactor};
use convoke_agent::{Outcome, Verdict};
use convoke_core::ledger::{Ledger, Style, Table};
use convoke_model::{Sent, ThreadId};
use serde_json::json;

use super::Arguments;
use crate::diagnostics;
use crate::requests::tokens;
use crate::terminal::Paint;
use crate::threads::{BroughtBack, compacted};

/// What was sent, without its bytes.
#[derive(Debug)]
pub(super) struct SentRequest {
    path: &'static str,
    bytes: usize,
    unchanged_bytes: u64,
    ledger: Ledger<'static>,
}

impl From<&Sent<'_>> for SentRequest {
    fn from(sent: &Sent<'_>) -> Self {
        let mut ledger = sent.request.ledger.clone();
        ledger.unchanged_bytes = Some(sent.unchanged_bytes);
        Self {
            path: sent.request.path,
            bytes: sent.request.body.len(),
            unchanged_bytes: sent.unchanged_bytes,
            ledger,
        }
    }
}

/// Everything about an answer but its text.
pub(super) struct Account<'a> {
    pub ended: &'a Outcome,
    pub requests: &'a [SentRequest],
}

/// Shows an answer as it comes.
pub(super) struct Printer {
    is_silent: bool,
    paint: Paint,
    redactor: Redactor,
    /// Takes secrets out of the message that is being written, also those that come in two pieces.
    pieces: Pieces,
    /// What was shown of the message that is being written.
    shown: String,
    /// What has come of it since it began anew, until that is more than what was shown.
    again: Option<String>,
    is_first: bool,
}

impl Printer {
    pub fn new(arguments: &Arguments, redactor: Redactor) -> Self {
        Self {
            pieces: redactor.pieces(),
            redactor,
            // A summary is no answer to anybody.
            is_silent: arguments.json || arguments.compact,
            paint: Paint::for_stream(&stderr()),
            shown: String::new(),
            again: None,
            is_first: true,
        }
    }

    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        match &event.kind {
            EventKind::Text { text, part: Part::Delta } => {
                let text = self.pieces.push(text);
                self.piece(&text)
            }
            EventKind::Text { text, part: Part::Whole } => {
                // What was held back is a part of it.
                self.pieces = self.redactor.pieces();
                let text = self.redactor.redact(text).into_owned();
                self.whole(&text)
            }
            EventKind::Retry { attempt, max, reason, .. } => {
                let rest = self.pieces.finish();
                self.piece(&rest)?;
                self.again = Some(String::new());
                let of = max.map_or_else(String::new, |max| format!(" of {max}"));
                self.note(&format!("attempt {attempt}{of} failed: {reason}; trying again"))
            }
            EventKind::ToolStarted { name, input, .. } => self.note(&format!("{name} {input}")),
            _ => Ok(()),
        }
    }

    /// Shows what was held back, and ends the last line.
    pub fn finish(&mut self) -> io::Result<()> {
        let rest = self.pieces.finish();
        self.piece(&rest)?;
        let mut out = stdout().lock();
        if !self.is_first && !self.is_silent {
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    fn piece(&mut self, text: &str) -> io::Result<()> {
        let Some(again) = &mut self.again else { return self.print(text) };
        again.push_str(text);
        // The same words once more are not shown once more.
        if self.shown.starts_with(again.as_str()) {
            return Ok(());
        }
        let fresh = self.again.take().unwrap_or_default();
        self.set(&fresh)
    }

    /// The whole message is here: what was shown of it may have been of a failed attempt.
    fn whole(&mut self, text: &str) -> io::Result<()> {
        self.again = None;
        self.set(text)?;
        self.shown.clear();
        Ok(())
    }

    /// Makes this text the one that is shown, by adding to it where that is possible.
    fn set(&mut self, text: &str) -> io::Result<()> {
        if let Some(rest) = text.strip_prefix(self.shown.as_str()) {
            let rest = rest.to_owned();
            return self.print(&rest);
        }
        self.shown.clear();
        self.print(text)
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut out = stdout().lock();
        if self.shown.is_empty() && !std::mem::take(&mut self.is_first) {
            out.write_all(b"\n\n")?;
        }
        self.shown.push_str(text);
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn note(&self, text: &str) -> io::Result<()> {
        writeln!(stderr().lock(), "{}", self.paint.faint(&self.redactor.redact(text)))
    }
}

/// Writes the account of an answer.
pub(super) fn write(account: &Account<'_>, arguments: &Arguments) -> io::Result<()> {
    if arguments.json {
        return write_json(account);
    }
    if arguments.compact && account.ended.verdict == Verdict::Done {
        let summary = &account.ended.reply;
        writeln!(stdout(), "{}", compacted("the thread", summary, "--undo-compaction"))?;
    }
    let mut err = stderr().lock();
    let paint = Paint::for_stream(&err);
    if arguments.explain {
        let style = match paint {
            Paint::Plain => Style::Plain,
            Paint::Coloured => Style::Coloured,
        };
        for request in account.requests {
            writeln!(err, "POST {}", request.path)?;
            write!(err, "{}", Table { ledger: &request.ledger, style })?;
        }
        if let Some(usage) = account.ended.usage {
            writeln!(err, "the provider counted {}", tokens(&usage))?;
        }
    }
    if let Some(thread) = &account.ended.resume {
        let hint = format!("thread {}", thread.session);
        writeln!(err, "{}", paint.faint(&hint))?;
    }
    diagnostics::show(&account.ended.diagnostics, paint, &mut err)
}

/// Says what came back with an undone compaction.
pub(super) fn write_undone(
    thread: &ThreadId,
    undone: &BroughtBack,
    arguments: &Arguments,
) -> io::Result<()> {
    if !arguments.json {
        return writeln!(stdout(), "{}", undone.line("the thread"));
    }
    let value = json!({"version": 1, "thread": thread.as_str(), "undone": undone});
    writeln!(stdout(), "{value}")
}

fn write_json(account: &Account<'_>) -> io::Result<()> {
    let Account { ended, requests } = account;
    let requests = requests.iter().map(|request| {
        json!({
            "path": request.path,
            "bytes": request.bytes,
            "unchangedPrefixBytes": request.unchanged_bytes,
            "ledger": request.ledger,
        })
    });
    let value = json!({
        "version": 1,
        "thread": ended.resume.as_ref().map(|thread| &thread.session),
        "model": ended.model,
        "reply": ended.reply,
        "outcome": ended.verdict,
        "usage": ended.usage,
        "requests": requests.collect::<Vec<_>>(),
        "diagnostics": ended.diagnostics,
    });
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, &value)?;
    out.write_all(b"\n")
}
