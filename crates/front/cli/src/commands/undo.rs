//! `convoke undo` and `convoke redo`: take the changes of a turn back, or make them again.

use std::cell::Cell;
use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::Args;
use convoke_agent::clock::now;
use convoke_changes::{Changes, ChangesError, Completed, Direction, LeftAlone, Part, UndoPlan};
use convoke_protocol::id::TurnId;
use serde_json::json;

use super::changes::paths::Paths;
use super::changes::{file_json, path_json, paths_json, reported, turn_json};
use super::sessions::parse_turn;
use crate::conversation::change_recorder::changes_of;
use crate::conversation::sessions::{find_to_change, open_store};
use crate::conversation::undo_progress::progress;
use crate::conversation::undo_text::{
    self, LISTED, Mood, describe, is_settled, not_done, nothing_done, participle, reversed_by,
    what_was_done,
};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::terminal::{Paint, stderr, stdout, write_json};

/// Restores the files to their state before a turn.
///
/// Shows what would change, and asks first. A turn that is undone already is not undone again: each `undo` goes further
/// back, and `convoke redo` reverses it. Nothing is undone if one of the files has changed since, if another turn ran in
/// the directory at the same time and changed one of them too, or if the turn was interrupted and you may have changed
/// one of them since. With paths, only those are restored, and the rest of the turn stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke undo
  convoke undo --turn 3 --dry-run
  convoke undo -- src/login.py
  convoke undo --hunk")]
pub struct Undo {
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// The turn; by default the latest turn or merge that is not undone
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// Undo the latest merge of this member's workspace, even if turns followed it
    #[arg(long, value_name = "MEMBER", conflicts_with = "turn")]
    merge: Option<String>,
    /// Undo also what may be the work of another turn, which ran at the same time, or your own after an interruption
    #[arg(long)]
    shared: bool,
    /// Restore the other files if some have changed since; those stay as they are
    #[arg(long)]
    rest: bool,
    /// Ask about each run of changed lines
    #[arg(long, short = 'p', conflicts_with_all = ["yes", "json", "dry_run", "merge"])]
    hunk: bool,
    /// Take the turn out of the memory of its member too: the next turn continues the state before it
    #[arg(long, conflicts_with = "merge")]
    forget: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    paths: Paths,
}

/// Makes the changes of an undone turn again.
///
/// Shows what would change, and asks first. Without a turn, it takes the one that was undone last; once another turn has
/// changed files after the undo, name the turn. Nothing is redone if one of the files has changed since the undo.
#[derive(Debug, Args)]
pub struct Redo {
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// The turn; by default the turn or merge that was undone last
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// Redo the merge of this member's workspace that was undone last
    #[arg(long, value_name = "MEMBER", conflicts_with = "turn")]
    merge: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    paths: Paths,
}

#[derive(Debug, Args)]
struct Output {
    /// Show what would change, and change nothing
    #[arg(long, short = 'n', conflicts_with = "yes")]
    dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// List all files, also more than 50
    #[arg(long)]
    all: bool,
    /// Write JSON: the files, and whether it was done; without --yes nothing is
    #[arg(long)]
    json: bool,
}

/// Runs `convoke undo`.
pub fn undo(arguments: &Undo) -> anyhow::Result<Outcome> {
    let Undo { id, turn, merge, shared, rest, hunk, forget, output, paths } = arguments;
    let chosen = Cell::new(*turn);
    let changed_nothing = Cell::new(false);
    let plan = |changes: &Changes, session: &str, part: Part| {
        let part = Part { leaves_conflicts: *rest, ..part };
        let plan = match merge {
            Some(member) => changes.plan_undo_of_merge(session, member),
            None => changes.plan_undo_of(session, turn.map(|turn| turn.0), &part),
        };
        changed_nothing.set(matches!(plan, Err(ChangesError::NothingToUndo(_))));
        let mut plan = plan?;
        chosen.set(Some(TurnId(plan.turn.turn)));
        plan.takes_shared = *shared;
        Ok(plan)
    };
    let how = if *hunk { Asking::ByHunk } else { Asking::Once };
    let mut undone = run(id, (output, how), paths, plan);
    if *forget && changed_nothing.get() && turn.is_some() {
        // A turn without changes can be forgotten too.
        undone = Ok(Outcome::Done);
    }
    let is_preview = output.json && !output.yes;
    if let (true, Ok(Outcome::Done), Some(turn)) = (*forget && !is_preview, &undone, chosen.get()) {
        undone = forget_turn(id, turn, output.json);
    }
    reported(output.json, undone)
}

