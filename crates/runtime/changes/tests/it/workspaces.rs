//! Workspaces: a member's own copy of the directory, and its way back.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use convoke_changes::{
    ApplyPlan, Changes, ChangesError, ConflictChoice, Record, Resolution, TreePath, TurnKey,
    Workspace, WorkspaceSettings, WorkspaceTree,
};

use crate::tree::{SESSION, Tree, key, repository_of, shown, state_of};

fn workspace_of(tree: &Tree) -> Workspace {
    let settings = WorkspaceSettings::default();
    tree.changes().workspace(&tree.project(), &key(1), &settings).unwrap()
}

/// Records a turn in a workspace, with its commit.
fn turn(tree: &Tree, workspace: &Workspace, key: &TurnKey, act: impl FnOnce()) -> Record {
    let changes = tree.changes();
    let begun = changes.begin(&workspace.directory, key.clone()).unwrap();
    act();
    let record = begun.turn.finish().unwrap();
    changes.commit(&workspace.directory, key).unwrap();
    record
}

fn apply(tree: &Tree) -> Record {
    let changes = tree.changes();
    let plan = changes.plan_apply(SESSION, "max").unwrap();
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    changes.apply(&plan).unwrap()
}

fn conflicts(plan: &ApplyPlan) -> Vec<String> {
    let line = |it: &convoke_changes::MergeConflict| format!("{}: {}", it.path, it.reason);
    plan.conflicts.iter().map(line).collect()
}

/// Runs the agent's git in a workspace.
fn git(tree: &Tree, workspace: &Workspace, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(arguments)
        .current_dir(&workspace.directory)
        .env("HOME", tree.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A repository with uncommitted work, odd files and ignored ones.
fn project() -> Tree {
    let tree = Tree::repository();
    let lines: Vec<String> = (1..=20).map(|line| format!("line {line}\n")).collect();
    tree.write("text", lines.concat());
    tree.git(&["add", "text"]);
    tree.git(&["commit", "-q", "-m", "text"]);
    tree.write("README", "not committed\n");
    tree.write("untracked", "new\n");
    tree.write("dir/exe", "#!/bin/sh\n");
    tree.chmod("dir/exe", 0o750);
    tree.write("secret", "s");
    tree.chmod("secret", 0o600);
    fs::create_dir(tree.path("empty")).unwrap();
    symlink("text", tree.path("link")).unwrap();
    tree.write("crlf", "a\r\nb\r\n");
    tree.write(".gitattributes", "crlf text\n");
    tree.write("odd\nname", "n");
    tree.write(".gitignore", "target/\n.env\n");
    tree.write("target/debug/out", "built");
    tree.write(".env", "KEY=1");
    tree
}

#[test]
fn a_workspace_begins_with_the_state_of_the_directory() {
    let tree = project();
    let repository = repository_of(&tree.path(".git"));
    let workspace = workspace_of(&tree);
    assert_eq!(workspace.tree, WorkspaceTree::Created);
    assert_eq!(workspace.lacks, [".env", "target/"]);
    assert_eq!(workspace.branch, format!("convoke/{SESSION}/max"));
    let wanted = |name: &str| ![".git", "target", ".env"].contains(&name);
    let there = |root: &PathBuf| -> Vec<_> {
        let state = state_of(root, wanted).into_iter();
        state.map(|(path, state)| (path.strip_prefix(root).unwrap().to_owned(), state)).collect()
    };
    assert_eq!(there(&workspace.directory), there(&tree.project()));
    assert_eq!(workspace.directory.file_name().unwrap(), "project");
    assert_eq!(git(&tree, &workspace, &["status", "--porcelain"]), "");
    assert_eq!(git(&tree, &workspace, &["branch", "--show-current"]).trim(), workspace.branch);
    assert_eq!(git(&tree, &workspace, &["show", "HEAD:README"]), "not committed\n");
    git(&tree, &workspace, &["fsck", "--strict"]);
    // Only this user can read it, and the user's repository is as it was.
    let data = tree.temp.path().join("data/workspaces");
    assert_eq!(fs::metadata(data).unwrap().mode() & 0o777, 0o700);
    assert!(repository_of(&tree.path(".git")) == repository);
    let again = tree.changes().workspace(&tree.project(), &key(2), &WorkspaceSettings::default());
    assert_eq!(again.unwrap(), Workspace { tree: WorkspaceTree::Present, ..workspace });
}

#[test]
fn ignored_files_are_copied_or_linked_if_asked_for() {
    let tree = project();
    let settings = WorkspaceSettings {
        copy: vec![".env".to_owned(), "gone".to_owned()],
        link: vec!["target/".to_owned()],
    };
    let workspace = tree.changes().workspace(&tree.project(), &key(1), &settings).unwrap();
    assert!(workspace.lacks.is_empty(), "{:?}", workspace.lacks);
    let read = |name: &str| fs::read_to_string(workspace.directory.join(name)).unwrap();
    assert_eq!((read(".env"), read("target/debug/out")), ("KEY=1".into(), "built".into()));
    assert!(workspace.directory.join("target").is_symlink());
    let record = turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("a"), "a").unwrap();
        fs::write(workspace.directory.join(".env"), "KEY=2").unwrap();
    });
    assert_eq!(shown(&record), ["added a"], "what was copied or linked is no change");
    assert_eq!(git(&tree, &workspace, &["status", "--porcelain"]), "");
}

