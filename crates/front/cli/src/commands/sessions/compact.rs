//! `convoke sessions compact`.

use std::io::{self, Write as _};

use clap::Args;
use convoke_agent::TurnInput;
use convoke_core::Diagnostic;
use convoke_model::undo_compaction;
use convoke_protocol::agent_event::AgentEvent;
use convoke_protocol::id::ThreadId;
use convoke_protocol::verdict::Verdict;
use convoke_session::store::Holder;
use convoke_session::{AnyStore, Store as _};
use serde_json::{Value, json};

use super::{SessionArgument, write_json};
use crate::conversation::{ModelMember, model_member};
use crate::diagnostics::{self, Deny};
use crate::following::{EndedTurn, follow};
use crate::host_environment;
use crate::outcome::Outcome;
use crate::requests::retry;
use crate::terminal::{Paint, stderr, stdout};
use crate::threads::{RestoredItems, compacted};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: SessionArgument,
    /// The model: a member with `agent = "api"`
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Undo the last compaction instead; the original items are still stored
    #[arg(long)]
    undo: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let id = arguments.which.find(store).await?;
    // The lock keeps turns from using the thread while it changes.
    let _hold = store.hold(id, Holder::this_process(store.now())).await?;
    let session = store.session(id).await?;
    let host_environment = host_environment::of_process()?;
    let ModelMember { agent, thread, directory, trust, mut diagnostics } =
        model_member(store, &session, &arguments.member, &host_environment)?;
    let member = &arguments.member;
    let (value, text) = if arguments.undo {
        let undone = undo_compaction(store, &thread).await?;
        let undone = RestoredItems::from(undone);
        (json!({"summary": null, "undone": undone}), undone.line(member))
    } else {
        let mut turn_input = TurnInput::new(String::new(), directory);
        turn_input.trust = trust;
        let mut err = stderr();
        let (paint, redactor) = (Paint::for_stream(&err), agent.redactor());
        let note = |event: &AgentEvent<'_>| match retry(&event.kind) {
            Some(note) if !arguments.json => {
                writeln!(err, "{}", paint.faint(&redactor.redact(&note)))
            }
            _ => Ok(()),
        };
        let EndedTurn { ended, shown, .. } = follow(agent.start_compaction(turn_input), note).await;
        shown?;
        diagnostics.extend(ended.diagnostics);
        let value = json!({"summary": null, "undone": null, "outcome": ended.verdict});
        match ended.verdict {
            Verdict::Done => {
                let text = compacted(member, &ended.reply, "--undo");
                (json!({"summary": ended.reply, "undone": null, "outcome": ended.verdict}), text)
            }
            _ if arguments.json => {
                write_value(value, &thread, &diagnostics)?;
                return Ok(Outcome::Failed);
            }
            verdict => {
                diagnostics::show(&diagnostics)?;
                return Err(failure(verdict));
            }
        }
    };
    if arguments.json {
        write_value(value, &thread, &diagnostics)?;
    } else {
        writeln!(stdout(), "{text}")?;
        diagnostics::show(&diagnostics)?;
    }
    Ok(arguments.deny.outcome(diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

fn failure(verdict: Verdict) -> anyhow::Error {
    match verdict {
        Verdict::Failed(failure) => failure.into(),
        Verdict::TimedOut => anyhow::anyhow!("the summary timed out"),
        Verdict::Cancelled | Verdict::Withdrawn | Verdict::Done => anyhow::anyhow!("cancelled"),
    }
}

fn write_value(mut value: Value, thread: &ThreadId, diagnostics: &[Diagnostic]) -> io::Result<()> {
    value["thread"] = json!(thread.as_str());
    value["diagnostics"] = json!(diagnostics);
    write_json(&value)
}
