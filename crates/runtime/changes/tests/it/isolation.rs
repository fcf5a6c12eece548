//! The user's repository stays as it is, and no program but git is started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::tree::{Tree, key, repository_of, shown};

/// Makes every setting that runs a program run one that leaves a trace.
fn set_traps(tree: &Tree) -> std::path::PathBuf {
    let trace = tree.temp.path().join("trace");
    let trap = tree.temp.path().join("trap");
    fs::write(&trap, format!("#!/bin/sh\necho \"$0 $@\" >> {}\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let hooks = tree.temp.path().join("hooks");
    fs::create_dir(&hooks).unwrap();
    for hook in [
        "post-index-change",
        "post-checkout",
        "pre-commit",
        "reference-transaction",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ] {
        fs::copy(&trap, hooks.join(hook)).unwrap();
    }
    let (trap, hooks) = (trap.display(), hooks.display());
    let config = format!(
        "[core]\n\tfsmonitor = {trap}\n\thooksPath = {hooks}\n\tsshCommand = {trap}\n\tpager = {trap}\n\
         \teditor = {trap}\n\talternateRefsCommand = {trap}\n\
         [filter \"x\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\
         [diff]\n\texternal = {trap}\n[diff \"x\"]\n\ttextconv = {trap}\n\tcommand = {trap}\n\
         [merge \"x\"]\n\tdriver = {trap}\n[credential]\n\thelper = {trap}\n[gpg]\n\tprogram = {trap}\n\
         [uploadpack]\n\tpackObjectsHook = {trap}\n[alias]\n\thash-object = !{trap}\n\tcheck-ignore = !{trap}\n"
    );
    fs::write(tree.home().join(".gitconfig"), &config).unwrap();
    fs::create_dir_all(tree.home().join(".config/git")).unwrap();
    fs::write(tree.home().join(".config/git/config"), &config).unwrap();
    fs::write(tree.home().join(".config/git/attributes"), "* filter=x diff=x merge=x\n").unwrap();
    for repository in [".git", "nested/.git"] {
        let path = tree.path(repository).join("config");
        let own = fs::read_to_string(&path).unwrap();
        fs::write(&path, own + &config).unwrap();
        fs::write(tree.path(repository).join("info/attributes"), "* filter=x diff=x merge=x\n")
            .unwrap();
    }
    tree.write(".gitattributes", "* filter=x diff=x merge=x\n");
    tree.write("nested/.gitattributes", "* filter=x diff=x merge=x\n");
    trace
}

fn hostile() -> (Tree, std::path::PathBuf) {
    let tree = Tree::repository();
    fs::create_dir(tree.path("nested")).unwrap();
    tree.git_in("nested", &["init", "-q"]);
    tree.write("nested/n", "1");
    tree.git_in("nested", &["add", "-A"]);
    tree.git_in("nested", &["commit", "-q", "-m", "n"]);
    tree.write("a", "1");
    tree.git(&["add", "a"]);
    let trace = set_traps(&tree);
    (tree, trace)
}

#[test]
fn no_configuration_starts_a_program() {
    let (tree, trace) = hostile();
    let record = tree.turn(1, |tree| {
        tree.write("a", "2");
        tree.write("nested/n", "2");
        tree.write("new", "2");
    });
    tree.changes().diffs(&tree.project(), &record.changes).unwrap();
    tree.undo(1);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap());
    // The traps work: the user's own git runs them.
    tree.git(&["add", "-A"]);
    assert!(trace.exists());
}

#[test]
fn the_users_repository_is_not_touched() {
    let tree = Tree::repository();
    tree.git(&["stash", "list"]);
    tree.write("README", "stashed");
    tree.git(&["stash", "-q"]);
    for number in 0..50 {
        tree.write(format!("f{number}"), format!("{number}"));
    }
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "many"]);
    tree.git(&["gc", "-q"]);
    tree.write("f1", "dirty");
    tree.write("f2", "staged");
    tree.git(&["add", "f2"]);
    let before = repository_of(&tree.path(".git"));
    tree.turn(1, |tree| tree.write("f3", "changed"));
    tree.undo(1);
    tree.redo(1);
    tree.turn(2, |tree| fs::remove_file(tree.path("f4")).unwrap());
    tree.changes().records(crate::tree::SESSION).unwrap();
    let after = repository_of(&tree.path(".git"));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, state) in before {
        assert!(after[&path] == state, "{} was touched", path.display());
    }
}

