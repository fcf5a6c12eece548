//! The three-way merge of a workspace and the project, from the state that they had in common.

use std::fs;
use std::path::Path;

use super::repository::oid_of;
use crate::change::{Change, Content, FileMode, Node, Oid, changes};
use crate::content::read;
use crate::error::ChangesError;
use crate::git::{Deadline, Git};
use crate::manifest::Manifest;
use crate::store::Place;
use crate::tree_path::TreePath;
use crate::undo::{LeftAlone, matches};

/// The bytes of a conflict that are shown.
const SHOWN_BYTES: usize = 8 << 10;
/// The bytes that the marks of conflicts may add to a file.
const MARK_BYTES: u64 = 64 << 10;
/// `git merge-file` reports more conflicts, and failures, from here on.
const FAILED: i32 = 128;

/// A path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    pub path: TreePath,
    pub reason: String,
    /// The lines that both sides changed, with marks as in git; empty if the conflict is not one of lines.
    pub lines: String,
}

/// What happens to files that both sides changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolution {
    pub choice: ConflictChoice,
    /// The files and directories that it is for; none for all.
    pub paths: Vec<TreePath>,
}

/// The side that wins where both changed a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConflictChoice {
    /// Neither: nothing is merged.
    #[default]
    Refuse,
    /// The working directory stays as it is.
    Ours,
    /// The workspace's file takes its place.
    Theirs,
    /// Both, with marks as in git, where lines are in conflict.
    Marks,
}

impl Resolution {
    fn of(&self, path: &TreePath) -> ConflictChoice {
        let is_meant = |named: &TreePath| named == path || path.is_below(named);
        if self.paths.is_empty() || self.paths.iter().any(is_meant) {
            self.choice
        } else {
            ConflictChoice::Refuse
        }
    }
}

/// The result of a merge.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) changes: Vec<Change>,
    pub(super) conflicts: Vec<MergeConflict>,
    pub(super) left_alone: Vec<LeftAlone>,
}

/// A merge into the directory of a project.
pub(super) struct Merge<'a> {
    pub(super) project: &'a Place,
    pub(super) member: &'a str,
    pub(super) ours: &'a Manifest,
    pub(super) deadline: Deadline,
    pub(super) resolution: &'a Resolution,
}

/// The state of a path after a merge.
enum Side {
    Node(Option<Node>),
    /// `marked` is the file with both sides in it.
    Conflict {
        reason: &'static str,
        lines: String,
        marked: Option<Node>,
    },
    /// A file that is not recorded would be lost.
    InTheWay,
}

impl Side {
    fn conflict(reason: &'static str) -> Self {
        Self::Conflict { reason, lines: String::new(), marked: None }
    }
}