#[test]
fn settings_do_not_lead_out_of_the_project() {
    let tree = project();
    fs::write(tree.temp.path().join("outside"), "x").unwrap();
    symlink(tree.temp.path(), tree.path("out")).unwrap();
    for path in ["../outside", "out/outside", ".git/config", "/etc/passwd"] {
        let settings = WorkspaceSettings { copy: vec![path.to_owned()], link: Vec::new() };
        let created = tree.changes().workspace(&tree.project(), &key(1), &settings);
        assert!(matches!(created, Err(ChangesError::BadPath { .. })), "{path}: {created:?}");
    }
    assert!(tree.changes().workspaces(SESSION).unwrap().is_empty());
    assert!(tree.changes().leftovers(&HashSet::from([SESSION.to_owned()])).unwrap().is_empty());
}

#[test]
fn a_workspace_is_committed_and_merged_and_the_merge_is_undone() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let record = turn(&tree, &workspace, &key(1), || {
        let at = |name: &str| workspace.directory.join(name);
        let text = fs::read_to_string(at("text")).unwrap();
        fs::write(at("text"), text.replace("line 2\n", "theirs 2\n")).unwrap();
        fs::write(at("added"), "added\n").unwrap();
        fs::remove_file(at("untracked")).unwrap();
        fs::create_dir(at("hollow")).unwrap();
        fs::set_permissions(at("secret"), std::os::unix::fs::PermissionsExt::from_mode(0o640))
            .unwrap();
    });
    assert_eq!(
        shown(&record),
        ["added added", "added hollow", "mode secret", "modified text", "deleted untracked"]
    );
    assert_eq!(
        git(&tree, &workspace, &["log", "-1", "--format=%s %an"]).trim(),
        "Turn 1 of max max"
    );
    assert_eq!(git(&tree, &workspace, &["status", "--porcelain"]), "");
    // Nothing has changed in the project, and a person works on in it.
    assert_eq!(tree.read("untracked"), "new\n");
    tree.write("text", tree.read("text").replace("line 18\n", "ours 18\n"));
    tree.write("mine", "mine\n");
    let before = tree.state();
    let record = apply(&tree);
    assert_eq!(record.applied.as_ref().unwrap().member, "max");
    let text = tree.read("text");
    assert!(text.contains("theirs 2\n") && text.contains("ours 18\n"), "{text}");
    assert_eq!((tree.read("added"), tree.read("mine")), ("added\n".into(), "mine\n".into()));
    assert!(!tree.path("untracked").exists() && tree.path("hollow").is_dir());
    assert_eq!(fs::metadata(tree.path("secret")).unwrap().mode() & 0o777, 0o640);
    let after = tree.state();
    // Nothing is left to merge; the undo brings everything back, and makes it mergeable again.
    let changes = tree.changes();
    assert!(changes.plan_apply(SESSION, "max").unwrap().changes.is_empty());
    assert!(changes.workspace_changes(SESSION, &workspace).unwrap().is_empty());
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert!(plan.applied.is_some() && plan.conflicts.is_empty(), "{plan:?}");
    changes.undo(&plan).unwrap();
    assert!(tree.state() == before);
    assert_eq!(changes.plan_apply(SESSION, "max").unwrap().changes, record.changes);
    changes.undo(&changes.plan_redo(SESSION, None).unwrap()).unwrap();
    assert!(tree.state() == after);
    assert!(changes.plan_apply(SESSION, "max").unwrap().changes.is_empty());
}

