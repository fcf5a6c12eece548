//! `kill -9` at every write of recording and undo: afterwards the files are as before or as after, never
//! between, and nothing is in the way of the next turn.
//!
//! The program runs itself as a child that ends at the n-th write, for every n.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the helpers of tests are tests")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use convoke_changes::{
    Changes, Failpoint, Host, Limits, TurnKey, Workspace, WorkspaceSettings, WorkspaceTree,
};

const SESSION: &str = "session";
const STEP: &str = "CONVOKE_CRASH_STEP";
const NTH: &str = "CONVOKE_CRASH_NTH";
const ROOT: &str = "CONVOKE_CRASH_ROOT";
/// No step has this many writes.
const MAX_WRITES: u64 = 2_000;

/// Kills a recording at every write; the turn is recorded all the same, once.
#[test]
fn a_recording_killed_at_any_write_records_the_turn_once() {
    kill_recordings(|_| {});
}

/// Kills a recording that follows another at every write.
#[test]
fn a_second_recording_killed_at_any_write_records_the_turn_once() {
    kill_recordings(|root| {
        let changes = changes(root, Failpoint::default());
        changes.begin(&root.join("project"), key(0)).unwrap().turn.finish().unwrap();
    });
}

fn kill_recordings(before: impl Fn(&Path)) {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        before(root.path());
        let is_complete = run(root.path(), "record", nth);
        let state = state_of(&root.path().join("project"));
        let changes = changes(root.path(), Failpoint::default());
        let mut records = changes.records(SESSION).unwrap();
        records.retain(|record| record.turn == key(1));
        assert!(records.len() <= 1, "write {nth}: {records:?}");
        if let Some(record) = records.first() {
            // The child changes the files between two writes; what is recorded is what happened.
            assert_eq!(!record.changes.is_empty(), state != initial(), "write {nth}");
            if !record.changes.is_empty() {
                let mut plan = changes.plan_undo(SESSION, None).unwrap();
                assert!(plan.conflicts.is_empty(), "write {nth}: {:?}", plan.conflicts);
                // The child was killed before it could be seen to run after its changes.
                plan.takes_shared = true;
                changes.undo(&plan).unwrap();
                assert_eq!(state_of(&root.path().join("project")), initial(), "write {nth}");
            }
        }
        // The next turn is recorded as if nothing had happened.
        let begun = changes.begin(&root.path().join("project"), key(2)).unwrap();
        fs::write(root.path().join("project/next"), "n").unwrap();
        let record = begun.turn.finish().unwrap();
        assert_eq!(record.changes.len(), 1, "write {nth}");
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 10, "{writes} writes");
}

/// Kills a first turn that does not wait for its first copy, and deletes what is committed. What was not copied is completed
/// from the objects of the user's repository.
#[test]
fn a_first_turn_killed_at_any_write_loses_nothing_that_is_committed() {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        prepare_repository(&project);
        let before = state_of(&project);
        let is_complete = run(root.path(), "first", nth);
        let all = changes(root.path(), Failpoint::default());
        let records = all.records(SESSION).unwrap();
        assert!(records.len() <= 1, "write {nth}: {records:?}");
        if records.iter().any(|record| !record.changes.is_empty()) {
            assert_eq!(records[0].incomplete(), [""; 0], "write {nth}");
            let mut plan = all.plan_undo(SESSION, None).unwrap();
            assert!(plan.left_alone.is_empty() && plan.conflicts.is_empty(), "write {nth}");
            plan.takes_shared = true;
            all.undo(&plan).unwrap();
        }
        let left = difference(&state_of(&project), &before);
        assert!(left.is_empty(), "write {nth}: {left:?}");
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 10, "{writes} writes");
}

/// Kills an undo at every write.
#[test]
fn an_undo_killed_at_any_write_is_done_or_not() {
    kill_undos(None);
}

