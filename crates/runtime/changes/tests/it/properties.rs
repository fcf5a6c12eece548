//! For random trees and random edits: undo restores everything, and undo of undo too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use crate::tree::{Tree, repository_of};

/// An edit of a random tree. Names are few, so that edits meet.
#[derive(Debug, Clone)]
enum Edit {
    Write(String, Vec<u8>),
    Link(String, String),
    Directory(String),
    Remove(String),
    Mode(String, u32),
    Rename(String, String),
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c\nd"), Just("é"), Just("A"), Just(".x")];
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (path(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(p, bytes)| Edit::Write(p, bytes)),
        1 => (path(), path()).prop_map(|(p, target)| Edit::Link(p, target)),
        1 => path().prop_map(Edit::Directory),
        2 => path().prop_map(Edit::Remove),
        1 => (path(), prop_oneof![Just(0o600), Just(0o755), Just(0o640), Just(0o444), Just(0o4755)])
            .prop_map(|(p, mode)| Edit::Mode(p, mode)),
        1 => (path(), path()).prop_map(|(p, q)| Edit::Rename(p, q)),
    ]
}

/// Makes an edit; one that cannot be made does nothing.
fn make(root: &Path, edit: &Edit) {
    use std::os::unix::fs::PermissionsExt as _;
    let parents = |path: &Path| fs::create_dir_all(path.parent().unwrap());
    let _ = match edit {
        Edit::Write(path, bytes) => {
            parents(&root.join(path)).and_then(|()| {
                // A link is replaced, not followed out of the tree.
                if root.join(path).is_symlink() {
                    fs::remove_file(root.join(path))?;
                }
                fs::write(root.join(path), bytes)
            })
        }
        Edit::Link(path, target) => {
            parents(&root.join(path)).and_then(|()| symlink(target, root.join(path)))
        }
        Edit::Directory(path) => fs::create_dir_all(root.join(path)),
        Edit::Remove(path) => {
            fs::remove_file(root.join(path)).or_else(|_| fs::remove_dir_all(root.join(path)))
        }
        Edit::Mode(path, mode) if !root.join(path).is_symlink() => {
            let mode = if root.join(path).is_dir() { mode | 0o700 } else { *mode };
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode))
        }
        Edit::Mode(..) => Ok(()),
        Edit::Rename(from, to) => {
            parents(&root.join(to)).and_then(|()| fs::rename(root.join(from), root.join(to)))
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn undo_restores_bytes_modes_links_and_empty_directories(
        start in prop::collection::vec(edit(), 0..20),
        turns in prop::collection::vec(prop::collection::vec(edit(), 0..10), 1..4),
    ) {
        let tree = Tree::repository();
        for edit in &start {
            make(&tree.project(), edit);
        }
        let repository = repository_of(&tree.path(".git"));
        let mut states = vec![tree.state()];
        let mut changed = Vec::new();
        for (number, edits) in turns.iter().enumerate() {
            let record = tree.turn(number as u64 + 1, |tree| {
                for edit in edits {
                    make(&tree.project(), edit);
                }
            });
            changed.push(!record.changes.is_empty());
            prop_assert_eq!(!record.changes.is_empty(), states.last() != Some(&tree.state()));
            states.push(tree.state());
        }
        for number in (1..=turns.len()).rev().filter(|number| changed[number - 1]) {
            tree.undo(number as u64);
            prop_assert_eq!(&tree.state(), &states[number - 1], "undo of turn {}", number);
        }
        for number in (1..=turns.len()).filter(|number| changed[number - 1]) {
            tree.redo(number as u64);
            prop_assert_eq!(&tree.state(), &states[number], "redo of turn {}", number);
        }
        prop_assert!(repository == repository_of(&tree.path(".git")));
    }
}
