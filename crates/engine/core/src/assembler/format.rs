//! A format is data: headers, the shape of a context line, and where the system text goes.

use crate::input::PromptContextMessage;

/// The place of the system text.
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
    /// Returns the author, the recipients and the text, as far as a line has them.
    #[inline]
    pub(crate) fn contents<'m>(self, message: &'m PromptContextMessage<'_>) -> [&'m str; 3] {
        let to = match self {
            Self::Arrow => message.to.as_deref().unwrap_or("all"),
            Self::Dash | Self::Bare => "",
        };
        [&message.from, to, &message.content]
    }

    /// Returns the bytes of the line of a message.
    #[inline]
    pub(crate) fn size(self, message: &PromptContextMessage<'_>) -> usize {
        let [from, to, content] = self.contents(message);
        let frame = match self {
            Self::Arrow => "-  -> : ".len(),
            Self::Dash => "- : ".len(),
            Self::Bare => ": ".len(),
        };
        frame + from.len() + to.len() + content.len()
    }

    /// Writes the line of a message, and its content through `write`.
    pub(crate) fn write(
        self,
        message: &PromptContextMessage<'_>,
        out: &mut String,
        write: impl Fn(&str, &mut String),
    ) {
        let [from, to, content] = self.contents(message);
        match self {
            Self::Arrow | Self::Dash => out.push_str("- "),
            Self::Bare => {}
        }
        write(from, out);
        if self == Self::Arrow {
            out.push_str(" -> ");
            write(to, out);
        }
        out.push_str(": ");
        write(content, out);
    }
}

/// The format of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The place of the system text.
    pub system: SystemPlace,
    /// The header of each section.
    pub headers: Headers,
    /// The shape of a context line.
    pub line: LineStyle,
}