/// A power failure can keep a change and lose earlier writes that were not flushed, so the note of a change is flushed before the
/// change is made. One flush covers many changes, because each flush waits for the disk.
#[test]
fn an_undo_is_on_the_disk_as_a_note_before_it_changes_a_file() {
    const FILES: usize = 300;
    let root = tempfile::tempdir().unwrap();
    prepare(root.path());
    let project = root.path().join("project");
    for number in 0..FILES {
        fs::write(project.join(format!("file{number}")), "1").unwrap();
    }
    let all = changes(root.path(), Failpoint::default());
    let begun = all.begin(&project, key(1)).unwrap();
    act(&project);
    for number in 0..FILES {
        fs::write(project.join(format!("file{number}")), "2").unwrap();
    }
    begun.turn.finish().unwrap();
    let Some(calls) = system_calls_of_undo(root.path()) else { return };
    let (mut unflushed, mut changed, mut flushes) = (vec!["the commit"], 0, 0);
    for call in calls.lines() {
        let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
        let name = name.rsplit(' ').next().unwrap_or(name);
        let is_log = arguments.contains("/journal/done>");
        match name {
            "write" if is_log => unflushed.push("a note"),
            "fsync" | "fdatasync" if is_log => {
                unflushed.retain(|it| *it != "a note");
                flushes += 1;
            }
            "fsync" if arguments.contains("/journal>") && changed == 0 => {
                unflushed.retain(|it| *it != "the commit");
            }
            "rename" | "renameat" | "renameat2" | "unlinkat" | "mkdirat"
                if arguments.contains("/project>") =>
            {
                assert!(flushes > 0 && unflushed.is_empty(), "{unflushed:?} before {call}");
                changed += 1;
            }
            _ => {}
        }
    }
    assert!(changed > FILES && flushes < FILES / 10, "{flushes} flushes, {changed} changes");
}

/// Undoes the last turn and returns its system calls, with the paths of open files.
fn system_calls_of_undo(root: &Path) -> Option<String> {
    const CALLS: &str = "trace=write,fsync,fdatasync,?rename,?renameat,renameat2,unlinkat,mkdirat";
    let file = root.join("calls");
    let undone = Command::new("strace")
        .args(["-f", "-y", "-s", "0", "-e", CALLS, "-o"])
        .arg(&file)
        .arg(std::env::current_exe().unwrap())
        .args(["child", "--exact"])
        .env(STEP, "undo")
        .env(NTH, MAX_WRITES.to_string())
        .env(ROOT, root)
        .output();
    match undone {
        Ok(output) if output.status.success() => Some(fs::read_to_string(file).unwrap()),
        Ok(output) => {
            // The status of a test that failed.
            assert!(output.status.code() != Some(101), "{output:?}");
            println!("not run: strace cannot watch a process here: {output:?}");
            None
        }
        Err(error) => {
            println!("not run: strace: {error}");
            None
        }
    }
}

/// Kills an undo at every write, where Convoke's data is on another file system.
#[test]
fn an_undo_across_file_systems_killed_at_any_write_is_done_or_not() {
    let (other, own) = (Path::new("/dev/shm"), std::env::temp_dir());
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    if device(other).is_some() && device(other) != device(&own) {
        kill_undos(Some(other));
    }
}

/// Kills an undo at every write, with Convoke's data in a directory of its own below one that is named.
fn kill_undos(data: Option<&Path>) {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let data = data.map(|data| tempfile::tempdir_in(data).unwrap());
        if let Some(data) = &data {
            symlink(data.path(), root.path().join("data")).unwrap();
        }
        let project = root.path().join("project");
        let all = changes(root.path(), Failpoint::default());
        let begun = all.begin(&project, key(1)).unwrap();
        act(&project);
        begun.turn.finish().unwrap();
        let (before, after) = (initial(), state_of(&project));
        let is_complete = run(root.path(), "undo", nth);
        let mut found = state_of(&project);
        // Files that are prepared in the project go with the undo.
        found.retain(|path, _| !path.to_string_lossy().starts_with(".convoke-undo-"));
        // Opening the store completes what was begun, and tells it once.
        let completed = all.take_completed(SESSION).unwrap();
        assert!(all.take_completed(SESSION).unwrap().is_empty(), "write {nth}");
        let records = all.records(SESSION).unwrap();
        let state = state_of(&project);
        if found != state {
            assert_eq!(completed.len(), 1, "write {nth}");
        }
        for completed in &completed {
            assert!(!is_complete && completed.left_alone.is_empty(), "write {nth}");
            assert_eq!(completed.record.undoes, Some(records[0].id), "write {nth}");
        }
        assert!(
            state == before || state == after,
            "write {nth}: between: {:?}",
            difference(&state, &before)
        );
        let undone = records.iter().filter(|record| record.undoes.is_some()).count();
        assert_eq!(undone, usize::from(state == before), "write {nth}");
        // What follows is not in its way, and sees no changes of a person.
        let begun = all.begin(&project, key(2)).unwrap();
        assert!(begun.person.is_none(), "write {nth}: {:?}", begun.person);
        begun.turn.finish().unwrap();
        let plan = match undone {
            0 => all.plan_undo(SESSION, Some(1)).unwrap(),
            _ => all.plan_redo(SESSION, Some(1)).unwrap(),
        };
        assert!(plan.conflicts.is_empty() && plan.left_alone.is_empty(), "write {nth}: {plan:?}");
        all.undo(&plan).unwrap();
        let other = if state == before { &after } else { &before };
        assert_eq!(&state_of(&project), other, "write {nth}");
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 20, "{writes} writes");
}

