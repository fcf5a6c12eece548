//! The options of every command: verbosity and colours.

use std::sync::OnceLock;

use clap::{ArgAction, Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

/// The global options for output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputSettings {
    /// When to use colours
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    color: ColorChoice,
    /// Show results, errors and losses only: no notes, no headings, no summary
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Log to standard error; repeat for more detail
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
}

/// The choice of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always, even to a pipe or a file
    Always,
    /// Never
    Never,
}

static SETTINGS: OnceLock<OutputSettings> = OnceLock::new();

impl OutputSettings {
    /// Sets the settings of this process. Only the first call has an effect.
    pub fn apply(self) {
        let _ = SETTINGS.set(self);
    }

    /// Returns the level of the log.
    pub fn log_level(self) -> Option<LevelFilter> {
        match self.verbose {
            0 => None,
            1 => Some(LevelFilter::INFO),
            2 => Some(LevelFilter::DEBUG),
            _ => Some(LevelFilter::TRACE),
        }
    }
}

/// Returns the colour setting of this process.
pub(super) fn color() -> ColorChoice {
    SETTINGS.get().map_or(ColorChoice::Auto, |settings| settings.color)
}

/// Returns whether notes, headings and summaries are left out.
pub fn is_quiet() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.quiet)
}
