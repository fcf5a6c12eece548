//! Undos that something else gets in the way of, while they run.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_changes::{Changes, ChangesError, Progress};

use crate::tree::{SESSION, Tree, key, shown};

/// The files that a turn changes: enough for several reports of the progress of an undo.
const FILES: usize = 200;

/// Returns a tree whose files a turn has changed, created and removed.
fn changed() -> Tree {
    let tree = Tree::plain();
    for number in 0..FILES {
        tree.write(format!("d/{number:03}"), "1\n");
    }
    tree.write("gone/inside", "1\n");
    tree.turn(1, |tree| {
        for number in 0..FILES {
            tree.write(format!("d/{number:03}"), "two\n");
            tree.write(format!("new/{number:03}"), "two\n");
        }
        fs::remove_dir_all(tree.path("gone")).unwrap();
    });
    tree
}

/// Undoes the turn, while a person does something once so many steps of a hundred are done.
fn undo_while(
    tree: &Tree,
    percent: usize,
    act: impl Fn() + Send + Sync + 'static,
) -> Result<(), ChangesError> {
    let is_done = AtomicBool::new(false);
    let progress = Progress::new(move |done, all| {
        if done * 100 >= all * percent && !is_done.swap(true, Ordering::Relaxed) {
            act();
        }
    });
    let changes = tree.changes().with_progress(progress);
    let plan = changes.plan_undo(SESSION, None).unwrap();
    changes.undo(&plan).map(drop)
}

/// Asserts that an undo failed because of one file, changed nothing else, and is not in the way of the next.
fn was_refused(tree: &Tree, undone: &Result<(), ChangesError>, name: &str) {
    let paths: Vec<String> = match undone {
        Err(ChangesError::Conflicts { paths }) => paths.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    assert_eq!(paths, [name], "{undone:?}");
    for number in 0..FILES {
        for directory in ["d", "new"] {
            let file = format!("{directory}/{number:03}");
            let expected = if file == name { "mine\n" } else { "two\n" };
            assert_eq!(tree.read(&file), expected, "{file}");
        }
    }
    assert!(!tree.path("gone").exists());
    let changes = tree.changes();
    assert!(changes.take_completed(SESSION).unwrap().is_empty());
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert_eq!(plan.conflicts.len(), 1, "{:?}", plan.conflicts);
    fs::write(tree.path(name), "two\n").unwrap();
    tree.undo(1);
    assert_eq!(tree.read("d/150"), "1\n");
    assert!(!tree.path("new").exists() && tree.read("gone/inside") == "1\n");
}

#[test]
fn a_file_that_changes_while_an_undo_is_prepared_is_kept() {
    for name in ["d/150", "new/150"] {
        let tree = changed();
        let file = tree.path(name);
        let undone = undo_while(&tree, 1, move || fs::write(&file, "mine\n").unwrap());
        was_refused(&tree, &undone, name);
    }
}

#[test]
fn a_file_that_changes_while_an_undo_runs_is_kept_and_the_others_are_put_back() {
    let tree = changed();
    let file = tree.path("d/199");
    // Half of the steps prepare it.
    let undone = undo_while(&tree, 51, move || fs::write(&file, "mine\n").unwrap());
    was_refused(&tree, &undone, "d/199");
}

#[test]
fn a_file_that_appears_where_an_undo_restores_one_is_kept() {
    let tree = Tree::plain();
    for number in 0..FILES {
        tree.write(format!("d/{number:03}"), "1\n");
    }
    tree.turn(1, |tree| fs::remove_dir_all(tree.path("d")).unwrap());
    let directory = tree.path("d");
    let undone = undo_while(&tree, 51, move || {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("000"), "mine\n").unwrap();
    });
    assert!(matches!(undone, Err(ChangesError::Conflicts { .. })), "{undone:?}");
    let names = fs::read_dir(tree.path("d")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names, tree.read("d/000")), (vec!["000".into()], "mine\n".to_owned()));
}

