//! `convoke open`: a session of any program in the browser.

use std::path::Path;

use clap::Args;
use convoke_open::FindError;
use convoke_protocol::session::Summary;
use convoke_server::other_sessions::OtherName;
use convoke_session::{AnyStore, Store as _};
use convoke_source::FoundSession;

use super::serve::{Browser, ServingArguments, Shown, runtime, show};
use crate::conversation::sessions::{WorkingDirectory, find};
use crate::conversation::store::open_store;
use crate::host_environment;
use crate::other_programs::{HomeArgument, is_named, with_catalog};
use crate::outcome::{Outcome, UsageError};

/// Show a session of any coding agent in the browser.
///
/// Opens a session of Claude Code, Codex, Gemini CLI, opencode, Copilot or Convoke: what was said and done, and every
/// request to a model with its window and what it cost. Prints the address and serves the page, as `serve` does, until
/// Ctrl-C. Nothing is written into other programs' files.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke open
  convoke open claude:3f2a
  convoke open ./session.jsonl --no-browser")]
pub struct Arguments {
    /// The session: `program:id`, the path of its file, or the id of one of Convoke's own [default: the latest of this
    /// directory]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Print the address only
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    serving: ServingArguments,
}

/// Runs `convoke open`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    runtime(&arguments.serving)?.block_on(async {
        let store = open_store(&host_environment::of_process()?).await?;
        let home = &arguments.serving.home;
        let found = match &arguments.session {
            Some(name) => named(name, home, &store).await?,
            None => latest(home, &store).await?,
        };
        let browser = if arguments.no_browser { Browser::No } else { Browser::IfThereIsOne };
        let (path, named) = match found {
            Session::Own(path) => (path, None),
            Session::Other(found) => (OtherName::of(&found).path(), Some(*found)),
        };
        show(&arguments.serving, &Shown { path, named, browser }, store).await
    })
}

/// The session that is opened.
enum Session {
    /// One of Convoke's own, by the path of its view.
    Own(String),
    Other(Box<FoundSession>),
}

impl Session {
    fn own(session: &Summary) -> Self {
        Self::Own(format!("/sessions/{}", session.id))
    }
}

async fn named(name: &str, home: &HomeArgument, store: &AnyStore) -> anyhow::Result<Session> {
    let is_other = is_named(name) || name.contains('/');
    if !is_other {
        return Ok(Session::Own(format!("/sessions/{}", find(store, name).await?)));
    }
    with_catalog(home, |catalog| match catalog.find(name) {
        Ok(found) => Ok(Session::Other(Box::new(found))),
        Err(FindError::Source(error)) if Path::new(name).exists() => Err(error.into()),
        Err(error) => Err(UsageError(error.to_string()).into()),
    })
}

/// Finds the session of this directory that changed last.
async fn latest(home: &HomeArgument, store: &AnyStore) -> anyhow::Result<Session> {
    let here = WorkingDirectory::find(&host_environment::of_process()?);
    // The home of somebody else has no sessions of this store.
    let own = if home.directory.is_none() { store.sessions().await? } else { Vec::new() };
    let own = own.into_iter().find(|session| here.has(session));
    let other = with_catalog(home, |catalog| {
        let is_near =
            |found: &FoundSession| found.cwd.as_deref().is_some_and(|cwd| here.is_near(cwd));
        Ok(catalog.list().sessions.into_iter().find(is_near))
    })?;
    match (own, other) {
        (Some(own), Some(other)) if own.updated_at.0 >= other.changed_at.0 => {
            Ok(Session::own(&own))
        }
        (_, Some(other)) => Ok(Session::Other(Box::new(other))),
        (Some(own), None) => Ok(Session::own(&own)),
        (None, None) => {
            let problem = "no program has a session of this directory; `convoke sessions list --all` lists \
                           those of every directory";
            Err(UsageError(problem.to_owned()).into())
        }
    }
}
