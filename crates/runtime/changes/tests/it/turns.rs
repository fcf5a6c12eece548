//! Changes of turns and of people.

use std::fs;
use std::os::unix::fs::symlink;

use convoke_changes::{
    Author, ChangesError, Direction, Origin, Part, TreePath, TurnKey, direction,
};

use crate::tree::{SESSION, Tree, key, shown};

#[test]
fn a_turn_is_recorded_shown_and_taken_back() {
    let tree = Tree::repository();
    tree.write("src/a.rs", "one\ntwo\nthree\n");
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.write("src/a.rs", "one\n2\nthree\nfour\n");
        tree.write("new/b", "b\n");
        fs::remove_file(tree.path("README")).unwrap();
    });
    assert_eq!(shown(&record), ["deleted README", "added new/b", "modified src/a.rs"]);
    let after = tree.state();
    let diffs = tree.changes().diffs(&tree.project(), &record.changes).unwrap();
    let counts: Vec<(u64, u64)> = diffs
        .iter()
        .map(|diff| diff.lines.map(|lines| (lines.added, lines.removed)).unwrap())
        .collect();
    assert_eq!(counts, [(0, 1), (1, 0), (2, 1)]);
    assert!(
        diffs[2].text.contains("@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n"),
        "{}",
        diffs[2].text
    );
    tree.undo(1);
    assert_eq!(tree.state(), before);
    tree.redo(1);
    assert_eq!(tree.state(), after, "an undo can be taken back");
}

#[test]
fn a_person_between_two_turns_is_distinguished() {
    let tree = Tree::plain();
    tree.write("a", "1");
    assert!(tree.begin(1).person.is_none(), "what was there before the session is nobody's");
    tree.turn(1, |tree| tree.write("a", "2"));
    tree.write("b", "mine");
    let begun = tree.begin(2);
    let person = begun.person.unwrap();
    assert_eq!((person.by, shown(&person)), (Author::Person, vec!["added b".to_owned()]));
    tree.write("a", "3");
    let record = begun.turn.finish().unwrap();
    assert_eq!((record.by, shown(&record)), (Author::Agent, vec!["modified a".to_owned()]));
}

#[test]
fn a_file_that_changed_since_is_named_and_nothing_is_taken_back() {
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.write("b", "1");
    tree.turn(1, |tree| {
        tree.write("a", "2");
        tree.write("b", "2");
    });
    tree.turn(2, |tree| tree.write("b", "3"));
    tree.write("c", "mine");
    let state = tree.state();
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, Some(1)).unwrap();
    let conflicts: Vec<String> = plan
        .conflicts
        .iter()
        .map(|conflict| format!("{}: {}", conflict.path, conflict.reason))
        .collect();
    assert_eq!(conflicts, ["b: changed by turn 2 (max); undo that one first"]);
    assert!(matches!(changes.undo(&plan), Err(ChangesError::Conflicts { .. })));
    assert_eq!(tree.state(), state);
}

#[test]
fn the_obstacle_that_is_named_is_the_one_that_is_left() {
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.turn(1, |tree| tree.write("a", "2"));
    tree.write("a", "mine");
    tree.turn(2, |tree| tree.write("a", "3"));
    let obstacle = || {
        let plan = tree.changes().plan_undo(SESSION, Some(1)).unwrap();
        plan.conflicts[0].reason.clone()
    };
    assert_eq!(obstacle(), "changed by turn 2 (max); undo that one first");
    tree.undo(2);
    assert_eq!(
        (obstacle().as_str(), tree.read("a").as_str()),
        ("changed by a person before turn 2", "mine")
    );
    tree.redo(2);
    assert_eq!(obstacle(), "changed by turn 2 (max); undo that one first");
}

#[test]
fn a_change_between_the_plan_and_the_undo_is_a_conflict() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "2"));
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, None).unwrap();
    tree.write("a", "mine");
    assert!(matches!(changes.undo(&plan), Err(ChangesError::Conflicts { .. })));
    assert_eq!(tree.read("a"), "mine");
}

