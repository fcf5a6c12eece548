//! Fragments: the typed pieces of prompts and requests, each with its source.
//!
//! `budget` decides from their sizes how much of each is kept, and `render` writes the text once, with its
//! ledger. Rendered text is never parsed again.

use std::borrow::Cow;

use memchr::memchr_iter;

use crate::assembler::{Format, LineStyle};
use crate::escape::Escaping;
use crate::input::{AssemblerInput, ContextSource, Fencing, PromptContextMessage, Trimming};
use crate::ledger::Source;
use crate::line_break::{count_line_breaks, line_starts};
use crate::whitespace::{trim, trim_end, trim_start};

/// A part of a prompt under one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// The system text.
    System,
    /// The team task.
    TeamTask,
    /// Earlier messages.
    Context,
    /// The message to answer.
    Message,
}

impl Section {
    /// Returns the name that ledgers and diagnostics use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "SYSTEM",
            Self::TeamTask => "TEAM_TASK",
            Self::Context => "CONTEXT",
            Self::Message => "MESSAGE",
        }
    }
}

/// A text and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment<'a> {
    pub text: Cow<'a, str>,
    pub source: Source<'a>,
}

impl<'a> Fragment<'a> {
    /// Creates a fragment.
    pub fn new(text: impl Into<Cow<'a, str>>, source: Source<'a>) -> Self {
        Self { text: text.into(), source }
    }

    /// Trims, escapes and fences a text; `None` if it is blank.
    fn from_input(
        text: Option<&'a str>,
        input: &AssemblerInput<'_>,
        source: Source<'a>,
    ) -> Option<Self> {
        Self::trimmed(trim(text?), input, source)
    }

    /// Creates the message to answer, trimmed as the input asks.
    fn of_message(input: &'a AssemblerInput<'_>, source: Source<'a>) -> Option<Self> {
        let text = &*input.current_message;
        let text = match input.trimming {
            Trimming::BothEnds => trim(text),
            Trimming::End => trim_end(text),
        };
        Self::trimmed(text, input, source)
    }

    fn trimmed(text: &'a str, input: &AssemblerInput<'_>, source: Source<'a>) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let text = input.escaping.escape(text);
        let text = match input.fencing {
            Fencing::AsWritten => text,
            Fencing::Indented => Cow::Owned(indent_lines(&text)),
        };
        Some(Self { text, source })
    }

    /// Returns its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }
}

/// All fragments of one prompt. The field that holds a fragment decides whether it may be cut or dropped.
#[derive(Debug)]
pub(crate) struct Fragments<'a> {
    /// Never cut: the role summary, the configured system text and the briefing.
    pub(crate) system: Vec<Fragment<'a>>,
    /// May keep only its head and tail.
    pub(crate) file: Option<Fragment<'a>>,
    /// Never cut.
    pub(crate) task: Option<Fragment<'a>>,
    /// Each dropped whole, oldest first.
    pub(crate) context: ContextLines<'a>,
    /// May lose its end.
    pub(crate) message: Option<Fragment<'a>>,
    /// The parts of a message with attached files: the end of each in the text, and its source.
    pub(crate) message_parts: Vec<MessagePart<'a>>,
    /// The number of escaped characters outside the context.
    escapes: usize,
}

impl<'a> Fragments<'a> {
    /// Creates the fragments of an input.
    pub(crate) fn new(format: &Format, input: &'a AssemblerInput<'a>) -> Self {
        let setting = Source::setting;
        let file_source = match &input.instruction_file_path {
            Some(path) => {
                let lines = input.instruction_file_text.as_deref().map(lines_of_body);
                Source::File { path: Cow::Borrowed(path), lines }
            }
            None => setting("instructionFileText"),
        };
        let message_source = Source::Message {
            id: input.current_message_id.as_deref().map(Cow::Borrowed),
            index: None,
        };
        let role =
            Fragment::from_input(input.role_summary.as_deref(), input, setting("roleSummary"));
        let (message, message_parts) = message(input, message_source);
        let configured = Fragment::from_input(
            input.system_instruction.as_deref(),
            input,
            setting("systemInstruction"),
        );
        let briefing = Fragment::from_input(input.briefing.as_deref(), input, setting("briefing"));
        Self {
            system: role.into_iter().chain(configured).chain(briefing).collect(),
            file: Fragment::from_input(input.instruction_file_text.as_deref(), input, file_source),
            task: Fragment::from_input(input.team_task.as_deref(), input, setting("teamTask")),
            context: ContextLines {
                messages: &input.context_messages,
                style: format.line,
                fencing: input.fencing,
                escaping: input.escaping,
            },
            message,
            message_parts,
            escapes: escapes(input),
        }
    }

    /// Returns the number of escaped characters in a prompt without the oldest context messages.
    pub(crate) fn escapes(&self, dropped: usize) -> usize {
        let kept = &self.context.messages[dropped..];
        self.escapes + kept.iter().map(|message| self.context.escapes(message)).sum::<usize>()
    }
}

/// A part of a message that attaches files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessagePart<'a> {
    pub(crate) end: usize,
    /// `None` for the lines around a file.
    pub(crate) source: Option<Source<'a>>,
}