#[test]
fn an_older_merge_is_undone_where_nothing_changed_its_files_since() {
    let tree = project();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("added"), "added\n").unwrap();
    });
    let changes = tree.changes();
    let none = changes.plan_undo_of_merge(SESSION, "max").unwrap_err();
    assert!(none.to_string().contains("no workspace of max was merged"), "{none}");
    apply(&tree);
    tree.turn(2, |tree| tree.write("later", "later\n"));
    let after = tree.state();
    let plan = changes.plan_undo_of_merge(SESSION, "max").unwrap();
    assert!(plan.applied.is_some() && !plan.is_redo && plan.conflicts.is_empty(), "{plan:?}");
    changes.undo(&plan).unwrap();
    assert!(!tree.path("added").exists());
    assert_eq!(tree.read("later"), "later\n");
    assert_eq!(
        changes.plan_apply(SESSION, "max").unwrap().changes.len(),
        1,
        "it can be merged again"
    );
    let again = changes.plan_undo_of_merge(SESSION, "max").unwrap_err().to_string();
    assert!(again.ends_with("is undone already; `redo` redoes it"), "{again}");
    let plan = changes.plan_redo_of_merge(SESSION, "max").unwrap();
    assert!(plan.is_redo, "{plan:?}");
    changes.undo(&plan).unwrap();
    assert!(tree.state() == after);
    // A later turn that changed one of its files is in the way.
    tree.turn(3, |tree| tree.write("added", "changed\n"));
    let plan = changes.plan_undo_of_merge(SESSION, "max").unwrap();
    let conflict = &plan.conflicts[0];
    assert_eq!(
        (conflict.path.to_string(), &*conflict.reason),
        ("added".to_owned(), "changed by turn 3 (max); undo that one first")
    );
    assert!(changes.undo(&plan).is_err());
    assert_eq!(tree.read("added"), "changed\n");
}

#[test]
fn a_second_merge_starts_from_the_first() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let file = workspace.directory.join("text");
    for (number, word) in [(1, "one"), (2, "two"), (3, "three")] {
        turn(&tree, &workspace, &key(number), || {
            let lines = fs::read_to_string(&file).unwrap();
            let lines: Vec<&str> = lines.lines().skip(1).collect();
            fs::write(&file, format!("{word}\n{}\n", lines.join("\n"))).unwrap();
        });
        assert_eq!(shown(&apply(&tree)), ["modified text"]);
        assert!(tree.read("text").starts_with(word));
    }
}

