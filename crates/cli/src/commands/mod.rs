//! The subcommands, one module each.

use clap::Subcommand;

use crate::outcome::Outcome;

mod capture;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Capture(capture::CaptureArguments),
}

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Capture(arguments) => capture::run(arguments),
    }
}
