//! A tree of files that needs no disk.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::limit::collect_entries;
use super::{EntryKind, Files, Head};

/// The maximum number of links that one path may lead through, as on Linux.
const MAX_LINKS: u32 = 40;

/// Files, directories and links in memory, some of which may be unreadable.
///
/// ```
/// use convoke_files::{FileKind, Files, MemoryTree};
///
/// let mut tree = MemoryTree::default();
/// tree.write("/repo/AGENTS.md", "Use tabs.");
/// tree.link("/repo/sub/AGENTS.md", "../AGENTS.md");
/// let read = tree.read("/repo/sub/AGENTS.md".as_ref(), FileKind::Instructions);
/// assert_eq!(read.unwrap(), b"Use tabs.");
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryTree {
    root: Directory,
}

/// Directories and other entries are separate, so that a path can be created without a check.
#[derive(Debug, Clone, Default)]
struct Directory {
    directories: BTreeMap<OsString, Directory>,
    leaves: BTreeMap<OsString, Leaf>,
    locked: bool,
}

#[derive(Debug, Clone)]
enum Leaf {
    File { bytes: Vec<u8>, locked: bool },
    Link(PathBuf),
}

/// The target of a path after its links are followed.
struct Found<'a> {
    path: PathBuf,
    node: Place<'a>,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    File { bytes: &'a [u8], locked: bool },
    Directory(&'a Directory),
    Link,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLink {
    Follow,
    Keep,
}

impl MemoryTree {
    /// Writes a file, creating the directories above it.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        let file = Leaf::File { bytes: bytes.into(), locked: false };
        self.put(path.as_ref(), file);
    }

    /// Creates a directory and those above it; one that exists stays as it is.
    pub fn create_directory(&mut self, path: impl AsRef<Path>) {
        self.directory_mut(path.as_ref());
    }

    /// Creates a symbolic link, whose target need not exist.
    pub fn link(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Leaf::Link(target.into()));
    }

    /// Returns the target of the link at a path; `None` if there is no link.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        let parent = self.find(path.parent()?, LastLink::Follow).ok()?;
        match parent.node {
            Place::Directory(parent) => match parent.leaves.get(path.file_name()?)? {
                Leaf::Link(target) => Some(target.clone()),
                Leaf::File { .. } => None,
            },
            Place::File { .. } | Place::Link => None,
        }
    }

    /// Makes a file or a directory unreadable.
    pub fn lock(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        let parent = self.directory_mut(parent);
        if let Some(directory) = parent.directories.get_mut(name) {
            directory.locked = true;
        } else if let Some(Leaf::File { locked, .. }) = parent.leaves.get_mut(name) {
            *locked = true;
        }
    }

    /// Removes the entry at a path.
    pub fn remove(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            let parent = self.directory_mut(parent);
            parent.directories.remove(name);
            parent.leaves.remove(name);
        }
    }

    fn put(&mut self, path: &Path, leaf: Leaf) {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            let parent = self.directory_mut(parent);
            parent.directories.remove(name);
            parent.leaves.insert(name.to_owned(), leaf);
        }
    }

    /// Returns the directory at a path by its spelling; other entries in the way are replaced.
    fn directory_mut(&mut self, path: &Path) -> &mut Directory {
        let mut directory = &mut self.root;
        for component in path.components() {
            if let Component::Normal(name) = component {
                directory.leaves.remove(name);
                directory = directory.directories.entry(name.to_owned()).or_default();
            }
        }
        directory
    }

    fn find(&self, path: &Path, last_link: LastLink) -> io::Result<Found<'_>> {
        let mut at = PathBuf::from("/");
        let mut trail: Vec<&Directory> = vec![&self.root];
        let mut rest: Vec<OsString> = names_reversed(path);
        let mut links = 0;
        let mut file = None;
        while let Some(name) = rest.pop() {
            if file.is_some() {
                return Err(raw(NOT_A_DIRECTORY));
            }
            if name == ".." {
                if trail.len() > 1 {
                    trail.pop();
                    at.pop();
                }
                continue;
            }
            let Some(&directory) = trail.last() else {
                return Err(raw(NOT_FOUND));
            };
            if directory.locked {
                return Err(raw(DENIED));
            }
            if let Some(next) = directory.directories.get(&name) {
                trail.push(next);
                at.push(&name);
                continue;
            }
            match directory.leaves.get(&name).ok_or_else(|| raw(NOT_FOUND))? {
                Leaf::File { bytes, locked } => {
                    let locked = *locked;
                    file = Some(Place::File { bytes, locked });
                    at.push(&name);
                }
                Leaf::Link(_) if rest.is_empty() && last_link == LastLink::Keep => {
                    at.push(&name);
                    let node = Place::Link;
                    return Ok(Found { path: at, node });
                }
                Leaf::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(raw(LOOP));
                    }
                    if target.is_absolute() {
                        trail.truncate(1);
                        at = PathBuf::from("/");
                    }
                    rest.extend(names_reversed(target));
                }
            }
        }
        let node = match (file, trail.last()) {
            (Some(file), _) => file,
            (None, Some(directory)) => Place::Directory(directory),
            (None, None) => return Err(raw(NOT_FOUND)),
        };
        Ok(Found { path: at, node })
    }
}

impl Files for MemoryTree {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.find(path, LastLink::Keep).map(|found| found.node.kind())
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.find(path, LastLink::Follow).map(|found| found.node.kind())
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        match self.find(path, LastLink::Follow)?.node {
            Place::File { locked: true, .. } => Err(raw(DENIED)),
            Place::File { bytes, .. } => {
                let end =
                    usize::try_from(limit).map_or(bytes.len(), |limit| limit.min(bytes.len()));
                Ok(Head { bytes: bytes[..end].to_vec(), size: bytes.len() as u64 })
            }
            Place::Directory(_) | Place::Link => Err(raw(IS_A_DIRECTORY)),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        match self.find(directory, LastLink::Follow)?.node {
            Place::Directory(found) if found.locked => Err(raw(DENIED)),
            Place::Directory(found) => {
                let names = found.directories.keys().chain(found.leaves.keys());
                let mut names = collect_entries(names.cloned().map(Ok))?;
                names.sort();
                Ok(names)
            }
            Place::File { .. } | Place::Link => Err(raw(NOT_A_DIRECTORY)),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.find(path, LastLink::Follow).map(|found| found.path)
    }
}

impl Place<'_> {
    fn kind(self) -> EntryKind {
        match self {
            Place::File { .. } => EntryKind::File,
            Place::Directory(_) => EntryKind::Directory,
            Place::Link => EntryKind::Symlink,
        }
    }
}

fn names_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

// The numbers of Linux, so that the texts of errors are those of a real read.
const NOT_FOUND: i32 = 2;
const DENIED: i32 = 13;
const NOT_A_DIRECTORY: i32 = 20;
const IS_A_DIRECTORY: i32 = 21;
const LOOP: i32 = 40;

fn raw(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
