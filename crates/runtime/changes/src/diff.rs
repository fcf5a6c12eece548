//! Differences of contents: counts of lines, and unified diffs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use convoke_diff::LineDiff;

use crate::change::{Change, Content, FileMode, Listed, Node, Oid, Status, listed};
use crate::content::{COMPARED_FILES, batches, in_parts};
use crate::error::ChangesError;
use crate::store::Changes;
use crate::tree_path::TreePath;

/// The bytes at the start of a content that decide whether it is text, as in git.
const SNIFFED: usize = 8_000;
/// Contents over this size are compared by their hash alone.
const DIFF_BYTES: u64 = 2 << 20;
/// The time after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// The lines that a change adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// The added lines.
    pub added: u64,
    /// The removed lines.
    pub removed: u64,
}

/// A changed path with its difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub path: TreePath,
    /// The path that the file was moved from.
    pub from: Option<TreePath>,
    /// The way in which it changed.
    pub status: Status,
    /// The size after the change in bytes; before it if the path is gone.
    pub bytes: u64,
    /// The counts of lines; `None` for a content that is not text, too large, or not recorded.
    pub lines: Option<LineCounts>,
    /// Whether a content is known not to be text, so that it has no lines.
    pub is_binary: bool,
    /// The permission bits before and after, if they changed.
    pub modes: Option<(FileMode, FileMode)>,
    /// The kinds of the path before and after, if they differ: `file`, `link` or `directory`.
    pub kinds: Option<(&'static str, &'static str)>,
    /// The unified diff, with its header.
    pub text: String,
}

impl Changes {
    /// Returns the differences of changes in a directory. Those of directories that merely hold changed
    /// files are left out.
    pub fn diffs(
        &self,
        directory: &Path,
        changes: &[Change],
    ) -> Result<Vec<FileDiff>, ChangesError> {
        self.first_diffs(directory, changes, usize::MAX)
    }

    /// Returns the first differences of changes in a directory, and reads the contents of no others.
    pub fn first_diffs(
        &self,
        directory: &Path,
        changes: &[Change],
        most: usize,
    ) -> Result<Vec<FileDiff>, ChangesError> {
        let listed: Vec<Listed<'_>> = listed(changes).into_iter().take(most).collect();
        let mut diffs = Vec::with_capacity(listed.len());
        for batch in batches(&listed, |it| contents_of(it).map(|(_, size)| size).sum()) {
            let mut oids: Vec<Oid> =
                batch.iter().flat_map(contents_of).map(|(oid, _)| oid).collect();
            oids.sort_unstable();
            oids.dedup();
            let contents = self.contents(directory, &oids, DIFF_BYTES)?;
            let diff = |it: &Listed<'_>| match it.from {
                Some(from) => moved_diff(from, it.change),
                None => file_diff(it.change, &contents),
            };
            let parts = in_parts(batch, COMPARED_FILES, |part| part.iter().map(diff).collect());
            diffs.extend(parts.into_iter().flat_map(|part: Vec<FileDiff>| part));
        }
        Ok(diffs)
    }
}

/// Returns the contents whose lines are compared, with their sizes.
fn contents_of<'a>(listed: &'a Listed<'_>) -> impl Iterator<Item = (Oid, u64)> + 'a {
    let change = listed.change;
    let nodes = [&change.before, &change.after].into_iter().flatten();
    let nodes = nodes.filter(|node| listed.from.is_none() && node.size() <= DIFF_BYTES);
    nodes.filter_map(|node| Some((node.content()?.stored()?, node.size())))
}

/// Returns the difference of a file that was moved: its path, and perhaps its mode.
fn moved_diff(from: &Change, to: &Change) -> FileDiff {
    let modes =
        from.before.as_ref().and_then(Node::mode).zip(to.after.as_ref().and_then(Node::mode));
    let modes = modes.filter(|(old, new)| old != new);
    let mut text = format!("diff {} (renamed from {}", to.path, from.path);
    if let Some((old, new)) = modes {
        let _ = write!(text, ": file {old:04o} -> file {new:04o}");
    }
    text.push_str(")\n");
    FileDiff {
        path: to.path.clone(),
        from: Some(from.path.clone()),
        status: Status::Renamed,
        bytes: to.after.as_ref().map_or(0, Node::size),
        lines: Some(LineCounts::default()),
        is_binary: false,
        modes,
        kinds: None,
        text,
    }
}

