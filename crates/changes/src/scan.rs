//! The scan: compares a directory with its last manifest and returns the new one.
//!
//! Every known file and directory is looked at once; a directory whose stamp did not change is not
//! listed again. Names that are new go to git's ignore rules, a level of directories at a time. Contents
//! are not read here: what changed is [`Content::Pending`] in the result.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::change::Content;
use crate::error::ChangesError;
use crate::git::{Deadline, Git, Host};
use crate::ignore_rules::WorkTree;
use crate::limits::Limits;
use crate::manifest::{Directory, FileEntry, FileKind, LeftOut, MODE_BITS, Manifest, Stamp};
use crate::tree_path::TreePath;

/// A scan of one directory.
pub(crate) struct Scan<'a> {
    pub(crate) root: &'a Path,
    pub(crate) git: &'a Git,
    pub(crate) host: &'a Host,
    pub(crate) limits: &'a Limits,
    pub(crate) deadline: Deadline,
}

impl Scan<'_> {
    /// Returns the state of the directory now.
    pub(crate) fn run(&self, old: &Manifest) -> Result<Manifest, ChangesError> {
        let outer = WorkTree::containing(self.root, self.host);
        let rules = outer.rules(self.root);
        let mut state = Running {
            scan: self,
            old,
            now: now(),
            new: Manifest { rules, ..Manifest::default() },
            work_trees: vec![outer],
            work_tree_of: HashMap::new(),
            unknown: Vec::new(),
            rules_changed: rules != old.rules,
            count: 0,
        };
        state.visit(TreePath::default(), 0)?;
        if state.rules_changed {
            state.ask_again();
        }
        state.settle_unknown()?;
        let indexes = state.work_trees.iter().filter_map(WorkTree::unreadable_index);
        state.new.unreadable_indexes = indexes.collect();
        if !state.new.unreadable_indexes.is_empty() {
            // The next scan asks again.
            state.new.rules = [0; 32];
        }
        Ok(state.new)
    }
}

/// A name whose entry is new, or may no longer be ignored.
struct Unknown {
    directory: TreePath,
    name: Vec<u8>,
    found: Found,
    work_tree: usize,
}

/// An entry of a directory.
enum Found {
    File(FileEntry),
    Directory,
}

struct Running<'a> {
    scan: &'a Scan<'a>,
    old: &'a Manifest,
    /// The time at which the scan began, in nanoseconds.
    now: i128,
    new: Manifest,
    /// The working trees found so far; the first contains the recorded directory.
    work_trees: Vec<WorkTree>,
    /// The working tree of each directory.
    work_tree_of: HashMap<TreePath, usize>,
    unknown: Vec<Unknown>,
    rules_changed: bool,
    count: u64,
}

