//! What the terminal can show.

use std::fmt::Display;
use std::io::IsTerminal;

/// Whether output is coloured: on a terminal, unless `NO_COLOR` says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text alone.
    Plain,
    /// With colours.
    Coloured,
}

/// What a piece of text means, and so its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Headings and names.
    Strong,
    /// What matters less than what is around it.
    Faint,
    /// What is as it should be, or the user's own.
    Good,
    /// What deserves a look.
    Warning,
    /// What is lost, or will fail.
    Bad,
    /// What to do.
    Action,
}

impl Paint {
    /// Decides for a stream.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        if stream.is_terminal() && !refused && !is_dumb { Self::Coloured } else { Self::Plain }
    }

    /// Returns a text in the colour of its tone.
    pub fn text(self, tone: Tone, text: impl Display) -> String {
        let text = text.to_string();
        if self == Self::Plain || text.is_empty() {
            return text;
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "1;31",
            Tone::Action => "36",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Shows something that the user should look at.
    pub fn warning(self, text: &str) -> String {
        self.text(Tone::Warning, text)
    }

    /// Shows a heading or a name.
    pub fn strong(self, text: &str) -> String {
        self.text(Tone::Strong, text)
    }

    /// Shows something that is as it should be, or the user's own.
    pub fn good(self, text: &str) -> String {
        self.text(Tone::Good, text)
    }

    /// Shows something that is lost, or will fail.
    pub fn bad(self, text: &str) -> String {
        self.text(Tone::Bad, text)
    }

    /// Shows something that matters less than what is around it.
    pub fn faint(self, text: &str) -> String {
        self.text(Tone::Faint, text)
    }
}
