//! Records and undoes the changes of turns, with `convoke-changes`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_changes::{
    Author, Begun, Changes, ChangesError, Completed, Direction, FileDiff, Host, LineCounts, Part,
    Record, RunningTurn, TreePath, TurnKey, Uncopied, UndoPlan, diagnostics, direction,
    listed_count,
};
use convoke_core::figures::size;
use convoke_core::{Code, Diagnostic};
use convoke_files::failpoint;
use convoke_inspect::HostEnvironment;
use convoke_protocol::changes::ChangeCounts;
use convoke_session::file_changes::{
    ChangeRecorder, RecorderFuture, Recording, RecordingBegun, RecordingEnded, TeamWorkspaces,
    TeammateChanges, TurnDirectory, UndoAction, UndoConsent, UndoRequest, WorkspacesRequest,
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
    Changes::new(&Home::new(host_environment).data, git_host(host_environment))
}

/// Returns the parts of the user's environment with which git is run.
pub fn git_host(host_environment: &HostEnvironment) -> Host {
    let config = host_environment.variable("XDG_CONFIG_HOME").map(Path::new);
    let config = config.filter(|path| path.is_absolute());
    Host {
        path: host_environment.variable("PATH").unwrap_or_default().to_owned(),
        config: config.map_or_else(|| host_environment.home.join(".config"), Path::to_owned),
        home: host_environment.home.clone(),
    }
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
            let (store, key, directory) = (changes.clone(), key_of(&turn), turn.directory.clone());
            match in_thread(move || begin(&changes, &turn, &reported)).await {
                Ok(begun) => begun,
                Err(error) => {
                    let diagnostics = vec![off(&error)];
                    // An undo says so, too. If this fails as well, the diagnostic stands.
                    let _ =
                        in_thread(move || store.add_not_recorded(&directory, key, &error)).await;
                    RecordingBegun { diagnostics, ..RecordingBegun::default() }
                }
            }
        })
    }

    fn teammate_changes(
        &self,
        request: TeammateChanges,
    ) -> RecorderFuture<Result<Option<String>, Diagnostic>> {
        let changes = self.changes.clone();
        Box::pin(async move {
            let text = in_thread(move || teammate_changes(&changes, &request)).await;
            text.and_then(|text| text).map_err(|error| {
                let message = format!("the changes of other members could not be read: {error}");
                Diagnostic::new(diagnostics::CHANGES_UNSHOWN, message)
            })
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
            let prepared = in_thread(move || workspaces::prepare(&changes, &request)).await;
            prepared.and_then(|prepared| prepared).map_err(|error| failed(error.to_string()))
        })
    }

    fn undo(&self, request: UndoRequest) -> RecorderFuture<Result<String, String>> {
        let changes = self.changes.clone();
        Box::pin(async move {
            let undone = in_thread(move || undo(&changes, &request)).await;
            undone.unwrap_or_else(|error| Err(error.to_string()))
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
            // The turn is recorded by the next command, as an interrupted one.
            in_thread(work).await.unwrap_or_else(|error| RecordingEnded {
                counts: None,
                diagnostics: vec![off(&error)],
            })
        })
    }
}

/// Runs blocking work in a thread of its own. One that panics has failed.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ChangesError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => ChangesError::panicked(&*panic),
        Err(error) => ChangesError::Panicked { message: error.to_string() },
    })
}

fn key_of(turn: &TurnDirectory) -> TurnKey {
    TurnKey {
        session: turn.attempt.session.to_string(),
        turn: turn.attempt.turn.0,
        attempt: turn.attempt.attempt,
        member: turn.member.to_string(),
    }
}

