//! Files that a turn moved from where nothing is recorded: an ignored file under a name that is not ignored, or one from
//! outside of the directory. They look created, but removing them would lose them.

use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::change::{Change, Node};
use crate::manifest::Manifest;
use crate::tree_path::TreePath;
use crate::undo::status;

/// The most that the clock of a file system is behind.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Returns the new files of a turn that are older than the turn and had no name in the state before it. One of which another
/// name is left elsewhere is not lost with these.
pub(crate) fn moved_in(
    root: &Path,
    before: &Manifest,
    changes: &[Change],
    began: i64,
) -> Vec<TreePath> {
    let began = Duration::from_millis(u64::try_from(began).unwrap_or(0));
    let began = UNIX_EPOCH + began.saturating_sub(CLOCK_STEP);
    let is_older = |found: &Metadata| found.created().is_ok_and(|created| created < began);
    let mut older: BTreeMap<u64, (u64, Vec<TreePath>)> = BTreeMap::new();
    for change in changes.iter().filter(|change| is_new_file(change)) {
        // What is gone again is nothing to keep.
        let Ok(Some(found)) = status(&change.path.under(root)) else { continue };
        if is_older(&found) {
            let (_, names) = older.entry(found.ino()).or_insert((found.nlink(), Vec::new()));
            names.push(change.path.clone());
        }
    }
    if older.is_empty() {
        return Vec::new();
    }
    let known: HashSet<u64> = before.files().map(|(_, entry)| entry.stamp.inode).collect();
    let lost = older
        .into_iter()
        .filter(|(inode, (links, names))| !known.contains(inode) && *links <= names.len() as u64);
    let mut lost: Vec<TreePath> = lost.flat_map(|(_, (_, names))| names).collect();
    lost.sort();
    lost
}

fn is_new_file(change: &Change) -> bool {
    let is_file = matches!(change.after, Some(Node::File { .. } | Node::Link { .. }));
    change.before.is_none() && is_file
}
