//! What the terminal can show.

use std::io::IsTerminal;

/// Whether output is coloured: on a terminal, unless `NO_COLOR` says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text alone.
    Plain,
    /// With colours.
    Coloured,
}

impl Paint {
    /// Decides for a stream.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if stream.is_terminal() && !refused { Self::Coloured } else { Self::Plain }
    }

    /// Shows something that the user should look at.
    pub fn warning(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Shows a heading or a name.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Shows something that is as it should be, or the user's own.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Shows something that is lost, or will fail.
    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Shows something that matters less than what is around it.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}
