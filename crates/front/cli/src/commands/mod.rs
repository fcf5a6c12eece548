//! The subcommands, one module each.

mod acp;
mod ask;
mod assemble;
mod capture;
mod changes;
mod chat;
mod check;
pub mod completions;
mod continue_session;
mod docs;
mod doctor;
mod explain;
mod init;
mod mcp;
mod node;
mod nodes;
mod open;
mod prompt;
mod request;
mod review;
mod rpc;
mod run;
mod serve;
pub mod sessions;
mod trust;
mod undo;
mod usage;
mod watch;

use clap::{CommandFactory, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::logging;
use crate::outcome::Outcome;

/// The subcommands. The help of each is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    Init(init::Arguments),
    Run(run::Arguments),
    Chat(chat::Arguments),
    Open(open::Arguments),
    Sessions(sessions::Arguments),
    Usage(usage::Arguments),
    Continue(continue_session::Arguments),
    Serve(serve::Arguments),
    Watch(watch::Arguments),
    /// Show what each turn changed in the working directory
    Changes(changes::Arguments),
    /// Restore the files to their state before a turn
    Undo(undo::Undo),
    /// Make the changes of an undone turn again
    Redo(undo::Redo),
    #[command(hide = true)]
    Check(check::Arguments),
    Trust(trust::Arguments),
    Explain(explain::Explain),
    Review(review::Arguments),
    Prompt(prompt::Arguments),
    Request(Box<request::Arguments>),
    Ask(Box<ask::Arguments>),
    #[command(hide = true)]
    Assemble(assemble::Arguments),
    #[command(hide = true)]
    Rpc(rpc::Arguments),
    Acp(acp::Arguments),
    Mcp(mcp::Arguments),
    Node(node::Arguments),
    #[command(hide = true)]
    Nodes(nodes::Arguments),
    Capture(capture::Arguments),
    Doctor(doctor::Arguments),
    /// Show the documentation
    Docs(docs::Arguments),
    /// Print a shell completion script
    #[command(hide = true)]
    Completions(completions::Completions),
    /// Print the manual page, or write those of all commands
    #[command(hide = true)]
    Man(completions::Man),
}

/// Runs a subcommand of `C`, which describes all of them.
pub fn run<C: CommandFactory>(
    command: Command,
    log: Option<LevelFilter>,
) -> anyhow::Result<Outcome> {
    logging::start(log.unwrap_or(match command {
        // The other commands print their own warnings.
        Command::Rpc(_) => LevelFilter::WARN,
        _ => LevelFilter::OFF,
    }));
    match command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Chat(arguments) => chat::run(arguments),
        Command::Open(arguments) => open::run(&arguments),
        Command::Sessions(arguments) => sessions::run(arguments),
        Command::Usage(arguments) => usage::run(&arguments),
        Command::Continue(arguments) => continue_session::run(arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Changes(arguments) => changes::run(&arguments),
        Command::Undo(arguments) => undo::undo(&arguments),
        Command::Redo(arguments) => undo::redo(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Trust(arguments) => trust::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Review(arguments) => review::run(&arguments),
        Command::Prompt(arguments) => prompt::run(&arguments),
        Command::Request(arguments) => request::run(&arguments),
        Command::Ask(arguments) => ask::run(&arguments),
        Command::Assemble(arguments) => assemble::run(&arguments),
        Command::Rpc(arguments) => rpc::run(&arguments),
        Command::Acp(arguments) => acp::run(&arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Node(arguments) => node::run(arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => completions::man::<C>(&arguments),
    }
}
