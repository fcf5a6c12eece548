//! Records and undoes the changes of turns, with `convoke-changes`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_changes::{
    Author, Begun, Changes, ChangesError, Completed, Direction, Host, Record, RunningTurn, TurnKey,
    UndoPlan, diagnostics, direction,
};
use convoke_core::{Code, Diagnostic};
use convoke_inspect::HostEnvironment;
use convoke_session::file_changes::{
    ChangeCounts, ChangeRecorder, RecorderFuture, Recording, RecordingBegun, RecordingEnded,
    TeamWorkspaces, TeammateChanges, TurnDirectory, UndoAction, UndoConsent, UndoRequest,
    WorkspacesRequest,
};

use convoke_team::ChangesInContext;

use super::home::Home;
use super::undo_text::{
    self, LISTED, Mood, change_lines, describe, done, is_settled, not_done, nothing_done,
    participle,
};
use super::workspaces;

/// The number of paths that a diagnostic names.
const NAMED_PATHS: usize = 5;

/// Returns the store of changes of a user.
pub fn changes_of(host_environment: &HostEnvironment) -> Changes {
    let config = host_environment.variable("XDG_CONFIG_HOME").map(Path::new);
    let config = config.filter(|path| path.is_absolute());
    let host = Host {
        path: host_environment.variable("PATH").unwrap_or_default().to_owned(),
        config: config.map_or_else(|| host_environment.home.join(".config"), Path::to_owned),
        home: host_environment.home.clone(),
    };
    Changes::new(&Home::new(host_environment).data, host)
}

/// The recorder of a conversation.
pub(super) struct Recorder {
    changes: Changes,
    /// Whether the missing `git` was reported.
    has_reported_no_git: Arc<AtomicBool>,
}

impl Recorder {
    pub(super) fn new(changes: Changes) -> Self {
        Self { changes, has_reported_no_git: Arc::default() }
    }
}

impl ChangeRecorder for Recorder {
    fn begin(&self, turn: TurnDirectory) -> RecorderFuture<RecordingBegun> {
        let (changes, reported) = (self.changes.clone(), self.has_reported_no_git.clone());
        Box::pin(async move {
            let work = move || begin(&changes, &turn, &reported);
            tokio::task::spawn_blocking(work).await.unwrap_or_default()
        })
    }

    fn teammate_changes(&self, request: TeammateChanges) -> RecorderFuture<Option<String>> {
        let changes = self.changes.clone();
        Box::pin(async move {
            let work = move || teammate_changes(&changes, &request).ok().flatten();
            tokio::task::spawn_blocking(work).await.ok().flatten()
        })
    }

    fn workspaces(
        &self,
        request: WorkspacesRequest,
    ) -> RecorderFuture<Result<TeamWorkspaces, String>> {
        let changes = self.changes.clone();
        Box::pin(async move {
            let member = request.member.clone();
            let failed = move |error: String| format!("no workspace for {member}: {error}");
            let work =
                move || workspaces::prepare(&changes, &request).map_err(|error| error.to_string());
            let prepared = tokio::task::spawn_blocking(work).await;
            prepared.unwrap_or_else(|error| Err(error.to_string())).map_err(failed)
        })
    }

    fn undo(&self, request: UndoRequest) -> RecorderFuture<Result<String, String>> {
        let changes = self.changes.clone();
        Box::pin(async move {
            let work = move || undo(&changes, &request);
            tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
        })
    }
}

/// A turn that is being recorded.
struct RecordedTurn {
    changes: Changes,
    running: RunningTurn,
}

impl Recording for RecordedTurn {
    fn finish(self: Box<Self>) -> RecorderFuture<RecordingEnded> {
        Box::pin(async move {
            let Self { changes, running } = *self;
            let work = move || match running.finish() {
                Ok(record) => {
                    let mut diagnostics = remarks(&record);
                    diagnostics.extend(uncommitted(&changes, &record));
                    RecordingEnded { counts: Some(counts(&changes, &record)), diagnostics }
                }
                Err(error) => RecordingEnded { counts: None, diagnostics: vec![off(&error)] },
            };
            tokio::task::spawn_blocking(work).await.unwrap_or_default()
        })
    }
}

fn begin(
    changes: &Changes,
    turn: &TurnDirectory,
    has_reported_no_git: &AtomicBool,
) -> RecordingBegun {
    let key = TurnKey {
        session: turn.attempt.session.to_string(),
        turn: turn.attempt.turn.0,
        attempt: turn.attempt.attempt,
        member: turn.member.to_string(),
    };
    match changes.begin(&turn.directory, key) {
        Ok(Begun { turn, person, completed, .. }) => RecordingBegun {
            by_person: person.map(|record| counts(changes, &record)),
            recording: Some(Box::new(RecordedTurn { changes: changes.clone(), running: turn })),
            diagnostics: completed.iter().map(completion).collect(),
        },
        // It is the same for every turn.
        Err(ChangesError::NoGit) if has_reported_no_git.swap(true, Ordering::Relaxed) => {
            RecordingBegun::default()
        }
        Err(error) => {
            RecordingBegun { diagnostics: vec![off(&error)], ..RecordingBegun::default() }
        }
    }
}

