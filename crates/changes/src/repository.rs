//! The repository of a project. It is never recorded; a turn that changes it is reported.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use convoke_files::git::{git_directories, project_root};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::tree_path::TreePath;

/// The characters of a commit's name in messages.
const SHORT_NAME: usize = 7;
/// The patterns that a message names.
const NAMED_PATTERNS: usize = 5;

/// The branch and the stash of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryState {
    /// The checked out branch as a full reference, or the name of a commit.
    pub head: String,
    /// The commit that is checked out; `None` before the first one.
    pub commit: Option<String>,
    /// The latest entry of the stash.
    pub stash: Option<String>,
    /// The directory of the repository, which a file `.git` may name.
    #[serde(default)]
    pub directory: PathBuf,
}

/// The changes of a turn to the repository around its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryChange {
    /// The directory with the `.git`.
    pub root: PathBuf,
    /// The state before the turn.
    pub before: RepositoryState,
    /// The state after it; `None` if the repository is gone.
    pub after: Option<RepositoryState>,
    /// The ignore patterns that the turn added outside the working tree, in `info/exclude` or `core.excludesFile`: new files
    /// of these names are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// A repository as it was before a turn.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    state: RepositoryState,
}

impl Repository {
    /// Reads the state of the repository around a directory, from its files; no program runs.
    pub(crate) fn find(directory: &Path, home: &Path) -> Option<Self> {
        let root = project_root(&Disk, directory, Some(home))?;
        let state = RepositoryState::read(&root)?;
        Some(Self { root, state })
    }

    /// Returns what changed since, with the ignore patterns outside the working tree before and now.
    pub(crate) fn change(self, earlier: &[u8], patterns: &[u8]) -> Option<RepositoryChange> {
        let after = RepositoryState::read(&self.root);
        let ignored = if after.is_some() { new_lines(earlier, patterns) } else { Vec::new() };
        let is_changed = after.as_ref() != Some(&self.state) || !ignored.is_empty();
        let Self { root, state: before } = self;
        is_changed.then_some(RepositoryChange { root, before, after, ignored })
    }
}

impl RepositoryState {
    fn read(root: &Path) -> Option<Self> {
        let directories = git_directories(&Disk, root)?;
        let head = Disk.read_text(&directories.own.join("HEAD"), FileKind::Pointer).ok()?;
        let resolve = |reference: &str| resolve(&directories.common, reference);
        let stash = resolve("refs/stash");
        let directory = directories.own.clone();
        if let Some(branch) = head.trim().strip_prefix("ref:") {
            let (head, commit) = (branch.trim().to_owned(), resolve(branch.trim()));
            return Some(Self { head, commit, stash, directory });
        }
        let commit = head.trim().to_owned();
        Some(Self { head: commit.clone(), commit: Some(commit), stash, directory })
    }
}

/// Returns the lines of a text that an earlier one does not have.
fn new_lines(earlier: &[u8], text: &[u8]) -> Vec<String> {
    if earlier == text {
        return Vec::new();
    }
    let known: HashSet<&[u8]> = earlier.split(|&byte| byte == b'\n').collect();
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !known.contains(line));
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| TreePath::new(line).to_string()).collect()
}

/// Returns the commit that a reference names.
fn resolve(common: &Path, reference: &str) -> Option<String> {
    let is_below = reference.starts_with("refs/") && !reference.split('/').any(|part| part == "..");
    if !is_below {
        return None;
    }
    if let Ok(loose) = Disk.read_text(&common.join(reference), FileKind::Pointer) {
        return Some(loose.trim().to_owned());
    }
    let packed = Disk.read_text(&common.join("packed-refs"), FileKind::Record).ok()?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == reference).map(|(commit, _)| commit.to_owned())
}

impl fmt::Display for RepositoryChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, before) = (self.root.display(), &self.before);
        let Some(after) = &self.after else {
            return write!(f, "the repository of {root} is gone: its commits, branches and stash");
        };
        let mut separator = "";
        if !before.directory.as_os_str().is_empty() && before.directory != after.directory {
            let (from, to) = (before.directory.display(), after.directory.display());
            write!(f, "the repository of {root} was {from} and is {to}")?;
            separator = "; ";
        }
        if (&before.head, &before.commit) != (&after.head, &after.commit) {
            write!(f, "{separator}HEAD of {root} was {} and is {}", place(before), place(after))?;
            separator = "; ";
        }
        match (&before.stash, &after.stash) {
            (before, after) if before == after => {}
            (_, Some(_)) => {
                write!(f, "{separator}the stash of {root} has another latest entry")?;
                separator = "; ";
            }
            (_, None) => {
                write!(f, "{separator}the stash of {root} is empty")?;
                separator = "; ";
            }
        }
        if !self.ignored.is_empty() {
            let named = self.ignored.iter().take(NAMED_PATTERNS).map(String::as_str);
            let named = named.collect::<Vec<_>>().join(", ");
            let count = self.ignored.len().saturating_sub(NAMED_PATTERNS);
            let more = if count > 0 { format!(" and {count} more") } else { String::new() };
            write!(
                f,
                "{separator}the repository of {root} ignores more files, by `info/exclude` or `core.excludesFile`: {named}{more}"
            )?;
        }
        Ok(())
    }
}

/// Names what is checked out: `main at 1a2b3c4`.
fn place(state: &RepositoryState) -> String {
    let commit =
        state.commit.as_deref().map_or("no commit", |name| name.get(..SHORT_NAME).unwrap_or(name));
    match state.head.strip_prefix("refs/heads/") {
        Some(branch) => format!("{branch} at {commit}"),
        None => commit.to_owned(),
    }
}