#[test]
fn an_ignored_file_in_the_way_is_kept() {
    let tree = Tree::plain();
    tree.write(".gitignore", "build\n");
    tree.write("x", "a file");
    tree.write("y", "a file");
    tree.turn(1, |tree| {
        fs::remove_file(tree.path("x")).unwrap();
        fs::remove_file(tree.path("y")).unwrap();
        tree.write("x/inside", "i");
    });
    tree.write("x/build", "precious");
    tree.write("y/build", "precious");
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let conflicts: Vec<String> = plan
        .conflicts
        .iter()
        .map(|conflict| format!("{}: {}", conflict.path, conflict.reason))
        .collect();
    assert_eq!(conflicts, ["x/build: it is in the way", "y: changed since"]);
    assert!(changes.undo(&plan).is_err());
    assert_eq!(
        (tree.read("x/build"), tree.read("y/build")),
        ("precious".into(), "precious".into())
    );
}

#[test]
fn files_links_and_directories_take_each_others_place() {
    let tree = Tree::plain();
    tree.write("file", "f");
    tree.write("dir/x", "x");
    symlink("nowhere", tree.path("link")).unwrap();
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        fs::remove_file(tree.path("file")).unwrap();
        tree.write("file/inside", "i");
        fs::remove_dir_all(tree.path("dir")).unwrap();
        symlink("/etc", tree.path("dir")).unwrap();
        fs::remove_file(tree.path("link")).unwrap();
        tree.write("link", "now a file");
    });
    let expected = ["type dir", "deleted dir/x", "type file", "added file/inside", "type link"];
    assert_eq!(shown(&record), expected);
    let after = tree.state();
    tree.undo(1);
    assert_eq!(tree.state(), before);
    tree.redo(1);
    assert_eq!(tree.state(), after);
}

#[test]
fn modes_and_empty_directories_come_back() {
    let tree = Tree::plain();
    tree.write("secret", "s");
    tree.chmod("secret", 0o600);
    tree.write("run", "r");
    tree.chmod("run", 0o4711);
    fs::create_dir_all(tree.path("empty/deep")).unwrap();
    tree.chmod("empty/deep", 0o1770);
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.chmod("secret", 0o644);
        tree.write("run", "changed");
        tree.chmod("run", 0o755);
        fs::remove_dir_all(tree.path("empty")).unwrap();
        fs::create_dir(tree.path("fresh")).unwrap();
    });
    let expected = ["deleted empty/deep", "added fresh", "modified run", "mode secret"];
    assert_eq!(shown(&record), expected);
    tree.undo(1);
    assert_eq!(tree.state(), before);
}

#[test]
fn a_directory_made_read_only_by_a_turn_can_be_restored() {
    let tree = Tree::plain();
    tree.write("dir/x", "1");
    tree.chmod("dir", 0o750);
    let before = tree.state();
    tree.turn(1, |tree| {
        tree.write("dir/x", "2");
        tree.chmod("dir", 0o555);
    });
    let after = tree.state();
    tree.undo(1);
    assert_eq!(tree.state(), before);
    tree.redo(1);
    assert_eq!(tree.state(), after);
}

#[test]
fn the_attempts_of_a_turn_are_taken_back_together() {
    let tree = Tree::plain();
    tree.write("a", "0");
    let changes = tree.changes();
    for attempt in 1..=3 {
        let mut key = key(1);
        key.attempt = attempt;
        let begun = changes.begin(&tree.project(), key).unwrap();
        tree.write("a", format!("{attempt}"));
        tree.write(format!("file{attempt}"), "x");
        begun.turn.finish().unwrap();
    }
    tree.undo(1);
    assert_eq!(tree.state().len(), 1);
    assert_eq!(tree.read("a"), "0");
}

#[test]
fn records_of_removed_sessions_are_removed_with_their_contents() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "a content that is nowhere else"));
    tree.turn(2, |tree| fs::remove_file(tree.path("a")).unwrap());
    let data = tree.temp.path().join("data/changes");
    let objects = |tree: &Tree| {
        let found = crate::tree::state_of(&tree.temp.path().join("data"), |_| true);
        found
            .into_iter()
            .filter(|(path, _)| path.to_string_lossy().contains("/objects/"))
            .filter(|(path, _)| path.is_file())
            .count()
    };
    assert_eq!(objects(&tree), 1);
    let changes = tree.changes();
    let mut other = key(1);
    other.session = "other".to_owned();
    changes.begin(&tree.project(), other).unwrap().turn.finish().unwrap();
    changes.remove(SESSION).unwrap();
    assert_eq!(objects(&tree), 0);
    assert!(changes.records(SESSION).unwrap().is_empty());
    changes.remove("other").unwrap();
    assert_eq!(fs::read_dir(data.join("stores")).unwrap().count(), 0);
}

