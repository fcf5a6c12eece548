//! `convoke sessions verify`.

use std::io::Write as _;

use clap::Args;
use clap_complete::ArgValueCompleter;
use convoke_protocol::id::SessionId;
use convoke_session::verify::rebuild;
use convoke_session::{AnyStore, Store as _};
use serde_json::json;

use super::write_json;
use crate::commands::completions;
use crate::conversation::sessions::find;
use crate::figures::{count, number};
use crate::outcome::Outcome;
use crate::terminal::{Paint, ProgressLine, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The session: its id, the beginning of it, or `last` [default: every session of the store]
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    id: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Rebuilds the tables of sessions from their logs, and reports every row that differs.
pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let sessions: Vec<SessionId> = match &arguments.id {
        Some(id) => vec![find(store, id).await?],
        None => store.sessions().await?.into_iter().map(|session| session.id).collect(),
    };
    let mut verified = Vec::with_capacity(sessions.len());
    let (mut events, mut same) = (0, 0);
    let (all, progress) = (sessions.len(), ProgressLine::begin("rebuilding"));
    for (number, session) in (1_usize..).zip(sessions) {
        progress.set(|| format!("rebuilding session {number} of {all}"));
        let differences = rebuild(store, session).await?;
        let head = store.session(session).await?.head;
        events += head.0;
        same += usize::from(differences.is_empty());
        if !arguments.json {
            let mut out = stdout();
            let paint = Paint::for_stream(&out);
            for difference in &differences {
                writeln!(out, "{} session {session}: {difference}", paint.bad("✗"))?;
            }
        }
        verified.push(json!({"session": session, "events": head, "differences": differences}));
    }
    drop(progress);
    if arguments.json {
        write_json(&json!({"sessions": verified}))?;
    } else {
        let (same, all) = (number(same as u64), number(verified.len() as u64));
        let events = count(events, "event");
        writeln!(
            stdout(),
            "{same} of {all} sessions were rebuilt as they are stored, from {events}"
        )?;
    }
    Ok(if same == verified.len() { Outcome::Done } else { Outcome::Failed })
}
