//! Recorded directories that were moved away and replaced: the replacement is neither recorded nor changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use convoke_changes::{ChangesError, Progress};

use crate::tree::{SESSION, Tree, key};

const KEY: &str = "the key of a person\n";

/// A project with a directory in which a turn has run, and a directory of a person's elsewhere.
struct Swap {
    tree: Tree,
    sub: PathBuf,
    theirs: PathBuf,
}

impl Swap {
    fn new() -> Self {
        let tree = Tree::plain();
        tree.write("sub/deep/README", "old\n");
        let theirs = fs::canonicalize(tree.temp.path()).unwrap().join("theirs");
        fs::create_dir_all(theirs.join("deep")).unwrap();
        for name in ["README", "deep/README", "id_rsa"] {
            fs::write(theirs.join(name), KEY).unwrap();
        }
        Self { sub: tree.path("sub"), theirs, tree }
    }

    /// Records a turn in the directory that has made it look like the other one.
    fn turn(&self, directory: &Path) {
        let begun = self.tree.changes().begin(directory, key(1)).unwrap();
        fs::write(directory.join("README"), KEY).unwrap();
        fs::create_dir_all(directory.join("new")).unwrap();
        begun.turn.finish().unwrap();
    }

    /// Puts a link to the other directory in the place of the project's.
    fn exchange(&self) {
        fs::rename(&self.sub, self.tree.path("old")).unwrap();
        symlink(&self.theirs, &self.sub).unwrap();
    }

    /// Asserts that nothing of the other directory is in the store, and that it is as it was.
    fn is_untouched(&self) {
        let names = ["README", "deep/README", "id_rsa"].map(|name| self.theirs.join(name));
        for name in names {
            assert_eq!(fs::read_to_string(&name).unwrap(), KEY, "{}", name.display());
        }
        assert_eq!(fs::read_dir(&self.theirs).unwrap().count(), 3);
        assert_eq!(fs::read_dir(self.theirs.join("deep")).unwrap().count(), 1);
        let data = fs::canonicalize(self.tree.temp.path().join("data")).unwrap();
        let of_theirs = data.join("changes/stores");
        for entry in fs::read_dir(of_theirs).into_iter().flatten() {
            let named = fs::read_to_string(entry.unwrap().path().join("directory")).unwrap();
            assert!(!Path::new(&named).starts_with(&self.theirs), "{named}");
        }
    }
}

fn is_replaced<T: std::fmt::Debug>(result: &Result<T, ChangesError>) {
    assert!(matches!(result, Err(ChangesError::Replaced { .. })), "{result:?}");
}

#[test]
fn an_undo_does_not_follow_a_link_in_the_place_of_the_directory() {
    let swap = Swap::new();
    swap.turn(&swap.sub);
    let plan = swap.tree.changes().plan_undo(SESSION, None).unwrap();
    swap.exchange();
    is_replaced(&swap.tree.changes().undo(&plan));
    is_replaced(&swap.tree.changes().plan_undo(SESSION, None));
    swap.is_untouched();
}

#[test]
fn an_undo_does_not_follow_a_link_above_the_directory() {
    let swap = Swap::new();
    swap.turn(&swap.sub.join("deep"));
    swap.exchange();
    is_replaced(&swap.tree.changes().plan_undo(SESSION, None));
    swap.is_untouched();
}

#[test]
fn a_directory_is_not_created_again_behind_a_link() {
    let swap = Swap::new();
    let deep = swap.sub.join("deep");
    let begun = swap.tree.changes().begin(&deep, key(1)).unwrap();
    fs::remove_dir_all(&deep).unwrap();
    begun.turn.finish().unwrap();
    fs::remove_dir_all(swap.theirs.join("deep")).unwrap();
    let plan = swap.tree.changes().plan_undo(SESSION, None).unwrap();
    swap.exchange();
    assert!(swap.tree.changes().undo(&plan).is_err());
    assert!(!swap.theirs.join("deep").exists());
}

#[test]
fn a_turn_does_not_record_what_a_link_in_the_place_of_its_directory_names() {
    let swap = Swap::new();
    swap.exchange();
    is_replaced(&swap.tree.changes().begin(&swap.sub, key(1)).map(|begun| begun.person));
    is_replaced(&swap.tree.changes().begin(&swap.sub.join("deep"), key(2)).map(|it| it.person));
    swap.is_untouched();
}

#[test]
fn a_turn_that_puts_a_link_in_the_place_of_its_directory_records_nothing_of_it() {
    let swap = Swap::new();
    let begun = swap.tree.changes().begin(&swap.sub, key(1)).unwrap();
    swap.exchange();
    is_replaced(&begun.turn.finish());
    swap.is_untouched();
}

/// The directory is exchanged when it has been checked: everything else happens in the one that was.
#[test]
fn a_directory_that_is_exchanged_while_an_undo_runs_is_the_one_that_is_changed() {
    let swap = Swap::new();
    let begun = swap.tree.changes().begin(&swap.sub, key(1)).unwrap();
    fs::write(swap.sub.join("README"), KEY).unwrap();
    fs::remove_file(swap.sub.join("deep/README")).unwrap();
    begun.turn.finish().unwrap();
    let (sub, moved, theirs) = (swap.sub.clone(), swap.tree.path("old"), swap.theirs.clone());
    let progress = Progress::new(move |_, _| {
        if !moved.exists() {
            fs::rename(&sub, &moved).unwrap();
            symlink(&theirs, &sub).unwrap();
        }
    });
    let changes = swap.tree.changes().with_progress(progress);
    let plan = changes.plan_undo(SESSION, None).unwrap();
    let _ = changes.undo(&plan);
    swap.is_untouched();
}
