//! `convoke sessions compact`.

use std::io::{Write as _, stderr, stdout};

use clap::Args;
use convoke_agent::{Delivery, Verdict};
use convoke_model::undo_compaction;
use convoke_session::store::Holder;
use convoke_session::{SqliteStore, Store as _};
use serde_json::json;

use super::{Which, write_json};
use crate::conversation::{ModelMember, model_member, now};
use crate::diagnostics;
use crate::outcome::Outcome;
use crate::surroundings;
use crate::terminal::Paint;
use crate::threads::StoredThreads;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// The model whose thread is meant: a member with `agent = "api"`
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Undo the last compaction instead: the originals are still there
    #[arg(long)]
    undo: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &SqliteStore) -> anyhow::Result<Outcome> {
    let id = arguments.which.find(store).await?;
    // Nobody takes a turn with the thread while it changes.
    let _hold = store.hold(id, Holder::this_process(now())).await?;
    let session = store.session(id).await?;
    let surroundings = surroundings::of_process()?;
    let ModelMember { agent, thread, directory, mut diagnostics } =
        model_member(store, &session, &arguments.member, &surroundings)?;
    let summary = if arguments.undo {
        undo_compaction(&StoredThreads(store.clone()), &thread).await?;
        None
    } else {
        let ended = agent.start_compaction(Delivery::new(String::new(), directory)).outcome().await;
        diagnostics.extend(ended.diagnostics);
        match ended.verdict {
            Verdict::Done => Some(ended.reply),
            Verdict::Failed(failure) => return Err(failure.into()),
            Verdict::Cancelled => anyhow::bail!("cancelled"),
            Verdict::TimedOut => anyhow::bail!("the summary took too long"),
        }
    };
    if arguments.json {
        let thread = thread.as_str();
        write_json(&json!({"thread": thread, "summary": summary, "diagnostics": diagnostics}))?;
        return Ok(Outcome::Done);
    }
    let member = &arguments.member;
    let mut out = stdout().lock();
    match summary {
        Some(summary) => writeln!(
            out,
            "{summary}\n\n{member} goes on from this summary; --undo brings the rest back"
        )?,
        None => writeln!(out, "{member} remembers again what the last summary had replaced")?,
    }
    let mut err = stderr().lock();
    let paint = Paint::for_stream(&err);
    diagnostics::show(&diagnostics, paint, &mut err)?;
    Ok(Outcome::Done)
}
