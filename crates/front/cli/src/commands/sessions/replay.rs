//! `convoke sessions replay --verify`.

use std::io::Write as _;

use clap::Args;
use convoke_protocol::content::ContentRef;
use convoke_session::AnyStore;
use convoke_session::replay::{ReplayResult, Replayed, verify};
use serde_json::json;

use super::{ShownSession, write_json};
use crate::figures::number;
use crate::outcome::Outcome;
use crate::terminal::{Paint, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: ShownSession,
    /// Compare the reassembled prompts with those that were sent, by hash
    #[arg(long, required = true)]
    verify: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let session = arguments.which.find(store).await?;
    let replayed = verify(store, session).await?;
    let same = replayed.iter().filter(|one| one.result == ReplayResult::Same).count();
    if arguments.json {
        write_json(&json!({"session": session, "same": same, "attempts": replayed}))?;
    } else {
        let mut out = stdout();
        let paint = Paint::for_stream(&out);
        for one in replayed.iter().filter(|one| one.result != ReplayResult::Same) {
            writeln!(out, "{} {}", paint.bad("✗"), difference(one))?;
        }
        let (same, all) = (number(same as u64), number(replayed.len() as u64));
        writeln!(out, "{same} of {all} prompts were reproduced byte for byte")?;
    }
    Ok(if same == replayed.len() { Outcome::Done } else { Outcome::Failed })
}

fn difference(replayed: &Replayed) -> String {
    let Replayed { turn, attempt, member, engine, result } = replayed;
    let hash = |content: &Option<ContentRef>| match content {
        Some(content) => content.hash.to_string().chars().take(12).collect(),
        None => "nothing".to_owned(),
    };
    let what = match result {
        ReplayResult::Same => "the same".to_owned(),
        ReplayResult::Differs { text, sent, rebuilt } => {
            format!("the {text} differs: sent {}, rebuilt {}", hash(sent), hash(rebuilt))
        }
        ReplayResult::ContextDiffers { used, found } => {
            let list = |numbers: &[convoke_protocol::id::MessageNumber]| {
                numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            format!("the context differs: used {}, found {}", list(used), list(found))
        }
        ReplayResult::Failed { why } => why.clone(),
    };
    format!("turn {turn}, attempt {attempt}, {member} (engine {engine}): {what}")
}
