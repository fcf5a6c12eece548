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
    /// The most bytes of a line; a longer one is answered with an error
    #[arg(long, value_name = "BYTES", default_value_t = convoke_pipe::DEFAULT_LINE_BYTES)]
    max_line_bytes: u64,
    /// Accepted for uniformity: the output is always JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Answers every line of standard input.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let output = BufWriter::new(stdout());
    let reported = assemble_lines(stdin().lock(), output, arguments.max_line_bytes)?;
    Ok(arguments.deny.outcome(reported))
}