/// Commits the changes of a turn in a workspace. Returns a diagnostic if that failed.
fn uncommitted(changes: &Changes, record: &Record) -> Option<Diagnostic> {
    let error = changes.commit(&record.directory, &record.turn).err()?;
    let message = format!("the changes of this turn are recorded, but not committed: {error}");
    Some(Diagnostic::new(diagnostics::WORKSPACE_UNCOMMITTED, message))
}

fn completion(completed: &Completed) -> Diagnostic {
    Diagnostic::new(diagnostics::CHANGES_COMPLETED, undo_text::completed(completed))
}

fn off(error: &ChangesError) -> Diagnostic {
    let message =
        format!("the changes of this turn are not recorded and cannot be undone: {error}");
    Diagnostic::new(diagnostics::CHANGES_OFF, message)
}

/// Returns the diagnostics of a recorded turn.
fn remarks(record: &Record) -> Vec<Diagnostic> {
    let mut remarks = Vec::new();
    let mut add = |code: Code, what: &str, paths: Vec<String>| {
        if !paths.is_empty() {
            let count = paths.len();
            let mut named = paths[..count.min(NAMED_PATHS)].join(", ");
            if count > NAMED_PATHS {
                let _ = write!(named, " and {} more", count - NAMED_PATHS);
            }
            let message = format!("{what}: {named}");
            remarks.push(Diagnostic::new(code, message).with_count(count as u64));
        }
    };
    let incomplete = "changed before their first copy was complete; undo leaves them as they are";
    add(diagnostics::CHANGES_INCOMPLETE, incomplete, record.incomplete());
    let unverified = "contents before this turn taken from the repository's objects, identified by size and time only";
    let paths = record.unverified.iter().map(ToString::to_string).collect();
    add(diagnostics::CHANGES_UNVERIFIED, unverified, paths);
    let large = "recorded by hash alone, because of their size; undo leaves them as they are";
    add(diagnostics::CHANGES_LARGE, large, record.large());
    let hidden = "created and ignored by this turn, and too large to be recorded";
    let paths = record.hidden.iter().map(ToString::to_string).collect();
    add(diagnostics::CHANGES_HIDDEN, hidden, paths);
    add(diagnostics::CHANGES_UNRECORDED, "could not be read", record.unreadable());
    let paths = record.shown().map(|change| &change.path);
    let commands = paths.filter(|path| names_commands(&path.to_lossy()));
    let commands = commands.map(ToString::to_string).collect();
    let what = "this turn changed files that name commands for CLIs, editors or shells";
    add(diagnostics::CHANGES_COMMANDS, what, commands);
    let others = record.shared_with.iter();
    let others = others.map(|other| other.name_in(&record.turn.session)).collect();
    add(diagnostics::CHANGES_SHARED, "another turn ran in the same directory", others);
    if let Some(repository) = &record.repository {
        let code = match repository.after {
            Some(_) => diagnostics::REPOSITORY_CHANGED,
            None => diagnostics::REPOSITORY_REMOVED,
        };
        remarks.push(Diagnostic::new(code, repository.to_string()));
    }
    remarks
}

