//! Which turn an undo and a redo take next.

use convoke_changes::{Changes, TurnKey};

use crate::tree::{SESSION, Tree, key};

fn undo(changes: &Changes) -> u64 {
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert!(!plan.is_redo);
    changes.undo(&plan).unwrap().turn.turn
}

fn redo(changes: &Changes) -> u64 {
    let plan = changes.plan_redo(SESSION, None).unwrap();
    assert!(plan.is_redo);
    changes.undo(&plan).unwrap().turn.turn
}

fn no_undo(changes: &Changes, turn: Option<u64>) -> String {
    changes.plan_undo(SESSION, turn).unwrap_err().to_string()
}

fn no_redo(changes: &Changes, turn: Option<u64>) -> String {
    changes.plan_redo(SESSION, turn).unwrap_err().to_string()
}

fn three_turns() -> Tree {
    let tree = Tree::plain();
    tree.write("f", "0");
    for turn in 1..=3 {
        tree.turn(turn, |tree| tree.write("f", turn.to_string()));
    }
    tree
}

#[test]
fn each_undo_goes_further_back_and_each_redo_further_forward() {
    let tree = three_turns();
    let changes = tree.changes();
    let all =
        "every turn that changed a file is undone; `redo` redoes the one that was undone last";
    for _ in 0..2 {
        assert_eq!(no_redo(&changes, None), "no turn of this session is undone");
        assert_eq!([undo(&changes), undo(&changes)], [3, 2]);
        assert_eq!(tree.read("f"), "1");
        assert_eq!(redo(&changes), 2);
        assert_eq!(tree.read("f"), "2");
        assert_eq!([undo(&changes), undo(&changes)], [2, 1]);
        assert_eq!(tree.read("f"), "0");
        assert_eq!(no_undo(&changes, None), all);
        assert_eq!([redo(&changes), redo(&changes), redo(&changes)], [1, 2, 3]);
        assert_eq!(tree.read("f"), "3");
    }
}

#[test]
fn a_turn_is_not_undone_twice_and_a_turn_that_is_not_undone_is_not_redone() {
    let tree = three_turns();
    let changes = tree.changes();
    assert_eq!(no_redo(&changes, Some(3)), "turn 3 is not undone");
    tree.undo(3);
    assert_eq!(
        no_undo(&changes, Some(3)),
        "turn 3 is undone already; `redo` with its number redoes it"
    );
    let unknown = "turn 9 is not recorded: there is no such turn, or it may only read";
    assert_eq!(no_redo(&changes, Some(9)), unknown);
    assert_eq!(no_undo(&changes, Some(9)), unknown);
    tree.redo(3);
    assert_eq!(undo(&changes), 3);
}

#[test]
fn a_new_change_ends_a_series_of_undos_and_an_undone_turn_is_redone_by_its_number() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    tree.turn(2, |tree| tree.write("b", "2"));
    let changes = tree.changes();
    assert_eq!([undo(&changes), undo(&changes)], [2, 1]);
    tree.turn(3, |tree| tree.write("b", "3"));
    let newer = no_redo(&changes, None);
    assert!(
        newer.starts_with("turn 3 (max) has changed files since turn 1 (max) was undone"),
        "{newer}"
    );
    tree.redo(1);
    assert_eq!((tree.read("a"), tree.read("b")), ("1".to_owned(), "3".to_owned()));
    // What turn 3 changed is not overwritten.
    let plan = changes.plan_redo(SESSION, Some(2)).unwrap();
    assert!(plan.is_refused() && plan.conflicts.len() == 1, "{plan:?}");
    // The latest turn goes first, although turn 1 was redone after it; then turn 1, and turn 2 is undone already.
    assert_eq!([undo(&changes), undo(&changes)], [3, 1]);
    // Undos after the new change are a series of their own.
    assert_eq!([redo(&changes), redo(&changes)], [1, 3]);
}

#[test]
fn what_a_person_changed_after_an_undo_is_not_overwritten_by_a_redo() {
    let tree = three_turns();
    let changes = tree.changes();
    undo(&changes);
    tree.write("f", "mine");
    let plan = changes.plan_redo(SESSION, None).unwrap();
    assert!(plan.is_refused(), "{plan:?}");
    assert!(changes.undo(&plan).is_err());
    assert_eq!(tree.read("f"), "mine");
}

#[test]
fn a_turn_whose_changes_are_gone_is_undone_without_a_change_and_the_next_undo_goes_further_back() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    tree.turn(2, |tree| tree.write("b", "2"));
    std::fs::remove_file(tree.path("b")).unwrap();
    let changes = tree.changes();
    assert!(changes.plan_undo(SESSION, None).unwrap().changes.is_empty());
    assert_eq!([undo(&changes), undo(&changes)], [2, 1]);
    assert!(!tree.path("a").exists());
}

#[test]
fn an_attempt_after_an_undo_is_undone_on_its_own() {
    let tree = Tree::plain();
    let changes = tree.changes();
    let attempt = |attempt: u32| {
        let turn = TurnKey { attempt, ..key(1) };
        let begun = changes.begin(&tree.project(), turn).unwrap();
        tree.write(attempt.to_string(), "");
        begun.turn.finish().unwrap();
    };
    attempt(1);
    attempt(2);
    assert_eq!(undo(&changes), 1);
    assert!(!tree.path("1").exists() && !tree.path("2").exists());
    attempt(3);
    assert_eq!(undo(&changes), 1);
    assert!(no_undo(&changes, None).starts_with("every turn"));
    assert_eq!(redo(&changes), 1);
    tree.redo(1);
    assert!((1..=3).all(|attempt| tree.path(attempt.to_string()).exists()));
}

#[test]
fn a_plan_is_void_once_its_turn_was_undone_and_redone() {
    let tree = three_turns();
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert_eq!([undo(&changes), redo(&changes)], [3, 3]);
    assert!(changes.undo(&plan).is_err());
    assert_eq!((tree.read("f"), undo(&changes)), ("3".to_owned(), 3));
}
