//! The output of `convoke ask`: the answer as it is streamed, and the report at the end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use convoke_agent::TurnResult;
use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::id::ThreadId;
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_protocol::verdict::Verdict;
use convoke_redact::{Redactor, StreamRedactor};
use convoke_session::AnyStore;
use serde_json::json;

use super::Arguments;
use super::shown_text::{NewText, ShownText};
use crate::diagnostics;
use crate::program;
use crate::requests::{retry, tokens, write_ledger};
use crate::terminal::{Paint, Screen, ledger_style, printable, stderr, stdout};
use crate::threads::{RestoredItems, compacted};

/// The report of an answer.
pub(super) struct AnswerReport<'a> {
    pub ended: &'a TurnResult,
    pub thread: Option<AskedThread>,
    /// The requests of the turn, with their ledgers.
    requests: Vec<(RequestRecord<()>, RequestTexts)>,
}

impl<'a> AnswerReport<'a> {
    /// Reads the requests of these numbers from the store.
    pub async fn read(
        ended: &'a TurnResult,
        thread: Option<AskedThread>,
        numbers: &[u64],
        store: &AnyStore,
    ) -> anyhow::Result<Self> {
        let mut requests = Vec::new();
        if let Some(id) = thread.as_ref().and_then(|thread| ThreadId::parse(thread.name())) {
            let records = store.requests(&id).await?.into_iter();
            for record in records.filter(|record| numbers.contains(&record.number)) {
                let texts = store.request_texts(&id, record.number).await?;
                requests.push((record, texts));
            }
        }
        Ok(Self { ended, thread, requests })
    }
}

/// The thread of a question.
pub(super) enum AskedThread {
    /// It can be continued.
    Continuable(String),
    /// Its first turn failed: only the requests are stored.
    OnlySent(String),
}

impl AskedThread {
    fn name(&self) -> &str {
        match self {
            Self::Continuable(name) | Self::OnlySent(name) => name,
        }
    }
}

/// The output streams: the answer on one, notes on the other.
pub(super) struct Streams<O, E> {
    pub out: O,
    pub err: E,
    /// Whether the answer is written to a terminal, where control characters are replaced.
    pub is_terminal: bool,
    /// Whether both streams are the same terminal or file: then a note begins on a new line.
    pub are_one: bool,
    pub paint: Paint,
}

impl Streams<Screen, Screen> {
    pub fn of_process() -> Self {
        let (out, err) = (stdout(), stderr());
        let place = |stream: BorrowedFd<'_>| {
            let file = File::from(stream.try_clone_to_owned().ok()?);
            file.metadata().ok().map(|it| (it.dev(), it.ino()))
        };
        let are_one = place(out.as_fd()).is_some_and(|it| Some(it) == place(err.as_fd()));
        let (is_terminal, paint) = (out.is_terminal(), Paint::for_stream(&err));
        Self { out, err, is_terminal, are_one, paint }
    }
}

/// The part of a turn that is shown while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveOutput {
    /// The answer and notes.
    Answer,
    /// Only notes: a summary is not an answer.
    Notes,
    /// Nothing: everything is written at the end.
    Nothing,
}

/// Prints an answer as it is streamed.
pub(super) struct Printer<O, E> {
    streams: Streams<O, E>,
    watched: LiveOutput,
    redactor: Redactor,
    /// Redacts the message that is being written, also secrets that are split between two pieces.
    pieces: StreamRedactor,
    shown: ShownText,
    is_first: bool,
    is_in_line: bool,
}

impl<O: Write, E: Write> Printer<O, E> {
    pub fn new(streams: Streams<O, E>, watched: LiveOutput, redactor: Redactor) -> Self {
        Self {
            streams,
            watched,
            pieces: redactor.stream(),
            redactor,
            shown: ShownText::default(),
            is_first: true,
            is_in_line: false,
        }
    }