#[test]
fn inherited_git_variables_have_no_effect() {
    // The test runs itself with variables as git sets them for a hook.
    let name = "isolation::inherited_git_variables_have_no_effect";
    if std::env::var_os("GIT_INDEX_FILE").is_none() {
        let temp = tempfile::tempdir().unwrap();
        let index = temp.path().join("index");
        fs::write(&index, "the user's").unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env("GIT_INDEX_FILE", &index)
            .env("GIT_DIR", temp.path())
            .env("GIT_OBJECT_DIRECTORY", temp.path())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read_to_string(&index).unwrap(), "the user's");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        return;
    }
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.turn(1, |tree| tree.write("a", "2"));
    tree.undo(1);
    assert_eq!(tree.read("a"), "1");
}

#[test]
fn git_is_the_only_program_that_starts() {
    let name = "isolation::git_is_the_only_program_that_starts";
    if std::env::var_os("CONVOKE_TRACED").is_some() {
        let (tree, _) = hostile();
        // From here on, starts are counted.
        let _ = fs::metadata("/convoke-trace-begins");
        let record = tree.turn(1, |tree| {
            tree.write("a", "2");
            tree.write("nested/n", "2");
            tree.write("new", "2");
        });
        tree.changes().diffs(&tree.project(), &record.changes).unwrap();
        tree.undo(1);
        let _ = fs::metadata("/convoke-trace-ends");
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "strace is not installed");
        println!("not run: strace is not installed");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let log = temp.path().join("log");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=execve,statx", "-e", "signal=none", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact"])
        .env("CONVOKE_TRACED", "1")
        .status()
        .unwrap();
    let log = fs::read_to_string(&log).unwrap();
    if log.contains("Operation not permitted") && !log.contains("convoke-trace-ends") {
        println!("not run: tracing is not permitted here");
        return;
    }
    assert!(status.success());
    let (_, traced) = log.split_once("/convoke-trace-begins").unwrap();
    let (traced, _) = traced.split_once("/convoke-trace-ends").unwrap();
    let started: Vec<&str> =
        traced.lines().filter(|line| line.contains("execve(") && line.contains("= 0")).collect();
    assert!(!started.is_empty());
    for line in started {
        assert!(line.contains("/git\", [\"") && !line.contains("trap"), "{line}");
    }
}

