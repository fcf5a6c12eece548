//! What the terminal can show.

use std::borrow::Cow;
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

/// Returns a text without control characters, so that what somebody wrote cannot draw on the screen.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\t';
    if text.contains(is_control) {
        Cow::Owned(text.replace(is_control, ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns a text of several lines as it is written to a stream: a terminal must not be steered by it,
/// and whoever else reads gets its bytes.
pub fn shown_on<'t>(stream: &impl IsTerminal, text: &'t str) -> Cow<'t, str> {
    if stream.is_terminal() { convoke_chat::printable(text) } else { Cow::Borrowed(text) }
}
