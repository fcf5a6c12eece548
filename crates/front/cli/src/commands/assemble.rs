//! `convoke assemble`: the engine for other languages, one prompt a line.

use std::io::{BufWriter, stdin};

use clap::Args;
use convoke_pipe::assemble::{UnknownFields, assemble_lines};

use crate::diagnostics::Deny;
use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Assemble prompts for other programs: JSON lines in and out.
///
/// Each input line is {"name"?, "agent", "input"}; each output line is {"prompt", "systemFlag", "ledger",
/// "diagnostics"} or {"error"}.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The maximum length of a line; a longer line is answered with an error
    #[arg(long, value_name = "BYTES", default_value_t = convoke_pipe::DEFAULT_LINE_BYTES, value_parser = clap::value_parser!(u64).range(1..))]
    max_line_bytes: u64,
    /// Refuse lines with unknown fields, which are otherwise ignored
    #[arg(long)]
    strict: bool,
    /// Has no effect: the output is always JSON
    #[arg(long, hide = true)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Runs `convoke assemble`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let output = BufWriter::new(stdout());
    let unknown_fields =
        if arguments.strict { UnknownFields::Refused } else { UnknownFields::Ignored };
    let reported =
        assemble_lines(stdin().lock(), output, arguments.max_line_bytes, unknown_fields)?;
    Ok(arguments.deny.outcome(reported))
}
