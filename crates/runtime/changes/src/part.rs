//! A part of a turn's changes: some paths of it, or what nothing else has changed since.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::change::{Change, Node, change_at, listed};
use crate::record::{Record, RecordId};
use crate::tree_path::TreePath;
use crate::undo::{LeftAlone, UndoPlan};

/// The part of a turn's changes that an undo takes back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The paths, with everything below them; none for all.
    pub paths: Vec<TreePath>,
    /// Whether a path that something else has changed since stays as it is. Otherwise it refuses the whole undo.
    pub leaves_conflicts: bool,
    /// What files become of which only some hunks are taken back.
    pub chosen: BTreeMap<TreePath, Node>,
}

/// What a record is a part of. The turn counts as undone only when it is undone as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartOf {
    /// The record whose changes were taken back or made again at some paths.
    pub record: RecordId,
    pub is_redo: bool,
}

impl Part {
    /// Returns whether only some paths are meant.
    pub(crate) fn is_of_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Returns whether a record changed one of the paths, or something below one.
    pub(crate) fn touches(&self, record: &Record) -> bool {
        record.changes.iter().any(|change| self.names(&change.path))
    }

    /// Returns whether a path is one of them, or below one.
    pub(crate) fn names(&self, path: &TreePath) -> bool {
        let is_within = |named: &TreePath| named == path || path.is_below(named);
        !self.is_of_paths() || self.paths.iter().any(is_within)
    }

    /// Returns the changes that are wanted: those of the paths, both ends of a file that was moved, and the directories that these
    /// need. Changes are sorted by path.
    pub(crate) fn select(&self, changes: Vec<Change>) -> Vec<Change> {
        if !self.is_of_paths() {
            return changes;
        }
        let mut selected: HashSet<TreePath> = HashSet::new();
        for moved in listed(&changes) {
            let ends = [Some(moved.change), moved.from];
            let paths = || ends.iter().flatten().map(|change| &change.path);
            if paths().any(|path| self.names(path)) {
                selected.extend(paths().cloned());
            }
        }
        selected.extend(changes.iter().map(|it| &it.path).filter(|it| self.names(it)).cloned());
        let is_created = |path: &TreePath| {
            let change = change_at(&changes, path);
            change.is_some_and(|it| it.before.is_none() && it.after.is_some())
        };
        let needed: Vec<TreePath> = changes
            .iter()
            .filter(|change| change.after.is_some() && selected.contains(&change.path))
            .flat_map(|change| change.path.ancestors().filter(is_created))
            .collect();
        selected.extend(needed);
        changes.into_iter().filter(|change| selected.contains(&change.path)).collect()
    }

    /// Puts the files of which only some hunks are wanted into a plan.
    pub(crate) fn choose(&self, plan: &mut UndoPlan) {
        for change in &mut plan.changes {
            if let Some(node) = self.chosen.get(&change.path) {
                change.after = Some(node.clone());
            }
        }
    }

    /// Leaves alone what stands in the way of an undo, and what cannot be changed without it.
    pub(crate) fn leave(&self, plan: &mut UndoPlan) {
        if !self.leaves_conflicts {
            return;
        }
        let conflicts = std::mem::take(&mut plan.conflicts);
        let reason_of = |change: &Change| {
            let becomes_other = !matches!(change.after, Some(Node::Directory { .. }));
            let found = conflicts.iter().find(|conflict| {
                let (path, at) = (&conflict.path, &change.path);
                path == at || at.is_below(path) || becomes_other && path.is_below(at)
            });
            found.map(|conflict| conflict.reason.clone())
        };
        let mut kept = Vec::new();
        for change in std::mem::take(&mut plan.changes) {
            match reason_of(&change) {
                // A directory that holds something stays; that is no file that could not be restored.
                Some(_) if change.after.is_none() && is_directory(&change) => {}
                Some(reason) if conflicts.iter().all(|it| it.path != change.path) => {
                    plan.left_alone.push(LeftAlone { path: change.path, reason: reason.into() });
                }
                Some(_) => {}
                None => kept.push(change),
            }
        }
        plan.changes = kept;
        let left = conflicts.into_iter();
        let left = left.map(|it| LeftAlone { path: it.path, reason: it.reason.into() });
        plan.left_alone.extend(left);
        plan.left_alone.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

fn is_directory(change: &Change) -> bool {
    matches!(change.before, Some(Node::Directory { .. }))
}