/// Git stores files over a megabyte in packs.
#[test]
fn large_contents_of_removed_sessions_are_removed_too() {
    let tree = Tree::plain();
    let noise = |seed: u64| -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        std::iter::repeat_with(|| random.u8(..)).take(2 << 20).collect()
    };
    tree.turn(1, |tree| tree.write("large", noise(1)));
    tree.turn(2, |tree| tree.write("large", noise(2)));
    let changes = tree.changes();
    let other = TurnKey { session: "other".to_owned(), ..key(3) };
    let begun = changes.begin(&tree.project(), other).unwrap();
    tree.write("large", noise(3));
    begun.turn.finish().unwrap();
    let packs = || {
        let stores = fs::read_dir(tree.temp.path().join("data/changes/stores")).unwrap();
        let packs = stores.map(|store| store.unwrap().path().join("git/objects/pack"));
        let files = packs.flat_map(|directory| fs::read_dir(directory).unwrap());
        let files = files.map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|it| it == "pack")).count()
    };
    assert_eq!(packs(), 3);
    changes.remove(SESSION).unwrap();
    assert_eq!(packs(), 2, "the other session needs two of them");
    let mut plan = changes.plan_undo("other", None).unwrap();
    plan.takes_shared = true;
    changes.undo(&plan).unwrap();
    assert!(fs::read(tree.path("large")).unwrap() == noise(2));
}

#[test]
fn a_first_copy_goes_on_while_the_turn_runs() {
    let mut tree = Tree::plain();
    let none = std::time::Duration::ZERO;
    (tree.limits.wait, tree.limits.lone_wait) = (none, none);
    for number in 0..600 {
        tree.write(format!("f{number}"), format!("{number}"));
    }
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    assert!(!begun.is_complete);
    tree.write("f5", "changed at once");
    let record = begun.turn.finish().unwrap();
    assert_eq!(shown(&record), ["modified f5"]);
    // Whether the copy was faster than the turn is a matter of luck; undo knows.
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert_eq!(plan.changes.len() + plan.left_alone.len(), 1);
    assert_eq!(record.incomplete().len(), plan.left_alone.len());
}

#[test]
fn a_turn_is_undone_and_redone_any_number_of_times() {
    let tree = Tree::repository();
    tree.turn(1, |tree| tree.write("README", "changed\n"));
    let changes = tree.changes();
    let cases = [
        ("read me\n", Direction::Undo),
        ("changed\n", Direction::Redo),
        ("read me\n", Direction::Undo),
        ("changed\n", Direction::Redo),
    ];
    for (text, expected) in cases {
        let plan = match expected {
            Direction::Redo => changes.plan_redo(SESSION, None).unwrap(),
            _ => changes.plan_undo(SESSION, None).unwrap(),
        };
        assert_eq!(plan.is_redo, expected == Direction::Redo);
        let record = changes.undo(&plan).unwrap();
        assert_eq!(tree.read("README"), text);
        assert_eq!(direction(&changes.records(SESSION).unwrap(), &record), expected);
    }
}

#[test]
fn a_file_that_is_there_before_and_after_an_undo_keeps_its_extended_attributes() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.chmod("a", 0o640);
    if setxattr(tree.path("a"), "user.note", b"mine", XattrFlags::empty()).is_err() {
        println!("not run: the file system has no extended attributes");
        return;
    }
    tree.turn(1, |tree| tree.write("a", "2"));
    let before = tree.state();
    tree.undo(1);
    assert_eq!(tree.read("a"), "1");
    let mut value = [0; 16];
    let length = getxattr(tree.path("a"), "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"mine");
    tree.redo(1);
    assert!(tree.state() == before);
    assert!(getxattr(tree.path("a"), "user.note", &mut value[..]).is_ok());
}

