//! `convoke sessions rm`.

use std::io::Write as _;

use clap::Args;
use convoke_session::{SqliteStore, Store as _};
use serde_json::json;

use super::write_json;
use crate::conversation::sessions::find;
use crate::outcome::Outcome;
use crate::terminal::stdout;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The sessions: ids, or the beginning or end of them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &SqliteStore) -> anyhow::Result<Outcome> {
    // Look up all sessions first, so that a wrong id removes nothing.
    let mut sessions = Vec::new();
    for written in &arguments.ids {
        let session = find(store, written).await?;
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    for session in &sessions {
        store.remove(*session).await?;
    }
    if arguments.json {
        write_json(&json!({"removed": sessions}))?;
    } else {
        for session in &sessions {
            writeln!(stdout(), "removed session {session}")?;
        }
    }
    Ok(Outcome::Done)
}
