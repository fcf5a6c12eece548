//! `convoke assemble`: the engine for other languages, one prompt a line.

use std::io::{BufWriter, stdin};

use clap::Args;
use convoke_pipe::assemble::assemble_lines;

use crate::diagnostics::Deny;
use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Reads {"name"?, "agent", "input"} a line and writes {"prompt", "systemFlag", "ledger", "diagnostics"}.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Accepted for uniformity: the output is always JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Answers every line of standard input.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let reported = assemble_lines(stdin().lock(), BufWriter::new(stdout()))?;
    Ok(arguments.deny.outcome(reported))
}
