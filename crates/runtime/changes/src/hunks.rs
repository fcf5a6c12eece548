//! Undo by hunks: some runs of changed lines of a plan, and not the others.

use std::time::Duration;

use convoke_diff::LineDiff;

use crate::change::{Change, Content, Node};
use crate::content::blob;
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::store::Changes;
use crate::tree_path::TreePath;
use crate::undo::UndoPlan;

/// Files over this size are taken whole.
const MAX_BYTES: u64 = 2 << 20;
/// The time after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_secs(2);
/// The lines around a hunk.
const CONTEXT: usize = 3;

/// A file of a plan with the hunks that an undo of it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHunks {
    pub path: TreePath,
    /// The hunks, as unified diffs; none for a file that is taken whole or not at all.
    pub hunks: Vec<String>,
    texts: Option<(String, String)>,
}

impl Changes {
    /// Returns the files of a plan with their hunks.
    pub fn hunks(&self, plan: &UndoPlan) -> Result<Vec<FileHunks>, ChangesError> {
        let oid = |node: &Option<Node>| {
            let node = node.as_ref().filter(|node| node.size() <= MAX_BYTES)?;
            matches!(node, Node::File { .. }).then(|| node.content()?.stored())?
        };
        let all = plan.changes.iter().flat_map(|change| [oid(&change.before), oid(&change.after)]);
        let mut oids: Vec<_> = all.flatten().collect();
        oids.sort_unstable();
        oids.dedup();
        let contents = self.contents(&plan.directory, &oids, MAX_BYTES)?;
        let text = |node: &Option<Node>| {
            let bytes = contents.get(&oid(node)?)?;
            String::from_utf8(bytes.clone()).ok().filter(|text| !text.contains('\0'))
        };
        let file = |change: &Change| {
            let texts = text(&change.before).zip(text(&change.after));
            let hunks = texts.as_ref().map_or_else(Vec::new, |(now, then)| {
                LineDiff::new(now, then, DIFF_TIME).hunk_texts(CONTEXT)
            });
            FileHunks { path: change.path.clone(), hunks, texts }
        };
        Ok(crate::change::shown(&plan.changes).map(file).collect())
    }

    /// Returns the plan that makes only the chosen hunks: for each file, whether each of its hunks is taken, or the one value of a
    /// file that has none. Nothing is left of a plan of which nothing is chosen.
    pub fn plan_hunks(
        &self,
        plan: UndoPlan,
        chosen: &[(FileHunks, Vec<bool>)],
    ) -> Result<Option<UndoPlan>, ChangesError> {
        let mut plan = plan;
        let place = self.place(&plan.directory)?;
        let (mut paths, mut texts) = (Vec::new(), Vec::new());
        for (file, takes) in chosen.iter().filter(|(_, takes)| takes.contains(&true)) {
            paths.push(file.path.clone());
            if let (Some((now, then)), true) = (&file.texts, takes.contains(&false)) {
                let text = LineDiff::new(now, then, DIFF_TIME).with_hunks(takes);
                texts.push((file.path.clone(), blob(text.as_bytes()), text));
            }
        }
        if paths.is_empty() {
            return Ok(None);
        }
        let stored: Vec<_> = texts.iter().map(|(_, oid, text)| (*oid, text.as_bytes())).collect();
        place.writer().store_contents(&stored, Deadline::of_command())?;
        plan.part.paths = paths;
        for (path, oid, text) in texts {
            let change = plan.changes.iter().find(|change| change.path == path);
            let mode = change.and_then(|change| change.before.as_ref()?.mode());
            let (content, size) = (Content::Stored(oid), text.len() as u64);
            let node = Node::File { mode: mode.unwrap_or(0o644), size, content };
            plan.part.chosen.insert(path, node);
        }
        plan.changes = plan.part.select(plan.changes.clone());
        let part = plan.part.clone();
        part.choose(&mut plan);
        Ok(Some(plan))
    }
}
