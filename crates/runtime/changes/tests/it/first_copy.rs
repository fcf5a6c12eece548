//! Turns that change files before the first copy of their directory is complete.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::tree::{SESSION, Tree, key, repository_of, shown};

const FILES: usize = 700;

/// Creates a repository of many clean files. No turn in it waits for their copy.
fn large() -> Tree {
    let mut tree = Tree::repository();
    for number in 0..FILES {
        tree.write(format!("d{}/f{number}", number % 7), format!("{number}\n"));
    }
    std::os::unix::fs::symlink("f0", tree.path("d0/link")).unwrap();
    (tree.limits.wait, tree.limits.lone_wait) = (Duration::ZERO, Duration::ZERO);
    tree
}

/// Commits everything. No file is as young as the index.
fn commit(tree: &Tree) {
    let old = SystemTime::now() - Duration::from_secs(1000);
    for path in tree.state().keys().filter(|path| path.is_file() && !path.is_symlink()) {
        fs::File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
    }
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "all"]);
}

#[test]
fn clean_files_that_a_first_turn_deletes_are_restored_from_the_users_objects() {
    for is_packed in [false, true] {
        let tree = large();
        commit(&tree);
        if is_packed {
            tree.git(&["gc", "-q"]);
        }
        let (before, repository) = (tree.state(), repository_of(&tree.path(".git")));
        // One handle, as in a run: its background copy goes on.
        let changes = tree.changes();
        let begun = changes.begin(&tree.project(), key(1)).unwrap();
        assert!(!begun.is_complete);
        for number in 0..7 {
            fs::remove_dir_all(tree.path(format!("d{number}"))).unwrap();
        }
        tree.write("README", "changed");
        tree.write("new", "new");
        let record = begun.turn.finish().unwrap();
        assert_eq!(record.incomplete(), [""; 0]);
        assert_eq!(record.shown().count(), FILES + 3);
        let plan = changes.plan_undo(SESSION, None).unwrap();
        assert!(plan.left_alone.is_empty() && plan.conflicts.is_empty(), "{:?}", plan.left_alone);
        changes.undo(&plan).unwrap();
        assert!(tree.state() == before);
        assert!(repository_of(&tree.path(".git")) == repository, "the repository was touched");
        // The objects are copied.
        fs::remove_dir_all(tree.path(".git")).unwrap();
        changes.undo(&changes.plan_redo(SESSION, None).unwrap()).unwrap();
        assert!(tree.path("new").exists() && !tree.path("d3").exists());
        changes.undo(&changes.plan_undo(SESSION, None).unwrap()).unwrap();
        assert!(tree.state() == before);
    }
}

#[test]
fn an_interrupted_first_turn_is_completed_from_the_users_objects() {
    let tree = large();
    commit(&tree);
    let before = tree.state();
    let begun = tree.begin(1);
    for number in 0..7 {
        fs::remove_dir_all(tree.path(format!("d{number}"))).unwrap();
    }
    drop(begun);
    let records = tree.changes().records(SESSION).unwrap();
    assert!(records[0].interrupted && records[0].incomplete().is_empty());
    tree.undo(1);
    assert!(tree.state() == before);
}

/// A copy of a repository has files of another status than its index says, though git would find them clean.
#[test]
fn clean_files_of_a_copied_repository_are_restored_from_its_objects() {
    let tree = large();
    commit(&tree);
    let (project, copy) = (tree.project(), tree.temp.path().join("copy"));
    let copied = Command::new("cp").arg("-a").args([&project, &copy]).status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(&project).unwrap();
    fs::rename(&copy, &project).unwrap();
    let (before, repository) = (tree.state(), repository_of(&tree.path(".git")));
    let changes = tree.changes();
    let begun = changes.begin(&project, key(1)).unwrap();
    for number in 0..7 {
        fs::remove_dir_all(tree.path(format!("d{number}"))).unwrap();
    }
    let record = begun.turn.finish().unwrap();
    assert_eq!(record.incomplete(), [""; 0]);
    // There was no time to compare them, which is said.
    assert!(!record.unverified.is_empty());
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert!(plan.left_alone.is_empty() && plan.unverified == record.unverified);
    changes.undo(&plan).unwrap();
    assert!(tree.state() == before);
    assert!(repository_of(&tree.path(".git")) == repository, "the repository was touched");
}

