//! `convoke undo`: takes back what a turn changed.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::Args;
use convoke_changes::ChangesError;
use convoke_session::TurnId;

use super::sessions::parse_turn;
use crate::conversation::change_recorder::{changes_of, describe, done};
use crate::conversation::sessions::{find, open_store};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{stderr, stdout};

/// Brings the files back to before a turn.
///
/// Shows first what would change, and asks. Nothing is taken back where something else has changed one of
/// the files since. Of a turn that is undone already, the undo is taken back.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The session: its id, either end of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// The turn; by default the latest turn or undo that changed a file
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// Take back the latest merge of this member's workspace, also when turns followed it
    #[arg(long, value_name = "MEMBER", conflicts_with = "turn")]
    merge: Option<String>,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
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
