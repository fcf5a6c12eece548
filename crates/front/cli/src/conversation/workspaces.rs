//! The workspaces of a team: prepared before a turn, and described in prompts.

use std::fmt::Write as _;

use convoke_changes::{
    Changes, ChangesError, TurnKey, Workspace, WorkspaceSettings, WorkspaceTree, diagnostics,
};
use convoke_core::Diagnostic;
use convoke_core::name::shell_word;
use convoke_session::file_changes::{TeamWorkspaces, WorkspacesRequest};

use super::undo_text::change_lines;

/// The maximum number of changed paths of a workspace that a prompt names.
const NAMED_CHANGES: usize = 40;
/// The maximum number of missing paths that a message names.
const NAMED_LACKS: usize = 10;

/// Prepares the workspace of a member before a turn, and describes those of its team.
pub(super) fn prepare(
    changes: &Changes,
    request: &WorkspacesRequest,
) -> Result<TeamWorkspaces, ChangesError> {
    let session = request.attempt.session.to_string();
    let mut team = TeamWorkspaces::default();
    if let Some(own) = &request.own {
        let turn = TurnKey {
            session: session.clone(),
            turn: request.attempt.turn.0,
            attempt: request.attempt.attempt,
            member: request.member.to_string(),
        };
        let settings = WorkspaceSettings { copy: own.copy.clone(), link: own.link.clone() };
        let workspace = changes.workspace(&own.project, &turn, &settings)?;
        match workspace.tree {
            WorkspaceTree::Created => team.diagnostics.push(created(&workspace)),
            WorkspaceTree::Restored => team.diagnostics.push(restored(&workspace)),
            _ => {}
        }
        team.root = Some(workspace.directory);
    }
    team.readable = changes.workspace_paths(&session)?;
    let mut text = String::new();
    for workspace in changes.workspaces(&session)? {
        if workspace.member == request.member.as_str() {
            text.push_str(&own_text(&workspace));
        } else {
            text.push_str(&text_for_others(changes, &session, &workspace)?);
        }
    }
    let text = text.trim_end();
    team.text = (!text.is_empty()).then(|| text.to_owned());
    Ok(team)
}

fn created(workspace: &Workspace) -> Diagnostic {
    let Workspace { member, directory, project, .. } = workspace;
    let message = format!(
        "{member} works in a copy of {}: {}{}",
        project.display(),
        directory.display(),
        lacks(workspace).map_or_else(String::new, |lacks| format!("; it lacks {lacks}"))
    );
    Diagnostic::new(diagnostics::WORKSPACE_CREATED, message)
}

fn restored(workspace: &Workspace) -> Diagnostic {
    let message = format!(
        "the workspace of {} was missing and was restored from its last record: {}",
        workspace.member,
        workspace.directory.display()
    );
    Diagnostic::new(diagnostics::WORKSPACE_RESTORED, message)
}

/// Returns the paths that a workspace lacks, as a list.
fn lacks(workspace: &Workspace) -> Option<String> {
    let named = &workspace.lacks[..workspace.lacks.len().min(NAMED_LACKS)];
    let mut list = named.join(", ");
    let more = workspace.lacked.saturating_sub(named.len() as u64);
    if more > 0 {
        let _ = write!(list, " and {more} more");
    }
    (!list.is_empty()).then_some(list)
}

fn own_text(workspace: &Workspace) -> String {
    let Workspace { member, directory, project, branch, .. } = workspace;
    let mut text = format!(
        "You work in your own copy of {}: {}. Its files are committed to the branch {branch} at the end of \
         your turns. A person merges them with `convoke changes apply {}`.",
        project.display(),
        directory.display(),
        shell_word(member),
    );
    if let Some(lacks) = lacks(workspace) {
        let _ = write!(text, " The copy lacks these files, which git ignores: {lacks}.");
    }
    text + "\n"
}

fn text_for_others(
    changes: &Changes,
    session: &str,
    workspace: &Workspace,
) -> Result<String, ChangesError> {
    let Workspace { member, directory, project, .. } = workspace;
    let mut text =
        format!("{member} works in a copy of {}: {}.", project.display(), directory.display());
    let unmerged = changes.workspace_changes(session, workspace)?;
    let lines = change_lines(changes, directory, &unmerged, NAMED_CHANGES)?;
    if lines.is_empty() {
        return Ok(text + " All its changes are merged.\n");
    }
    text.push_str(" Its unmerged changes:\n");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}