/// A search path with directories of the project, as an activated environment of a language has.
#[test]
fn a_program_that_an_agent_plants_on_the_search_path_does_not_start() {
    let (tree, _) = hostile();
    let trace = tree.temp.path().join("planted-trace");
    let planted = format!("#!/bin/sh\necho \"$0 $@\" >> {}\nexit 1\n", trace.display());
    let elsewhere = tree.temp.path().join("linked-bin");
    std::os::unix::fs::symlink(tree.path("bin"), &elsewhere).unwrap();
    let own = std::env::var_os("PATH").unwrap();
    let directories = [tree.path("bin"), tree.path("later/bin"), elsewhere];
    let path = directories.into_iter().chain(std::env::split_paths(&own));
    let host = convoke_changes::Host { path: std::env::join_paths(path).unwrap(), ..tree.host() };
    let changes = convoke_changes::Changes::new(&tree.temp.path().join("data"), host);
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    for name in ["git", "git-hash-object", "sh"] {
        for directory in ["bin", "later/bin"] {
            let program = tree.path(directory).join(name);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, &planted).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    tree.write("a", "2");
    let record = begun.turn.finish().unwrap();
    changes.diffs(&tree.project(), &record.changes).unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

/// Patterns are shown, and copied to workspaces.
#[test]
fn a_link_in_the_place_of_a_file_of_patterns_is_not_followed() {
    use std::os::unix::fs::symlink;
    let tree = Tree::repository();
    let key_file = tree.home().join(".ssh/id");
    fs::create_dir_all(key_file.parent().unwrap()).unwrap();
    fs::write(&key_file, "THE-KEY\n").unwrap();
    let replace = |name: &str, target: &Path| {
        let _ = fs::remove_file(tree.path(name));
        symlink(target, tree.path(name)).unwrap();
    };
    tree.write("sub/file", "1");
    let shown = |turn: u64, act: &dyn Fn()| {
        let record = tree.turn(turn, |_| act());
        let shown = record.repository.map(|it| it.to_string()).unwrap_or_default();
        assert!(!shown.contains("THE-KEY") && !shown.contains("PATH="), "{shown}");
    };
    shown(1, &|| replace(".git/info/exclude", &key_file));
    shown(2, &|| replace(".git/info/exclude", Path::new("/proc/self/environ")));
    shown(3, &|| drop(tree.git(&["config", "core.excludesFile", key_file.to_str().unwrap()])));
    shown(4, &|| drop(tree.git(&["config", "core.excludesFile", "~/.ssh/id"])));
    shown(5, &|| {
        replace("sub/rules", &key_file);
        tree.git(&["config", "core.excludesFile", "sub/rules"]);
    });
    // A workspace of a directory gets the rules above it.
    replace(".gitignore", &key_file);
    replace(".git/info/exclude", &key_file);
    let settings = convoke_changes::WorkspaceSettings::default();
    let changes = tree.changes();
    let workspace = changes.workspace(&tree.path("sub"), &key(9), &settings).unwrap();
    let exclude = fs::read_to_string(workspace.directory.join(".git/info/exclude")).unwrap();
    assert!(!exclude.contains("THE-KEY"), "{exclude}");
    let turn = changes.begin(&tree.path("sub"), key(10)).unwrap().turn;
    tree.write("sub/.gitignore", "*.log\n");
    tree.write("sub/a.log", "");
    turn.finish().unwrap();
    for (path, (_, bytes)) in crate::tree::state_of(&tree.temp.path().join("data"), |_| true) {
        let is_there = bytes.windows(7).any(|window| window == b"THE-KEY");
        assert!(!is_there || path.ends_with("sub/rules"), "{}", path.display());
    }
}

/// The project may have a file of patterns of its own.
#[test]
fn a_file_of_patterns_in_the_project_is_read() {
    let tree = Tree::repository();
    tree.write("rules", "*.log\n");
    tree.git(&["config", "core.excludesFile", "rules"]);
    let record = tree.turn(1, |tree| {
        tree.write("a.log", "");
        tree.write("b", "");
    });
    assert_eq!(shown(&record), ["added b"]);
}

/// `..` led from the project to a key, and the key into the store.
#[test]
fn a_file_of_patterns_outside_the_project_is_not_read() {
    let tree = Tree::repository();
    fs::create_dir_all(tree.home().join(".ssh")).unwrap();
    fs::write(tree.home().join(".ssh/id"), "THE-KEY\n").unwrap();
    tree.write("sub/file", "1");
    for (turn, file) in (1..).zip(["../home/.ssh/id", "sub/../../home/.ssh/id"]) {
        tree.git(&["config", "core.excludesFile", file]);
        // New names are asked about.
        tree.turn(turn, |tree| tree.write(format!("new{turn}"), ""));
        for (path, (_, bytes)) in crate::tree::state_of(&tree.temp.path().join("data"), |_| true) {
            let is_there = bytes.windows(7).any(|window| window == b"THE-KEY");
            assert!(!is_there, "{file}: {}", path.display());
        }
    }
}