#[test]
fn a_file_that_an_overlapping_turn_changed_last_is_named_as_its_own() {
    let tree = Tree::plain();
    tree.write("f", "1");
    let changes = tree.changes();
    let first = tree.begin(1);
    let other = TurnKey { session: "another-session".to_owned(), ..key(4) };
    let second = changes.begin(&tree.project(), other).unwrap();
    tree.write("f", "2");
    first.turn.finish().unwrap();
    tree.write("f", "23");
    second.turn.finish().unwrap();
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let reason = "changed by turn 4 of max in session session, which ran at the same time; undo that one first";
    assert_eq!(plan.conflicts[0].reason, reason);
    assert_eq!(plan.shared_with[0].paths, [TreePath::new("f")]);
    // Who changed it later is not known.
    tree.write("f", "234");
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert_eq!(plan.conflicts[0].reason, "changed since");
}

#[test]
fn a_file_that_is_moved_is_renamed() {
    let tree = Tree::plain();
    for name in ["a", "b", "c", "empty"] {
        tree.write(name, if name == "empty" { "" } else { name });
    }
    let record = tree.turn(1, |tree| {
        fs::create_dir(tree.path("d")).unwrap();
        fs::rename(tree.path("a"), tree.path("d/a")).unwrap();
        fs::rename(tree.path("b"), tree.path("b2")).unwrap();
        tree.chmod("b2", 0o755);
        // An empty file is like every other.
        fs::rename(tree.path("empty"), tree.path("void")).unwrap();
        fs::remove_file(tree.path("c")).unwrap();
    });
    let diffs = tree.changes().diffs(&tree.project(), &record.changes).unwrap();
    let line = |diff: &convoke_changes::FileDiff| {
        let from = diff.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
        format!("{} {}{from}", diff.status.as_str(), diff.path)
    };
    let lines: Vec<String> = diffs.iter().map(line).collect();
    assert_eq!(
        lines,
        ["renamed b2 from b", "deleted c", "renamed d/a from a", "deleted empty", "added void"]
    );
    assert_eq!(diffs[0].text, "diff b2 (renamed from b: file 0644 -> file 0755)\n");
    assert_eq!(convoke_changes::listed_count(&record.changes), diffs.len());
}

/// A file that only had another mode was replaced by a copy: it lost its group and its other names.
#[test]
fn the_undo_of_a_mode_keeps_the_file() {
    use std::os::unix::fs::MetadataExt as _;
    let tree = Tree::plain();
    tree.write("a", "1");
    fs::hard_link(tree.path("a"), tree.temp.path().join("other")).unwrap();
    let inode = fs::metadata(tree.path("a")).unwrap().ino();
    let before = tree.state();
    tree.turn(1, |tree| tree.chmod("a", 0o600));
    let after = tree.state();
    tree.undo(1);
    assert!(tree.state() == before);
    tree.redo(1);
    assert!(tree.state() == after);
    let found = fs::metadata(tree.path("a")).unwrap();
    assert_eq!((found.ino(), found.nlink()), (inode, 2));
}

fn only(paths: &[&str]) -> Part {
    Part { paths: paths.iter().map(|path| TreePath::new(*path)).collect(), ..Part::default() }
}

#[test]
fn one_file_of_a_turn_is_taken_back_alone_and_made_again() {
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.write("sub/b", "1");
    let before = tree.state();
    tree.turn(1, |tree| {
        tree.write("a", "2");
        tree.write("sub/b", "2");
        tree.write("new/deep/c", "2");
    });
    let after = tree.state();
    let changes = tree.changes();
    let plan = changes.plan_undo_of(SESSION, None, &only(&["sub"])).unwrap();
    let record = changes.undo(&plan).unwrap();
    assert_eq!((shown(&record), record.undoes), (vec!["modified sub/b".to_owned()], None));
    assert_eq!((tree.read("a"), tree.read("sub/b")), ("2".to_owned(), "1".to_owned()));
    let plan = changes.plan_redo_of(SESSION, None, &only(&["sub/b"])).unwrap();
    assert!(plan.is_redo);
    changes.undo(&plan).unwrap();
    assert_eq!(tree.state(), after);
    let plan = changes.plan_undo_of(SESSION, Some(1), &only(&["new/deep/c", "a"])).unwrap();
    changes.undo(&plan).unwrap();
    assert_eq!(tree.read("sub/b"), "2");
    // The turn is not undone yet: an undo of it takes the rest back.
    tree.undo(1);
    assert_eq!(tree.state(), before);
    let why = changes.plan_undo_of(SESSION, None, &only(&["nothing"])).unwrap_err().to_string();
    assert_eq!(why, "no turn of this session changed anything at nothing");
}