/// A file that an undo had removed but not yet replaced was not restored when the undo was refused.
#[test]
fn what_a_refused_undo_has_removed_and_not_yet_replaced_is_put_back() {
    let tree = Tree::plain();
    // Deeper than the others, so that they are replaced last.
    tree.write("x/y/file", "1\n");
    symlink("file", tree.path("x/y/link")).unwrap();
    tree.write("x/y/directory/inside", "1\n");
    for number in 0..FILES {
        tree.write(format!("d/{number:03}"), "1\n");
    }
    let before = tree.state();
    tree.turn(1, |tree| {
        for number in 0..FILES {
            tree.write(format!("d/{number:03}"), "two\n");
        }
        for name in ["x/y/file", "x/y/link"] {
            fs::remove_file(tree.path(name)).unwrap();
            tree.write(format!("{name}/inside/deep"), "two\n");
            tree.chmod(name, 0o750);
        }
        fs::remove_dir_all(tree.path("x/y/directory")).unwrap();
        symlink("nowhere", tree.path("x/y/directory")).unwrap();
    });
    let mut after = tree.state();
    let file = tree.path("d/000");
    let undone = undo_while(&tree, 51, move || fs::write(&file, "mine\n").unwrap());
    assert!(matches!(undone, Err(ChangesError::Conflicts { .. })), "{undone:?}");
    after.get_mut(&tree.path("d/000")).unwrap().1 = b"mine\n".to_vec();
    assert!(tree.state() == after);
    tree.write("d/000", "two\n");
    tree.undo(1);
    assert!(tree.state() == before);
}

/// Convoke's data and the project are often on two file systems. The files to restore are prepared in the project then.
#[test]
fn an_undo_across_file_systems_leaves_nothing_behind() {
    let tree = changed();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(other.path()) == device(&tree.project()) {
        return;
    }
    // Names that were once used for that are as good as any.
    tree.write(".convoke-undo/mine", "mine\n");
    tree.write("d/.convoke-undo.1", "mine\n");
    let before = tree.state();
    let changes = Changes::new(other.path(), tree.host()).with_limits(tree.limits.clone());
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    fs::remove_dir_all(tree.path("d")).unwrap();
    begun.turn.finish().unwrap();
    changes.undo(&changes.plan_undo(SESSION, None).unwrap()).unwrap();
    assert!(tree.state() == before);
    let person = changes.begin(&tree.project(), key(2)).unwrap().person;
    assert!(person.is_none(), "{person:?}");
}

#[test]
fn data_in_the_project_is_not_recorded() {
    let tree = Tree::plain();
    tree.write("a", "1");
    let data = tree.path("deep/data");
    fs::create_dir_all(&data).unwrap();
    symlink(&data, tree.temp.path().join("link")).unwrap();
    for data in [data, tree.temp.path().join("link")] {
        let changes = Changes::new(&data, tree.host()).with_limits(tree.limits.clone());
        for turn in 1..3 {
            let begun = changes.begin(&tree.project(), key(turn)).unwrap();
            assert!(begun.person.is_none(), "{:?}", begun.person);
            tree.write("a", format!("{turn} in {}", data.display()));
            assert_eq!(shown(&begun.turn.finish().unwrap()), ["modified a"]);
        }
    }
}

/// The state after an undo takes over the contents of the files that it has placed.
#[test]
fn what_a_person_writes_to_a_restored_file_before_the_undo_ends_is_recorded_as_it_is() {
    for keeps_time in [false, true] {
        let tree = changed();
        let path = tree.path("d/100");
        let undone = undo_while(&tree, 100, move || {
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&path, "3\n").unwrap();
            if keeps_time {
                fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            }
            // A stamp that is as young is compared with the content once more.
            std::thread::sleep(std::time::Duration::from_millis(300));
        });
        undone.unwrap();
        assert_eq!((tree.read("d/099"), tree.read("d/100")), ("1\n".to_owned(), "3\n".to_owned()));
        let record = tree.turn(2, |tree| fs::remove_file(tree.path("d/100")).unwrap());
        assert_eq!(shown(&record), ["deleted d/100"]);
        tree.undo(2);
        assert_eq!(tree.read("d/100"), "3\n", "{keeps_time}");
    }
}
