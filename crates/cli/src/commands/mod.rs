//! The subcommands, one module each.

mod ask;
mod assemble;
mod capture;
mod chat;
mod check;
pub mod completions;
mod docs;
mod doctor;
mod explain;
mod init;
mod prompt;
mod request;
mod rpc;
mod run;
mod sessions;
mod trust;

use clap::{CommandFactory, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::logging;
use crate::outcome::Outcome;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a team file for this directory
    Init(init::Arguments),
    /// Hold a conversation with a team of agents to its end
    Run(run::Arguments),
    /// Hold a conversation with a team of agents in the whole terminal
    Chat(chat::Arguments),
    /// Show, resume, copy and check conversations
    Sessions(sessions::Arguments),
    /// Check a team file and show every error
    Check(check::Arguments),
    /// Trust a directory's team file with what it asks for
    Trust(trust::Arguments),
    Explain(explain::Explain),
    /// Show the exact prompt that a member would get now; nothing is sent
    Prompt(prompt::Arguments),
    /// Show the exact request that a turn here would send to a model; nothing is sent
    Request(Box<request::Arguments>),
    /// Ask one model one question, with this repository's instructions
    Ask(Box<ask::Arguments>),
    /// Assemble prompts for other programs: JSON lines in, JSON lines out
    Assemble(assemble::Arguments),
    /// Keep a conversation for another program: JSON-RPC over standard input and output
    Rpc(rpc::Arguments),
    /// Show what a CLI really sends to its model; nothing leaves the machine
    Capture(capture::Arguments),
    /// Show which agents are here, how they are signed in, and what would fail and why
    Doctor(doctor::Arguments),
    /// Show the documentation
    Docs(docs::Arguments),
    /// Print a script that completes commands, members and sessions in a shell
    Completions(completions::Completions),
    /// Print the manual page, or write those of all commands
    Man(completions::Man),
}

/// Runs a subcommand of `C`, which describes all of them.
pub fn run<C: CommandFactory>(
    command: Command,
    log: Option<LevelFilter>,
) -> anyhow::Result<Outcome> {
    logging::start(log.unwrap_or(match command {
        // The other commands show what they report themselves.
        Command::Rpc(_) => LevelFilter::WARN,
        _ => LevelFilter::OFF,
    }));
    match command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Chat(arguments) => chat::run(arguments),
        Command::Sessions(arguments) => sessions::run(arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Prompt(arguments) => prompt::run(&arguments),
        Command::Request(arguments) => request::run(&arguments),
        Command::Ask(arguments) => ask::run(&arguments),
        Command::Assemble(arguments) => assemble::run(&arguments),
        Command::Rpc(arguments) => rpc::run(&arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => completions::man::<C>(&arguments),
    }
}
