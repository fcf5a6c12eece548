//! The subcommands, one module each.

use clap::Subcommand;

use crate::outcome::Outcome;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {}

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {}
}
