//! Changes: the difference between two states of a directory, path by path.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::manifest::{Access, Directory, FileEntry, FileKind, LeftOut, Manifest};
use crate::tree_path::{TreePath, hex, unhex};

/// The name of an object of the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(pub [u8; 20]);

/// The permission bits of a file or directory, with set-user-id, set-group-id and sticky.
pub type FileMode = u32;

/// A path that differs between two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: TreePath,
    /// The state before; `None` if the path did not exist.
    pub before: Option<Node>,
    /// The state after; `None` if the path does not exist.
    pub after: Option<Node>,
}

/// The recorded state of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Node {
    /// A regular file.
    File {
        /// The permission bits.
        mode: FileMode,
        /// The size in bytes.
        size: u64,
        content: Content,
    },
    /// A symbolic link; its content is the target.
    Link { content: Content },
    /// A directory.
    Directory {
        /// The permission bits.
        mode: FileMode,
    },
}

/// The recorded form of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// An object of the store.
    Stored(Oid),
    /// The hash alone: the file is over the size limit.
    HashOnly(Oid),
    /// Not copied yet.
    Pending,
    /// The file could not be read, or kept changing while it was read.
    Unreadable,
}

/// The way in which a path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The path is new.
    Added,
    /// The content changed.
    Modified,
    /// The path is gone.
    Deleted,
    /// A file became a link or a directory, or the reverse.
    Type,
    /// The permission bits changed, and nothing else.
    Mode,
    /// The file was moved here from another path, with its content.
    Renamed,
}

impl Status {
    /// Returns the name that the JSON form uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Type => "type",
            Self::Mode => "mode",
            Self::Renamed => "renamed",
        }
    }
}

impl Change {
    /// Returns the way in which the path changed.
    pub fn status(&self) -> Status {
        match (&self.before, &self.after) {
            (None, _) => Status::Added,
            (_, None) => Status::Deleted,
            (Some(Node::File { content: a, .. }), Some(Node::File { content: b, .. }))
            | (Some(Node::Link { content: a }), Some(Node::Link { content: b })) => {
                if a == b && a.oid().is_some() { Status::Mode } else { Status::Modified }
            }
            (Some(Node::Directory { .. }), Some(Node::Directory { .. })) => Status::Mode,
            _ => Status::Type,
        }
    }

    /// Returns the change that takes this one back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self { path: self.path.clone(), before: self.after.clone(), after: self.before.clone() }
    }

    /// Returns whether the content before was not copied.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.before.as_ref().and_then(Node::content) == Some(Content::Pending)
    }

    /// Returns whether the contents before and after are known, at least by their hashes.
    fn is_known(&self) -> bool {
        let nodes = [&self.before, &self.after].into_iter().flatten();
        nodes.filter_map(Node::content).all(|content| content.oid().is_some())
    }

    /// Returns whether the change is worth a line of its own: directories that only hold changed files are
    /// not.
    fn is_shown(&self, all: &[Self]) -> bool {
        let is_directory = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
        match (&self.before, &self.after) {
            (before, after) if is_directory(before) && is_directory(after) => true,
            (None, after) if is_directory(after) => !holds_another(all, &self.path),
            (before, None) if is_directory(before) => !holds_another(all, &self.path),
            _ => true,
        }
    }
}

/// Returns the changes that are shown of some: files, links, and directories that are empty or whose mode changed.
pub fn shown(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().filter(|change| change.is_shown(changes))
}

/// A change that is listed: of one path, or of the two paths of a file that was moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) change: &'a Change,
    /// The change of the path that the file was moved from.
    pub(crate) from: Option<&'a Change>,
}

/// Returns the changes that are shown, with each file that was moved as one: the same content is gone here and new there.
pub(crate) fn listed(changes: &[Change]) -> Vec<Listed<'_>> {
    let content = |node: &Option<Node>| match node {
        Some(Node::File { size, content, .. }) if *size > 0 => content.oid(),
        _ => None,
    };
    let mut gone: HashMap<Oid, VecDeque<&Change>> = HashMap::new();
    for change in changes.iter().filter(|change| change.after.is_none()) {
        if let Some(oid) = content(&change.before) {
            gone.entry(oid).or_default().push_back(change);
        }
    }
    let mut moved = HashSet::new();
    let mut all: Vec<Listed<'_>> = Vec::new();
    for change in shown(changes) {
        let new = content(&change.after).filter(|_| change.before.is_none());
        let from = new.and_then(|oid| gone.get_mut(&oid)?.pop_front());
        moved.extend(from.map(|from| &from.path));
        all.push(Listed { change, from });
    }
    all.retain(|it| !moved.contains(&it.change.path));
    all
}

/// Counts the changes that are shown, with each file that was moved as one.
pub fn listed_count(changes: &[Change]) -> usize {
    listed(changes).len()
}

/// Returns the change of a path. Changes are sorted by path.
pub(crate) fn change_at<'a>(changes: &'a [Change], path: &TreePath) -> Option<&'a Change> {
    let found = changes.binary_search_by(|change| change.path.cmp(path));
    found.ok().map(|found| &changes[found])
}

/// Returns whether there is a change below a directory. Changes are sorted by path.
fn holds_another(all: &[Change], directory: &TreePath) -> bool {
    let from = all.partition_point(|change| change.path <= *directory);
    let mut below = all[from..]
        .iter()
        .take_while(|change| change.path.as_bytes().starts_with(directory.as_bytes()));
    below.any(|change| change.path.is_below(directory))
}

impl Node {
    /// Returns the content of a file or a link.
    pub fn content(&self) -> Option<Content> {
        match self {
            Self::File { content, .. } | Self::Link { content } => Some(*content),
            Self::Directory { .. } => None,
        }
    }