#[test]
fn a_file_that_was_moved_is_taken_back_at_both_ends() {
    let tree = Tree::plain();
    tree.write("old/name", "the same content");
    let before = tree.state();
    tree.turn(1, |tree| {
        fs::create_dir(tree.path("new")).unwrap();
        fs::rename(tree.path("old/name"), tree.path("new/name")).unwrap();
        fs::remove_dir(tree.path("old")).unwrap();
    });
    let changes = tree.changes();
    let plan = changes.plan_undo_of(SESSION, None, &only(&["new"])).unwrap();
    changes.undo(&plan).unwrap();
    assert_eq!(tree.state(), before);
}

#[test]
fn the_rest_of_a_turn_is_taken_back_beside_a_file_that_changed_since() {
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.turn(1, |tree| {
        tree.write("a", "2");
        tree.write("made/b", "2");
        tree.write("made/c", "2");
    });
    tree.write("made/b", "mine");
    let changes = tree.changes();
    let rest = Part { leaves_conflicts: true, ..Part::default() };
    let plan = changes.plan_undo_of(SESSION, None, &rest).unwrap();
    let left: Vec<_> = plan.left_alone.iter().map(|it| it.path.to_string()).collect();
    assert_eq!((left, plan.is_refused()), (vec!["made/b".to_owned()], false));
    changes.undo(&plan).unwrap();
    assert_eq!((tree.read("a"), tree.read("made/b")), ("1".to_owned(), "mine".to_owned()));
    assert!(!tree.path("made/c").exists());
    tree.redo(1);
    assert_eq!((tree.read("a"), tree.read("made/c")), ("2".to_owned(), "2".to_owned()));
}

#[test]
fn each_line_of_a_file_names_the_turn_that_wrote_it() {
    let tree = Tree::plain();
    tree.write("a", "one\ntwo\nthree\n");
    tree.turn(1, |tree| tree.write("a", "one\n2\nthree\n"));
    tree.turn(2, |tree| tree.write("a", "one\n2\nthree\nfour\n"));
    tree.undo(2);
    tree.redo(2);
    tree.turn(3, |tree| fs::rename(tree.path("a"), tree.path("b")).unwrap());
    tree.write("b", "zero\none\n2\nthree\nfour\n");
    let changes = tree.changes();
    let records = changes.records(SESSION).unwrap();
    let lines = changes.blame(&records, &tree.project(), &TreePath::new("b")).unwrap();
    let origins: Vec<Option<u64>> = lines
        .iter()
        .map(|line| match line.origin {
            Origin::Record(record) => Some(records[record].turn.turn),
            Origin::Before => None,
            Origin::Since => Some(0),
        })
        .collect();
    assert_eq!(origins, [Some(0), None, Some(1), None, Some(2)]);
}

#[test]
fn one_hunk_of_a_file_is_taken_back_and_made_again() {
    let tree = Tree::plain();
    let text = |second: &str, last: &str| format!("1\n{second}\n3\n4\n5\n6\n7\n8\n{last}\n");
    tree.write("a", text("2", "9"));
    tree.turn(1, |tree| {
        tree.write("a", text("two", "nine"));
        tree.write("b", "new");
    });
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let files = changes.hunks(&plan).unwrap();
    let counts: Vec<usize> = files.iter().map(|file| file.hunks.len()).collect();
    assert_eq!(counts, [2, 0], "a new file is taken whole");
    let chosen: Vec<_> = files.into_iter().zip([vec![false, true], vec![false]]).collect();
    let plan = changes.plan_hunks(plan, &chosen).unwrap().unwrap();
    let record = changes.undo(&plan).unwrap();
    assert!(record.part_of.is_some());
    assert_eq!((tree.read("a"), tree.read("b")), (text("two", "9"), "new".to_owned()));
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let none = changes.hunks(&plan).unwrap().into_iter().map(|file| (file, vec![false; 2]));
    assert!(changes.plan_hunks(plan, &none.collect::<Vec<_>>()).unwrap().is_none());
}
