//! `convoke sessions copy`.

use std::io::Write as _;

use clap::Args;
use clap_complete::ArgValueCompleter;
use convoke_core::figures::hexadecimal;
use convoke_session::transfer::{self, Copied};
use convoke_session::{AnyStore, SessionId, Store as _};
use serde_json::json;

use super::write_json;
use crate::commands::completions;
use crate::conversation::sessions::find;
use crate::conversation::store::open_url;
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::{stderr, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The sessions: ids, the beginning or end of one, or `last`
    #[arg(value_name = "ID", required_unless_present = "all", add = ArgValueCompleter::new(completions::sessions))]
    ids: Vec<String>,
    /// Copy every session of the store
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// The store to copy to
    #[arg(long, value_name = "URL")]
    to: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Copies sessions to another store, and compares both by hash. One that cannot be copied does not keep the others.
pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let to = open_url(&host_environment::of_process()?, &arguments.to).await?;
    let mut copied = Vec::new();
    let mut failed = 0_usize;
    for session in wanted(arguments, store).await? {
        let outcome = copy(store, &to, session).await;
        failed += usize::from(outcome.is_err());
        if !arguments.json {
            show(session, &outcome)?;
        }
        copied.push(match outcome {
            Ok(copy) => json!({
                "session": session, "sha256": hexadecimal(&copy.hash), "wasThere": copy.was_there,
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

async fn copy(from: &AnyStore, to: &AnyStore, session: SessionId) -> anyhow::Result<Copied> {
    if from.is_held(session).await? {
        anyhow::bail!("it is in use; copy it when its command has ended");
    }
    Ok(transfer::copy(from, to, session).await?)
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

fn show(session: SessionId, outcome: &anyhow::Result<Copied>) -> anyhow::Result<()> {
    match outcome {
        Ok(copied) => {
            let how = if copied.was_there { "is there already" } else { "copied" };
            writeln!(stdout(), "{session}  {how}  sha256 {}", hexadecimal(&copied.hash))?;
        }
        Err(error) => writeln!(stderr(), "{session}  not copied: {error:#}")?,
    }
    Ok(())
}