/// Takes a turn out of the memory of its member.
fn forget_turn(id: &str, turn: TurnId, is_json: bool) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let forgotten = runtime.block_on(async {
        let store = open_store(&host_environment).await?;
        let session = find_to_change(&store, id).await?;
        anyhow::Ok(convoke_session::memory::forget(&store, session, turn, now()).await?)
    })?;
    if is_json {
        return Ok(Outcome::Done);
    }
    let told = match forgotten {
        Some(member) => format!("{member} has forgotten turn {turn}"),
        None => format!("turn {turn} is in no memory: its member starts every turn afresh"),
    };
    writeln!(stdout(), "{told}")?;
    Ok(Outcome::Done)
}

/// Runs `convoke redo`.
pub fn redo(arguments: &Redo) -> anyhow::Result<Outcome> {
    let Redo { id, turn, merge, output, paths } = arguments;
    let plan = |changes: &Changes, session: &str, part: Part| match merge {
        Some(member) => changes.plan_redo_of_merge(session, member),
        None => changes.plan_redo_of(session, turn.map(|turn| turn.0), &part),
    };
    reported(output.json, run(id, (output, Asking::Once), paths, plan))
}

fn run(
    id: &str,
    (output, asking): (&Output, Asking),
    paths: &Paths,
    plan: impl FnOnce(&Changes, &str, Part) -> Result<UndoPlan, ChangesError>,
) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = runtime
        .block_on(async { find_to_change(&open_store(&host_environment).await?, id).await })?;
    let changes = changes_of(&host_environment).with_progress(progress());
    let session = session.to_string();
    let completed = changes.take_completed(&session)?;
    if !completed.is_empty() {
        // The same command again would do more than it was called for.
        return report_completed(&changes, &completed, id, output.json);
    }
    let paths = if paths.is_empty() {
        Vec::new()
    } else {
        paths.below(&host_environment.cwd, &changes.records(&session)?)?
    };
    let plan = match plan(&changes, &session, Part { paths, ..Part::default() }) {
        Err(ChangesError::NothingToUndo(why)) => return Err(UsageError(why).into()),
        plan => plan?,
    };
    if output.json {
        return write_report(&changes, &plan, output.yes);
    }
    if asking == Asking::ByHunk && !plan.is_refused() && !plan.changes.is_empty() {
        return by_hunk(&changes, plan, id);
    }
    let mut out = stdout();
    let most = if output.all { usize::MAX } else { LISTED };
    let preview = describe(&changes, &plan, Mood::Preview, most)?;
    if plan.is_refused() {
        write!(stderr(), "{preview}")?;
        let hint = match (plan.conflicts.is_empty(), plan.changes.is_empty()) {
            _ if plan.is_busy || plan.is_redo => "",
            (true, _) => "; `--shared` undoes these changes too",
            (false, false) if !plan.is_refused_as_shared() => "; `--rest` undoes the others",
            (false, _) => "",
        };
        writeln!(stderr(), "nothing was {}{hint}", participle(&plan))?;
        return Ok(Outcome::Failed);
    }
    if output.dry_run {
        write!(out, "{preview}")?;
        return Ok(outcome(&plan));
    }
    let is_terminal = stdin().is_terminal() && out.is_terminal();
    if plan.changes.is_empty() {
        write!(out, "{preview}{}", nothing_done(&plan))?;
        // There is nothing to ask, and the next command goes on to another turn.
        if is_settled(&plan) && (output.yes || is_terminal) {
            carry_out(&changes, &plan)?;
            write!(out, "; it counts as {}", participle(&plan))?;
        }
        writeln!(out)?;
        return Ok(outcome(&plan));
    }
    if output.yes {
        let report = describe(&changes, &plan, Mood::Report, most)?;
        carry_out(&changes, &plan)?;
        writeln!(out, "{report}{}", reversed_by(&plan, id)).after(what_was_done(&plan))?;
        return Ok(outcome(&plan));
    }
    write!(out, "{preview}")?;
    let done_to = participle(&plan);
    if !is_terminal {
        let why = "there is no terminal to ask on; `--yes` does what is shown";
        return Err(UsageError(format!("nothing was {done_to}: {why}")).into());
    }
    write!(out, "{} it? [y/N] ", if plan.is_redo { "Redo" } else { "Undo" })?;
    out.flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        writeln!(out, "Nothing was {done_to}.")?;
        return Ok(Outcome::Failed);
    }
    carry_out(&changes, &plan)?;
    let done = what_was_done(&plan);
    writeln!(out, "{done}; {}", reversed_by(&plan, id)).after(done)?;
    Ok(outcome(&plan))
}

