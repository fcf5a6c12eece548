//! `convoke undo`: undoes the changes of a turn.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::Args;
use convoke_changes::{Changes, ChangesError, UndoPlan};
use convoke_session::TurnId;
use serde_json::json;

use super::changes::file_json;
use super::sessions::{parse_turn, write_json};
use crate::conversation::change_recorder::{changes_of, describe, done};
use crate::conversation::sessions::{find, open_store};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{stderr, stdout};

/// Restores the files to their state before a turn.
///
/// Shows what would change, and asks first. Nothing is undone if one of the files has changed since. If the turn is
/// undone already, its changes are restored.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The session: its id, either end of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// The turn; by default the latest turn or undo that changed a file
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// Undo the latest merge of this member's workspace, even if turns followed it
    #[arg(long, value_name = "MEMBER", conflicts_with = "turn")]
    merge: Option<String>,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Write JSON: the files, and whether they were restored; without --yes nothing is done
    #[arg(long)]
    json: bool,
}

/// Runs `convoke undo`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = runtime
        .block_on(async { find(&open_store(&host_environment).await?, &arguments.id).await })?;
    let changes = changes_of(&host_environment);
    let session = session.to_string();
    let plan = match &arguments.merge {
        Some(member) => changes.plan_undo_of_merge(&session, member),
        None => changes.plan_undo(&session, arguments.turn.map(|turn| turn.0)),
    };
    let plan = match plan {
        Err(ChangesError::NothingToUndo(why)) => return Err(UsageError(why).into()),
        plan => plan?,
    };
    if arguments.json {
        return write_report(&changes, &plan, arguments.yes);
    }
    let mut out = stdout();
    let text = describe(&changes, &plan)?;
    if !plan.conflicts.is_empty() {
        write!(stderr(), "{text}")?;
        return Ok(Outcome::Failed);
    }
    write!(out, "{text}")?;
    if plan.changes.is_empty() {
        writeln!(out, "nothing is to be done")?;
        return Ok(Outcome::Done);
    }
    if !arguments.yes {
        if !stdin().is_terminal() || !out.is_terminal() {
            let why =
                "nothing was undone: there is no terminal to ask on; `--yes` does what is shown";
            return Err(UsageError(why.to_owned()).into());
        }
        write!(out, "Do it? [y/N] ")?;
        out.flush()?;
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            writeln!(out, "Nothing was undone.")?;
            return Ok(Outcome::Failed);
        }
    }
    changes.undo(&plan)?;
    writeln!(out, "{}", done(&plan))?;
    Ok(Outcome::Done)
}

/// Writes an undo as JSON, and carries it out if the user confirmed.
fn write_report(changes: &Changes, plan: &UndoPlan, is_confirmed: bool) -> anyhow::Result<Outcome> {
    let is_done = is_confirmed && plan.conflicts.is_empty() && !plan.changes.is_empty();
    let files = changes.diffs(&plan.directory, &plan.changes)?;
    let files: Vec<_> = files.iter().map(file_json).collect();
    let conflicts = plan.conflicts.iter();
    let conflicts: Vec<_> =
        conflicts.map(|it| json!({"path": it.path.to_string(), "reason": it.reason})).collect();
    let left_alone = plan.left_alone.iter();
    let left_alone: Vec<_> =
        left_alone.map(|it| json!({"path": it.path.to_string(), "reason": it.reason})).collect();
    if is_done {
        changes.undo(plan)?;
    }
    write_json(&json!({
        "version": 1,
        "turn": plan.turn.turn,
        "member": plan.turn.member,
        "redo": plan.is_redo,
        "done": is_done,
        "directory": plan.directory,
        "files": files,
        "conflicts": conflicts,
        "leftAlone": left_alone,
    }))?;
    Ok(if plan.conflicts.is_empty() { Outcome::Done } else { Outcome::Failed })
}