/// Kills the creation of a workspace at every write: there is none, or a whole one.
#[test]
fn a_workspace_whose_creation_is_killed_is_created_again() {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let is_complete = run(root.path(), "workspace", nth);
        let all = changes(root.path(), Failpoint::default());
        let known = HashSet::from([SESSION.to_owned()]);
        let (found, left) = (all.workspaces(SESSION).unwrap(), all.leftovers(&known).unwrap());
        assert!(found.len() + left.len() <= 1, "write {nth}: {found:?} {left:?}");
        let workspace = workspace(root.path(), &all);
        assert_eq!(workspace.tree == WorkspaceTree::Created, found.is_empty(), "write {nth}");
        assert!(all.leftovers(&known).unwrap().is_empty(), "write {nth}");
        assert_eq!(tree_of(&workspace), initial(), "write {nth}");
        assert!(all.plan_apply(SESSION, "max").unwrap().changes.is_empty(), "write {nth}");
        assert_eq!(state_of(&root.path().join("project")), initial(), "write {nth}");
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 10, "{writes} writes");
}

/// Kills a recorded turn in a workspace, with its commit, at every write.
#[test]
fn a_commit_killed_at_any_write_is_made_up_for_by_the_next() {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let all = changes(root.path(), Failpoint::default());
        let workspace = workspace(root.path(), &all);
        let is_complete = run(root.path(), "commit", nth);
        all.records(SESSION).unwrap();
        let begun = all.begin(&workspace.directory, key(2)).unwrap();
        fs::write(workspace.directory.join("next"), "n").unwrap();
        begun.turn.finish().unwrap();
        all.commit(&workspace.directory, &key(2)).unwrap();
        for arguments in [&["fsck", "--strict"][..], &["diff", "--quiet", "HEAD"]] {
            let git =
                Command::new("git").args(arguments).current_dir(&workspace.directory).output();
            let git = git.unwrap();
            assert!(git.status.success(), "write {nth}: {git:?}");
        }
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 10, "{writes} writes");
}

/// Kills the merge of a workspace at every write.
#[test]
fn an_apply_killed_at_any_write_is_done_or_not() {
    let mut writes = 0;
    for nth in 1..MAX_WRITES {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let project = root.path().join("project");
        let all = changes(root.path(), Failpoint::default());
        let workspace = workspace(root.path(), &all);
        let begun = all.begin(&workspace.directory, key(1)).unwrap();
        act(&workspace.directory);
        fs::write(workspace.directory.join("merged"), lines("theirs", "last")).unwrap();
        begun.turn.finish().unwrap();
        fs::write(project.join("merged"), lines("first", "ours")).unwrap();
        let before = state_of(&project);
        let is_complete = run(root.path(), "apply", nth);
        let records = all.records(SESSION).unwrap();
        let state = state_of(&project);
        let is_applied = records.iter().any(|record| record.applied.is_some());
        assert_eq!(is_applied, state != before, "write {nth}");
        let plan = all.plan_apply(SESSION, "max").unwrap();
        assert_eq!(plan.changes.is_empty(), is_applied, "write {nth}: {plan:?}");
        if !is_applied {
            all.apply(&plan).unwrap();
        }
        let merged = fs::read_to_string(project.join("merged")).unwrap();
        assert_eq!(merged, lines("theirs", "ours"), "write {nth}");
        assert!(project.join("b/inside").exists() && project.join("dir").is_file(), "write {nth}");
        // One merge, which can be undone.
        let applied = all.records(SESSION).unwrap();
        assert_eq!(applied.iter().filter(|it| it.applied.is_some()).count(), 1, "write {nth}");
        let plan = all.plan_undo(SESSION, None).unwrap();
        assert!(plan.applied.is_some() && plan.conflicts.is_empty(), "write {nth}: {plan:?}");
        all.undo(&plan).unwrap();
        assert_eq!(state_of(&project), before, "write {nth}");
        if is_complete {
            writes = nth - 1;
            break;
        }
    }
    assert!(writes > 20, "{writes} writes");
}

