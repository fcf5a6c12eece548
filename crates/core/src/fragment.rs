//! Fragments: texts with their sources, of which prompts and requests are made.
//!
//! They are data. What is kept of them is decided on their sizes (`budget`), and the text is written
//! once, with its ledger, from what was decided (`render`). Rendered text is never read again.

use std::borrow::Cow;

use memchr::memchr_iter;

use crate::assembler::{Format, LineStyle};
use crate::escape::Escaping;
use crate::input::{AssemblerInput, Fencing, PromptContextMessage};
use crate::ledger::Source;
use crate::line_break::{count_line_breaks, line_starts};
use crate::whitespace::{trim, trim_start};

/// A part of a prompt under one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Who the agent is and how it works.
    System,
    /// What the team is to do.
    TeamTask,
    /// What was said before.
    Context,
    /// What to answer.
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
    /// The text.
    pub text: Cow<'a, str>,
    /// Where it came from.
    pub source: Source<'a>,
}

impl<'a> Fragment<'a> {
    /// Creates a fragment.
    pub fn new(text: impl Into<Cow<'a, str>>, source: Source<'a>) -> Self {
        Self { text: text.into(), source }
    }

    /// Trims a text, escapes it and sets it off as the input asks; a blank one is none.
    fn of(text: Option<&'a str>, input: &AssemblerInput<'_>, source: Source<'a>) -> Option<Self> {
        let text = trim(text?);
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

    /// Returns its bytes.
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
    /// How many characters of all but the context are escaped.
    escapes: usize,
}

impl<'a> Fragments<'a> {
    /// Takes an input apart.
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
        let role = Fragment::of(input.role_summary.as_deref(), input, setting("roleSummary"));
        let configured =
            Fragment::of(input.system_instruction.as_deref(), input, setting("systemInstruction"));
        let briefing = Fragment::of(input.briefing.as_deref(), input, setting("briefing"));
        Self {
            system: role.into_iter().chain(configured).chain(briefing).collect(),
            file: Fragment::of(input.instruction_file_text.as_deref(), input, file_source),
            task: Fragment::of(input.team_task.as_deref(), input, setting("teamTask")),
            context: ContextLines {
                messages: &input.context_messages,
                style: format.line,
                fencing: input.fencing,
                escaping: input.escaping,
            },
            message: Fragment::of(Some(&input.current_message), input, message_source),
            escapes: escapes(input),
        }
    }

    /// Returns how many characters are escaped in a prompt without the oldest context messages.
    pub(crate) fn escapes(&self, dropped: usize) -> usize {
        let kept = &self.context.messages[dropped..];
        self.escapes + kept.iter().map(|message| self.context.escapes(message)).sum::<usize>()
    }
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
    texts.map(|text| input.escaping.count(text)).sum()
}

/// Returns the first and the last line of a text that are not trimmed away, 1-based.
fn lines_of_body(text: &str) -> (u64, u64) {
    let breaks = |part: &str| memchr_iter(b'\n', part.as_bytes()).count() as u64;
    let start = text.len() - trim_start(text).len();
    let first = breaks(&text[..start]) + 1;
    (first, first + breaks(trim(text)))
}

/// The lines of the context: a view of the messages, so that a message that is dropped costs nothing
/// but a look at its size.
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

    /// Returns the bytes that indenting a message adds. Kept apart, so that the loop over sizes that
    /// need no look at the text stays small.
    #[inline(never)]
    fn indentation(&self, message: &PromptContextMessage<'_>) -> usize {
        let contents = self.style.contents(message).into_iter();
        match self.fencing {
            Fencing::AsWritten => 0,
            Fencing::Indented => contents.map(count_line_breaks).sum::<usize>() * INDENT.len(),
        }
    }

    /// Returns how many characters of a message are escaped.
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
        let id = self.messages[index].id.as_deref().map(Cow::Borrowed);
        Source::Message { id, index: Some(index) }
    }
}

/// What fenced lines begin with.
const INDENT: &str = "  ";

impl Fencing {
    /// Returns the line break after which content goes on where some of it was left out.
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
