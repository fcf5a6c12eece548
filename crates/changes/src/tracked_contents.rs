//! Contents that the user's repository has too: of tracked files that were clean when a turn began.
//!
//! A turn does not wait for the first copy of a directory. What it deletes meanwhile is read from the objects of the user's
//! repository, which is not written to: the index has the status and the object of each file, and a file with that status
//! has that content unless an attribute converts it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::attributes::Conversions;
use crate::change::{Change, Content, Node, Oid};
use crate::content::{quoted, read_found};
use crate::error::ChangesError;
use crate::ignore_rules::WorkTree;
use crate::manifest::Manifest;
use crate::store::Place;
use crate::tracked::TrackedFiles;
use crate::tree_path::TreePath;

/// The objects that are read at a time.
const BATCH_FILES: usize = 1024;
/// The bytes of objects that are read at a time, unless one alone has more.
const BATCH_BYTES: u64 = 16 << 20;

/// The objects of files that are not copied yet.
#[derive(Debug, Default)]
pub(crate) struct TrackedContents {
    oids: HashMap<TreePath, Oid>,
    /// The directories of objects.
    objects: Vec<PathBuf>,
}

impl TrackedContents {
    /// Returns whether a file can be restored from the user's repository.
    pub(crate) fn contains(&self, path: &TreePath) -> bool {
        self.oids.contains_key(path)
    }
}

impl Place {
    /// Finds the objects of the files in a state that are not copied.
    pub(crate) fn tracked_contents(&self, state: &Manifest) -> TrackedContents {
        let mut found = TrackedContents::default();
        let nested =
            state.directories.iter().filter(|(path, it)| it.is_repository && !path.is_root());
        let nested =
            nested.filter_map(|(path, _)| WorkTree::nested(&self.directory, path, self.host()));
        let outer = WorkTree::containing(&self.directory, self.host());
        let work_trees: Vec<WorkTree> = std::iter::once(outer).chain(nested).collect();
        for (number, work_tree) in work_trees.iter().enumerate() {
            let Some(files) = work_tree.git_dir().and_then(TrackedFiles::load) else { continue };
            let is_inside = |path: &TreePath| {
                let holds = |it: &WorkTree| it.recorded_top().is_none_or(|top| path.is_below(top));
                // A nested repository is listed after the one that it lies in.
                holds(work_tree) && !work_trees[number + 1..].iter().any(holds)
            };
            let conversions = Conversions::of(work_tree, state, &self.directory, self.host());
            for (path, entry) in state.files().filter(|(_, it)| it.content == Content::Pending) {
                let name = work_tree.path_in_tree(&path);
                if is_inside(&path)
                    && !conversions.apply_to(&name)
                    && let Some(oid) = files.content(&name, entry)
                {
                    found.oids.insert(path, oid);
                }
            }
            found.objects.extend(work_tree.objects().filter(|objects| objects.is_dir()));
        }
        found
    }

    /// Completes changes of files that were not copied before a turn changed them.
    pub(crate) fn complete(
        &self,
        changes: &mut Vec<Change>,
        tracked: &TrackedContents,
    ) -> Result<(), ChangesError> {
        let lost = |change: &Change| {
            let node = change.before.as_ref()?;
            let oid = *tracked.oids.get(&change.path)?;
            (node.content()? == Content::Pending).then(|| (oid, size_of(node)))
        };
        let mut wanted: Vec<(Oid, Option<u64>)> = changes.iter().filter_map(lost).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut stored = HashMap::new();
        for batch in batches(&wanted) {
            let oids: Vec<Oid> = batch.iter().map(|(oid, _)| *oid).collect();
            let mut command = self.git.command(&self.git.repository);
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates(&tracked.objects));
            let limit = self.limits().file_bytes;
            let found = read_found(command, &oids, limit, self.deadline())?;
            let contents: Vec<(Oid, &[u8])> =
                found.iter().map(|(oid, content)| (*oid, content.as_slice())).collect();
            self.writer().store_contents(&contents, self.deadline())?;
            stored.extend(contents.iter().map(|(oid, content)| (*oid, content.len() as u64)));
            self.failpoint().reach();
        }
        for change in changes.iter_mut() {
            let Some((oid, size)) = lost(change) else { continue };
            // A conversion of line ends or keywords makes the file longer than its object.
            if stored.get(&oid).is_some_and(|stored| size.is_none_or(|size| size == *stored))
                && let Some(Node::File { content, .. } | Node::Link { content }) =
                    &mut change.before
            {
                *content = Content::Stored(oid);
            }
        }
        changes.retain(|change| change.before != change.after);
        Ok(())
    }
}

/// Returns the size that the object of a file must have. The target of a link is its content.
fn size_of(node: &Node) -> Option<u64> {
    matches!(node, Node::File { .. }).then(|| node.size())
}

fn batches(wanted: &[(Oid, Option<u64>)]) -> Vec<&[(Oid, Option<u64>)]> {
    let mut batches = Vec::new();
    let mut rest = wanted;
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_within = |(_, size): &&(Oid, Option<u64>)| {
            bytes += size.unwrap_or_default();
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take(BATCH_FILES).take_while(is_within).count().max(1);
        let (batch, others) = rest.split_at(count);
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Returns the value of the variable that names directories of objects.
fn alternates(objects: &[PathBuf]) -> OsString {
    let quoted = objects.iter().map(|path| quoted(path.as_os_str().as_encoded_bytes()));
    OsString::from_vec(quoted.collect::<Vec<_>>().join(&b':'))
}