    pub fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        match (&event.kind, self.watched) {
            (_, LiveOutput::Nothing) | (AgentEventKind::Text { .. }, LiveOutput::Notes) => Ok(()),
            (AgentEventKind::Text { text, part: TextPart::Delta }, _) => {
                let text = self.pieces.push(text);
                let fresh = self.shown_piece(&text);
                self.print(fresh)
            }
            (AgentEventKind::Text { text, part: TextPart::Whole }, _) => {
                // The whole message includes the text that the redactor held back.
                self.pieces = self.redactor.stream();
                let text = self.redactor.redact(text).into_owned();
                let is_begun = !self.shown.is_empty();
                let fresh = self.shown.whole(&text);
                self.print((fresh, is_begun))
            }
            (AgentEventKind::Request { .. }, _) => {
                // A new message begins.
                self.shown = ShownText::default();
                Ok(())
            }
            (kind @ AgentEventKind::Retry { .. }, _) => {
                self.show_held()?;
                self.shown.start_attempt();
                retry(kind).map_or(Ok(()), |note| self.note(&note))
            }
            (AgentEventKind::ToolStarted { name, input, .. }, _) => {
                self.note(&printable(&format!("{name} {input}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes text that was held back, and ends the last line.
    pub fn finish(&mut self) -> io::Result<()> {
        self.show_held()?;
        if !self.is_first {
            self.streams.out.write_all(b"\n")?;
        }
        self.streams.out.flush()
    }

    fn show_held(&mut self) -> io::Result<()> {
        let rest = self.pieces.finish();
        let fresh = self.shown_piece(&rest);
        self.print(fresh)
    }

    fn shown_piece<'t>(&mut self, text: &'t str) -> (NewText<'t>, bool) {
        let is_begun = !self.shown.is_empty();
        (self.shown.piece(text), is_begun)
    }

    fn print(&mut self, (fresh, is_begun): (NewText<'_>, bool)) -> io::Result<()> {
        let (text, continues) = match &fresh {
            NewText::More(text) => (*text, is_begun),
            NewText::Separate(text) => (text.as_str(), false),
        };
        if text.is_empty() {
            return Ok(());
        }
        let Streams { out, is_terminal, .. } = &mut self.streams;
        if !continues && !std::mem::take(&mut self.is_first) {
            out.write_all(b"\n\n")?;
        }
        let shown = if *is_terminal { convoke_chat::printable(text) } else { text.into() };
        out.write_all(shown.as_bytes())?;
        self.is_in_line = !shown.ends_with('\n');
        out.flush()
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        let Streams { err, are_one, paint, .. } = &mut self.streams;
        if *are_one && std::mem::take(&mut self.is_in_line) {
            err.write_all(b"\n")?;
        }
        writeln!(err, "{}", paint.faint(&self.redactor.redact(text)))
    }
}

/// Writes the report of an answer.
pub(super) fn write(report: &AnswerReport<'_>, arguments: &Arguments) -> io::Result<()> {
    if arguments.json {
        return write_json(report);
    }
    if arguments.compact && report.ended.verdict == Verdict::Done {
        let text = compacted("the thread", &report.ended.reply, "--undo-compaction");
        writeln!(stdout(), "{text}")?;
    }
    let mut err = stderr();
    if arguments.explain {
        for (request, texts) in &report.requests {
            writeln!(err, "POST {}", request.meta.path)?;
            write_ledger(&mut err, texts, &request.meta, ledger_style(&stderr()))?;
        }
        if let Some(usage) = report.ended.usage {
            writeln!(err, "the provider counted {}", tokens(&usage))?;
        }
    }
    if let Some(thread) = &report.thread {
        let hint = match thread {
            AskedThread::Continuable(name) => format!("thread {name}"),
            AskedThread::OnlySent(name) => {
                let program = program::name();
                let what = if report.ended.verdict.is_sent() {
                    "the requests are stored"
                } else {
                    "nothing was sent; the request is stored"
                };
                format!(
                    "{what}: {program} ask --thread {name} --request{}",
                    program::store_option()
                )
            }
        };
        let paint = Paint::for_stream(&err);
        writeln!(err, "{}", paint.faint(&hint))?;
    }
    diagnostics::show(&report.ended.diagnostics)
}

/// Writes the report of an undone compaction.
pub(super) fn write_undone(
    thread: &ThreadId,
    undone: &RestoredItems,
    arguments: &Arguments,
) -> io::Result<()> {
    if !arguments.json {
        return writeln!(stdout(), "{}", undone.line("the thread"));
    }
    let value = json!({"version": 1, "thread": thread.as_str(), "undone": undone});
    writeln!(stdout(), "{value}")
}

fn write_json(report: &AnswerReport<'_>) -> io::Result<()> {
    let AnswerReport { ended, thread, requests } = report;
    let requests = requests.iter().map(|(record, texts)| {
        let meta = &record.meta;
        Ok(json!({
            "path": meta.path,
            "bytes": record.sent_bytes(),
            "unchangedPrefixBytes": meta.unchanged_bytes,
            "ledger": texts.parse_ledger(meta)?,
        }))
    });
    let value = json!({
        "version": 1,
        "thread": thread.as_ref().map(AskedThread::name),
        "goesOn": matches!(thread, Some(AskedThread::Continuable(_))),
        "model": ended.model,
        "reply": ended.reply,
        "outcome": ended.verdict,
        "usage": ended.usage,
        "requests": requests.collect::<serde_json::Result<Vec<_>>>()?,
        "diagnostics": ended.diagnostics,
    });
    let mut out = stdout();
    serde_json::to_writer(&mut out, &value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints events, and returns the text of both streams.
    fn printed(is_terminal: bool, events: Vec<AgentEventKind<'static>>) -> [String; 2] {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let paint = Paint::Plain;
        let streams = Streams { out: &mut out, err: &mut err, is_terminal, are_one: false, paint };
        let mut printer = Printer::new(streams, LiveOutput::Answer, Redactor::default());
        for kind in events {
            printer.event(&AgentEvent::own(kind)).unwrap();
        }
        printer.finish().unwrap();
        [out, err].map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn no_text_of_a_server_controls_the_terminal() {
        let events = || {
            vec![
                AgentEventKind::Retry {
                    attempt: 1,
                    max: None,
                    status: None,
                    wait: None,
                    reason: "\u{1b}]0;title\u{7}busy\r".into(),
                },
                AgentEventKind::ToolStarted {
                    id: "1".into(),
                    name: "read\u{9b}2J".into(),
                    input: "{\n\u{1b}[1A}".into(),
                },
                AgentEventKind::Text { text: "one\u{1b}".into(), part: TextPart::Delta },
                AgentEventKind::Text { text: "one\u{1b}[2J\ntwo".into(), part: TextPart::Whole },
            ]
        };
        let notes = "attempt 1 failed: ]0;titlebusy; retrying\nread2J { [1A}\n";
        assert_eq!(printed(true, events()), ["one␛[2J\ntwo\n", notes]);
        // A pipe gets the exact bytes.
        assert_eq!(printed(false, events()), ["one\u{1b}[2J\ntwo\n", notes]);
    }
}
