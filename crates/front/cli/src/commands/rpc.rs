//! `convoke rpc`: serves one conversation to another program.

use std::io::{BufWriter, stdin};

use clap::Args;
use convoke_agent::clock::now;
use convoke_core::marker::TextPolicy;

use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Serve one conversation to another program: JSON-RPC
#[derive(Debug, Args)]
pub struct Arguments {
    /// How markers are removed from messages
    #[arg(long, value_name = "preserve|compat", default_value = "preserve")]
    text: TextPolicy,
    /// The maximum length of a line; a longer line is answered with an error
    #[arg(long, value_name = "BYTES", default_value_t = convoke_pipe::DEFAULT_LINE_BYTES, value_parser = clap::value_parser!(u64).range(1..))]
    max_line_bytes: u64,
    /// Has no effect: the output is always JSON
    #[arg(long, hide = true)]
    json: bool,
}

/// Runs `convoke rpc`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let output = BufWriter::new(stdout());
    let max_line_bytes = arguments.max_line_bytes;
    convoke_pipe::rpc::serve(stdin().lock(), output, arguments.text, max_line_bytes, now)?;
    Ok(Outcome::Done)
}