    /// Returns `file`, `link` or `directory`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Link { .. } => "link",
            Self::Directory { .. } => "directory",
        }
    }

    /// Returns the permission bits of a file or a directory.
    pub fn mode(&self) -> Option<FileMode> {
        match self {
            Self::File { mode, .. } | Self::Directory { mode } => Some(*mode),
            Self::Link { .. } => None,
        }
    }

    /// Returns the size of a file in bytes, else 0.
    pub fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            _ => 0,
        }
    }

    pub(crate) fn of_file(entry: &FileEntry) -> Self {
        match entry.kind {
            FileKind::Regular => {
                Self::File { mode: entry.mode, size: entry.size, content: entry.content }
            }
            FileKind::Link => Self::Link { content: entry.content },
        }
    }

    pub(crate) fn of_directory(directory: &Directory) -> Self {
        Self::Directory { mode: directory.mode }
    }
}

impl Content {
    /// Returns the hash.
    pub fn oid(self) -> Option<Oid> {
        match self {
            Self::Stored(oid) | Self::HashOnly(oid) => Some(oid),
            Self::Pending | Self::Unreadable => None,
        }
    }

    /// Returns the object that holds the content.
    pub fn stored(self) -> Option<Oid> {
        match self {
            Self::Stored(oid) => Some(oid),
            _ => None,
        }
    }
}

/// Returns the changes between two states, sorted by path.
///
/// A new path that was ignored before is not a change: it existed, unrecorded.
pub(crate) fn changes(before: &Manifest, after: &Manifest) -> Vec<Change> {
    let mut changes = BTreeMap::new();
    let is_shared = |one: &Arc<Directory>, other: Option<&Arc<Directory>>| {
        other.is_some_and(|other| Arc::ptr_eq(one, other))
    };
    for (path, old) in &before.directories {
        let new = after.directories.get(path);
        if is_shared(old, new) {
            continue;
        }
        let node = new.map(|new| Node::of_directory(new));
        if !path.is_root() && node != Some(Node::of_directory(old)) && !is_hidden(after, path) {
            changes.insert(path.clone(), (Some(Node::of_directory(old)), node));
        }
        for (name, entry) in &old.files {
            let other = new.and_then(|new| new.files.get(name));
            if other.is_some_and(|other| other.is_same_as(entry)) {
                continue;
            }
            let path = path.join(name);
            if other.is_some() || !is_hidden(after, &path) {
                changes.insert(path, (Some(Node::of_file(entry)), other.map(Node::of_file)));
            }
        }
    }
    for (path, new) in &after.directories {
        let old = before.directories.get(path);
        if is_shared(new, old) {
            continue;
        }
        if old.is_none() && !path.is_root() && !was_ignored(before, path, true) {
            let node = Some(Node::of_directory(new));
            changes.entry(path.clone()).or_insert((None, None)).1 = node;
        }
        for (name, entry) in &new.files {
            if old.is_some_and(|old| old.files.contains_key(name)) {
                continue;
            }
            let path = path.join(name);
            if !was_ignored(before, &path, false) {
                changes.entry(path).or_insert((None, None)).1 = Some(Node::of_file(entry));
            }
        }
    }
    changes.into_iter().map(|(path, (before, after))| Change { path, before, after }).collect()
}

/// Joins the changes of consecutive records into one: from the first state to the last.
pub fn joined<'a>(records: impl IntoIterator<Item = &'a [Change]>) -> Vec<Change> {
    let mut all: BTreeMap<&TreePath, Change> = BTreeMap::new();
    for change in records.into_iter().flatten() {
        all.entry(&change.path)
            .and_modify(|joined| joined.after.clone_from(&change.after))
            .or_insert_with(|| change.clone());
    }
    // What is not known of two contents may differ.
    let is_change = |change: &Change| change.before != change.after || !change.is_known();
    all.into_values().filter(is_change).collect()
}

/// Returns whether a file or directory, or a directory above it, was ignored or unreadable. An ignored file is another thing
/// than a directory of its name.
fn was_ignored(manifest: &Manifest, path: &TreePath, is_directory: bool) -> bool {
    let is_left_out = left_out(manifest, path).any(|(at, left_out)| match left_out {
        LeftOut::IgnoredFile => at == *path && !is_directory,
        LeftOut::IgnoredDirectory => at != *path || is_directory,
        LeftOut::Unreadable | LeftOut::Special => false,
    });
    is_left_out || is_hidden(manifest, path)
}

/// Returns whether a path could not be read, or lies in a directory that could not.
fn is_hidden(manifest: &Manifest, path: &TreePath) -> bool {
    let is_unreadable = |above: TreePath| {
        let above = manifest.directories.get(&above);
        above.is_some_and(|it| it.access == Access::Unreadable)
    };
    path.ancestors().any(is_unreadable)
        || left_out(manifest, path).any(|(_, left_out)| left_out == LeftOut::Unreadable)
}

fn left_out(manifest: &Manifest, path: &TreePath) -> impl Iterator<Item = (TreePath, LeftOut)> {
    std::iter::once(path.clone()).chain(path.ancestors()).filter_map(|path| {
        let directory = manifest.directories.get(&path.parent()?)?;
        let left_out = *directory.left_out.get(path.name())?;
        Some((path, left_out))
    })
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

impl Oid {
    /// Parses 40 hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Self> {
        unhex(digits)?.try_into().ok().map(Self)
    }
}

impl Serialize for Oid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Oid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        Self::parse(&digits).ok_or_else(|| D::Error::custom("invalid object name"))
    }
}