impl Running<'_> {
    /// Looks at a directory that is not ignored, and at all known directories below it.
    fn visit(&mut self, path: TreePath, work_tree: usize) -> Result<(), ChangesError> {
        let mut waiting = vec![(path, work_tree)];
        while let Some((path, work_tree)) = waiting.pop() {
            self.scan.deadline.check()?;
            let at = path.under(self.scan.root);
            let metadata = match fs::symlink_metadata(&at) {
                Ok(metadata) if metadata.is_dir() => metadata,
                Err(error) if path.is_root() => return Err(ChangesError::io(&at)(error)),
                _ => continue,
            };
            let stamp = Stamp::of(&metadata);
            let known = self.old.directories.get(&path);
            let unchanged = known.filter(|known| known.settled && known.stamp == stamp);
            let (names, has_git) = match unchanged {
                Some(known) => (names_of(known), known.is_repository),
                None => match list(&at) {
                    Ok(listed) => listed,
                    Err(error) if path.is_root() => return Err(ChangesError::io(&at)(error)),
                    Err(_) => {
                        self.leave_out(&path, LeftOut::Unreadable);
                        continue;
                    }
                },
            };
            let work_tree = self.work_tree(&path, work_tree, has_git);
            let mut directory = Directory {
                mode: metadata.mode() & MODE_BITS,
                stamp,
                settled: stamp.is_settled(self.now),
                is_repository: has_git,
                ..Directory::default()
            };
            self.counted()?;
            for name in names {
                self.entry(&path, name, known, work_tree, &mut directory, &mut waiting)?;
            }
            let gone_rules = known.is_some_and(|known| {
                known.files.contains_key(IGNORE_FILE) && !directory.files.contains_key(IGNORE_FILE)
            });
            self.rules_changed |= gone_rules;
            if known.is_some_and(|known| known.is_repository != has_git) {
                self.rules_changed = true;
            }
            self.work_tree_of.insert(path.clone(), work_tree);
            self.new.directories.insert(path, directory);
        }
        Ok(())
    }

    /// Looks at an entry of a directory.
    fn entry(
        &mut self,
        path: &TreePath,
        name: Vec<u8>,
        known: Option<&Directory>,
        work_tree: usize,
        directory: &mut Directory,
        waiting: &mut Vec<(TreePath, usize)>,
    ) -> Result<(), ChangesError> {
        let entry_path = path.join(&name);
        // An entry that went away meanwhile is gone.
        let Ok(metadata) = fs::symlink_metadata(entry_path.under(self.scan.root)) else {
            return Ok(());
        };
        let left_out = known.and_then(|known| known.left_out.get(&name).copied());
        let found = if metadata.is_dir() {
            Found::Directory
        } else if let Some(kind) = file_kind(&metadata) {
            let old = known.and_then(|known| known.files.get(&name));
            let entry = self.file(kind, &metadata, old);
            if name == IGNORE_FILE && old.is_none_or(|old| old.stamp != entry.stamp) {
                self.rules_changed = true;
            }
            Found::File(entry)
        } else {
            directory.left_out.insert(name, LeftOut::Special);
            return Ok(());
        };
        match found {
            _ if left_out == Some(LeftOut::Ignored) => {
                directory.left_out.insert(name, LeftOut::Ignored);
            }
            Found::Directory if known.is_some_and(|known| known.directories.contains(&name)) => {
                directory.directories.insert(name);
                waiting.push((entry_path, work_tree));
            }
            Found::File(entry) if known.is_some_and(|known| known.files.contains_key(&name)) => {
                self.counted()?;
                directory.files.insert(name, entry);
            }
            found => {
                self.unknown.push(Unknown { directory: path.clone(), name, found, work_tree });
            }
        }
        Ok(())
    }

    /// Returns the entry of a file, with its known content if the file did not change.
    fn file(&self, kind: FileKind, metadata: &Metadata, old: Option<&FileEntry>) -> FileEntry {
        let stamp = Stamp::of(metadata);
        let is_unchanged = |old: &&FileEntry| old.settled && old.stamp == stamp && old.kind == kind;
        let content = old.filter(is_unchanged).map_or(Content::Pending, |old| old.content);
        let mode = if kind == FileKind::Link { 0o777 } else { metadata.mode() & MODE_BITS };
        let settled = stamp.is_settled(self.now);
        FileEntry { kind, mode, size: metadata.len(), stamp, settled, content }
    }

    /// Makes names that were ignored unknown again, after a change of the rules.
    fn ask_again(&mut self) {
        for (path, directory) in &mut self.new.directories {
            let work_tree = self.work_tree_of.get(path).copied().unwrap_or_default();
            let ignored: Vec<Vec<u8>> = directory
                .left_out
                .iter()
                .filter(|(_, left_out)| **left_out == LeftOut::Ignored)
                .map(|(name, _)| name.clone())
                .collect();
            for name in ignored {
                let at = path.join(&name).under(self.scan.root);
                let Ok(metadata) = fs::symlink_metadata(at) else { continue };
                let found = if metadata.is_dir() {
                    Found::Directory
                } else if let Some(kind) = file_kind(&metadata) {
                    let stamp = Stamp::of(&metadata);
                    let mode =
                        if kind == FileKind::Link { 0o777 } else { metadata.mode() & MODE_BITS };
                    let settled = stamp.is_settled(self.now);
                    let (size, content) = (metadata.len(), Content::Pending);
                    Found::File(FileEntry { kind, mode, size, stamp, settled, content })
                } else {
                    continue;
                };
                directory.left_out.remove(&name);
                self.unknown.push(Unknown { directory: path.clone(), name, found, work_tree });
            }
        }
    }

    /// Asks git which of the unknown names are ignored, and looks at the directories that are not, until
    /// no name is unknown.
    fn settle_unknown(&mut self) -> Result<(), ChangesError> {
        while !self.unknown.is_empty() {
            let unknown = std::mem::take(&mut self.unknown);
            let mut ignored = std::collections::HashSet::new();
            for (number, work_tree) in self.work_trees.iter().enumerate() {
                let paths: Vec<TreePath> = unknown
                    .iter()
                    .filter(|unknown| unknown.work_tree == number)
                    .map(|unknown| unknown.directory.join(&unknown.name))
                    .collect();
                ignored.extend(work_tree.ignored(self.scan.git, &paths, self.scan.deadline)?);
            }
            for Unknown { directory, name, found, work_tree } in unknown {
                let path = directory.join(&name);
                let Some(parent) = self.new.directories.get_mut(&directory) else { continue };
                if ignored.contains(&path) {
                    parent.left_out.insert(name, LeftOut::Ignored);
                    continue;
                }
                match found {
                    Found::File(entry) => {
                        parent.files.insert(name, entry);
                        self.counted()?;
                    }
                    Found::Directory => {
                        parent.directories.insert(name);
                        self.visit(path, work_tree)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the working tree of a directory: its own if a repository has its root there.
    fn work_tree(&mut self, path: &TreePath, outer: usize, has_git: bool) -> usize {
        if !has_git || path.is_root() {
            return outer;
        }
        match WorkTree::nested(self.scan.root, path, self.scan.host) {
            Some(work_tree) => {
                self.work_trees.push(work_tree);
                self.work_trees.len() - 1
            }
            None => outer,
        }
    }

    fn leave_out(&mut self, path: &TreePath, left_out: LeftOut) {
        if let Some(parent) = path.parent().and_then(|parent| self.new.directories.get_mut(&parent))
        {
            parent.directories.remove(path.name());
            parent.left_out.insert(path.name().to_vec(), left_out);
            // A later scan tries again.
            parent.settled = false;
        }
    }

    fn counted(&mut self) -> Result<(), ChangesError> {
        self.count += 1;
        let limit = self.scan.limits.files;
        if self.count > limit { Err(ChangesError::OverFiles { limit }) } else { Ok(()) }
    }
}

const IGNORE_FILE: &[u8] = b".gitignore";

fn file_kind(metadata: &Metadata) -> Option<FileKind> {
    let file_type = metadata.file_type();
    if file_type.is_symlink() {
        Some(FileKind::Link)
    } else {
        file_type.is_file().then_some(FileKind::Regular)
    }
}

/// Lists a directory: its names without `.git`, and whether it has that.
fn list(directory: &Path) -> std::io::Result<(Vec<Vec<u8>>, bool)> {
    let mut names = Vec::new();
    let mut has_git = false;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_vec();
        if name == b".git" {
            has_git = true;
        } else {
            names.push(name);
        }
    }
    Ok((names, has_git))
}

fn names_of(directory: &Directory) -> Vec<Vec<u8>> {
    let files = directory.files.keys();
    files.chain(&directory.directories).chain(directory.left_out.keys()).cloned().collect()
}

/// Returns the current time in nanoseconds.
pub(crate) fn now() -> i128 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX)
}
