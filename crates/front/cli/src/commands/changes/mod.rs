//! `convoke changes`: the changes of each turn of a session, and those in workspaces.

mod blame;
mod commit;
pub(super) mod paths;
mod summary;
mod workspace;

use std::io::Write as _;

use clap::{Args, Subcommand};
use convoke_changes::{
    Author, Changes, Direction, FileDiff, Record, RepositoryChange, Step, TreePath, TurnKey,
    Workspace, WorkspaceTree, direction, steps, without_changes,
};
use convoke_core::figures::hexadecimal;
use convoke_core::name::shell_word;
use convoke_protocol::id::TurnId;
use serde_json::{Value, json};

use self::blame::Blame;
use self::commit::Commit;
use self::paths::{Paths, names};
use self::workspace::WorkspaceCommand;
use super::sessions::parse_turn;
use crate::conversation::change_recorder::{changes_of, counts};
use crate::conversation::sessions::{find, open_store};
use crate::conversation::undo_progress::progress;
use crate::conversation::undo_text::{self, LISTED, change_lines, uncertain, unverified};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError, WorkDone};
use crate::program;
use crate::terminal::{Paint, page, stderr, stdout, write_json};

/// Shows what each turn changed in the working directory, and what you changed between two turns.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_precedence_over_arg = true,
    after_help = "Examples:
  convoke changes
  convoke changes --turn 3 -- src
  convoke changes --stat
  convoke changes blame src/main.rs
  convoke changes commit --turn 3 -m \"Fix the login test\""
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// One turn only, with its diff
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// The changes of all turns together: a line for each file, with the counts of its lines
    #[arg(long, conflicts_with = "json")]
    stat: bool,
    /// The paths of the changed files alone, one a line
    #[arg(long, conflicts_with_all = ["json", "stat"])]
    name_only: bool,
    /// List all files, also more than 50 of a turn
    #[arg(long)]
    all: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    paths: Paths,
}

/// What is done with changes.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show which turn wrote each line of a file
    Blame(Blame),
    /// Commit what a turn changed to the repository of the directory, as yourself
    ///
    /// The files must be as the turn left them. Hooks of the repository do not run. Nothing else of Convoke writes to a
    /// repository of yours.
    Commit(Commit),
    #[command(flatten)]
    Workspace(WorkspaceCommand),
}

/// Runs `convoke changes`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        Some(Command::Blame(blame)) => blame.run(),
        Some(Command::Commit(commit)) => commit.run(),
        Some(Command::Workspace(command)) => command.run(),
        None => reported(arguments.json, show(arguments)),
    }
}

/// Writes an error as JSON too, if JSON was asked for.
pub(super) fn reported(is_json: bool, result: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    // The output of one that has done its work cannot be written.
    if is_json
        && let Err(error) = &result
        && !error.is::<WorkDone>()
    {
        write_json(&json!({"error": format!("{error:#}")}))?;
    }
    result
}

fn show(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = runtime
        .block_on(async { find(&open_store(&host_environment).await?, &arguments.id).await })?;
    let changes = changes_of(&host_environment).with_progress(progress());
    for completed in changes.take_completed(&session.to_string())? {
        writeln!(stderr(), "convoke: {}", undo_text::completed(&completed, Some(&arguments.id)))?;
    }
    let mut records = changes.records(&session.to_string())?;
    if let Some(turn) = arguments.turn {
        records.retain(|record| record.turn.turn == turn.0);
    }
    let paths = arguments.paths.below(&host_environment.cwd, &records)?;
    for record in &mut records {
        record.changes.retain(|change| names(&paths, &change.path));
    }
    if arguments.stat || arguments.name_only {
        let net = summary::net(&changes, &records, &paths)?;
        if arguments.stat {
            summary::write_stat(&net)?;
        } else {
            summary::write_names(&net)?;
        }
    } else if arguments.json {
        let steps = steps(&records);
        let turn = |record: &Record| record_json(&changes, &records, &steps, record);
        let turns: Result<Vec<Value>, _> = records.iter().map(turn).collect();
        let workspaces = workspaces_json(&changes, &session.to_string())?;
        write_json(&json!({"session": session, "turns": turns?, "workspaces": workspaces}))?;
    } else if let Some(turn) = arguments.turn {
        write_diff(&changes, &records, turn)?;
    } else {
        list(&changes, &records, if arguments.all { usize::MAX } else { LISTED })?;
        list_workspaces(&changes, &session.to_string())?;
    }
    Ok(Outcome::Done)
}

