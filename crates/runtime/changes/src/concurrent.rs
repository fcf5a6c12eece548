//! Turns that ran in one directory at the same time: what the undo of one leaves for the undo of another.

use crate::change::{Change, Node, change_at};
use crate::record::{Direction, Record, TurnKey, direction};
use crate::store::Changes;
use crate::tree_path::TreePath;
use crate::undo::matches;

/// A turn that ran in the directory at the same time as another.
pub(crate) struct ConcurrentTurn {
    pub(crate) turn: TurnKey,
    began: i64,
    /// Its changes; `None` if they are not recorded.
    pub(crate) changes: Option<Vec<Change>>,
    /// The changes of its undo; empty if it is not undone.
    pub(crate) undone: Vec<Change>,
}

impl ConcurrentTurn {
    /// Reads what is recorded of a turn.
    pub(crate) fn load(changes: &Changes, turn: TurnKey) -> Self {
        let records = changes.session(&turn.session).load().unwrap_or_default();
        let is_of = |record: &&Record| record.turn == turn && record.is_of_agent();
        let record = records.iter().find(is_of).filter(|it| it.not_recorded.is_none());
        let undo = record.and_then(|record| {
            let later = records.iter().rev().filter(|it| it.id > record.id);
            let mut undos = later.filter(|it| it.undoes.is_some() && it.applied.is_none());
            undos.find(|it| it.turn.turn == turn.turn)
        });
        let undo = undo.filter(|it| direction(&records, it) == Direction::Undo);
        Self {
            began: record.map_or(0, |record| record.began),
            changes: record.map(|record| record.changes.clone()),
            undone: undo.map(|undo| undo.changes.clone()).unwrap_or_default(),
            turn,
        }
    }
}

/// The part of a change that undos of other turns left.
pub(crate) enum Left {
    /// This state, which the turn made before the others began.
    Own(Option<Node>),
    /// Nothing: it was taken back with an earlier change.
    Nothing,
}

/// Returns what undos of turns that ran at the same time left of a change to undo. `None` if they do not explain what was
/// found.
///
/// A turn that began after another had changed a file takes the file back to that change, when it is undone, and not to the
/// state before both.
pub(crate) fn left_by_undos(
    others: &[ConcurrentTurn],
    began: i64,
    change: &Change,
    found: Option<&Node>,
) -> Option<Left> {
    let mut state = &change.before;
    let mut is_taken_back = false;
    // Times of older records are not known.
    for _ in others.iter().filter(|_| began != 0) {
        let ordered = others.iter().filter(|it| it.began != 0 && it.began != began);
        let mut undone =
            ordered.filter_map(|it| Some((it.began, change_at(&it.undone, &change.path)?)));
        let (other, undo) = undone.find(|(_, undo)| undo.before == *state)?;
        is_taken_back |= other < began;
        state = &undo.after;
        if matches(found, state.as_ref()) {
            return Some(if is_taken_back { Left::Nothing } else { Left::Own(state.clone()) });
        }
    }
    None
}

/// Returns the turn that ran at the same time and left a path as it is now.
pub(crate) fn last_of<'a>(
    others: &'a [ConcurrentTurn],
    path: &TreePath,
    found: Option<&Node>,
) -> Option<&'a TurnKey> {
    let left_it = |other: &&ConcurrentTurn| {
        let change = change_at(other.changes.as_deref().unwrap_or_default(), path);
        change.is_some_and(|change| matches(found, change.after.as_ref()))
    };
    others.iter().find(left_it).map(|other| &other.turn)
}
