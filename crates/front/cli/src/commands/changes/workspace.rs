//! `convoke changes apply` and `convoke changes discard`: merge or remove a member's workspace.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use convoke_changes::{
    ApplyPlan, Changes, ChangesError, ConflictChoice, Resolution, Workspace, WorkspaceTree,
};
use serde_json::json;

use super::paths::Paths;
use super::{file_json, path_json, reported};
use crate::commands::completions;
use crate::conversation::change_recorder::changes_of;
use crate::conversation::sessions::{find_to_change, open_store};
use crate::conversation::undo_progress::progress;
use crate::conversation::undo_text::{self, LISTED, change_lines};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::program;
use crate::terminal::{stderr, stdout, write_json};

/// An action on a workspace.
#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Merge the changes of a member's workspace into the working directory
    ///
    /// If both sides changed the same lines, the conflicts are shown and nothing is merged. `convoke undo` takes
    /// a merge back.
    Apply(Apply),
    /// Remove a member's workspace
    ///
    /// Its next turn gets a new one, with the state of the working directory. What its turns changed can still be
    /// shown.
    Discard(Discard),
}

/// The member and its session.
#[derive(Debug, Args)]
struct Owner {
    /// The member
    #[arg(value_name = "MEMBER")]
    member: String,
    /// The session: its id, either end of it, or `last`
    #[arg(
        long,
        value_name = "ID",
        default_value = "last",
        add = ArgValueCompleter::new(completions::sessions)
    )]
    session: String,
}

#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    owner: Owner,
    /// Where both sides changed a file, keep that of the working directory
    #[arg(long, group = "choice")]
    ours: bool,
    /// Where both sides changed a file, take that of the workspace
    #[arg(long, group = "choice")]
    theirs: bool,
    /// Where both sides changed the same lines, write both with marks, as git does
    #[arg(long, group = "choice")]
    markers: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    paths: Paths,
}

#[derive(Debug, Args)]
pub struct Discard {
    #[command(flatten)]
    owner: Owner,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl WorkspaceCommand {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match self {
            Self::Apply(apply) => reported(apply.json, apply.run()),
            Self::Discard(discard) => reported(discard.json, discard.run()),
        }
    }
}

impl Owner {
    /// Finds the session, and returns the store of changes.
    fn open(&self) -> anyhow::Result<(Changes, String)> {
        let host_environment = host_environment::of_process()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = runtime.block_on(async {
            find_to_change(&open_store(&host_environment).await?, &self.session).await
        })?;
        Ok((changes_of(&host_environment), session.to_string()))
    }
}

/// Converts the error of a member without a workspace to a usage error.
fn usage<T>(result: Result<T, ChangesError>) -> anyhow::Result<T> {
    match result {
        Err(error @ ChangesError::NoWorkspace { .. }) => Err(UsageError(error.to_string()).into()),
        result => Ok(result?),
    }
}

impl Apply {
    fn run(&self) -> anyhow::Result<Outcome> {
        let (changes, session) = self.owner.open()?;
        let changes = changes.with_progress(progress());
        for completed in changes.take_completed(&session)? {
            writeln!(
                stderr(),
                "convoke: {}",
                undo_text::completed(&completed, Some(&self.owner.session))
            )?;
        }
        let resolution = self.resolution(&changes, &session)?;
        let plan = usage(changes.plan_apply_with(&session, &self.owner.member, &resolution))?;
        let is_refused = !plan.conflicts.is_empty();
        let has_work = !plan.changes.is_empty();
        if self.json {
            let is_done = has_work && !is_refused && !self.dry_run;
            if is_done {
                merge(&changes, &plan)?;
            }
            let written = write_json(&plan_json(&changes, &plan, is_done)?);
            if is_done {
                written.after(merged(&plan))?;
            } else {
                written?;
            }
            return Ok(if is_refused { Outcome::Failed } else { Outcome::Done });
        }
        let text = describe(&changes, &plan)?;
        if is_refused {
            write!(stderr(), "{text}")?;
            if resolution.choice == ConflictChoice::Refuse {
                let hint =
                    "`--ours`, `--theirs` or `--markers` decides, for all of them or `-- PATH…`";
                writeln!(stderr(), "{hint}")?;
            }
            return Ok(Outcome::Failed);
        }
        let mut out = stdout();
        write!(out, "{text}")?;
        if !has_work || self.dry_run {
            return Ok(Outcome::Done);
        }
        let can_ask = stdin().is_terminal() && out.is_terminal();
        if can_ask && !self.yes && !asked("Merge them?")? {
            writeln!(out, "Nothing was merged.")?;
            return Ok(Outcome::Failed);
        }
        merge(&changes, &plan)?;
        let (merged, store) = (merged(&plan), program::store_option());
        writeln!(out, "{merged}; `convoke undo{store}` undoes it").after(merged)?;
        Ok(Outcome::Done)
    }
}

