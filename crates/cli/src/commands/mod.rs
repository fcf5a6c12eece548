//! The subcommands, one module each.

use clap::Subcommand;

use crate::outcome::Outcome;

mod capture;
mod doctor;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Capture(capture::CaptureArguments),
    Doctor(doctor::DoctorArguments),
}

/// Runs a subcommand.
pub fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Capture(arguments) => capture::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    }
}
