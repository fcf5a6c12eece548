//! The subcommands, one module each.

mod explain;

use clap::Subcommand;

use crate::outcome::Outcome;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Explain(explain::Explain),
}

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Explain(arguments) => explain::run(&arguments),
    }
}