#[test]
fn conflicts_are_shown_and_nothing_is_half_done() {
    let tree = project();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        let at = |name: &str| workspace.directory.join(name);
        let text = fs::read_to_string(at("text")).unwrap();
        fs::write(at("text"), text.replace("line 5\n", "theirs\n")).unwrap();
        fs::write(at("clean"), "clean\n").unwrap();
        fs::write(at("both"), "theirs").unwrap();
        fs::write(at("untracked"), "theirs").unwrap();
        fs::remove_file(at("README")).unwrap();
        fs::write(at("secret"), b"\0theirs").unwrap();
        fs::write(at("later"), "x").unwrap();
        fs::write(at("file"), "x").unwrap();
    });
    tree.write("text", tree.read("text").replace("line 5\n", "ours\n"));
    tree.write("both", "ours");
    fs::remove_file(tree.path("untracked")).unwrap();
    tree.write("README", "ours\n");
    tree.write("secret", b"\0ours");
    tree.write(".gitignore", "target/\n.env\nlater\n");
    tree.write("later", "ignored and precious");
    tree.write("file/inside", "x");
    let before = tree.state();
    let plan = tree.changes().plan_apply(SESSION, "max").unwrap();
    assert_eq!(
        conflicts(&plan),
        [
            "README: it was deleted in the workspace and changed in the directory",
            "both: both sides added it",
            "file: both sides added it",
            "later: a file that git ignores is in the way",
            "secret: both sides changed it, and it is not text",
            "text: both sides changed the same lines",
            "untracked: it changed in the workspace and was deleted in the directory",
        ]
    );
    let lines = &plan.conflicts.iter().find(|it| it.path.as_bytes() == b"text").unwrap().lines;
    assert_eq!(
        lines,
        "<<<<<<< the working directory\nours\n=======\ntheirs\n>>>>>>> the workspace of max\n"
    );
    assert!(matches!(tree.changes().apply(&plan), Err(ChangesError::Conflicts { .. })));
    assert!(tree.state() == before);
}

#[test]
fn a_conflict_is_decided_for_all_files_or_for_some() {
    let tree = project();
    for name in ["a", "b", "c"] {
        tree.write(name, "before\n");
    }
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        for name in ["a", "b", "c"] {
            fs::write(workspace.directory.join(name), "theirs\n").unwrap();
        }
    });
    for name in ["a", "b", "c"] {
        tree.write(name, "ours\n");
    }
    let changes = tree.changes();
    let plan = |choice, paths: &[&str]| {
        let paths = paths.iter().map(|path| TreePath::new(*path)).collect();
        changes.plan_apply_with(SESSION, "max", &Resolution { choice, paths }).unwrap()
    };
    let some = plan(ConflictChoice::Theirs, &["a", "b"]);
    assert_eq!(conflicts(&some), ["c: both sides changed the same lines"]);
    assert!(plan(ConflictChoice::Ours, &[]).changes.is_empty());
    let marks = plan(ConflictChoice::Marks, &[]);
    assert!(marks.conflicts.is_empty());
    changes.apply(&marks).unwrap();
    let marked =
        "<<<<<<< the working directory\nours\n=======\ntheirs\n>>>>>>> the workspace of max\n";
    assert_eq!(tree.read("c"), marked);
    let undo = changes.plan_undo_of_merge(SESSION, "max").unwrap();
    changes.undo(&undo).unwrap();
    changes.apply(&plan(ConflictChoice::Theirs, &[])).unwrap();
    assert_eq!(tree.read("a"), "theirs\n");
}

#[test]
fn a_merge_is_refused_if_files_changed_since_its_plan() {
    let tree = project();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("README"), "theirs\n").unwrap();
    });
    let changes = tree.changes();
    let plan = changes.plan_apply(SESSION, "max").unwrap();
    tree.write("README", "ours\n");
    assert!(matches!(changes.apply(&plan), Err(ChangesError::Conflicts { .. })));
    assert_eq!(tree.read("README"), "ours\n");
}

#[test]
fn a_turn_in_a_workspace_is_undone_there() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let file = workspace.directory.join("README");
    turn(&tree, &workspace, &key(1), || fs::write(&file, "theirs\n").unwrap());
    tree.undo(1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "not committed\n");
    assert!(tree.changes().plan_apply(SESSION, "max").unwrap().changes.is_empty());
}