/// The steps of the child; without its variables it does nothing.
#[test]
fn child() {
    let Ok(step) = std::env::var(STEP) else { return };
    let root = PathBuf::from(std::env::var_os(ROOT).unwrap());
    let nth = std::env::var(NTH).unwrap().parse().unwrap();
    let changes = changes(&root, Failpoint::at(nth));
    match step.as_str() {
        "record" => {
            let begun = changes.begin(&root.join("project"), key(1)).unwrap();
            act(&root.join("project"));
            begun.turn.finish().unwrap();
        }
        "first" => {
            let (wait, lone_wait) = (Duration::ZERO, Duration::ZERO);
            let changes = changes.with_limits(Limits { wait, lone_wait, ..Limits::default() });
            let begun = changes.begin(&root.join("project"), key(1)).unwrap();
            fs::remove_dir_all(root.join("project/files")).unwrap();
            begun.turn.finish().unwrap();
        }
        "undo" => {
            let plan = changes.plan_undo(SESSION, None).unwrap();
            changes.undo(&plan).unwrap();
        }
        "workspace" => drop(workspace(&root, &changes)),
        "commit" => {
            let workspace = changes.workspaces(SESSION).unwrap().remove(0);
            let begun = changes.begin(&workspace.directory, key(1)).unwrap();
            act(&workspace.directory);
            begun.turn.finish().unwrap();
            changes.commit(&workspace.directory, &key(1)).unwrap();
        }
        _ => {
            let plan = changes.plan_apply(SESSION, "max").unwrap();
            changes.apply(&plan).unwrap();
        }
    }
}

fn workspace(root: &Path, changes: &Changes) -> Workspace {
    let settings = WorkspaceSettings::default();
    changes.workspace(&root.join("project"), &key(1), &settings).unwrap()
}

/// Returns the files of a workspace without its repository.
fn tree_of(workspace: &Workspace) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut state = state_of(&workspace.directory);
    state.retain(|path, _| !path.starts_with(".git"));
    state
}

/// Returns a text whose first and last lines are given.
fn lines(first: &str, last: &str) -> String {
    format!("{first}\n{}{last}\n", "between\n".repeat(12))
}

/// Runs a step that is killed at a write. Returns whether it had fewer writes.
fn run(root: &Path, step: &str, nth: u64) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact"])
        .env(STEP, step)
        .env(NTH, nth.to_string())
        .env(ROOT, root)
        .output()
        .unwrap();
    assert!(output.status.success() || output.status.signal().is_some(), "{output:?}");
    output.status.success()
}

fn changes(root: &Path, failpoint: Failpoint) -> Changes {
    let home = root.join("home");
    let host = Host { path: std::env::var_os("PATH").unwrap(), config: home.join(".config"), home };
    // A loaded machine is no reason to record less.
    let (time, wait) = (Duration::from_mins(2), Duration::from_mins(1));
    let limits = Limits { time, wait, ..Limits::default() };
    Changes::new(&root.join("data"), host).with_limits(limits).with_failpoint(failpoint)
}

fn key(turn: u64) -> TurnKey {
    TurnKey { session: SESSION.to_owned(), turn, attempt: 1, member: "max".to_owned() }
}

fn prepare(root: &Path) {
    let project = root.join("project");
    fs::create_dir_all(project.join("dir/deep")).unwrap();
    fs::create_dir(project.join("empty")).unwrap();
    for (name, text) in [("a", "1"), ("b", "1"), ("dir/x", "1"), ("dir/deep/y", "1")] {
        fs::write(project.join(name), text).unwrap();
    }
    fs::write(project.join("merged"), lines("first", "last")).unwrap();
    symlink("a", project.join("link")).unwrap();
}

/// Creates a repository of committed files, none as young as the index.
fn prepare_repository(project: &Path) {
    fs::create_dir_all(project.join("files")).unwrap();
    let old = SystemTime::now() - Duration::from_secs(1000);
    for number in 0..40 {
        let path = project.join(format!("files/{number}"));
        fs::write(&path, number.to_string()).unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
    }
    let name = ["-c", "user.name=n", "-c", "user.email=e"];
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        let mut git = Command::new("git");
        let output = git.args(name).args(arguments).current_dir(project).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn act(project: &Path) {
    fs::write(project.join("a"), "2").unwrap();
    fs::remove_file(project.join("b")).unwrap();
    fs::create_dir(project.join("b")).unwrap();
    fs::write(project.join("b/inside"), "2").unwrap();
    fs::remove_dir_all(project.join("dir")).unwrap();
    fs::write(project.join("dir"), "a file").unwrap();
    fs::remove_dir(project.join("empty")).unwrap();
    fs::remove_file(project.join("link")).unwrap();
    symlink("b", project.join("link")).unwrap();
}

fn initial() -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let root = tempfile::tempdir().unwrap();
    prepare(root.path());
    state_of(&root.path().join("project"))
}

fn state_of(project: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut state = BTreeMap::new();
    let mut waiting = vec![project.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            state
                .insert(path.strip_prefix(project).unwrap().to_owned(), (metadata.mode(), content));
        }
    }
    state
}

fn difference(
    one: &BTreeMap<PathBuf, (u32, Vec<u8>)>,
    other: &BTreeMap<PathBuf, (u32, Vec<u8>)>,
) -> Vec<PathBuf> {
    let paths = one.keys().chain(other.keys());
    paths.filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}