/// A content before or after a change.
enum Side {
    Text(String),
    Binary,
    /// Not recorded, or too large to be compared.
    Unknown,
}

fn file_diff(change: &Change, contents: &HashMap<Oid, Vec<u8>>) -> FileDiff {
    let mut text = header(change);
    let side = |node: &Option<Node>| match node {
        None | Some(Node::Directory { .. }) => Side::Text(String::new()),
        Some(node) => {
            let stored = node.content().and_then(Content::stored);
            let Some(bytes) = stored.and_then(|oid| contents.get(&oid)) else {
                return Side::Unknown;
            };
            let is_text = !bytes[..bytes.len().min(SNIFFED)].contains(&0);
            let as_text = || Side::Text(String::from_utf8_lossy(bytes).into_owned());
            if is_text { as_text() } else { Side::Binary }
        }
    };
    let sides = (side(&change.before), side(&change.after));
    let is_binary = !matches!(sides, (Side::Unknown, _) | (_, Side::Unknown))
        && matches!(sides, (Side::Binary, _) | (_, Side::Binary));
    let lines = match sides {
        (Side::Text(before), Side::Text(after)) => {
            Some(write_diff(&mut text, change, &before, &after))
        }
        _ if change.status() == Status::Mode => Some(LineCounts::default()),
        _ => {
            let _ = writeln!(text, "{}", unshown(change));
            None
        }
    };
    let size = change.after.as_ref().or(change.before.as_ref()).map_or(0, Node::size);
    let nodes = change.before.as_ref().zip(change.after.as_ref());
    let kinds = nodes.map(|(old, new)| (old.kind(), new.kind())).filter(|(old, new)| old != new);
    let modes = nodes.filter(|_| kinds.is_none());
    let modes = modes.and_then(|(old, new)| old.mode().zip(new.mode()));
    let modes = modes.filter(|(old, new)| old != new);
    let (path, status) = (change.path.clone(), change.status());
    FileDiff { path, from: None, status, bytes: size, lines, is_binary, modes, kinds, text }
}

/// Returns the reason why no lines are shown.
fn unshown(change: &Change) -> &'static str {
    let contents = [&change.before, &change.after].into_iter().flatten().filter_map(Node::content);
    let mut reasons = contents.filter_map(|content| match content {
        Content::Stored(_) => None,
        Content::HashOnly(_) => Some("(over the size limit; only the hash is recorded)"),
        Content::Pending => Some("(the content before the turn is not recorded)"),
        Content::Unreadable => Some("(could not be read)"),
    });
    reasons.next().unwrap_or("(binary)")
}

/// Writes the header of a diff. A directory has a slash at its end.
fn header(change: &Change) -> String {
    let mut text = format!("diff {}", change.path);
    if matches!(change.after.as_ref().or(change.before.as_ref()), Some(Node::Directory { .. })) {
        text.push('/');
    }
    let kind = |node: &Option<Node>| match node {
        None => "none".to_owned(),
        Some(Node::File { mode, .. }) => format!("file {mode:04o}"),
        Some(Node::Link { .. }) => "link".to_owned(),
        Some(Node::Directory { mode }) => format!("directory {mode:04o}"),
    };
    let (before, after) = (kind(&change.before), kind(&change.after));
    if before == after {
        let _ = writeln!(text, " ({})", change.status().as_str());
    } else {
        let _ = writeln!(text, " ({}: {before} -> {after})", change.status().as_str());
    }
    text
}

fn write_diff(out: &mut String, change: &Change, before: &str, after: &str) -> LineCounts {
    let diff = LineDiff::new(before, after, DIFF_TIME);
    if before != after {
        let name = |node: &Option<Node>, side: &str| match node {
            None => "/dev/null".to_owned(),
            Some(_) => TreePath::new(side).join(change.path.as_bytes()).to_string(),
        };
        let (old, new) = (name(&change.before, "a"), name(&change.after, "b"));
        let _ = write!(out, "--- {old}\n+++ {new}\n{}", diff.unified(3));
    }
    LineCounts { added: diff.added() as u64, removed: diff.removed() as u64 }
}