#[test]
fn an_agent_may_use_git_in_its_workspace() {
    let tree = project();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("a"), "a\n").unwrap();
        git(&tree, &workspace, &["add", "-A"]);
        git(&tree, &workspace, &["commit", "-q", "-m", "by the agent"]);
        git(&tree, &workspace, &["gc", "-q", "--prune=now"]);
        fs::write(workspace.directory.join("b"), "b\n").unwrap();
    });
    let log = git(&tree, &workspace, &["log", "--format=%s"]);
    let log: Vec<&str> = log.lines().collect();
    assert_eq!(
        log,
        ["Turn 1 of max", "by the agent", "State of the working directory before turn 1"]
    );
    git(&tree, &workspace, &["fsck", "--strict"]);
    // On a branch of its own, its repository is left alone.
    turn(&tree, &workspace, &key(2), || {
        git(&tree, &workspace, &["checkout", "-q", "-b", "other"]);
        fs::write(workspace.directory.join("c"), "c\n").unwrap();
    });
    assert_eq!(git(&tree, &workspace, &["status", "--porcelain"]), "?? c\n");
    assert_eq!(shown(&apply(&tree)), ["added a", "added b", "added c"]);
    assert!(tree.git(&["branch", "-a"]).lines().count() == 1, "the user's branches are the same");
}

#[test]
fn an_agent_that_removes_its_repository_loses_nothing() {
    let tree = project();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        fs::remove_dir_all(workspace.directory.join(".git")).unwrap();
        fs::write(workspace.directory.join("a"), "a\n").unwrap();
    });
    workspace_of(&tree);
    turn(&tree, &workspace, &key(2), || fs::write(workspace.directory.join("b"), "b\n").unwrap());
    assert_eq!(git(&tree, &workspace, &["status", "--porcelain"]), "");
    assert_eq!(git(&tree, &workspace, &["log", "--format=%s"]).lines().count(), 3);
    assert_eq!(shown(&apply(&tree)), ["added a", "added b"]);
}

#[test]
fn links_in_an_agents_repository_lead_nowhere() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let outside = tree.temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    turn(&tree, &workspace, &key(1), || {
        let heads = workspace.directory.join(".git/refs/heads/convoke");
        fs::rename(&heads, outside.join("convoke")).unwrap();
        symlink(outside.join("convoke"), &heads).unwrap();
        fs::write(workspace.directory.join("a"), "a\n").unwrap();
    });
    let reference = outside.join("convoke").join(SESSION).join("max");
    let before = fs::read_to_string(&reference).unwrap();
    turn(&tree, &workspace, &key(2), || fs::write(workspace.directory.join("b"), "b\n").unwrap());
    assert_eq!(fs::read_to_string(&reference).unwrap(), before);
    assert_eq!(shown(&apply(&tree)), ["added a", "added b"]);
}

#[test]
fn no_configuration_of_a_workspace_starts_a_program() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let trace = tree.temp.path().join("trace");
    turn(&tree, &workspace, &key(1), || {
        let hook = workspace.directory.join(".git/hooks/post-index-change");
        let script = format!("#!/bin/sh\necho x >> {}\ncat\n", trace.display());
        for path in [&hook, &workspace.directory.join("trap")] {
            fs::write(path, &script).unwrap();
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let trap = workspace.directory.join("trap").display().to_string();
        let config = format!(
            "[core]\n\tfsmonitor = {trap}\n[filter \"x\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\
             [merge \"x\"]\n\tdriver = {trap}\n"
        );
        let path = workspace.directory.join(".git/config");
        fs::write(&path, fs::read_to_string(&path).unwrap() + &config).unwrap();
        fs::write(workspace.directory.join(".gitattributes"), "* filter=x merge=x\n").unwrap();
        fs::write(workspace.directory.join(".git/info/attributes"), "* filter=x merge=x\n")
            .unwrap();
    });
    tree.write("text", tree.read("text").replace("line 18", "ours"));
    turn(&tree, &workspace, &key(2), || {
        let path = workspace.directory.join("text");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("line 2\n", "theirs\n")).unwrap();
    });
    apply(&tree);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
}