/// Writes the diff of records.
pub(super) fn write_diff(
    changes: &Changes,
    records: &[Record],
    turn: TurnId,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for record in records {
        text.extend(record.repository.iter().map(|repository| format!("{repository}\n")));
        let diffs = changes.diffs(&record.directory, &record.changes)?;
        text.extend(diffs.into_iter().map(|diff| diff.text));
    }
    if text.is_empty() {
        let lost = records.iter().find_map(|record| Some((record, record.not_recorded.as_ref()?)));
        let why = match lost {
            Some((Record { turn: TurnKey { turn, member, .. }, .. }, why)) => {
                format!("turn {turn} ({member}) was not recorded: {why}")
            }
            None => without_changes(records, turn.0),
        };
        return Err(UsageError(why).into());
    }
    Ok(page(&text)?)
}

fn list(changes: &Changes, records: &[Record], most: usize) -> anyhow::Result<()> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    let is_shown = |record: &&Record| {
        !record.changes.is_empty()
            || record.repository.is_some()
            || !record.lost_repositories.is_empty()
            || record.not_recorded.is_some()
    };
    if !records.iter().any(|record| is_shown(&record)) {
        writeln!(out, "no changes are recorded")?;
    }
    for record in records.iter().filter(is_shown) {
        let title = paint.strong(&title(changes, records, record));
        if let Some(why) = &record.not_recorded {
            writeln!(out, "{title}  not recorded: {why}")?;
            continue;
        }
        let made = record.repository.as_ref().map(RepositoryChange::counts);
        let made = made.filter(|made| !made.is_empty());
        let made = made.map_or_else(String::new, |made| format!(", {made}"));
        writeln!(out, "{title}  {}{made}", counts(changes, record))?;
        for other in record.shared_with.iter().filter(|_| record.undoes.is_none()) {
            let other = other.name_in(&record.turn.session);
            writeln!(out, "  at the same time as {other}: a change may belong to either turn")?;
        }
        if let Some(repository) = &record.repository {
            writeln!(out, "  {repository}")?;
        }
        for path in &record.lost_repositories {
            writeln!(out, "  the repository of {path} was removed or moved")?;
        }
        for line in change_lines(changes, &record.directory, &record.changes, most)? {
            writeln!(out, "  {line}")?;
        }
        let doubts =
            [uncertain(&record.uncertain, most), unverified(&record.unverified, most)].concat();
        for line in doubts.lines() {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

/// Lists the workspaces of a session.
fn list_workspaces(changes: &Changes, session: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    for workspace in changes.workspaces(session)? {
        let count = shown_count(changes, session, &workspace)?;
        let member = &workspace.member;
        let apply =
            format!("`convoke changes apply {}{}`", shell_word(member), program::store_option());
        let what = match count {
            0 => "everything is merged".to_owned(),
            1 => format!("1 file is not merged; {apply} merges it"),
            _ => format!("{count} files are not merged; {apply} merges them"),
        };
        writeln!(out, "workspace of {member}  {what}")?;
        let tree = match workspace.tree {
            WorkspaceTree::Missing => " is gone; the member's next turn restores it",
            WorkspaceTree::Replaced => " is no longer a directory; move the original back",
            _ => "",
        };
        writeln!(out, "  {}{tree}", workspace.directory.display())?;
    }
    Ok(())
}

/// Counts the changes of a workspace that are not merged.
pub(super) fn shown_count(
    changes: &Changes,
    session: &str,
    workspace: &Workspace,
) -> anyhow::Result<usize> {
    let unmerged = changes.workspace_changes(session, workspace)?;
    Ok(changes.diffs(&workspace.directory, &unmerged)?.len())
}

fn workspaces_json(changes: &Changes, session: &str) -> anyhow::Result<Vec<Value>> {
    let workspaces = changes.workspaces(session)?;
    let json = |workspace: &Workspace| {
        Ok(json!({
            "member": workspace.member,
            "directory": workspace.directory,
            "project": workspace.project,
            "branch": workspace.branch,
            "unmerged": shown_count(changes, session, workspace)?,
        }))
    };
    workspaces.iter().map(json).collect()
}

fn title(changes: &Changes, records: &[Record], record: &Record) -> String {
    let title = title_of(records, record);
    let is_turn = record.by == Author::Agent && record.undoes.is_none() && record.applied.is_none();
    let is_in_workspace = is_turn && changes.is_workspace(&record.directory);
    let place = if is_in_workspace { " in its workspace" } else { "" };
    let interrupted = if is_turn && record.interrupted { ", interrupted" } else { "" };
    format!("{title}{place}{interrupted}")
}

/// Names a record: a turn, an undo, a merge, or what a person changed.
fn title_of(records: &[Record], record: &Record) -> String {
    let turn = record.turn.turn;
    let direction = direction(records, record);
    if let Some(applied) = &record.applied {
        let merge = format!("merge of the workspace of {}", applied.member);
        return match direction {
            Direction::Change => merge,
            Direction::Undo => format!("undo of the {merge}"),
            Direction::Redo => format!("redo of the {merge}"),
        };
    }
    if let Some(part) = record.part_of {
        let what = if part.is_redo { "redo" } else { "undo" };
        return format!("{what} of a part of turn {turn}");
    }
    match (record.by, record.undoes) {
        (_, Some(_)) if direction == Direction::Redo => format!("redo of turn {turn}"),
        (_, Some(_)) => format!("undo of turn {turn}"),
        (Author::Agent, None) => format!("turn {turn}, {}", record.turn.member),
        (Author::Person, None) => format!("you, before turn {turn}"),
    }
}

fn record_json(
    changes: &Changes,
    records: &[Record],
    steps: &[Step<'_>],
    record: &Record,
) -> anyhow::Result<Value> {
    let step = steps.iter().find(|step| step.made.id == record.id);
    let files: Vec<Value> =
        changes.diffs(&record.directory, &record.changes)?.iter().map(file_json).collect();
    let member = (record.by == Author::Agent).then_some(&record.turn.member);
    Ok(json!({
        "turn": record.turn.turn,
        "attempt": record.turn.attempt,
        "member": member,
        "by": record.by,
        "undo": record.undoes.is_some(),
        "redo": direction(records, record) == Direction::Redo,
        "partOf": record.part_of,
        "undone": step.map(|step| step.is_undone),
        "hidden": paths_json(&record.hidden),
        "recorded": record.not_recorded.is_none(),
        "reason": record.not_recorded,
        "sharedWith": record.shared_with.iter().map(turn_json).collect::<Vec<_>>(),
        "repository": record.repository.as_ref().map(ToString::to_string),
        "commits": record.repository.as_ref().map_or(0, |it| it.commits),
        "stashes": record.repository.as_ref().map_or(0, RepositoryChange::stashes),
        "merged": record.applied.as_ref().map(|applied| &applied.member),
        "interrupted": record.interrupted,
        "uncertain": paths_json(&record.uncertain),
        "unverified": paths_json(&record.unverified),
        "directory": record.directory,
        "files": files,
    }))
}

/// Writes a turn that ran at the same time as another.
pub(super) fn turn_json(turn: &TurnKey) -> Value {
    json!({"session": turn.session, "turn": turn.turn, "member": turn.member})
}

pub(super) fn file_json(diff: &FileDiff) -> Value {
    let mut fields = json!({
        "status": diff.status.as_str(),
        "added": diff.lines.map(|lines| lines.added),
        "removed": diff.lines.map(|lines| lines.removed),
        "bytes": diff.bytes,
    });
    if let Some(from) = &diff.from {
        fields["from"] = from.to_lossy().into();
    }
    if let Some((old, new)) = diff.modes {
        fields["modes"] = json!([format!("{old:o}"), format!("{new:o}")]);
    }
    path_json(&diff.path, fields)
}

/// Adds a path to fields: `path`, and `pathBytes` in hexadecimal digits for one that is not UTF-8.
pub(super) fn path_json(path: &TreePath, mut fields: Value) -> Value {
    fields["path"] = path.to_lossy().into();
    if str::from_utf8(path.as_bytes()).is_err() {
        fields["pathBytes"] = hexadecimal(path.as_bytes()).into();
    }
    fields
}

/// Writes paths as strings.
pub(super) fn paths_json(paths: &[TreePath]) -> Value {
    paths.iter().map(TreePath::to_lossy).collect()
}
