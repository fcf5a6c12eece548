//! `convoke sessions`: commands on stored sessions.

pub(in crate::commands) mod cache;
mod compact;
mod conversation;
mod copy;
mod diff;
mod foreign;
mod keep;
pub(in crate::commands) mod list;
mod markdown;
mod migrate;
mod remove;
mod rename;
mod replay;
mod resume;
mod search;
pub(in crate::commands) mod sent;
mod show;
mod trace;
pub(in crate::commands) mod transfer;
mod turn;
mod verify;
mod window;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_session::AnyStore;

use crate::commands::completions;
use crate::conversation::sessions::{find, open_store};
use crate::conversation::store::open_store_for_reading;
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::{heading, write_json};

pub(in crate::commands) use self::foreign::bad_name;

/// List, show, resume, fork, export and verify stored sessions.
///
/// A session is named by its id, the beginning of it, or `last`: the last session of this directory.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Without a command: list the sessions of this directory
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Resume a session: the same as `convoke run --session`
    Resume(resume::Arguments),
    /// Migrate a PostgreSQL store of an earlier version, after a backup
    Migrate(migrate::Arguments),
    /// Copy sessions of other programs, byte for byte: they stay when the program deletes its own
    Keep(keep::Keep),
    /// Remove what the index and the copies have of sessions of other programs
    Forget(keep::Forget),
    #[command(flatten)]
    Stored(StoredCommand),
}

/// The commands on stored sessions.
#[derive(Debug, Subcommand)]
enum StoredCommand {
    /// List the sessions of this directory, the one that changed last first
    List(list::Arguments),
    /// Show a conversation, or the exact prompt of a turn
    Show(show::Arguments),
    /// Copy a session up to a message
    Fork(transfer::Fork),
    /// Copy sessions to another store
    Copy(copy::Arguments),
    /// Search the messages of all sessions of this directory
    Search(search::Arguments),
    /// Change the name of a session
    Rename(rename::Arguments),
    /// Write a session as a snapshot, as Markdown, as HTML, its log, or everything with --all
    Export(transfer::Export),
    /// Create a session from an exported file
    Import(transfer::Import),
    /// Remove sessions; they can be restored for 30 days
    #[command(visible_aliases = ["remove", "delete"])]
    Rm(remove::Remove),
    /// Restore removed sessions, or list them
    Restore(remove::Restore),
    /// Reassemble every prompt of a session and compare
    Replay(replay::Arguments),
    /// Rebuild the tables of sessions from their logs and compare
    Verify(verify::Arguments),
    /// Show what changed between two prompts of one member
    Diff(diff::Arguments),
    /// Replace the items of a model's thread with a summary, or undo that
    Compact(compact::Arguments),
}

impl StoredCommand {
    const fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::List(_)
                | Self::Show(_)
                | Self::Export(_)
                | Self::Search(_)
                | Self::Replay(_)
                | Self::Diff(_)
        )
    }
}

/// Runs `convoke sessions`.
pub fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let list = || Command::Stored(StoredCommand::List(list::Arguments::default()));
    let command = match arguments.command.unwrap_or_else(list) {
        Command::Resume(arguments) => return crate::commands::run::run(&arguments.into()),
        Command::Migrate(arguments) => return runtime()?.block_on(migrate::run(&arguments)),
        Command::Keep(arguments) => return keep::keep(&arguments),
        Command::Forget(arguments) => return keep::forget(&arguments),
        Command::Stored(command) => command,
    };
    match &command {
        StoredCommand::Show(arguments) if arguments.is_of_another_program() => {
            return foreign::show(arguments);
        }
        StoredCommand::Export(arguments) if arguments.is_of_another_program() => {
            return transfer::export_foreign(arguments);
        }
        _ => {}
    }
    runtime()?.block_on(async {
        let host_environment = host_environment::of_process()?;
        let store = if command.only_reads() {
            open_store_for_reading(&host_environment).await?
        } else {
            open_store(&host_environment).await?
        };
        match &command {
            StoredCommand::List(arguments) => list::run(arguments, &store).await,
            StoredCommand::Show(arguments) => show::run(arguments, &store).await,
            StoredCommand::Fork(arguments) => transfer::fork(arguments, &store).await,
            StoredCommand::Export(arguments) => transfer::export(arguments, &store).await,
            StoredCommand::Import(arguments) => transfer::import(arguments, &store).await,
            StoredCommand::Copy(arguments) => copy::run(arguments, &store).await,
            StoredCommand::Search(arguments) => search::run(arguments, &store).await,
            StoredCommand::Rename(arguments) => rename::run(arguments, &store).await,
            StoredCommand::Rm(arguments) => remove::remove(arguments, &store).await,
            StoredCommand::Restore(arguments) => remove::restore(arguments, &store).await,
            StoredCommand::Replay(arguments) => replay::run(arguments, &store).await,
            StoredCommand::Verify(arguments) => verify::run(arguments, &store).await,
            StoredCommand::Diff(arguments) => diff::run(arguments, &store).await,
            StoredCommand::Compact(arguments) => compact::run(arguments, &store).await,
        }
    })
}

/// A session on the command line.
#[derive(Debug, Args)]
struct SessionArgument {
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    pub(super) id: String,
}

impl SessionArgument {
    async fn find(&self, store: &AnyStore) -> anyhow::Result<SessionId> {
        find(store, &self.id).await
    }
}

/// A session on the command line of a command that shows one.
#[derive(Debug, Args)]
struct ShownSession {
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", default_value = "last", add = ArgValueCompleter::new(completions::sessions))]
    pub(super) id: String,
}

impl ShownSession {
    async fn find(&self, store: &AnyStore) -> anyhow::Result<SessionId> {
        find(store, &self.id).await
    }
}

/// Parses the number of a turn.
pub(in crate::commands) fn parse_turn(written: &str) -> Result<TurnId, String> {
    match written.parse() {
        Ok(0) | Err(_) => Err("a turn number is 1 or more".to_owned()),
        Ok(number) => Ok(TurnId(number)),
    }
}