#[test]
fn a_discarded_workspace_is_gone_and_its_turns_are_still_shown() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let record = turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("README"), "theirs\n").unwrap();
        fs::create_dir(workspace.directory.join("closed")).unwrap();
        fs::write(workspace.directory.join("closed/x"), "x").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o500);
        fs::set_permissions(workspace.directory.join("closed"), mode).unwrap();
    });
    let changes = tree.changes();
    let running = changes.begin(&workspace.directory, key(2)).unwrap();
    assert!(matches!(changes.discard(SESSION, "max"), Err(ChangesError::Busy { .. })));
    running.turn.finish().unwrap();
    changes.discard(SESSION, "max").unwrap();
    assert!(!workspace.directory.parent().unwrap().exists());
    let diffs = changes.diffs(&record.directory, &record.changes).unwrap();
    assert!(diffs[0].text.contains("+theirs"), "{}", diffs[0].text);
    assert_eq!(changes.records(SESSION).unwrap().len(), 2);
    let missing = changes.plan_apply(SESSION, "max");
    assert!(matches!(missing, Err(ChangesError::NoWorkspace { .. })));
    // A new one begins with what is there now, and has no history of the old.
    tree.write("README", "later\n");
    let new = workspace_of(&tree);
    assert_eq!(new.tree, WorkspaceTree::Created);
    assert_eq!(fs::read_to_string(new.directory.join("README")).unwrap(), "later\n");
    assert!(changes.plan_apply(SESSION, "max").unwrap().changes.is_empty());
}

#[test]
fn a_removed_session_leaves_no_workspace_and_no_contents() {
    let tree = project();
    let one = workspace_of(&tree);
    let other = TurnKey { session: "other".to_owned(), ..key(1) };
    let changes = tree.changes();
    let settings = WorkspaceSettings::default();
    let two = changes.workspace(&tree.project(), &other, &settings).unwrap();
    turn(&tree, &one, &key(1), || fs::write(one.directory.join("a"), "of one").unwrap());
    turn(&tree, &two, &other, || fs::write(two.directory.join("b"), "of two").unwrap());
    changes.remove(SESSION).unwrap();
    assert!(!one.directory.exists());
    // The other session has everything that it needs.
    git(&tree, &two, &["fsck", "--strict"]);
    let plan = changes.plan_apply("other", "MAX").unwrap();
    changes.apply(&plan).unwrap();
    assert_eq!(tree.read("b"), "of two");
    changes.remove("other").unwrap();
    let left = |name: &str| fs::read_dir(tree.temp.path().join("data").join(name)).unwrap().count();
    assert_eq!((left("workspaces"), left("changes/stores")), (0, 0));
}

#[test]
fn leftovers_are_found() {
    let tree = project();
    let workspace = workspace_of(&tree);
    let changes = tree.changes();
    let known = HashSet::from([SESSION.to_owned()]);
    assert!(changes.leftovers(&known).unwrap().is_empty());
    let directory = workspace.directory.parent().unwrap();
    let half = directory.with_extension("new-77");
    fs::create_dir(&half).unwrap();
    let found: Vec<PathBuf> =
        changes.leftovers(&known).unwrap().into_iter().map(|it| it.path).collect();
    assert_eq!(found, std::slice::from_ref(&half));
    // The next turn removes what a crash left.
    workspace_of(&tree);
    assert!(!half.exists());
    let orphans = changes.leftovers(&HashSet::new()).unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].path, directory.parent().unwrap());
}

#[test]
fn large_files_are_in_a_workspace_and_left_out_of_a_merge() {
    let mut tree = project();
    tree.limits.file_bytes = 1000;
    tree.write("big", "x".repeat(2000));
    let workspace = workspace_of(&tree);
    assert_eq!(fs::read(workspace.directory.join("big")).unwrap().len(), 2000);
    turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("big"), "y".repeat(3000)).unwrap();
        fs::write(workspace.directory.join("small"), "s").unwrap();
    });
    let plan = tree.changes().plan_apply(SESSION, "max").unwrap();
    assert_eq!(plan.left_alone.len(), 1);
    tree.changes().apply(&plan).unwrap();
    assert_eq!((tree.read("big").len(), tree.read("small")), (2000, "s".to_owned()));
}