fn begin(
    changes: &Changes,
    turn: &TurnDirectory,
    has_reported_no_git: &AtomicBool,
) -> RecordingBegun {
    failpoint::reach_task("recording");
    match changes.begin(&turn.directory, key_of(turn)) {
        Ok(Begun { turn, person, completed, uncopied, .. }) => RecordingBegun {
            by_person: person.map(|record| counts(changes, &record)),
            recording: Some(Box::new(RecordedTurn { changes: changes.clone(), running: turn })),
            diagnostics: completed.iter().map(completion).chain(uncopied.map(copying)).collect(),
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
    Diagnostic::new(diagnostics::CHANGES_COMPLETED, undo_text::completed(completed, None))
}

/// Says how far the first copy of a directory is when its first turn begins.
fn copying(uncopied: Uncopied) -> Diagnostic {
    let Uncopied { files, bytes, copied_bytes } = uncopied;
    let (copied, all) = (size(copied_bytes), size(bytes));
    let message = format!(
        "copied {copied} of {all} before this turn; the copy goes on, and a file that the turn changes before it is copied \
         cannot be restored ({files} left)"
    );
    Diagnostic::new(diagnostics::CHANGES_COPYING, message).with_count(files)
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
    let mut incomplete =
        "changed before their first copy was complete; undo leaves them as they are".to_owned();
    if let Some(why) = &record.copy_failed {
        let _ = write!(incomplete, " (the copy stopped: {why})");
    }
    add(diagnostics::CHANGES_INCOMPLETE, &incomplete, record.incomplete());
    let unverified = "contents before this turn identified by size and time only";
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
    let lost = "the turn removed or moved the repositories of these directories; undo does not restore them";
    let paths = record.lost_repositories.iter().map(ToString::to_string).collect();
    add(diagnostics::REPOSITORY_REMOVED, lost, paths);
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
    let files = listed_count(&record.changes) as u64;
    // What cannot be counted is not nothing.
    let diffs = changes.diffs(&record.directory, &record.changes).ok();
    let is_counted = |diff: &FileDiff| diff.lines.is_some() || diff.is_binary;
    let diffs = diffs.filter(|diffs| diffs.iter().all(is_counted));
    let sum = |count: fn(&LineCounts) -> u64| {
        let diffs = diffs.as_ref()?.iter();
        Some(diffs.filter_map(|diff| diff.lines.as_ref()).map(count).sum())
    };
    ChangeCounts { files, added: sum(|lines| lines.added), removed: sum(|lines| lines.removed) }
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
            (Author::Person, None) if let Some(part) = record.part_of => {
                let what = if part.is_redo { "a redo" } else { "an undo" };
                format!("{what} of a part of turn {}", record.turn.turn)
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
    let paths = request.paths.iter().map(|path| TreePath::new(path.as_bytes())).collect();
    let part = Part { paths, ..Part::default() };
    let mut plan = match request.action {
        UndoAction::Undo => changes.plan_undo_of(&session, turn, &part)?,
        UndoAction::Redo => changes.plan_redo_of(&session, turn, &part)?,
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
        let reports = completed.iter().map(|it| undo_text::completed(it, None));
        return Ok(reports.collect::<Vec<_>>().join("\n"));
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
    use convoke_protocol::id::{MemberName, SessionId};

    use super::*;

    /// Lines that were not counted are not none.
    #[test]
    fn a_text_that_is_not_compared_has_no_counts() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("project")).unwrap();
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: at("home/.config"),
            home: at("home"),
        };
        let changes = Changes::new(&at("data"), host);
        let mut turn = 0;
        let mut counts_of = |content: &[u8]| {
            turn += 1;
            let (session, member) = ("s".to_owned(), "max".to_owned());
            let key = TurnKey { session, turn, attempt: 1, member };
            let begun = changes.begin(&at("project"), key).unwrap();
            std::fs::write(at("project/file"), content).unwrap();
            let ChangeCounts { files, added, removed } =
                counts(&changes, &begun.turn.finish().unwrap());
            (files, added, removed)
        };
        assert_eq!(counts_of(b"a\nb\n"), (1, Some(2), Some(0)));
        assert_eq!(counts_of(&b"line\n".repeat(1 << 19)), (1, None, None));
        assert_eq!(counts_of(b"\0"), (1, None, None));
        assert_eq!(counts_of(b"\0\0"), (1, Some(0), Some(0)), "binary files have no lines");
    }

    /// Work that panics is an error, never an empty result.
    #[tokio::test]
    async fn a_recording_that_panics_is_reported() {
        let error = in_thread(|| -> RecordingEnded { panic!("no luck") }).await.unwrap_err();
        assert_eq!(
            off(&error).message,
            "the changes of this turn are not recorded and cannot be undone: the recording stopped at a bug: no luck"
        );
    }

    /// Without a diagnostic, the member would assume that its teammates changed nothing.
    #[tokio::test]
    async fn changes_of_teammates_that_cannot_be_read_are_not_left_out_in_silence() {
        let place = tempfile::tempdir().unwrap();
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: place.path().join("home/.config"),
            home: place.path().join("home"),
        };
        let recorder = Recorder::new(Changes::new(&place.path().join("data"), host));
        let (session, member) = (SessionId::generate(), MemberName::from("max"));
        let record = place.path().join(format!("data/changes/sessions/{session}/00000001.json"));
        std::fs::create_dir_all(record.parent().unwrap()).unwrap();
        std::fs::write(&record, "half a rec").unwrap();
        let form = ChangesInContext::Stat;
        let request = TeammateChanges { session, member, form };
        let told = recorder.teammate_changes(request).await.unwrap_err();
        assert_eq!(told.code, diagnostics::CHANGES_UNSHOWN);
        assert!(told.message.contains("00000001.json"), "{}", told.message);
    }

    /// What cannot be counted is not nothing.
    #[test]
    fn a_diff_that_failed_is_a_question_mark() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["home", "data", "project"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("project/a"), "1\n").unwrap();
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: at("home/.config"),
            home: at("home"),
        };
        let changes = Changes::new(&at("data"), host);
        let (session, member) = ("s".to_owned(), "max".to_owned());
        let key = TurnKey { session, turn: 1, attempt: 1, member };
        let begun = changes.begin(&at("project"), key).unwrap();
        std::fs::write(at("project/a"), "2\n").unwrap();
        let record = begun.turn.finish().unwrap();
        assert_eq!(counts(&changes, &record).to_string(), "1 file, +1 −1");
        std::fs::remove_dir_all(at("data/changes/stores")).unwrap();
        let failed = counts(&changes, &record);
        assert_eq!(failed.to_string(), "1 file, +? −?");
        let json = serde_json::to_value(failed).unwrap();
        assert_eq!(json, serde_json::json!({"files": 1, "added": null, "removed": null}));
    }

    #[test]
    fn what_a_turn_begins_without_is_said() {
        let uncopied = Uncopied { files: 34, bytes: 200_000_000, copied_bytes: 31_000_000 };
        let message = copying(uncopied).message;
        assert!(message.starts_with("copied 31.0 MB of 200.0 MB before this turn"), "{message}");
    }

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