impl Merge<'_> {
    /// Merges what changed from `base` to `theirs`.
    pub(super) fn run(&self, base: &Manifest, theirs: &Manifest) -> Result<Merged, ChangesError> {
        let mut merged = Merged::default();
        for change in changes(base, theirs) {
            let ours = node(self.ours, &change.path);
            if matches(ours.as_ref(), change.after.as_ref()) {
                continue;
            }
            if let Some(reason) = unmergeable(&change) {
                merged.left_alone.push(LeftAlone { path: change.path, reason: reason.into() });
                continue;
            }
            match self.path(&change, ours.as_ref())? {
                Side::Node(after) => {
                    if !matches(ours.as_ref(), after.as_ref()) {
                        let path = change.path;
                        merged.changes.push(Change { path, before: ours, after });
                    }
                }
                Side::InTheWay => {
                    let reason = "a file that git ignores is in the way".to_owned();
                    let (path, lines) = (change.path, String::new());
                    merged.conflicts.push(MergeConflict { path, reason, lines });
                }
                Side::Conflict { reason, lines, marked } => {
                    let path = change.path;
                    match (self.resolution.of(&path), marked) {
                        (ConflictChoice::Ours, _) => {}
                        (ConflictChoice::Theirs, _) => {
                            merged.changes.push(Change { path, before: ours, after: change.after });
                        }
                        (ConflictChoice::Marks, Some(marked)) => {
                            let after = Some(marked);
                            merged.changes.push(Change { path, before: ours, after });
                        }
                        (ConflictChoice::Refuse | ConflictChoice::Marks, _) => {
                            let reason = reason.to_owned();
                            merged.conflicts.push(MergeConflict { path, reason, lines });
                        }
                    }
                }
            }
        }
        let found = self.project.obstructions(&merged.changes).into_iter();
        for found in found.chain(self.project.collisions(&merged.changes)) {
            let (path, reason) = (found.path, found.reason);
            merged.conflicts.push(MergeConflict { path, reason, lines: String::new() });
        }
        merged.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(merged)
    }

    fn path(&self, change: &Change, ours: Option<&Node>) -> Result<Side, ChangesError> {
        let Change { path, before, after } = change;
        if ours.is_none() && fs::symlink_metadata(path.under(self.project.root())).is_ok() {
            return Ok(match after {
                Some(_) => Side::InTheWay,
                None => Side::Node(None),
            });
        }
        if matches(ours, before.as_ref()) {
            return Ok(Side::Node(after.clone()));
        }
        Ok(match (before, after, ours) {
            (
                Some(Node::File { mode: base_mode, content: base, .. }),
                Some(Node::File { mode: their_mode, content: theirs, .. }),
                Some(Node::File { mode: our_mode, content: ours, .. }),
            ) => {
                let Some(mode) = three_way(*base_mode, *our_mode, *their_mode) else {
                    return Ok(Side::conflict("its permissions changed on both sides"));
                };
                self.content(*base, *ours, *theirs, mode)?
            }
            (
                Some(Node::Directory { mode: base }),
                Some(Node::Directory { mode: theirs }),
                Some(Node::Directory { mode: ours }),
            ) => Side::Node(Some(Node::Directory {
                mode: three_way(*base, *ours, *theirs).unwrap_or(*ours),
            })),
            (_, Some(Node::Directory { .. }), Some(node @ Node::Directory { .. })) => {
                Side::Node(Some(node.clone()))
            }
            // One side changed its permissions and the other removed it: its entries decide.
            (Some(Node::Directory { .. }), None, Some(Node::Directory { .. })) => Side::Node(None),
            (None, Some(_), Some(_)) => Side::conflict("both sides added it"),
            (Some(_), Some(_), None) => {
                Side::conflict("it changed in the workspace and was deleted in the directory")
            }
            (Some(_), None, Some(_)) => {
                Side::conflict("it was deleted in the workspace and changed in the directory")
            }
            _ => Side::conflict("both sides changed it"),
        })
    }

    /// Merges the contents of a file.
    fn content(
        &self,
        base: Content,
        ours: Content,
        theirs: Content,
        mode: FileMode,
    ) -> Result<Side, ChangesError> {
        let file = |content: Content, size| Some(Node::File { mode, size, content });
        let (Some(base), Some(our), Some(their)) = (base.stored(), ours.stored(), theirs.stored())
        else {
            return Ok(Side::conflict("both sides changed it, and its contents are not recorded"));
        };
        let oids = if our == their { vec![our] } else { vec![base, our, their] };
        let limit = self.project.limits().file_bytes;
        let (git, root) = (&self.project.git, &self.project.directory);
        let contents = read(git, root, &oids, limit, self.deadline)?;
        let content = |oid: Oid| contents.get(&oid).map(Vec::as_slice).unwrap_or_default();
        if our == their {
            return Ok(Side::Node(file(Content::Stored(our), content(our).len() as u64)));
        }
        if base == their {
            return Ok(Side::Node(file(Content::Stored(our), content(our).len() as u64)));
        }
        if base == our {
            return Ok(Side::Node(file(Content::Stored(their), content(their).len() as u64)));
        }
        match self.lines(content(base), content(our), content(their))? {
            Lines::Merged(text) => {
                let oid = self.store(&text)?;
                Ok(Side::Node(file(Content::Stored(oid), text.len() as u64)))
            }
            Lines::Conflicts(text) => {
                let reason = "both sides changed the same lines";
                let lines = conflicts(&text);
                let marked = if self.resolution.choice == ConflictChoice::Marks {
                    let oid = self.store(&text)?;
                    file(Content::Stored(oid), text.len() as u64)
                } else {
                    None
                };
                Ok(Side::Conflict { reason, lines, marked })
            }
            Lines::Binary => Ok(Side::conflict("both sides changed it, and it is not text")),
        }
    }

    /// Merges three texts by `git merge-file`.
    fn lines(&self, base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Lines, ChangesError> {
        let scratch = self.project.scratch();
        let mut command = self.project.git.command(&self.project.directory);
        command.args(["merge-file", "-p", "-L", "the working directory", "-L", "before", "-L"]);
        command.arg(format!("the workspace of {}", self.member));
        let mut bytes = MARK_BYTES;
        for (name, content) in [("ours", ours), ("base", base), ("theirs", theirs)] {
            let file = scratch.join(format!("merge-{name}"));
            fs::write(&file, content).map_err(ChangesError::io(&file))?;
            bytes += content.len() as u64;
            command.arg(file);
        }
        let finished = Git::run(command, "merge-file", Vec::new(), bytes * 2, self.deadline)?;
        remove_scratch(&scratch);
        match finished.status.code() {
            Some(0) => Ok(Lines::Merged(finished.stdout)),
            Some(1..FAILED) => Ok(Lines::Conflicts(finished.stdout)),
            _ if finished.message.contains("binary") => Ok(Lines::Binary),
            _ => Err(finished.error("merge-file")),
        }
    }

    fn store(&self, content: &[u8]) -> Result<Oid, ChangesError> {
        let mut command = self.project.git.command(&self.project.directory);
        command.args(["hash-object", "-w", "-t", "blob", "--stdin"]);
        let output = Git::output(command, "hash-object", content.to_vec(), 64, self.deadline)?;
        self.project.failpoint().reach();
        oid_of(&output, "hash-object")
    }
}

