//! Colour for terminals that want it.

use std::fmt::Display;

/// What a piece of text means, and so its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Headings and names.
    Strong,
    /// What may be overlooked.
    Faint,
    /// What is as it should be.
    Good,
    /// What deserves a look.
    Warning,
    /// What is lost.
    Bad,
    /// What to do.
    Action,
}

/// Paints, or does not.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// Paints on a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub fn for_output(is_terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { is_on: is_terminal && !refused && !is_dumb }
    }

    /// Paints always, or never.
    #[cfg(test)]
    pub fn always(is_on: bool) -> Self {
        Self { is_on }
    }

    /// Returns the text in the colour of its tone.
    pub fn text(self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "1;31",
            Tone::Action => "36",
        };
        let text = text.to_string();
        let is_painted = self.is_on && !text.is_empty();
        if is_painted { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    }
}