/// The object of a file is not its content where an attribute converts it, or where it changed since.
#[test]
fn what_differs_from_its_object_is_never_restored_from_it() {
    let tree = large();
    tree.git(&["config", "filter.shout.clean", "tr a-z A-Z"]);
    tree.write(".gitattributes", "*.txt text\n*.shout filter=shout\n*.id ident\n");
    tree.write("a.txt", "one\r\ntwo\r\n");
    tree.write("b.shout", "quiet");
    tree.write("c.id", "$Id: 1 $");
    tree.write("same-size", "1111");
    commit(&tree);
    tree.write("same-size", "2222");
    tree.write("untracked", "mine");
    let files = ["a.txt", "b.shout", "c.id", "same-size", "untracked"];
    let before = tree.state();
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    for name in files {
        fs::remove_file(tree.path(name)).unwrap();
    }
    let record = begun.turn.finish().unwrap();
    assert_eq!(shown(&record).len(), files.len());
    // Whether a file was copied in time is a matter of luck. One that was not is said to be lost.
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let left: Vec<String> = plan.left_alone.iter().map(|it| it.path.to_string()).collect();
    if !plan.changes.is_empty() {
        changes.undo(&plan).unwrap();
    }
    for name in files {
        let path = tree.path(name);
        let is_left = left.iter().any(|path| path == name);
        assert_eq!(path.exists(), !is_left, "{name}");
        assert!(is_left || fs::read(&path).unwrap() == before[&path].1, "{name}");
    }
}

/// A path of the directory may be shorter than that of a repository in it.
#[test]
fn a_nested_repository_among_many_files_does_not_stop_the_recording() {
    for is_submodule in [false, true] {
        let mut tree = large();
        tree.limits.wait = Duration::from_mins(1);
        tree.git(&["init", "-q", "vendor/library"]);
        tree.write("vendor/library/inside", "inside\n");
        tree.git_in("vendor/library", &["add", "-A"]);
        tree.git_in("vendor/library", &["commit", "-q", "-m", "inside"]);
        if is_submodule {
            tree.git(&["submodule", "add", "./vendor/library", "vendor/library"]);
        }
        commit(&tree);
        tree.write("a", "short\n");
        let before = tree.state();
        let record = tree.turn(1, |tree| {
            tree.write("README", "changed\n");
            tree.write("vendor/library/inside", "changed\n");
        });
        assert_eq!(shown(&record), ["modified README", "modified vendor/library/inside"]);
        tree.undo(1);
        assert!(tree.state() == before);
    }
}

/// A turn waits for files that have no other copy; the small ones are copied first.
#[test]
fn a_turn_waits_for_what_has_no_other_copy() {
    let mut tree = Tree::plain();
    tree.limits.wait = Duration::ZERO;
    for number in 0..20_u8 {
        tree.write(format!("binary{number}"), vec![number; 1 << 20]);
    }
    tree.write("z-text", "text\n");
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.write("z-text", "changed\n");
        tree.write("binary3", "changed\n");
    });
    assert_eq!(record.incomplete(), [""; 0]);
    tree.undo(1);
    assert!(tree.state() == before);
}

/// However short the wait for all files is, those without another copy are waited for while they are being copied.
#[test]
fn small_files_without_another_copy_are_waited_for() {
    let mut tree = Tree::plain();
    tree.limits.wait = Duration::ZERO;
    for number in 0..499 {
        tree.write(format!("f{number}"), format!("{number}\n"));
    }
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    assert!(begun.uncopied.is_none(), "{:?}", begun.uncopied);
}

#[test]
fn what_was_not_copied_before_a_turn_is_counted() {
    let mut tree = Tree::plain();
    let none = Duration::ZERO;
    (tree.limits.wait, tree.limits.lone_wait) = (none, none);
    for number in 0..20_u8 {
        tree.write(format!("binary{number}"), vec![number; 1 << 20]);
    }
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    let uncopied = begun.uncopied.unwrap();
    assert_eq!(uncopied.bytes, 20 << 20);
    assert_eq!(uncopied.copied_bytes + (uncopied.files << 20), uncopied.bytes);
}

/// A file that was moved before it was copied is not lost.
#[test]
fn a_file_that_is_moved_before_its_copy_is_moved_back() {
    let mut tree = Tree::plain();
    let none = Duration::ZERO;
    (tree.limits.wait, tree.limits.lone_wait) = (none, none);
    for number in 0..20_u8 {
        tree.write(format!("binary{number}"), vec![number; 1 << 20]);
    }
    let before = tree.state();
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    for number in 0..20_u8 {
        let (from, to) = (tree.path(format!("binary{number}")), tree.path(format!("m{number}")));
        fs::rename(from, to).unwrap();
    }
    let record = begun.turn.finish().unwrap();
    assert_eq!(record.incomplete(), [""; 0]);
    tree.undo(1);
    assert!(tree.state() == before);
}