impl Apply {
    /// Returns what the person chose for files that both sides changed.
    fn resolution(&self, changes: &Changes, session: &str) -> anyhow::Result<Resolution> {
        let choice = match (self.ours, self.theirs, self.markers) {
            (true, ..) => ConflictChoice::Ours,
            (_, true, _) => ConflictChoice::Theirs,
            (.., true) => ConflictChoice::Marks,
            _ => ConflictChoice::Refuse,
        };
        if self.paths.is_empty() {
            return Ok(Resolution { choice, paths: Vec::new() });
        }
        if choice == ConflictChoice::Refuse {
            let why =
                "paths need `--ours`, `--theirs` or `--markers`: a workspace is merged as a whole";
            return Err(UsageError(why.to_owned()).into());
        }
        let cwd = host_environment::of_process()?.cwd;
        let paths = self.paths.below(&cwd, &changes.records(session)?)?;
        Ok(Resolution { choice, paths })
    }
}

fn merged(plan: &ApplyPlan) -> String {
    format!("the workspace of {} is merged", plan.workspace.member)
}

fn merge(changes: &Changes, plan: &ApplyPlan) -> anyhow::Result<()> {
    let merged = changes.apply(plan).map(drop);
    merged.map_err(|error| anyhow::anyhow!(undo_text::not_done("merged", &error)))
}

/// What only a workspace has, as lines.
struct OwnFiles {
    unmerged: String,
    ignored: String,
}

impl OwnFiles {
    fn is_empty(&self) -> bool {
        self.unmerged.is_empty() && self.ignored.is_empty()
    }
}

impl Discard {
    fn run(&self) -> anyhow::Result<Outcome> {
        let (changes, session) = self.owner.open()?;
        let workspaces = changes.workspaces(&session)?;
        let named = |it: &&Workspace| it.member.eq_ignore_ascii_case(&self.owner.member);
        if !self.yes
            && let Some(workspace) = workspaces.iter().find(named)
        {
            let own = OwnFiles {
                unmerged: unmerged(&changes, &session, workspace)?,
                ignored: ignored(&changes, workspace)?,
            };
            if !own.is_empty() && !self.is_agreed_to(workspace, &own)? {
                writeln!(stdout(), "Nothing was removed.")?;
                return Ok(Outcome::Failed);
            }
        }
        let gone = usage(changes.discard(&session, &self.owner.member))?;
        let Workspace { member, directory, .. } = gone;
        let removed = format!("the workspace of {member} is removed");
        if self.json {
            write_json(&json!({"session": session, "member": member, "directory": directory}))
        } else {
            writeln!(stdout(), "{removed}: {}", directory.display())
        }
        .after(removed)?;
        Ok(Outcome::Done)
    }

    /// Asks whether to remove a workspace with what only it has. Fails without a terminal to ask on.
    fn is_agreed_to(&self, workspace: &Workspace, own: &OwnFiles) -> anyhow::Result<bool> {
        let mut out = stdout();
        if !self.json {
            let (member, OwnFiles { unmerged, ignored }) = (&workspace.member, own);
            if !unmerged.is_empty() {
                let what = "has changes that are not merged";
                write!(out, "the workspace of {member} {what}:\n{unmerged}")?;
            }
            if !ignored.is_empty() {
                let what = "has files that git ignores, which cannot be restored";
                write!(out, "the workspace of {member} {what}:\n{ignored}")?;
            }
        }
        if self.json || !stdin().is_terminal() || !out.is_terminal() {
            let what = if own.unmerged.is_empty() {
                "files that git ignores"
            } else {
                "changes that are not merged"
            };
            let why = format!(
                "nothing was removed: the workspace has {what}, and there is no terminal to ask on; `--yes` removes it"
            );
            return Err(UsageError(why).into());
        }
        asked("Remove the workspace with them?")
    }
}

