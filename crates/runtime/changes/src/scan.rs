//! The scan: compares a directory with its last manifest and returns the new one.
//!
//! Directories that a quick look finds unchanged are taken over. In the others every file is looked at, and one whose own
//! stamp did not change is not listed again. Names that are new go to git's ignore rules, a level of directories at a time.
//! Contents are read here only if a stamp does not decide; a changed one is [`Content::Pending`] in the result.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use convoke_files::clock::since_1970;
use convoke_files::{Disk, Files as _};
use sha2::{Digest as _, Sha256};

use crate::change::Content;
use crate::content::has_content;
use crate::earlier_rules::{EarlierRules, HiddenBudget};
use crate::error::ChangesError;
use crate::git::{Deadline, Git, Host};
use crate::ignore_rules::WorkTree;
use crate::limits::Limits;
use crate::manifest::{
    Access, Directory, FileEntry, FileKind, LINK_MODE, LeftOut, MODE_BITS, Manifest, Stamp,
};
use crate::tree_path::TreePath;
use crate::unchanged::changed_directories;

/// A scan of one directory.
pub(crate) struct Scan<'a> {
    /// The path to what the directory holds.
    pub(crate) root: &'a Path,
    /// The real path of the directory.
    pub(crate) directory: &'a Path,
    pub(crate) git: &'a Git,
    pub(crate) host: &'a Host,
    pub(crate) limits: &'a Limits,
    pub(crate) deadline: Deadline,
    /// A private directory for temporary files.
    pub(crate) scratch: &'a Path,
    /// Convoke's data directory. It is not recorded where it lies in the directory.
    pub(crate) data: &'a Path,
    /// The patterns outside the working tree before a turn. At its end, what it created and ignored itself is recorded.
    pub(crate) earlier_patterns: Option<&'a [u8]>,
}

impl Scan<'_> {
    /// Returns the state of the directory now.
    pub(crate) fn run(&self, old: &Manifest) -> Result<Manifest, ChangesError> {
        let now = now();
        let changed = changed_directories(self.root, old, self.deadline)?;
        let work_tree = WorkTree::containing(self.directory, self.host);
        if changed.is_empty() && self.has_rules_of(old, &work_tree) {
            let limit = self.limits.files;
            let is_over = old.len() > limit;
            return if is_over { Err(ChangesError::OverFiles { limit }) } else { Ok(old.stored()) };
        }
        let mut state = Running {
            scan: self,
            old,
            now,
            changed,
            new: Manifest::default(),
            work_trees: vec![work_tree],
            work_tree_of: HashMap::new(),
            unknown: Vec::new(),
            rules_changed: false,
            hidden: HiddenBudget::new(self.limits),
            data: self.recorded_data(),
            count: 0,
        };
        state.visit(TreePath::default(), 0)?;
        state.compare_rules();
        state.settle_unknown()?;
        let indexes = state.work_trees.iter().filter_map(WorkTree::unreadable_index);
        state.new.unreadable_indexes = indexes.collect();
        if !state.new.unreadable_indexes.is_empty() {
            // The next scan asks again.
            state.new.rules = [0; 32];
        }
        Ok(state.new)
    }

    /// Returns the path of the data directory, if it lies in the recorded one.
    fn recorded_data(&self) -> Option<TreePath> {
        let data = Disk.canonicalize(self.data).ok()?;
        let below = data.strip_prefix(self.directory).ok()?;
        Some(TreePath::new(below.as_os_str().as_bytes()))
    }

    /// Returns whether the rules outside of a known state and the indexes are as they were then.
    fn has_rules_of(&self, old: &Manifest, work_tree: &WorkTree) -> bool {
        let directories = old.directories.iter();
        let nested = directories.filter(|(path, it)| it.is_repository && !path.is_root());
        let nested =
            nested.filter_map(|(path, _)| WorkTree::nested(self.directory, path, self.host));
        let nested: Vec<WorkTree> = nested.collect();
        let work_trees = nested.iter().chain([work_tree]).collect();
        old.is_known() && self.hashes(work_trees) == (old.rules, old.indexes)
    }

    /// Returns the hash of rules that are not recorded, and of the stamps of indexes.
    fn hashes(&self, mut work_trees: Vec<&WorkTree>) -> ([u8; 32], [u8; 32]) {
        let (mut rules, mut indexes) = (Sha256::new(), Sha256::new());
        work_trees.sort_by_key(|work_tree| work_tree.top());
        for work_tree in work_trees {
            work_tree.hash_rules(self.directory, &mut rules);
            work_tree.hash_index(&mut indexes);
        }
        (rules.finalize().into(), indexes.finalize().into())
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
    /// The known directories that may differ from the old manifest.
    changed: HashSet<&'a TreePath>,
    new: Manifest,
    /// The working trees found so far; the first contains the recorded directory.
    work_trees: Vec<WorkTree>,
    /// The working tree of each directory.
    work_tree_of: HashMap<TreePath, usize>,
    unknown: Vec<Unknown>,
    rules_changed: bool,
    hidden: HiddenBudget,
    data: Option<TreePath>,
    count: u64,
}