/// Creates the message to answer, with the files that it attaches.
fn message<'a>(
    input: &'a AssemblerInput<'a>,
    source: Source<'a>,
) -> (Option<Fragment<'a>>, Vec<MessagePart<'a>>) {
    let message = Fragment::of_message(input, source.clone());
    if input.attachments.is_empty() {
        return (message, Vec::new());
    }
    let mut text = message.map(|message| message.text.into_owned()).unwrap_or_default();
    let mut parts = Vec::new();
    let mut add = |text: &mut String, piece: &str, source: Option<Source<'a>>| {
        text.push_str(piece);
        // An empty file is attached too.
        if !piece.is_empty() || matches!(source, Some(Source::File { .. })) {
            parts.push(MessagePart { end: text.len(), source });
        }
    };
    let own = std::mem::take(&mut text);
    add(&mut text, &own, Some(source.clone()));
    for file in &input.attachments {
        let (opening, closing) = file.frame();
        let blank = if text.is_empty() { "" } else { "\n\n" };
        add(&mut text, &format!("{blank}{}", input.escaping.escape(&opening)), None);
        let lines = memchr_iter(b'\n', file.text.trim_end_matches('\n').as_bytes()).count() as u64;
        let path = Cow::Borrowed(&*file.path);
        let body = input.escaping.escape(&file.text);
        let body = match input.fencing {
            Fencing::AsWritten => body,
            Fencing::Indented => Cow::Owned(indent_lines(&body)),
        };
        let lines = (!body.is_empty()).then_some((1, lines + 1));
        add(&mut text, &body, Some(Source::File { path, lines }));
        add(&mut text, &closing, None);
    }
    (Some(Fragment::new(text, source)), parts)
}

fn escapes(input: &AssemblerInput<'_>) -> usize {
    let texts = [
        &input.role_summary,
        &input.system_instruction,
        &input.briefing,
        &input.instruction_file_text,
        &input.team_task,
    ];
    let texts = texts.into_iter().flatten().chain([&input.current_message]);
    let files = input.attachments.iter().flat_map(|file| [&file.path, &file.text]);
    texts.chain(files).map(|text| input.escaping.count(text)).sum()
}

/// Returns the first and the last line of a text that are not trimmed away, 1-based.
fn lines_of_body(text: &str) -> (u64, u64) {
    let breaks = |part: &str| memchr_iter(b'\n', part.as_bytes()).count() as u64;
    let start = text.len() - trim_start(text).len();
    let first = breaks(&text[..start]) + 1;
    (first, first + breaks(trim(text)))
}

/// The lines of the context. Borrows the messages, so that a dropped message costs only the computation of its
/// size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextLines<'a> {
    pub(crate) messages: &'a [PromptContextMessage<'a>],
    pub(crate) style: LineStyle,
    pub(crate) fencing: Fencing,
    pub(crate) escaping: Escaping,
}

impl<'a> ContextLines<'a> {
    /// Returns the bytes of one line.
    #[inline]
    pub(crate) fn size(&self, message: &PromptContextMessage<'_>) -> usize {
        let size = self.style.size(message);
        match (self.fencing, self.escaping) {
            (Fencing::AsWritten, Escaping::AsWritten) => size,
            _ => size + self.indentation(message) + self.escapes(message),
        }
    }

    /// Returns the bytes that indenting a message adds. Not inlined, to keep the loop small for sizes that do
    /// not depend on the text.
    #[inline(never)]
    fn indentation(&self, message: &PromptContextMessage<'_>) -> usize {
        let contents = self.style.contents(message).into_iter();
        match self.fencing {
            Fencing::AsWritten => 0,
            Fencing::Indented => contents.map(count_line_breaks).sum::<usize>() * INDENT.len(),
        }
    }

    /// Returns the number of escaped characters of a message.
    #[inline(never)]
    pub(crate) fn escapes(&self, message: &PromptContextMessage<'_>) -> usize {
        let contents = self.style.contents(message).into_iter();
        contents.map(|text| self.escaping.count(text)).sum()
    }

    /// Writes one line.
    pub(crate) fn write(&self, message: &PromptContextMessage<'_>, out: &mut String) {
        self.style.write(message, out, |text, out| {
            let text = self.escaping.escape(text);
            match self.fencing {
                Fencing::AsWritten => out.push_str(&text),
                Fencing::Indented => push_indented(&text, out),
            }
        });
    }

    /// Returns the source of the message at an index.
    pub(crate) fn source(&self, index: usize) -> Source<'a> {
        match &self.messages[index].source {
            ContextSource::Message(id) => {
                let id = id.as_deref().map(Cow::Borrowed);
                Source::Message { id, index: Some(index) }
            }
            ContextSource::Setting(name) => Source::setting(name),
        }
    }
}

/// The indentation of fenced lines.
const INDENT: &str = "  ";

impl Fencing {
    /// Returns the line break between an omission and the text that continues after it.
    pub(crate) fn resumption(self) -> &'static str {
        match self {
            Self::AsWritten => "\n",
            Self::Indented => "\n  ",
        }
    }
}

/// Indents every line of a text, the first one too.
fn indent_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(INDENT);
    push_indented(text, &mut out);
    out
}

/// Appends a text with every line but the first indented.
fn push_indented(text: &str, out: &mut String) {
    let mut from = 0;
    for start in line_starts(text) {
        out.push_str(&text[from..start]);
        out.push_str(INDENT);
        from = start;
    }
    out.push_str(&text[from..]);
}
