//! Colours.

use std::ffi::OsStr;
use std::fmt::Display;

use convoke_core::ledger::Style;

use super::filter::Control;
use super::settings::{self, ColorChoice};
use super::{Screen, width};

/// Whether output is coloured: by default on a terminal without `NO_COLOR`, else as `--color` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text alone.
    Plain,
    /// With colours.
    Coloured,
}

/// The meaning of a piece of text, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Headings and names.
    Strong,
    /// Less important text.
    Faint,
    /// Success, or the user's own parts.
    Good,
    /// Warnings.
    Warning,
    /// Losses and failures.
    Bad,
    /// Advice.
    Action,
}

/// Returns the style of a ledger's table on a stream.
pub fn ledger_style(stream: &Screen) -> Style<'static> {
    let columns = stream.is_terminal().then(|| width(stream));
    match Paint::for_stream(stream) {
        Paint::Plain => Style { columns, ..Style::default() },
        Paint::Coloured => Style {
            columns,
            cut: (Control::Yellow.mark(), Control::Reset.mark()),
            dropped: (Control::Red.mark(), Control::Reset.mark()),
        },
    }
}

impl Paint {
    /// Returns the mode for a stream.
    pub fn for_stream(stream: &Screen) -> Self {
        let is_wanted = match settings::color() {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if !stream.is_terminal() => false,
            ColorChoice::Auto => {
                let is_set = |name, value: fn(&OsStr) -> bool| {
                    std::env::var_os(name).is_some_and(|set| value(&set))
                };
                !is_set("NO_COLOR", |value| !value.is_empty())
                    && !is_set("TERM", |value| value == "dumb")
            }
        };
        if is_wanted { Self::Coloured } else { Self::Plain }
    }

    /// Returns a text in the colour of its tone.
    pub fn text(self, tone: Tone, text: impl Display) -> String {
        let text = text.to_string();
        if self == Self::Plain || text.is_empty() {
            return text;
        }
        let control = match tone {
            Tone::Strong => Control::Bold,
            Tone::Faint => Control::Faint,
            Tone::Good => Control::Green,
            Tone::Warning => Control::Yellow,
            Tone::Bad => Control::BoldRed,
            Tone::Action => Control::Cyan,
        };
        format!("{}{text}{}", control.mark(), Control::Reset.mark())
    }

    /// Paints a warning.
    pub fn warning(self, text: &str) -> String {
        self.text(Tone::Warning, text)
    }

    /// Paints a heading or a name.
    pub fn strong(self, text: &str) -> String {
        self.text(Tone::Strong, text)
    }

    /// Paints success, or the user's own parts.
    pub fn good(self, text: &str) -> String {
        self.text(Tone::Good, text)
    }

    /// Paints a loss or a failure.
    pub fn bad(self, text: &str) -> String {
        self.text(Tone::Bad, text)
    }

    /// Paints less important text.
    pub fn faint(self, text: &str) -> String {
        self.text(Tone::Faint, text)
    }
}
