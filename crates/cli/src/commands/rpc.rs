//! `convoke rpc`: a conversation kept for another program.

use std::io::{BufWriter, stdin};

use clap::Args;
use convoke_agent::id::now;
use convoke_core::marker::TextPolicy;

use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Answers JSON-RPC 2.0 calls, one a line, until standard input ends.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How messages are cleaned of their markers
    #[arg(long, value_name = "preserve|compat", default_value = "preserve")]
    text: TextPolicy,
    /// The most bytes of a line; a longer one is answered with an error
    #[arg(long, value_name = "BYTES", default_value_t = convoke_pipe::DEFAULT_LINE_BYTES)]
    max_line_bytes: u64,
    /// Accepted for uniformity: the output is always JSON
    #[arg(long)]
    json: bool,
}

/// Serves standard input and output.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let output = BufWriter::new(stdout());
    let max_line_bytes = arguments.max_line_bytes;
    convoke_pipe::rpc::serve(stdin().lock(), output, arguments.text, max_line_bytes, now)?;
    Ok(Outcome::Done)
}
