//! Texts about changed files and undos, for the terminal, the chat and the page.

use std::fmt::{Display, Write as _};
use std::path::Path;

use convoke_changes::{
    Change, Changes, ChangesError, Completed, Direction, FileDiff, Status, TreePath, UndoPlan,
    listed_count, shown,
};
use convoke_core::figures::thousands;
use convoke_core::name::shell_word;

use crate::program;

/// The paths that a list names, unless all are asked for.
pub const LISTED: usize = 50;

/// Whether a text says what would be done, or what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It is a preview.
    Preview,
    /// It is a report.
    Report,
}

/// Describes an undo or a redo, with a line for each of at most so many paths.
pub fn describe(
    changes: &Changes,
    plan: &UndoPlan,
    mood: Mood,
    most: usize,
) -> Result<String, ChangesError> {
    let directory = plan.directory.display();
    let mut text = match mood {
        Mood::Preview => {
            let verb = if plan.is_redo { "redo" } else { "undo" };
            format!("this would {verb} {} in {directory}", subject(plan))
        }
        Mood::Report => format!("{} is {} in {directory}", subject(plan), participle(plan)),
    };
    match mood {
        _ if plan.left_alone.is_empty() => text.push_str(":\n"),
        Mood::Preview => {
            let _ = writeln!(text, ", in part: {} can be restored", restored(plan));
        }
        Mood::Report => {
            let _ = writeln!(text, ", in part: {} are restored", restored(plan));
        }
    }
    for line in change_lines(changes, &plan.directory, &plan.changes, most)? {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(repository) = &plan.repository {
        let _ = writeln!(text, "the repository stays as it is: {repository}");
    }
    for (turn, why) in &plan.not_recorded {
        let (turn, member) = (turn.turn, &turn.member);
        let _ = writeln!(text, "not part of this: turn {turn} ({member}) was not recorded: {why}");
    }
    for shared in &plan.shared_with {
        let other = shared.turn.name_in(&plan.turn.session);
        let paths = shared.paths.iter();
        if shared.paths.is_empty() {
            let _ = writeln!(text, "{other} ran at the same time and changed none of these files");
            continue;
        }
        let _ = writeln!(text, "{other} ran at the same time, and these changes may be its own:");
        list(&mut text, paths, shared.paths.len(), most);
    }
    if !plan.is_redo {
        text.push_str(&uncertain(&plan.uncertain, most));
        text.push_str(&unverified(&plan.unverified, most));
    }
    if !plan.left_alone.is_empty() {
        text.push_str("left as they are:\n");
        let lines = plan.left_alone.iter().map(|left| format!("{}: {}", left.path, left.reason));
        list(&mut text, lines, plan.left_alone.len(), most);
    }
    if !plan.not_restored.is_empty() {
        text.push_str("not restored:\n");
        let lines = plan.not_restored.iter().map(|it| format!("{}: {}", it.path, it.reason));
        list(&mut text, lines, plan.not_restored.len(), most);
    }
    if !plan.conflicts.is_empty() {
        text.push_str("refused, because of these files:\n");
        let lines = plan.conflicts.iter().map(|it| format!("{}: {}", it.path, it.reason));
        list(&mut text, lines, plan.conflicts.len(), most);
    }
    if plan.is_busy {
        text.push_str("refused, because a turn is running in the directory; wait for its end\n");
    }
    Ok(text)
}

/// Returns the report of an undo or a redo.
pub fn done(plan: &UndoPlan) -> String {
    format!("{}; {}", what_was_done(plan), reversal(plan.is_redo))
}

/// Says what an undo or a redo did.
pub fn what_was_done(plan: &UndoPlan) -> String {
    let what = if plan.left_alone.is_empty() {
        participle(plan).to_owned()
    } else {
        format!("{} in part: {} are restored", participle(plan), restored(plan))
    };
    format!("{} is {what}", subject(plan))
}

/// Names the command that reverses an undo, or a redo.
pub fn reversal(is_redo: bool) -> &'static str {
    if is_redo { "`undo` reverses it" } else { "`redo` reverses it" }
}

/// Returns `undone` or `redone`.
pub fn participle(plan: &UndoPlan) -> &'static str {
    if plan.is_redo { "redone" } else { "undone" }
}

/// Returns the report of an undo or a merge that failed. Nothing of it was done, unless the error says otherwise.
pub fn not_done(verb: &str, error: &ChangesError) -> String {
    match error {
        ChangesError::HalfDone { .. } => error.to_string(),
        error => format!("nothing was {verb}: {error}"),
    }
}

/// Lists the changes of an interrupted turn that may be a person's.
pub fn uncertain(paths: &[TreePath], most: usize) -> String {
    let mut text = String::new();
    if !paths.is_empty() {
        text.push_str(
            "the turn was interrupted, and these changes may be yours, made after its end:\n",
        );
        list(&mut text, paths.iter(), paths.len(), most);
    }
    text
}

/// Lists the files whose content before a turn is known by their size and time alone.
pub fn unverified(paths: &[TreePath], most: usize) -> String {
    let mut text = String::new();
    if !paths.is_empty() {
        text.push_str("contents identified by size and time only:\n");
        list(&mut text, paths.iter(), paths.len(), most);
    }
    text
}

/// Names the command that reverses a plan: with the session, the store and the paths, if they were named.
pub fn reversed_by(plan: &UndoPlan, id: &str) -> String {
    let paths = plan.part.paths.iter().map(|path| shell_word(&path.to_lossy()));
    let paths: Vec<_> = paths.collect();
    if paths.is_empty() {
        return session_reversed_by(plan.is_redo, id);
    }
    let command = if plan.is_redo { "undo" } else { "redo" };
    let session = if id == "last" { String::new() } else { format!(" {}", shell_word(id)) };
    let (program, store) = (program::name(), program::store_option());
    format!("`{program} {command}{session}{store} -- {}` reverses it", paths.join(" "))
}

