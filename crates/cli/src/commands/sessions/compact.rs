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
use crate::threads::{BroughtBack, StoredThreads, compacted};

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
    let ModelMember { agent, thread, directory, trust, mut diagnostics } =
        model_member(store, &session, &arguments.member, &surroundings)?;
    let member = &arguments.member;
    let (value, text) = if arguments.undo {
        let undone = undo_compaction(&StoredThreads(store.clone()), &thread).await?;
        let undone = BroughtBack::from(undone);
        (json!({"summary": null, "undone": undone}), undone.line(member))
    } else {
        let mut delivery = Delivery::new(String::new(), directory);
        delivery.trust = trust;
        let ended = agent.start_compaction(delivery).outcome().await;
        diagnostics.extend(ended.diagnostics);
        let summary = match ended.verdict {
            Verdict::Done => ended.reply,
            Verdict::Failed(failure) => return Err(failure.into()),
            Verdict::Cancelled => anyhow::bail!("cancelled"),
            Verdict::TimedOut => anyhow::bail!("the summary took too long"),
        };
        (json!({"summary": summary, "undone": null}), compacted(member, &summary, "--undo"))
    };
    if arguments.json {
        let mut value = value;
        value["thread"] = json!(thread.as_str());
        value["diagnostics"] = json!(diagnostics);
        write_json(&value)?;
        return Ok(Outcome::Done);
    }
    writeln!(stdout().lock(), "{text}")?;
    let mut err = stderr().lock();
    let paint = Paint::for_stream(&err);
    diagnostics::show(&diagnostics, paint, &mut err)?;
    Ok(Outcome::Done)
}