impl Running<'_> {
    /// Scans a directory that is not ignored, and all known directories below it.
    fn visit(&mut self, path: TreePath, work_tree: usize) -> Result<(), ChangesError> {
        let mut waiting = vec![(path, work_tree)];
        while let Some((path, work_tree)) = waiting.pop() {
            self.scan.deadline.check()?;
            let known = self.old.directories.get(&path);
            if let Some(known) = known.filter(|_| !self.changed.contains(&path)) {
                self.take_over(path, known, work_tree, &mut waiting)?;
                continue;
            }
            let at = path.under(self.scan.root);
            let metadata = match fs::symlink_metadata(&at) {
                Ok(metadata) if metadata.is_dir() => metadata,
                Err(error) if path.is_root() => return Err(ChangesError::io(&at)(error)),
                Err(error) if !is_gone(&error) => {
                    self.leave_out(&path, LeftOut::Unreadable);
                    continue;
                }
                _ => continue,
            };
            let stamp = Stamp::from_metadata(&metadata);
            let unchanged = known.filter(|known| known.settled && known.stamp == stamp);
            let (names, has_git) = match unchanged {
                Some(known) => (names_of(known), known.is_repository),
                None => match list(&at).and_then(|listed| is_searchable(&at).map(|()| listed)) {
                    Ok(listed) => listed,
                    Err(error) if path.is_root() => return Err(ChangesError::io(&at)(error)),
                    Err(error) if is_gone(&error) => continue,
                    Err(_) => {
                        self.keep_unreadable(path, &metadata, work_tree)?;
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
            self.counted(1)?;
            for name in names {
                let known = known.map(|known| &**known);
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
            self.new.directories.insert(path, Arc::new(directory));
        }
        Ok(())
    }

    /// Keeps what is known of a directory that cannot be read or searched, with its own mode.
    fn keep_unreadable(
        &mut self,
        path: TreePath,
        metadata: &Metadata,
        work_tree: usize,
    ) -> Result<(), ChangesError> {
        let known = self.old.directories.get(&path);
        let stamp = Stamp::from_metadata(metadata);
        let is_as_closed =
            |known: &&Arc<Directory>| known.access == Access::Closed && known.stamp == stamp;
        let directory = Directory {
            mode: metadata.mode() & MODE_BITS,
            stamp,
            // A later scan tries again.
            settled: false,
            access: known.filter(is_as_closed).map_or(Access::Unreadable, |_| Access::Closed),
            ..known.map(|known| Directory::clone(known)).unwrap_or_default()
        };
        self.counted(1 + directory.files.len() as u64)?;
        let mut below: Vec<TreePath> =
            directory.directories.iter().map(|name| path.join(name)).collect();
        while let Some(path) = below.pop() {
            let Some(known) = self.old.directories.get(&path) else { continue };
            self.counted(1 + known.files.len() as u64)?;
            below.extend(known.directories.iter().map(|name| path.join(name)));
            self.work_tree_of.insert(path.clone(), work_tree);
            self.new.directories.insert(path, known.clone());
        }
        self.work_tree_of.insert(path.clone(), work_tree);
        self.new.directories.insert(path, Arc::new(directory));
        Ok(())
    }

    /// Takes over an unchanged directory.
    fn take_over(
        &mut self,
        path: TreePath,
        known: &Arc<Directory>,
        work_tree: usize,
        waiting: &mut Vec<(TreePath, usize)>,
    ) -> Result<(), ChangesError> {
        self.counted(1 + known.files.len() as u64)?;
        let work_tree = self.work_tree(&path, work_tree, known.is_repository);
        waiting.extend(known.directories.iter().map(|name| (path.join(name), work_tree)));
        self.work_tree_of.insert(path.clone(), work_tree);
        self.new.directories.insert(path, known.clone());
        Ok(())
    }

    /// Scans an entry of a directory.
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
        let metadata = match fs::symlink_metadata(entry_path.under(self.scan.root)) {
            Ok(metadata) => metadata,
            // An entry that went away meanwhile.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(_) => {
                directory.left_out.insert(name, LeftOut::Unreadable);
                directory.settled = false;
                return Ok(());
            }
        };
        let left_out = known.and_then(|known| known.left_out.get(&name).copied());
        if self.data.as_ref() == Some(&entry_path) {
            directory.left_out.insert(name, LeftOut::Special);
            return Ok(());
        }
        let found = if metadata.is_dir() {
            Found::Directory
        } else if let Some(kind) = file_kind(&metadata) {
            let old = known.and_then(|known| known.files.get(&name));
            let entry = self.file(&entry_path, kind, &metadata, old);
            if name == IGNORE_FILE && old.is_none_or(|old| old.stamp != entry.stamp) {
                self.rules_changed = true;
            }
            Found::File(entry)
        } else {
            directory.left_out.insert(name, LeftOut::Special);
            return Ok(());
        };
        match found {
            // A rule may hold for directories alone.
            _ if left_out == Some(LeftOut::ignored(metadata.is_dir())) => {
                directory.left_out.insert(name, LeftOut::ignored(metadata.is_dir()));
            }
            Found::Directory if known.is_some_and(|known| known.directories.contains(&name)) => {
                directory.directories.insert(name);
                waiting.push((entry_path, work_tree));
            }
            Found::File(entry) if known.is_some_and(|known| known.files.contains_key(&name)) => {
                self.counted(1)?;
                directory.files.insert(name, entry);
            }
            found => {
                self.unknown.push(Unknown { directory: path.clone(), name, found, work_tree });
            }
        }
        Ok(())
    }

    /// Returns the entry of a file, with its known content if the file did not change.
    fn file(
        &self,
        path: &TreePath,
        kind: FileKind,
        metadata: &Metadata,
        old: Option<&FileEntry>,
    ) -> FileEntry {
        let mut entry = self.new_file(kind, metadata);
        let same = old.filter(|old| old.stamp == entry.stamp && old.kind == kind);
        let is_unchanged = |old: &&FileEntry| old.settled || has_content(self.scan.root, path, old);
        if let Some(old) = same.filter(is_unchanged) {
            entry.content = old.content;
        }
        entry
    }

    fn new_file(&self, kind: FileKind, metadata: &Metadata) -> FileEntry {
        let stamp = Stamp::from_metadata(metadata);
        let mode = if kind == FileKind::Link { LINK_MODE } else { metadata.mode() & MODE_BITS };
        let (size, settled) = (metadata.len(), stamp.is_settled(self.now));
        FileEntry { kind, mode, size, stamp, settled, content: Content::Pending }
    }

    /// Marks ignored names as unknown again: all after a change of the rules, and the tracked ones after a change of
    /// an index.
    fn compare_rules(&mut self) {
        (self.new.rules, self.new.indexes) = self.scan.hashes(self.work_trees.iter().collect());
        if self.rules_changed || self.new.rules != self.old.rules {
            self.ask_again(|_, _| true);
        } else if self.new.indexes != self.old.indexes {
            self.ask_again(WorkTree::tracks);
        }
    }

    fn ask_again(&mut self, is_asked: impl Fn(&WorkTree, &TreePath) -> bool) {
        let mut asked = Vec::new();
        for (path, directory) in &self.new.directories {
            let number = self.work_tree_of.get(path).copied().unwrap_or_default();
            let ignored = directory.left_out.iter().filter(|(_, left_out)| left_out.is_ignored());
            for (name, _) in ignored {
                let entry_path = path.join(name);
                if !is_asked(&self.work_trees[number], &entry_path) {
                    continue;
                }
                // One that cannot be looked at stays ignored.
                let Ok(metadata) = fs::symlink_metadata(entry_path.under(self.scan.root)) else {
                    continue;
                };
                let found = if metadata.is_dir() {
                    Found::Directory
                } else if let Some(kind) = file_kind(&metadata) {
                    Found::File(self.new_file(kind, &metadata))
                } else {
                    continue;
                };
                let (directory, name, work_tree) = (path.clone(), name.clone(), number);
                asked.push(Unknown { directory, name, found, work_tree });
            }
        }
        for unknown in &asked {
            if let Some(directory) = self.new.directories.get_mut(&unknown.directory) {
                Arc::make_mut(directory).left_out.remove(&unknown.name);
            }
        }
        self.unknown.extend(asked);
    }

    /// Asks git which of the unknown names are ignored, and looks at the directories that are not, until
    /// no name is unknown.
    fn settle_unknown(&mut self) -> Result<(), ChangesError> {
        let mut earlier = None;
        while !self.unknown.is_empty() {
            let unknown = std::mem::take(&mut self.unknown);
            let mut ignored = HashSet::new();
            for (number, work_tree) in self.work_trees.iter().enumerate() {
                let paths: Vec<TreePath> = unknown
                    .iter()
                    .filter(|unknown| unknown.work_tree == number)
                    .map(|unknown| unknown.directory.join(&unknown.name))
                    .collect();
                ignored.extend(work_tree.ignored(self.scan.git, &paths, self.scan.deadline)?);
            }
            let is_turn = self.scan.earlier_patterns.is_some() && self.old.is_known();
            if is_turn && (self.rules_changed || self.new.rules != self.old.rules) {
                self.find_hidden(&unknown, &mut ignored, &mut earlier)?;
            }
            if is_turn {
                self.find_replacements(&mut ignored);
            }
            for Unknown { directory, name, found, work_tree } in unknown {
                let path = directory.join(&name);
                let Some(parent) = self.new.directories.get_mut(&directory) else { continue };
                let parent = Arc::make_mut(parent);
                if ignored.contains(&path) {
                    let is_directory = matches!(found, Found::Directory);
                    parent.left_out.insert(name, LeftOut::ignored(is_directory));
                    continue;
                }
                match found {
                    Found::File(entry) => {
                        parent.files.insert(name, entry);
                        self.counted(1)?;
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

    /// Takes new names that only new rules ignore out of the ignored ones.
    fn find_hidden(
        &mut self,
        unknown: &[Unknown],
        ignored: &mut HashSet<TreePath>,
        earlier: &mut Option<EarlierRules>,
    ) -> Result<(), ChangesError> {
        let was_left_out = |it: &Unknown| {
            let known = self.old.directories.get(&it.directory);
            known.is_some_and(|known| known.left_out.contains_key(&it.name))
        };
        let mut hidden = vec![Vec::new(); self.work_trees.len()];
        for it in unknown.iter().filter(|it| !was_left_out(it)) {
            let path = it.directory.join(&it.name);
            if ignored.contains(&path) {
                hidden[it.work_tree].push((path, matches!(it.found, Found::Directory)));
            }
        }
        if hidden.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let rules = match earlier {
            Some(rules) => rules,
            None => earlier.insert(EarlierRules::create(self.scan, self.old, &self.work_trees[0])?),
        };
        for (work_tree, paths) in self.work_trees.iter().zip(hidden) {
            let still: HashSet<TreePath> =
                rules.ignored(self.scan, work_tree, &paths)?.into_iter().collect();
            for (path, _) in paths.into_iter().filter(|(path, _)| !still.contains(path)) {
                if self.hidden.take(&path.under(self.scan.root)) {
                    ignored.remove(&path);
                } else {
                    self.new.hidden.push(path);
                }
            }
        }
        Ok(())
    }

    /// Takes what is in the place of a recorded file or directory out of the ignored names. It is the turn's own, and would be
    /// in the way when that comes back.
    fn find_replacements(&mut self, ignored: &mut HashSet<TreePath>) {
        let replaces = |path: &TreePath| {
            let mut places = std::iter::once(path.clone()).chain(path.ancestors());
            self.old.directories.contains_key(path)
                || places.any(|place| self.old.entry(&place).is_some())
        };
        let mut found: Vec<TreePath> =
            ignored.iter().filter(|path| replaces(path)).cloned().collect();
        found.retain(|path| !self.new.hidden.contains(path));
        found.sort_unstable();
        for path in found {
            if self.hidden.take(&path.under(self.scan.root)) {
                ignored.remove(&path);
            } else {
                self.new.hidden.push(path);
            }
        }
    }

    /// Returns the working tree of a directory: its own if a repository has its root there.
    fn work_tree(&mut self, path: &TreePath, outer: usize, has_git: bool) -> usize {
        if !has_git || path.is_root() {
            return outer;
        }
        match WorkTree::nested(self.scan.directory, path, self.scan.host) {
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
            let parent = Arc::make_mut(parent);
            parent.directories.remove(path.name());
            parent.left_out.insert(path.name().to_vec(), left_out);
            // A later scan tries again.
            parent.settled = false;
        }
    }

    fn counted(&mut self, entries: u64) -> Result<(), ChangesError> {
        self.count += entries;
        let limit = self.scan.limits.files;
        if self.count > limit { Err(ChangesError::OverFiles { limit }) } else { Ok(()) }
    }
}

/// The name of a file of ignore rules.
pub(crate) const IGNORE_FILE: &[u8] = b".gitignore";

pub(crate) fn file_kind(metadata: &Metadata) -> Option<FileKind> {
    let file_type = metadata.file_type();
    if file_type.is_symlink() {
        Some(FileKind::Link)
    } else {
        file_type.is_file().then_some(FileKind::Regular)
    }
}

/// Returns whether an error says that there is no such entry. Others say nothing about it.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Fails if the entries of a directory may not be looked at.
fn is_searchable(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(directory, rustix::fs::Access::EXEC_OK)?)
}

/// Lists a directory: its names without `.git`, and whether it has that.
fn list(directory: &Path) -> io::Result<(Vec<Vec<u8>>, bool)> {
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
    i128::try_from(since_1970().as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::change::Oid;

    fn scan(root: &Path, old: &Manifest) -> Manifest {
        // The names are known, so that no program is needed.
        let host = Host { path: "".into(), home: root.join("home"), config: root.join("config") };
        let git = Git::new(&host, root.join("store"), root, &[]);
        let deadline = Deadline::within(Duration::from_mins(1));
        let limits = &Limits::default();
        let (scratch, data, earlier_patterns) = (root, &root.join("data"), None);
        let (git, host) = (&git, &host);
        let directory = root;
        let scan =
            Scan { root, directory, git, host, limits, deadline, scratch, data, earlier_patterns };
        scan.run(old).unwrap()
    }

    /// Returns the state of a directory with one file, whose content is said to be an object.
    fn state(root: &Path, content: Content, settled: bool) -> Manifest {
        let stamp = |path: &Path| fs::symlink_metadata(path).unwrap();
        let (top, file) = (stamp(root), stamp(&root.join("f")));
        let entry = FileEntry {
            kind: FileKind::Regular,
            mode: file.mode() & MODE_BITS,
            size: file.len(),
            stamp: Stamp::from_metadata(&file),
            settled,
            content,
        };
        let directory = Directory {
            mode: top.mode() & MODE_BITS,
            stamp: Stamp::from_metadata(&top),
            settled: true,
            files: [(b"f".to_vec(), entry)].into(),
            ..Directory::default()
        };
        let directories = [(TreePath::default(), Arc::new(directory))].into();
        Manifest { directories, ..Manifest::default() }
    }

    #[test]
    fn a_content_is_compared_if_the_stamp_does_not_decide() {
        let root = tempfile::tempdir().unwrap();
        let root = &fs::canonicalize(root.path()).unwrap();
        fs::write(root.join("f"), "hello\n").unwrap();
        let hello = Oid::parse("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        let content = |old: &Manifest| {
            let new = scan(root, old);
            new.directories[&TreePath::default()].files[&b"f"[..]].content
        };
        let (right, wrong) = (Content::Stored(hello), Content::Stored(Oid([7; 20])));
        assert_eq!(content(&state(root, right, false)), right);
        assert_eq!(content(&state(root, wrong, false)), Content::Pending);
        assert_eq!(content(&state(root, wrong, true)), wrong, "a settled stamp is enough");
        fs::remove_file(root.join("f")).unwrap();
        std::os::unix::fs::symlink("hello\n", root.join("f")).unwrap();
        let mut link = state(root, right, false);
        let file = link.file_mut(&TreePath::new("f")).unwrap();
        assert_eq!(file.size, 6);
        assert_eq!(content(&link), Content::Pending, "a link is no file");
        link.file_mut(&TreePath::new("f")).unwrap().kind = FileKind::Link;
        assert_eq!(content(&link), right);
    }

    #[test]
    fn what_did_not_change_is_shared() {
        let root = tempfile::tempdir().unwrap();
        let root = &fs::canonicalize(root.path()).unwrap();
        fs::write(root.join("f"), "hello\n").unwrap();
        let old = state(root, Content::Unreadable, true);
        let is_shared = |new: &Manifest| {
            let top = TreePath::default();
            Arc::ptr_eq(&new.directories[&top], &old.directories[&top])
        };
        assert!(is_shared(&scan(root, &old)));
        fs::write(root.join("f"), "hallo\n").unwrap();
        assert!(!is_shared(&scan(root, &old)));
    }

    #[test]
    fn a_stamp_is_settled_once_the_clock_of_its_file_system_has_gone_on() {
        const MS: i128 = 1_000_000;
        let now = 1_800_000_000_000 * MS;
        let at = |changed: i128| Stamp { changed, ..Stamp::default() };
        assert!(at(now - 200 * MS + 1).is_settled(now));
        for age in [0, 5, 90, -3_600_000] {
            assert!(!at(now - age * MS + 1).is_settled(now), "{age} ms");
        }
        // Whole seconds are those of a file system that has no others.
        assert!(!at(now - 2000 * MS).is_settled(now) && at(now - 3000 * MS).is_settled(now));
    }
}
