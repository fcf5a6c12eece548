//! `convoke rpc`: a conversation kept for another program.

use std::io::{BufWriter, stdin};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use convoke_core::marker::TextPolicy;

use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Answers JSON-RPC 2.0 calls, one a line, until standard input ends.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How messages are cleaned of their markers
    #[arg(long, value_name = "preserve|compat", default_value = "preserve")]
    text: TextPolicy,
    /// Accepted for uniformity: the output is always JSON
    #[arg(long)]
    json: bool,
}

/// Serves standard input and output.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let output = BufWriter::new(stdout());
    convoke_pipe::rpc::serve(stdin().lock(), output, arguments.text, now)?;
    Ok(Outcome::Done)
}

/// Returns milliseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
