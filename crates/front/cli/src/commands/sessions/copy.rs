//! `convoke sessions copy`.

use std::io::Write as _;
use std::path::Path;

use clap::Args;
use clap_complete::ArgValueCompleter;
use convoke_core::figures::hexadecimal;
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::SessionId;
use convoke_session::transfer::{self, CopiedSession};
use convoke_session::{AnyStore, Store as _};
use serde_json::json;

use super::conversation::pending_diagnostic;
use super::write_json;
use crate::commands::completions;
use crate::conversation::origin::of_directory;
use crate::conversation::sessions::find;
use crate::conversation::store::open_url;
use crate::diagnostics;
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::{ProgressLine, stderr, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The sessions: ids, the beginning of one, or `last`
    #[arg(value_name = "ID", required_unless_present = "all", add = ArgValueCompleter::new(completions::sessions))]
    ids: Vec<String>,
    /// Copy every session of the store
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// The store to copy to; `sqlite:` is the file of this machine
    #[arg(long, value_name = "URL")]
    to: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Copies sessions to another store, and compares both by hash. A failure does not stop the others.
pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let to = open_url(&host_environment, &arguments.to).await?;
    let mut copied = Vec::new();
    let mut failed = 0_usize;
    let sessions = wanted(arguments, store).await?;
    let (all, progress) = (sessions.len(), ProgressLine::begin("copying"));
    for (number, session) in (1..).zip(sessions) {
        progress.set(|| format!("copying session {number} of {all}"));
        let outcome = copy(store, &to, session, &host_environment).await;
        failed += usize::from(outcome.is_err());
        let pending = pending_diagnostic(store, session).await?;
        if !arguments.json {
            show(session, &outcome)?;
            diagnostics::show(pending.as_slice())?;
        }
        copied.push(match outcome {
            Ok(copy) => json!({
                "session": session, "sha256": hexadecimal(&copy.hash), "wasThere": copy.was_there,
                "diagnostics": pending.as_slice(),
            }),
            Err(error) => json!({"session": session, "error": format!("{error:#}")}),
        });
    }
    to.close().await;
    if arguments.json {
        write_json(&json!({"sessions": copied}))?;
    } else if failed > 0 {
        writeln!(stderr(), "{failed} of {} sessions were not copied", copied.len())?;
    }
    Ok(if failed > 0 { Outcome::Failed } else { Outcome::Done })
}

async fn copy(
    from: &AnyStore,
    to: &AnyStore,
    session: SessionId,
    host_environment: &HostEnvironment,
) -> anyhow::Result<CopiedSession> {
    if from.is_held(session).await? {
        anyhow::bail!("the session is in use; copy it when its command has ended");
    }
    let copied = transfer::copy(from, to, session).await?;
    // Nodes find the project by its origin, which only a shared store has.
    if let Some(to) = to.sharing() {
        let known = match from.sharing() {
            Some(from) => from.origin(session).await?,
            None => None,
        };
        let directory = from.session(session).await?.began.directory;
        let origin = known.or_else(|| of_directory(Path::new(&directory), host_environment));
        if let Some(origin) = origin {
            to.set_origin(session, &origin).await?;
        }
    }
    Ok(copied)
}

async fn wanted(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Vec<SessionId>> {
    if arguments.all {
        return Ok(store.sessions().await?.into_iter().map(|session| session.id).collect());
    }
    let mut sessions = Vec::with_capacity(arguments.ids.len());
    for id in &arguments.ids {
        sessions.push(find(store, id).await?);
    }
    Ok(sessions)
}

fn show(session: SessionId, outcome: &anyhow::Result<CopiedSession>) -> anyhow::Result<()> {
    match outcome {
        Ok(copied) => {
            let how = if copied.was_there { "already there" } else { "copied" };
            writeln!(stdout(), "{session}  {how}  sha256 {}", hexadecimal(&copied.hash))?;
        }
        Err(error) => writeln!(stderr(), "{session}  not copied: {error:#}")?,
    }
    Ok(())
}
