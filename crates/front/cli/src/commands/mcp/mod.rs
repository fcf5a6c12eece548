//! `convoke mcp`: tools for agents and editors, over the Model Context Protocol.
//!
//! Started for a turn, with its socket and secret in the environment, it offers the tools of the
//! team. Elsewhere it offers tools about a directory. Standard output carries only the protocol.

mod alone;
mod team;

use std::io::{BufWriter, stdin};
use std::sync::Arc;

use clap::Args;
use convoke_pipe::mcp::{Server, Tools, serve};

use self::alone::DirectoryTools;
use self::team::TeamClient;
use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Serve tools to an agent or an editor, over the Model Context Protocol.
///
/// The protocol is on standard input and output. In a turn of a member with `team-tools = true`: `say`, `ask`, `read_context`, `task` and `changes`.
/// Elsewhere: `explain`, `review`, `capture_diff` and `assemble`. See `convoke docs mcp`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The maximum length of a message; a longer one is answered with an error
    #[arg(long, value_name = "BYTES", default_value_t = convoke_pipe::DEFAULT_LINE_BYTES, value_parser = clap::value_parser!(u64).range(1..))]
    max_line_bytes: u64,
    /// Has no effect: the output is always JSON
    #[arg(long, hide = true)]
    json: bool,
}

/// Runs `convoke mcp`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let tools: Arc<dyn Tools> = match TeamClient::of_process() {
        Some(team) => Arc::new(team),
        None => Arc::new(DirectoryTools),
    };
    let server = Server::new(tools, "convoke", env!("CARGO_PKG_VERSION"));
    serve(stdin().lock(), BufWriter::new(stdout()), &server, arguments.max_line_bytes)?;
    Ok(Outcome::Done)
}
