//! Files and directories that somebody closed to their owner. Who may read everything does not see the difference, so that
//! these tests run as somebody else.

use std::fs;

use crate::tree::{SESSION, Tree, is_unprivileged, shown};

/// What cannot be looked at was taken for gone, and a refused undo removed it.
#[test]
fn an_undo_in_a_directory_that_was_closed_since_is_refused_and_removes_nothing() {
    let name =
        "closed::an_undo_in_a_directory_that_was_closed_since_is_refused_and_removes_nothing";
    if !is_unprivileged(name) {
        return;
    }
    for mode in [0o644, 0o400, 0] {
        let tree = Tree::plain();
        tree.write("src/old", "old\n");
        tree.write("src/deep/er", "old\n");
        tree.turn(1, |tree| {
            tree.write("src/new", "new\n");
            tree.write("src/old", "changed\n");
        });
        tree.chmod("src", mode);
        let changes = tree.changes();
        let plan = changes.plan_undo(SESSION, None).unwrap();
        assert!(!plan.conflicts.is_empty(), "{mode:o}: {plan:?}");
        assert!(changes.undo(&plan).is_err());
        tree.chmod("src", 0o755);
        assert_eq!(
            (tree.read("src/new"), tree.read("src/old")),
            ("new\n".into(), "changed\n".into())
        );
        assert_eq!(tree.read("src/deep/er"), "old\n");
    }
}

#[test]
fn a_turn_that_closes_a_directory_is_undone_with_what_it_changed_in_it() {
    let name = "closed::a_turn_that_closes_a_directory_is_undone_with_what_it_changed_in_it";
    if !is_unprivileged(name) {
        return;
    }
    for mode in [0o644, 0] {
        let tree = Tree::repository();
        tree.write("src/old", "old\n");
        tree.write("src/deep/er", "old\n");
        let before = tree.state();
        let record = tree.turn(1, |tree| {
            tree.write("src/deep/er", "changed\n");
            tree.chmod("src/deep", mode);
            tree.write("src/old", "changed\n");
            tree.chmod("src", mode);
        });
        let changed = ["mode src", "mode src/deep", "modified src/deep/er", "modified src/old"];
        assert_eq!(shown(&record), changed, "{mode:o}");
        tree.undo(1);
        assert!(tree.state() == before, "{mode:o}");
        // The redo closes it again, and is undone.
        tree.redo(1);
        assert!(fs::read(tree.path("src/old")).is_err());
        tree.undo(1);
        assert!(tree.state() == before, "{mode:o}");
    }
}

#[test]
fn a_file_that_a_turn_makes_unreadable_is_made_readable_again() {
    let name = "closed::a_file_that_a_turn_makes_unreadable_is_made_readable_again";
    if !is_unprivileged(name) {
        return;
    }
    let tree = Tree::plain();
    tree.write("kept", "1");
    tree.write("edited", "1");
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.write("edited", "2");
        tree.write("new", "2");
        for name in ["kept", "edited", "new"] {
            tree.chmod(name, 0);
        }
    });
    assert_eq!(shown(&record), ["modified edited", "mode kept", "added new"]);
    assert_eq!(record.unreadable(), [""; 0]);
    for _ in 0..2 {
        tree.undo(1);
        assert!(tree.state() == before);
        tree.redo(1);
        assert!(fs::read(tree.path("edited")).is_err() && tree.path("new").exists());
    }
    tree.undo(1);
    assert!(tree.state() == before);
}

/// What a person closed is theirs.
#[test]
fn what_was_closed_before_a_turn_is_not_opened() {
    if !is_unprivileged("closed::what_was_closed_before_a_turn_is_not_opened") {
        return;
    }
    let tree = Tree::plain();
    tree.write("directory/inside", "1");
    tree.write("file", "1");
    tree.write("open", "1");
    tree.chmod("directory", 0);
    tree.chmod("file", 0);
    let times = || {
        use std::os::unix::fs::MetadataExt as _;
        let changed = |name: &str| fs::metadata(tree.path(name)).unwrap().ctime_nsec();
        (changed("directory"), changed("file"))
    };
    let before = times();
    let record = tree.turn(1, |tree| tree.write("open", "2"));
    assert_eq!(
        (shown(&record), record.unreadable()),
        (vec!["modified open".into()], vec!["directory".into()])
    );
    tree.undo(1);
    assert_eq!(times(), before, "it was touched");
    tree.chmod("directory", 0o755);
    let record = tree.turn(2, |tree| tree.write("open", "3"));
    assert_eq!(shown(&record), ["modified open"]);
}

/// Files that could not be looked at were recorded as deleted. Their undo found them, was refused, and then removed them.
#[test]
fn a_turn_that_only_closes_a_directory_loses_nothing() {
    if !is_unprivileged("closed::a_turn_that_only_closes_a_directory_loses_nothing") {
        return;
    }
    let tree = Tree::plain();
    tree.write("src/old", "old\n");
    tree.write("src/deep/er", "old\n");
    let record = tree.turn(1, |tree| tree.chmod("src", 0o644));
    let undone = tree.changes().plan_undo(SESSION, None).map(|plan| tree.changes().undo(&plan));
    tree.chmod("src", 0o755);
    assert_eq!((tree.read("src/old"), tree.read("src/deep/er")), ("old\n".into(), "old\n".into()));
    assert_eq!(shown(&record), ["mode src"]);
    undone.unwrap().unwrap();
}

/// An undo that was refused in its middle changes the mode and puts it back, which alters the status of the file.
#[test]
fn a_file_whose_mode_was_changed_and_put_back_is_made_readable_again() {
    let name = "closed::a_file_whose_mode_was_changed_and_put_back_is_made_readable_again";
    if !is_unprivileged(name) {
        return;
    }
    let tree = Tree::plain();
    tree.write("file", "text\n");
    let before = tree.state();
    tree.turn(1, |tree| tree.chmod("file", 0o200));
    tree.chmod("file", 0o644);
    tree.chmod("file", 0o200);
    tree.undo(1);
    assert!(tree.state() == before);
}