/// How a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Once,
    ByHunk,
}

/// Asks about each run of changed lines, and undoes those that the person chose.
fn by_hunk(changes: &Changes, plan: UndoPlan, id: &str) -> anyhow::Result<Outcome> {
    let mut out = stdout();
    if !stdin().is_terminal() || !out.is_terminal() {
        let why = "nothing was undone: there is no terminal to ask on";
        return Err(UsageError(why.to_owned()).into());
    }
    let (mut chosen, mut is_rest) = (Vec::new(), None);
    for file in changes.hunks(&plan)? {
        let whole = [format!("{} as a whole\n", file.path)];
        let hunks = if file.hunks.is_empty() { &whole[..] } else { &file.hunks[..] };
        let mut takes = Vec::with_capacity(hunks.len());
        for hunk in hunks {
            if is_rest.is_none() {
                writeln!(out, "{}", Paint::for_stream(&out).strong(&file.path.to_string()))?;
                write!(out, "{hunk}Undo it? [y]es, [N]o, [a]ll that follow, [q]uit: ")?;
                out.flush()?;
            }
            let take = match is_rest {
                Some(rest) => rest,
                None => answer(&mut is_rest)?,
            };
            takes.push(take);
        }
        chosen.push((file, takes));
    }
    let Some(plan) = changes.plan_hunks(plan, &chosen)? else {
        writeln!(out, "Nothing was undone.")?;
        return Ok(Outcome::Failed);
    };
    carry_out(changes, &plan)?;
    let done = what_was_done(&plan);
    writeln!(out, "{done}; {}", reversed_by(&plan, id)).after(done)?;
    Ok(outcome(&plan))
}

/// Reads an answer about a hunk. `rest` is set if it answers for all that follow.
fn answer(rest: &mut Option<bool>) -> anyhow::Result<bool> {
    let mut answer = String::new();
    let is_end = stdin().lock().read_line(&mut answer)? == 0;
    match answer.trim().to_ascii_lowercase().as_str() {
        "a" | "all" => *rest = Some(true),
        "q" | "quit" => *rest = Some(false),
        _ if is_end => *rest = Some(false),
        answer => return Ok(matches!(answer, "y" | "yes")),
    }
    Ok(*rest == Some(true))
}

fn carry_out(changes: &Changes, plan: &UndoPlan) -> anyhow::Result<()> {
    let done = changes.undo(plan).map(drop);
    done.map_err(|error| anyhow::anyhow!(not_done(participle(plan), &error)))
}