#[test]
fn over_a_limit_there_is_no_workspace() {
    let mut tree = project();
    let create = |tree: &Tree| {
        tree.changes().workspace(&tree.project(), &key(1), &WorkspaceSettings::default())
    };
    tree.limits.bytes = 50;
    assert!(matches!(create(&tree), Err(ChangesError::OverBytes { .. })));
    tree.limits.bytes = 1 << 30;
    tree.limits.free_bytes = u64::MAX / 2;
    assert!(matches!(create(&tree), Err(ChangesError::DiskFull { .. })));
    tree.limits.free_bytes = 0;
    assert_eq!(create(&tree).unwrap().tree, WorkspaceTree::Created);
}

#[test]
fn directories_of_settings_in_the_home_have_no_workspaces() {
    let tree = project();
    let private = tree.home().join(".config/tool");
    fs::create_dir_all(&private).unwrap();
    let created = tree.changes().workspace(&private, &key(1), &WorkspaceSettings::default());
    assert!(matches!(created, Err(ChangesError::NotAProject { .. })), "{created:?}");
}

#[test]
fn two_members_work_at_the_same_time_without_each_other() {
    let tree = project();
    let changes: Changes = tree.changes();
    let settings = WorkspaceSettings::default();
    let other = TurnKey { member: "Kim the 2nd".to_owned(), turn: 2, ..key(2) };
    let one = workspace_of(&tree);
    let two = changes.workspace(&tree.project(), &other, &settings).unwrap();
    let first = changes.begin(&one.directory, key(1)).unwrap();
    let second = changes.begin(&two.directory, other.clone()).unwrap();
    let edit = |workspace: &Workspace, from: &str, to: &str| {
        let path = workspace.directory.join("text");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    edit(&one, "line 2\n", "one\n");
    edit(&two, "line 18\n", "two\n");
    let (second, first) = (second.turn.finish().unwrap(), first.turn.finish().unwrap());
    assert!(first.shared_with.is_empty() && second.shared_with.is_empty());
    assert_eq!(changes.workspaces(SESSION).unwrap().len(), 2);
    apply(&tree);
    let plan = changes.plan_apply(SESSION, "Kim the 2nd").unwrap();
    changes.apply(&plan).unwrap();
    let text = tree.read("text");
    assert!(text.contains("one\n") && text.contains("two\n"), "{text}");
}

#[test]
fn a_link_in_place_of_a_workspace_is_not_followed() {
    let tree = project();
    let changes = tree.changes();
    let workspace = workspace_of(&tree);
    let precious = tree.temp.path().join("elsewhere/precious");
    fs::create_dir_all(&precious).unwrap();
    fs::write(precious.join("diary"), "dear diary\n").unwrap();
    fs::write(precious.with_file_name("neighbour"), "mine\n").unwrap();
    let before = state_of(precious.parent().unwrap(), |_| true);
    let begun = changes.begin(&workspace.directory, key(1)).unwrap();
    fs::rename(&workspace.directory, workspace.directory.with_file_name("moved")).unwrap();
    symlink(&precious, &workspace.directory).unwrap();

    let replaced = |error: ChangesError| matches!(error, ChangesError::Replaced { path } if path == workspace.directory);
    assert!(replaced(begun.turn.finish().unwrap_err()));
    assert!(replaced(changes.commit(&workspace.directory, &key(1)).unwrap_err()));
    assert!(replaced(changes.begin(&workspace.directory, key(2)).unwrap_err()));
    let again = changes.workspace(&tree.project(), &key(2), &WorkspaceSettings::default());
    assert!(replaced(again.unwrap_err()));
    assert!(replaced(changes.plan_apply(SESSION, "max").unwrap_err()));
    // The list is that of what was recorded before.
    let records = changes.records(SESSION).unwrap();
    assert!(records.iter().all(|record| record.not_recorded.is_some()), "{records:?}");
    let listed = changes.workspaces(SESSION).unwrap().remove(0);
    assert_eq!((listed.tree, &listed.directory), (WorkspaceTree::Replaced, &workspace.directory));

    changes.discard(SESSION, "max").unwrap();
    assert_eq!(state_of(precious.parent().unwrap(), |_| true), before);
    assert!(!workspace.directory.parent().unwrap().exists());
}

#[test]
fn a_link_in_place_of_a_members_directory_is_a_leftover_and_not_followed() {
    let tree = project();
    let changes = tree.changes();
    let directory = workspace_of(&tree).directory.parent().unwrap().to_owned();
    let moved = tree.temp.path().join("moved");
    fs::rename(&directory, &moved).unwrap();
    symlink(&moved, &directory).unwrap();

    assert!(changes.workspaces(SESSION).unwrap().is_empty());
    let again = changes.workspace(&tree.project(), &key(2), &WorkspaceSettings::default());
    assert!(matches!(again, Err(ChangesError::Replaced { .. })));
    assert!(matches!(changes.discard(SESSION, "max"), Err(ChangesError::NoWorkspace { .. })));
    let left = changes.leftovers(&HashSet::from([SESSION.to_owned()])).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].path.file_name(), directory.file_name());
    assert!(moved.join("workspace.json").exists());
}

