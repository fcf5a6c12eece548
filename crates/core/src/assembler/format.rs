//! A format is data: headers, the shape of a context line, and where the system text goes.

use crate::input::PromptContextMessage;

/// Where the system text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemPlace {
    /// In the prompt, as its first section.
    Inline,
    /// Apart from the prompt, without a header.
    Apart,
}

/// The header of each section, without its line break; empty for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Before the system text.
    pub system: &'static str,
    /// Before the team task.
    pub task: &'static str,
    /// Before the context.
    pub context: &'static str,
    /// Before the message.
    pub message: &'static str,
}

impl Headers {
    /// Returns the headers that are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = &'static str> {
        let all = [self.system, self.task, self.context, self.message];
        all.into_iter().filter(|header| !header.is_empty())
    }
}

/// The shape of a context line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    /// `- from -> to: content`
    Arrow,
    /// `- from: content`
    Dash,
    /// `from: content`
    Bare,
}

impl LineStyle {
    /// Returns the texts that make up the line of a message.
    pub(crate) fn texts<'m>(self, message: &'m PromptContextMessage<'_>) -> [&'m str; 6] {
        let (from, content) = (&*message.from, &*message.content);
        match self {
            Self::Arrow => {
                let to = message.to.as_deref().unwrap_or("all");
                ["- ", from, " -> ", to, ": ", content]
            }
            Self::Dash => ["- ", from, "", "", ": ", content],
            Self::Bare => ["", from, "", "", ": ", content],
        }
    }
}

/// How a prompt is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Where the system text goes.
    pub system: SystemPlace,
    /// What stands before each section.
    pub headers: Headers,
    /// The shape of a context line.
    pub line: LineStyle,
}
