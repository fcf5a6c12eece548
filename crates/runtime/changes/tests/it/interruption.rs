//! Turns whose process was killed, and what a person changed after them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_changes::{Changes, ChangesError, Progress, Record};

use crate::tree::{SESSION, Tree, shown};

/// Returns a tree in which turn 1 changed files and then was interrupted, when it was known to run after its changes.
fn interrupted() -> Tree {
    let tree = Tree::repository();
    for name in ["f", "gone", "kept", "dir/a", "other/b"] {
        tree.write(name, "1\n");
    }
    let begun = tree.begin(1);
    tree.write("f", "agent\n");
    tree.write("own", "agent\n");
    tree.write("new/deep", "agent\n");
    fs::remove_file(tree.path("dir/a")).unwrap();
    wait_for_a_touch(&tree);
    drop(begun);
    tree
}

/// Waits until the running turn was touched after all changes of its files.
fn wait_for_a_touch(tree: &Tree) {
    let stores = tree.temp.path().join("data/changes/stores");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(store.join("running")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|it| it == "json")).unwrap();
    let now = tree.temp.path().join("now");
    fs::write(&now, "").unwrap();
    let written = fs::metadata(now).unwrap();
    let is_later = |path: &PathBuf| {
        let found = fs::metadata(path).unwrap();
        (found.mtime(), found.mtime_nsec()) > (written.mtime(), written.mtime_nsec())
    };
    while !is_later(&file) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn uncertain(record: &Record) -> Vec<String> {
    record.uncertain.iter().map(ToString::to_string).collect()
}

#[test]
fn what_an_interrupted_turn_changed_is_undone_if_nothing_followed() {
    let tree = interrupted();
    let records = tree.changes().records(SESSION).unwrap();
    assert!(records[0].interrupted);
    assert_eq!(shown(&records[0]).len(), 4);
    assert_eq!(uncertain(&records[0]), [""; 0]);
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    assert!(!plan.is_refused_as_shared());
    tree.changes().undo(&plan).unwrap();
    assert_eq!((tree.read("f"), tree.read("dir/a")), ("1\n".to_owned(), "1\n".to_owned()));
    assert!(!tree.path("own").exists() && !tree.path("new").exists());
}

#[test]
fn what_followed_an_interrupted_turn_may_be_a_persons_and_is_not_undone_without_a_word() {
    let tree = interrupted();
    tree.write("mine", "hours of work\n");
    tree.write("f", "agent\nperson\n");
    fs::remove_file(tree.path("kept")).unwrap();
    fs::rename(tree.path("other"), tree.path("moved")).unwrap();
    let changes = tree.changes();
    let record = changes.records(SESSION).unwrap().remove(0);
    assert_eq!(uncertain(&record), ["f", "kept", "mine", "moved/b", "other/b"]);
    assert_eq!(shown(&record).len(), 8);
    let mut plan = changes.plan_undo(SESSION, None).unwrap();
    assert!(plan.is_refused_as_shared() && plan.uncertain == record.uncertain);
    assert!(matches!(changes.undo(&plan), Err(ChangesError::Shared)));
    assert_eq!(tree.read("mine"), "hours of work\n");
    plan.takes_shared = true;
    changes.undo(&plan).unwrap();
    assert!(!tree.path("mine").exists() && tree.path("other/b").exists());
    // Redoing it needs no word.
    changes.undo(&changes.plan_redo(SESSION, None).unwrap()).unwrap();
    assert_eq!(
        (tree.read("mine"), tree.read("f")),
        ("hours of work\n".into(), "agent\nperson\n".into())
    );
}

#[test]
fn without_a_time_of_the_turn_nothing_is_certain() {
    let tree = Tree::plain();
    tree.write("f", "1\n");
    let begun = tree.begin(1);
    tree.write("f", "agent\n");
    drop(begun);
    let records = tree.changes().records(SESSION).unwrap();
    assert_eq!(uncertain(&records[0]), ["f"]);
}

/// An undo has a time limit of its own, longer than that of a recording.
#[test]
fn an_undo_may_take_longer_than_a_recording_and_reports_its_progress() {
    let mut tree = Tree::plain();
    for number in 0..200 {
        tree.write(format!("d{}/{number}", number % 7), "1\n");
    }
    let before = tree.state();
    tree.turn(1, |tree| {
        for number in 0..7 {
            fs::remove_dir_all(tree.path(format!("d{number}"))).unwrap();
        }
    });
    tree.limits.time = Duration::ZERO;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = reports.clone();
    let progress = Progress::new(move |done, all| reported.lock().unwrap().push((done, all)));
    let changes = tree.changes().with_progress(progress);
    changes.undo(&changes.plan_undo(SESSION, None).unwrap()).unwrap();
    assert!(tree.state() == before);
    let reports = reports.lock().unwrap();
    assert!(reports.len() > 3 && reports.is_sorted(), "{reports:?}");
    assert!(reports.last().is_some_and(|(done, all)| done == all), "{reports:?}");
}

/// A process for every file, or for some of them, is what made large undos slow.
#[test]
fn an_undo_starts_few_programs() {
    let tree = Tree::plain();
    for number in 0..1200 {
        tree.write(format!("d/{number}"), format!("{number}\n"));
    }
    tree.turn(1, |tree| fs::remove_dir_all(tree.path("d")).unwrap());
    let (bin, log) = (tree.temp.path().join("bin"), tree.temp.path().join("log"));
    fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let git = std::env::split_paths(&path);
    let git = git.map(|entry| entry.join("git")).find(|git| git.is_file()).unwrap();
    let script =
        format!("#!/bin/sh\necho >> '{}'\nexec '{}' \"$@\"\n", log.display(), git.display());
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut host = tree.host();
    host.path = bin.into();
    let changes =
        Changes::new(&tree.temp.path().join("data"), host).with_limits(tree.limits.clone());
    changes.undo(&changes.plan_undo(SESSION, None).unwrap()).unwrap();
    let started = fs::read_to_string(log).unwrap().lines().count();
    assert!(started <= 12, "{started} programs");
}