/// Reports undos and redos that were interrupted, and are complete now.
fn report_completed(
    changes: &Changes,
    completed: &[Completed],
    id: &str,
    is_json: bool,
) -> anyhow::Result<Outcome> {
    for it in completed {
        if is_json {
            let files = changes.diffs(&it.record.directory, &it.record.changes)?;
            write_json(&json!({
                "version": 1,
                "turn": it.record.turn.turn,
                "member": it.record.turn.member,
                "redo": it.direction == Direction::Redo,
                "done": true,
                "completed": true,
                "complete": it.left_alone.is_empty(),
                "refused": false,
                "busy": false,
                "directory": it.record.directory,
                "files": files.iter().map(file_json).collect::<Vec<_>>(),
                "conflicts": [],
                "leftAlone": it.left_alone.iter().map(|path| {
                    path_json(path, json!({"reason": "changed after the interruption"}))
                }).collect::<Vec<_>>(),
                "notRestored": [],
                "sharedWith": [],
                "uncertain": [],
                "unverified": [],
                "notRecorded": [],
            }))?;
        } else {
            writeln!(stdout(), "{}", undo_text::completed(it, Some(id)))?;
        }
    }
    let is_whole = completed.iter().all(|it| it.left_alone.is_empty());
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}

/// Returns the outcome of an undo or a redo that was not refused: one that leaves files as they are has failed.
fn outcome(plan: &UndoPlan) -> Outcome {
    if plan.left_alone.is_empty() { Outcome::Done } else { Outcome::Failed }
}

/// Writes an undo or a redo as JSON, and carries it out if the user confirmed.
fn write_report(changes: &Changes, plan: &UndoPlan, is_confirmed: bool) -> anyhow::Result<Outcome> {
    let is_possible = !plan.changes.is_empty() || is_settled(plan);
    let is_done = is_confirmed && !plan.is_refused() && is_possible;
    let files = changes.diffs(&plan.directory, &plan.changes)?;
    let files: Vec<_> = files.iter().map(file_json).collect();
    let conflicts = plan.conflicts.iter();
    let conflicts: Vec<_> =
        conflicts.map(|it| path_json(&it.path, json!({"reason": it.reason}))).collect();
    let reasons = |left: &[LeftAlone]| -> Vec<_> {
        left.iter().map(|it| path_json(&it.path, json!({"reason": it.reason}))).collect()
    };
    let shared_with = plan.shared_with.iter().map(|shared| {
        let mut turn = turn_json(&shared.turn);
        turn["files"] = paths_json(&shared.paths);
        turn
    });
    let shared_with: Vec<_> = shared_with.collect();
    let not_recorded = plan.not_recorded.iter();
    let not_recorded: Vec<_> = not_recorded
        .map(|(turn, why)| json!({"turn": turn.turn, "member": turn.member, "reason": why}))
        .collect();
    if is_done {
        carry_out(changes, plan)?;
    }
    let written = write_json(&json!({
        "version": 1,
        "turn": plan.turn.turn,
        "member": plan.turn.member,
        "redo": plan.is_redo,
        "done": is_done,
        "completed": false,
        "complete": plan.left_alone.is_empty(),
        "refused": plan.is_refused(),
        "busy": plan.is_busy,
        "directory": plan.directory,
        "files": files,
        "conflicts": conflicts,
        "leftAlone": reasons(&plan.left_alone),
        "notRestored": reasons(&plan.not_restored),
        "sharedWith": shared_with,
        "uncertain": paths_json(&plan.uncertain),
        "unverified": paths_json(&plan.unverified),
        "notRecorded": not_recorded,
    }));
    if is_done {
        written.after(what_was_done(plan))?;
    } else {
        written?;
    }
    Ok(if plan.is_refused() { Outcome::Failed } else { outcome(plan) })
}
