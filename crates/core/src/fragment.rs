//! Fragments: texts with their sources, of which prompts and requests are made.
//!
//! They are data. What is kept of them is decided on their sizes (`budget`), and the text is written
//! once, with its ledger, from what was decided (`render`). Rendered text is never read again.

use std::borrow::Cow;

use memchr::memchr_iter;

use crate::assembler::{Format, LineStyle};
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

    /// Trims a text and sets it off as asked; a blank one is none.
    fn of(text: Option<&'a str>, fencing: Fencing, source: Source<'a>) -> Option<Self> {
        let text = trim(text?);
        if text.is_empty() {
            return None;
        }
        let text = match fencing {
            Fencing::AsWritten => Cow::Borrowed(text),
            Fencing::Indented => Cow::Owned(indent_lines(text)),
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
}

impl<'a> Fragments<'a> {
    /// Takes an input apart.
    pub(crate) fn new(format: &Format, input: &'a AssemblerInput<'a>) -> Self {
        let fencing = input.fencing;
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
        let role = Fragment::of(input.role_summary.as_deref(), fencing, setting("roleSummary"));
        let configured = Fragment::of(
            input.system_instruction.as_deref(),
            fencing,
            setting("systemInstruction"),
        );
        let briefing = Fragment::of(input.briefing.as_deref(), fencing, setting("briefing"));
        Self {
            system: role.into_iter().chain(configured).chain(briefing).collect(),
            file: Fragment::of(input.instruction_file_text.as_deref(), fencing, file_source),
            task: Fragment::of(input.team_task.as_deref(), fencing, setting("teamTask")),
            context: ContextLines {
                messages: &input.context_messages,
                style: format.line,
                fencing,
            },
            message: Fragment::of(Some(&input.current_message), fencing, message_source),
        }
    }
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
}

impl<'a> ContextLines<'a> {
    /// Returns the bytes of one line.
    #[inline]
    pub(crate) fn size(&self, message: &PromptContextMessage<'_>) -> usize {
        let size = self.style.size(message);
        match self.fencing {
            Fencing::AsWritten => size,
            Fencing::Indented => size + self.indentation(message),
        }
    }

    /// Returns the bytes that indenting a message adds. Kept apart, so that the loop over sizes that
    /// need no look at the text stays small.
    #[inline(never)]
    fn indentation(&self, message: &PromptContextMessage<'_>) -> usize {
        let contents = self.style.contents(message).into_iter();
        contents.map(count_line_breaks).sum::<usize>() * INDENT.len()
    }

    /// Writes one line.
    pub(crate) fn write(&self, message: &PromptContextMessage<'_>, out: &mut String) {
        match self.fencing {
            Fencing::AsWritten => self.style.write(message, out, |text, out| out.push_str(text)),
            Fencing::Indented => self.style.write(message, out, push_indented),
        }
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