#[test]
fn a_workspace_that_its_agent_removed_is_restored_from_its_last_record() {
    let tree = project();
    let changes = tree.changes();
    let workspace = workspace_of(&tree);
    turn(&tree, &workspace, &key(1), || {
        fs::write(workspace.directory.join("new"), "kept\n").unwrap();
    });
    let before = state_of(&workspace.directory, |name| name != ".git");
    let begun = changes.begin(&workspace.directory, key(2)).unwrap();
    fs::remove_dir_all(&workspace.directory).unwrap();
    begun.turn.finish().unwrap_err();

    let listed = changes.workspaces(SESSION).unwrap().remove(0);
    assert_eq!(listed.tree, WorkspaceTree::Missing);
    assert_eq!(changes.workspace_changes(SESSION, &listed).unwrap().len(), 1);
    let planned = changes.plan_apply(SESSION, "max");
    assert!(matches!(planned, Err(ChangesError::Missing { .. })));
    let undo = changes.plan_undo(SESSION, Some(1)).unwrap_err().to_string();
    assert!(undo.contains("the next turn of max restores it"), "{undo}");

    let settings = WorkspaceSettings::default();
    let restored = changes.workspace(&tree.project(), &key(3), &settings).unwrap();
    assert_eq!(restored.tree, WorkspaceTree::Restored);
    assert_eq!(state_of(&workspace.directory, |name| name != ".git"), before);
    assert_eq!(git(&tree, &restored, &["status", "--short"]), "");
    let begun = changes.begin(&workspace.directory, key(3)).unwrap();
    assert_eq!(begun.person, None);
    assert!(begun.turn.finish().unwrap().changes.is_empty());
}

#[test]
fn a_workspace_without_its_directory_can_be_discarded() {
    let tree = project();
    let workspace = workspace_of(&tree);
    fs::remove_dir_all(&workspace.directory).unwrap();
    tree.changes().discard(SESSION, "max").unwrap();
    assert!(tree.changes().workspaces(SESSION).unwrap().is_empty());
    assert_eq!(workspace_of(&tree).tree, WorkspaceTree::Created);
}

/// No record has what git ignores, so that a person is asked before it is removed.
#[test]
fn ignored_files_of_a_workspace_are_named() {
    let tree = project();
    tree.write(".env", "KEY=1");
    let settings = WorkspaceSettings { copy: vec![".env".into()], link: vec!["target".into()] };
    let workspace = tree.changes().workspace(&tree.project(), &key(1), &settings).unwrap();
    let ignored = || -> Vec<String> {
        let ignored = tree.changes().ignored_in_workspace(&workspace).unwrap();
        ignored.iter().map(ToString::to_string).collect()
    };
    assert_eq!(ignored(), [""; 0]);
    fs::create_dir_all(workspace.directory.join("dir/target")).unwrap();
    fs::write(workspace.directory.join("dir/target/out"), "built").unwrap();
    assert_eq!(ignored(), ["dir/target"]);
    fs::write(workspace.directory.join(".env"), "KEY=2").unwrap();
    assert_eq!(ignored(), [".env", "dir/target"]);
}