/// A turn can give a file that it wrote to the time that it had.
#[test]
fn a_content_that_a_turn_can_have_forged_is_marked() {
    let mut tree = Tree::plain();
    (tree.limits.wait, tree.limits.lone_wait) = (Duration::ZERO, Duration::ZERO);
    let names: Vec<String> = (0..20).map(|number| format!("binary{number:02}")).collect();
    for name in &names {
        tree.write(name, vec![1; 1 << 20]);
    }
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    for name in names.iter().rev() {
        let time = fs::metadata(tree.path(name)).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(tree.path(name)).unwrap();
        (&file).write_all(&vec![2; 1 << 20]).unwrap();
        file.set_modified(time).unwrap();
        fs::rename(tree.path(name), tree.path(format!("moved-{name}"))).unwrap();
    }
    let record = begun.turn.finish().unwrap();
    let unverified: Vec<String> = record.unverified.iter().map(ToString::to_string).collect();
    changes.undo(&changes.plan_undo(SESSION, None).unwrap()).unwrap();
    let is_forged = |name: &&String| fs::read(tree.path(name)).is_ok_and(|bytes| bytes[0] == 2);
    let forged: Vec<&String> = names.iter().filter(is_forged).collect();
    assert!(forged.iter().all(|name| unverified.contains(name)), "{forged:?}: {unverified:?}");
}

#[test]
fn a_copy_that_stops_says_why() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    tree.write("b", "1");
    let store = fs::read_dir(tree.temp.path().join("data/changes/stores")).unwrap().next();
    let scratch = store.unwrap().unwrap().path().join("scratch");
    fs::remove_dir_all(&scratch).unwrap();
    fs::write(&scratch, "").unwrap();
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(2)).unwrap();
    assert!(!begun.is_complete);
    tree.write("b", "2");
    fs::remove_file(&scratch).unwrap();
    fs::create_dir(&scratch).unwrap();
    let record = begun.turn.finish().unwrap();
    assert_eq!(record.incomplete(), ["b"]);
    assert!(record.copy_failed.is_some_and(|why| why.contains("scratch")));
}

/// Returns whether files can be cloned in the directory for temporary files. If they cannot, the test of this name runs
/// again on a file system that can, mounted for that process alone.
fn can_clone(name: &str) -> bool {
    const AGAIN: &str = "CONVOKE_CLONING";
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::write(&from, "cloned\n").unwrap();
    let cloned = Command::new("cp").arg("--reflink=always").args([&from, &to]).output();
    if cloned.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os(AGAIN).is_none(), "files cannot be cloned here, either");
    let script = "cd \"$1\"; truncate -s 2G image; mkdir mounted; \
                  { mkfs.btrfs -q image && mount -o loop image mounted; } > why 2>&1 || { cat why; exit 77; }; \
                  shift; TMPDIR=$PWD/mounted exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh"])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(AGAIN, "1")
        .output();
    if output.as_ref().is_ok_and(|output| output.status.success()) {
        return false;
    }
    // One that failed is status 101, which no program before it has.
    let has_failed = output.as_ref().is_ok_and(|output| output.status.code() == Some(101));
    assert!(!has_failed, "{output:?}");
    // Only root may mount, and where nothing may be skipped it must be able to.
    let must_run =
        std::env::var_os("CI").is_some() && fs::metadata(place.path()).unwrap().uid() == 0;
    assert!(!must_run, "no file system that can clone could be mounted: {output:?}");
    println!("not run: no file system that can clone could be mounted: {output:?}");
    false
}

/// The clones of files are safe at once; they are stored later.
#[test]
fn what_can_be_cloned_is_safe_before_it_is_copied() {
    if !can_clone("first_copy::what_can_be_cloned_is_safe_before_it_is_copied") {
        return;
    }
    let mut tree = Tree::plain();
    // Long enough to clone them, and not to copy them.
    (tree.limits.wait, tree.limits.lone_wait) = (Duration::from_secs(1), Duration::ZERO);
    for number in 0..60_u8 {
        let name = format!("binary{number}");
        tree.write(&name, [number]);
        let file = fs::File::options().append(true).open(tree.path(&name)).unwrap();
        file.set_len(9 << 20).unwrap();
    }
    let changed = ["binary0", "binary30", "binary58", "binary59"];
    let before = tree.state();
    let changes = tree.changes();
    let begun = changes.begin(&tree.project(), key(1)).unwrap();
    assert!(!begun.is_complete, "all was copied in the time for clones");
    assert_eq!(begun.uncopied, None);
    for name in changed {
        tree.write(name, "changed\n");
    }
    let record = begun.turn.finish().unwrap();
    assert_eq!(shown(&record), changed.map(|name| format!("modified {name}")));
    assert_eq!(record.incomplete(), [""; 0]);
    tree.undo(1);
    assert!(tree.state() == before);
}