/// Names the command that reverses an undo, or a redo, of a session: with the session and the store, if they were named.
fn session_reversed_by(is_redo: bool, id: &str) -> String {
    let session = if id == "last" { String::new() } else { format!(" {}", shell_word(id)) };
    let arguments = format!("{session}{}", program::store_option());
    if arguments.is_empty() {
        return reversal(is_redo).to_owned();
    }
    let command = if is_redo { "undo" } else { "redo" };
    format!("`{} {command}{arguments}` reverses it", program::name())
}

/// Returns the report of an undo or a merge that was interrupted, and is complete now. `id` is the session as a command
/// line names it, if that is where the report is shown.
pub fn completed(completed: &Completed, id: Option<&str>) -> String {
    let Completed { record, direction, left_alone } = completed;
    let (turn, member) = (record.turn.turn, &record.turn.member);
    let what = match (&record.applied, direction) {
        (Some(applied), Direction::Change) => {
            format!("the merge of the workspace of {}", applied.member)
        }
        (Some(applied), Direction::Undo) => {
            format!("the undo of the merge of the workspace of {}", applied.member)
        }
        (Some(applied), Direction::Redo) => {
            format!("the redo of the merge of the workspace of {}", applied.member)
        }
        (None, _) if let Some(part) = record.part_of => {
            let verb = if part.is_redo { "redo" } else { "undo" };
            format!("the {verb} of a part of turn {turn} ({member})")
        }
        (None, Direction::Redo) => format!("the redo of turn {turn} ({member})"),
        (None, _) => format!("the undo of turn {turn} ({member})"),
    };
    let is_redo = match record.part_of {
        Some(part) => part.is_redo,
        None => *direction != Direction::Undo,
    };
    let reversal =
        id.map_or_else(|| reversal(is_redo).to_owned(), |id| session_reversed_by(is_redo, id));
    let mut text = format!("{what} was interrupted, and is complete now; {reversal}");
    if !left_alone.is_empty() {
        text.push_str("\nleft as they are, because they were changed after the interruption:\n");
        list(&mut text, left_alone.iter(), left_alone.len(), LISTED);
        text.truncate(text.trim_end().len());
    }
    text
}

/// Returns the report of an undo or a redo that has nothing to do.
pub fn nothing_done(plan: &UndoPlan) -> String {
    match (plan.left_alone.is_empty(), plan.is_redo) {
        (false, _) => "nothing can be restored".to_owned(),
        (true, false) => {
            format!("nothing to do: the files are as they were before {}", subject(plan))
        }
        (true, true) => {
            format!("nothing to do: the changes of {} are already there", subject(plan))
        }
    }
}

/// Returns whether a plan has nothing to do, so that its turn counts as undone or redone without a change.
pub fn is_settled(plan: &UndoPlan) -> bool {
    plan.changes.is_empty() && plan.left_alone.is_empty() && !plan.is_refused()
}

fn subject(plan: &UndoPlan) -> String {
    match &plan.applied {
        None if !plan.part.paths.is_empty() => {
            format!("a part of turn {} ({})", plan.turn.turn, plan.turn.member)
        }
        Some(applied) => format!("the merge of the workspace of {}", applied.member),
        None => format!("turn {} ({})", plan.turn.turn, plan.turn.member),
    }
}

/// Counts the files that a partial undo restores: `2,048 of 15,002 files`.
fn restored(plan: &UndoPlan) -> String {
    let restored = shown(&plan.changes).count();
    let all = restored + plan.left_alone.len();
    format!("{} of {} files", thousands(restored as u64), thousands(all as u64))
}

/// Returns a line for each changed path, at most so many: status, path, counts of lines.
pub fn change_lines(
    changes: &Changes,
    directory: &Path,
    list: &[Change],
    most: usize,
) -> Result<Vec<String>, ChangesError> {
    let line = |diff: &FileDiff| {
        let counted = diff.lines.map_or_else(
            || format!("{} bytes", diff.bytes),
            |lines| format!("+{} −{}", lines.added, lines.removed),
        );
        if let Some(from) = &diff.from {
            let modes = diff.modes.map(|(old, new)| format!(", mode {old:o} → {new:o}"));
            let (status, path) = (diff.status.as_str(), &diff.path);
            return format!("{status:<8} {path}  from {from}{}", modes.unwrap_or_default());
        }
        let what = match (diff.modes, diff.kinds) {
            (Some((old, new)), _) if diff.status == Status::Mode => format!("{old:o} → {new:o}"),
            (Some((old, new)), _) => format!("{counted}, mode {old:o} → {new:o}"),
            (None, Some((old, new))) => format!("{old} → {new}, {counted}"),
            (None, None) => counted,
        };
        format!("{:<8} {}  {what}", diff.status.as_str(), diff.path)
    };
    let diffs = changes.first_diffs(directory, list, most)?;
    let left_out = listed_count(list) - diffs.len();
    Ok(diffs.iter().map(line).chain(more(left_out)).collect())
}

fn list(text: &mut String, lines: impl Iterator<Item = impl Display>, count: usize, most: usize) {
    let lines = lines.take(most).map(|line| line.to_string());
    for line in lines.chain(more(count.saturating_sub(most))) {
        let _ = writeln!(text, "  {line}");
    }
}

/// Returns the line that counts what a list leaves out.
fn more(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| format!("and {} more", thousands(left_out as u64)))
}