/// The result of merging lines.
enum Lines {
    Merged(Vec<u8>),
    /// With marks around the lines that both sides changed.
    Conflicts(Vec<u8>),
    Binary,
}

fn remove_scratch(scratch: &Path) {
    for name in ["ours", "base", "theirs"] {
        let _ = fs::remove_file(scratch.join(format!("merge-{name}")));
    }
}

/// Returns the conflicts of a text with marks, without what is between them.
fn conflicts(merged: &[u8]) -> String {
    let text = String::from_utf8_lossy(merged);
    let mut shown = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("<<<<<<< ");
        if is_inside {
            if shown.len() + line.len() > SHOWN_BYTES {
                shown.push_str("…\n");
                break;
            }
            shown.push_str(line);
            shown.push('\n');
        }
        if line.starts_with(">>>>>>> ") {
            is_inside = false;
        }
    }
    shown
}

fn three_way(base: FileMode, ours: FileMode, theirs: FileMode) -> Option<FileMode> {
    if theirs == base || theirs == ours { Some(ours) } else { (ours == base).then_some(theirs) }
}

/// Returns what a state has at a path.
fn node(manifest: &Manifest, path: &TreePath) -> Option<Node> {
    if let Some(directory) = manifest.directories.get(path) {
        return Some(Node::of_directory(directory));
    }
    let parent = manifest.directories.get(&path.parent()?)?;
    parent.files.get(path.name()).map(Node::of_file)
}

/// Returns the reason why a change cannot be merged.
fn unmergeable(change: &Change) -> Option<&'static str> {
    match change.after.as_ref()?.content()? {
        Content::Stored(_) => None,
        Content::HashOnly(_) => Some("it is over the size limit; copy it from the workspace"),
        Content::Pending | Content::Unreadable => Some("it could not be read"),
    }
}