/// Returns whether CLIs, editors or shells run what a file of a project names. Other members and the person's own
/// programs may do so without the sandbox of the member that changed it.
fn names_commands(path: &str) -> bool {
    const DIRECTORIES: &[&str] = &[
        ".agents",
        ".claude",
        ".codex",
        ".cursor",
        ".gemini",
        ".husky",
        ".kilo",
        ".kilocode",
        ".kimi",
        ".kimi-code",
        ".opencode",
        ".qwen",
    ];
    const FILES: &[&str] =
        &[".envrc", ".mcp.json", ".pre-commit-config.yaml", "opencode.json", "opencode.jsonc"];
    const EDITORS: &[&str] = &[".vscode/tasks.json", ".vscode/settings.json", ".vscode/mcp.json"];
    let mut parts = path.split('/');
    parts.any(|part| DIRECTORIES.contains(&part) || FILES.contains(&part))
        || EDITORS.iter().any(|file| {
            path.strip_suffix(file).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
}

/// Counts the changed files and lines of a record.
pub fn counts(changes: &Changes, record: &Record) -> ChangeCounts {
    let mut counts =
        ChangeCounts { files: record.shown().count() as u64, ..ChangeCounts::default() };
    let diffs = changes.diffs(&record.directory, &record.changes).unwrap_or_default();
    for lines in diffs.iter().filter_map(|diff| diff.lines) {
        counts.added += lines.added;
        counts.removed += lines.removed;
    }
    counts
}

/// Returns the changes of others since a member's last turn, as a text for each record.
fn teammate_changes(
    changes: &Changes,
    request: &TeammateChanges,
) -> Result<Option<String>, ChangesError> {
    let records = changes.records(&request.session.to_string())?;
    let is_own = |record: &Record| {
        record.by == Author::Agent && record.turn.member == request.member.as_str()
    };
    let since = records.iter().rposition(is_own).map_or(0, |at| at + 1);
    let mut text = String::new();
    for record in records[since..].iter().filter(|record| !record.changes.is_empty()) {
        let who = match (record.by, record.undoes) {
            _ if record.applied.is_some() => merge_name(direction(&records, record), record),
            (_, Some(_)) if direction(&records, record) == Direction::Redo => {
                format!("a redo of turn {}", record.turn.turn)
            }
            (_, Some(_)) => format!("an undo of turn {}", record.turn.turn),
            (Author::Agent, None) => {
                let place =
                    if changes.is_workspace(&record.directory) { ", in its copy" } else { "" };
                let doubt = if record.uncertain.is_empty() {
                    ""
                } else {
                    ", interrupted; some may be a person's"
                };
                format!("{} (turn {}{place}{doubt})", record.turn.member, record.turn.turn)
            }
            (Author::Person, None) => "a person".to_owned(),
        };
        let _ = writeln!(text, "files changed by {who}:");
        if request.form == ChangesInContext::Diff {
            for diff in changes.diffs(&record.directory, &record.changes)? {
                text.push_str(&diff.text);
            }
        } else {
            for line in change_lines(changes, &record.directory, &record.changes, usize::MAX)? {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    let text = text.trim_end();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn merge_name(direction: Direction, record: &Record) -> String {
    let member = record.applied.as_ref().map_or("", |applied| applied.member.as_str());
    let prefix = match direction {
        Direction::Change => "",
        Direction::Undo => "an undo of ",
        Direction::Redo => "a redo of ",
    };
    format!("{prefix}a merge of the workspace of {member}")
}

/// Plans an undo or a redo for a person's request.
pub fn plan(changes: &Changes, request: &UndoRequest) -> Result<UndoPlan, ChangesError> {
    let (session, turn) = (request.session.to_string(), request.turn.map(|turn| turn.0));
    let mut plan = match request.action {
        UndoAction::Undo => changes.plan_undo(&session, turn)?,
        UndoAction::Redo => changes.plan_redo(&session, turn)?,
    };
    plan.takes_shared = request.consent == UndoConsent::Shared;
    Ok(plan)
}

/// Previews an undo or a redo, or carries it out.
fn undo(changes: &Changes, request: &UndoRequest) -> Result<String, String> {
    let failed = |error: ChangesError| error.to_string();
    let session = request.session.to_string();
    let completed = changes.take_completed(&session).map_err(failed)?;
    if !completed.is_empty() {
        return Ok(completed.iter().map(undo_text::completed).collect::<Vec<_>>().join("\n"));
    }
    let plan = plan(changes, request).map_err(failed)?;
    if plan.is_refused() || request.consent == UndoConsent::Preview {
        let mut text = describe(changes, &plan, Mood::Preview, LISTED).map_err(failed)?;
        if !plan.conflicts.is_empty() || plan.is_busy {
            let _ = write!(text, "nothing was {}", participle(&plan));
        } else if plan.is_refused_as_shared() {
            text += &command(&plan, "shared");
            text.push_str(" undoes these too");
        } else if is_settled(&plan) {
            let (command, done) = (command(&plan, "yes"), participle(&plan));
            let _ = write!(text, "{}; {command} counts it as {done}", nothing_done(&plan));
        } else if plan.changes.is_empty() {
            text += &nothing_done(&plan);
        } else {
            text += &command(&plan, "yes");
            text.push_str(" does it");
        }
        return Ok(text);
    }
    if plan.changes.is_empty() && !is_settled(&plan) {
        return Ok(nothing_done(&plan));
    }
    changes.undo(&plan).map_err(|error| not_done(participle(&plan), &error))?;
    Ok(done(&plan))
}

/// Returns the command that carries out a previewed undo or redo. It names the turn, so that a turn that ends after the
/// preview is not undone in its place.
fn command(plan: &UndoPlan, consent: &str) -> String {
    let command = if plan.is_redo { "/redo" } else { "/undo" };
    match plan.applied {
        None => format!("{command} {} {consent}", plan.turn.turn),
        Some(_) => format!("{command} {consent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_name_commands_are_known_anywhere_in_a_project() {
        for (path, expected) in [
            (".claude/settings.json", true),
            ("sub/.claude/skills/x/SKILL.md", true),
            (".mcp.json", true),
            (".codex/config.toml", true),
            ("a/.vscode/tasks.json", true),
            (".envrc", true),
            ("x.vscode/tasks.json", false),
            ("claude/settings.json", false),
            ("docs/mcp.json", false),
            ("src/main.rs", false),
        ] {
            assert_eq!(names_commands(path), expected, "{path}");
        }
    }
}