fn asked(question: &str) -> anyhow::Result<bool> {
    let mut out = stdout();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Describes a merge: a line for each path, and the conflicts with their lines.
fn describe(changes: &Changes, plan: &ApplyPlan) -> Result<String, ChangesError> {
    let (member, project) = (&plan.workspace.member, &plan.workspace.project);
    let mut text = String::new();
    if plan.changes.is_empty() && plan.conflicts.is_empty() {
        let _ = writeln!(
            text,
            "the workspace of {member} has no changes that {} lacks",
            project.display()
        );
    } else if !plan.changes.is_empty() {
        let _ = writeln!(text, "the workspace of {member} changes in {}:", project.display());
        for line in change_lines(changes, project, &plan.changes, LISTED)? {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !plan.left_alone.is_empty() {
        text.push_str("left out:\n");
        for left in &plan.left_alone {
            let _ = writeln!(text, "  {}: {}", left.path, left.reason);
        }
    }
    if !plan.conflicts.is_empty() {
        text.push_str("nothing was merged, because of these conflicts:\n");
        for conflict in &plan.conflicts {
            let _ = writeln!(text, "  {}: {}", conflict.path, conflict.reason);
            for line in conflict.lines.lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        let workspace = plan.workspace.directory.display();
        let _ = writeln!(text, "make the two sides agree, here or in {workspace}, and apply again");
    }
    Ok(text)
}

/// Lists the changes of a workspace that are not merged; of one whose directory is gone, those that are recorded.
fn unmerged(
    changes: &Changes,
    session: &str,
    workspace: &Workspace,
) -> Result<String, ChangesError> {
    let mut text = String::new();
    if workspace.tree != WorkspaceTree::Present {
        let recorded = changes.workspace_changes(session, workspace)?;
        for line in change_lines(changes, &workspace.directory, &recorded, LISTED)? {
            let _ = writeln!(text, "  {line}");
        }
        return Ok(text);
    }
    let plan = changes.plan_apply(session, &workspace.member)?;
    for line in change_lines(changes, &plan.workspace.project, &plan.changes, LISTED)? {
        let _ = writeln!(text, "  {line}");
    }
    for conflict in &plan.conflicts {
        let _ = writeln!(text, "  {}: {}", conflict.path, conflict.reason);
    }
    Ok(text)
}

/// Lists the files and directories of a workspace that git ignores.
fn ignored(changes: &Changes, workspace: &Workspace) -> Result<String, ChangesError> {
    if workspace.tree != WorkspaceTree::Present {
        return Ok(String::new());
    }
    let ignored = changes.ignored_in_workspace(workspace)?;
    let mut text = String::new();
    for path in ignored.iter().take(LISTED) {
        let _ = writeln!(text, "  {path}");
    }
    if ignored.len() > LISTED {
        let _ = writeln!(text, "  and {} more", ignored.len() - LISTED);
    }
    Ok(text)
}

fn plan_json(
    changes: &Changes,
    plan: &ApplyPlan,
    is_done: bool,
) -> Result<serde_json::Value, ChangesError> {
    let files = changes.diffs(&plan.workspace.project, &plan.changes)?;
    let files: Vec<_> = files.iter().map(file_json).collect();
    let conflicts: Vec<_> = plan
        .conflicts
        .iter()
        .map(|it| path_json(&it.path, json!({"reason": it.reason, "lines": it.lines})))
        .collect();
    let left_out: Vec<_> = plan
        .left_alone
        .iter()
        .map(|it| path_json(&it.path, json!({"reason": it.reason})))
        .collect();
    Ok(json!({
        "session": plan.session,
        "member": plan.workspace.member,
        "merged": is_done,
        "refused": !plan.conflicts.is_empty(),
        "files": files,
        "conflicts": conflicts,
        "leftOut": left_out,
    }))
}
