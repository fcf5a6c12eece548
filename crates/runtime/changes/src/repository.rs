//! The repository of a project. It is never recorded; a turn that changes it is reported.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use convoke_files::git::{git_directories, project_root};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;
use crate::tree_path::TreePath;
use crate::undo::status;

/// The characters of a commit's name in messages.
const SHORT_NAME: usize = 7;
/// The patterns or working trees that a message names.
const LISTED_NAMES: usize = 5;

/// The branch, the stash and the working trees of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryState {
    /// The checked out branch as a full reference, or the name of a commit.
    pub head: String,
    /// The commit that is checked out; `None` before the first one.
    pub commit: Option<String>,
    /// The latest entry of the stash.
    pub stash: Option<String>,
    /// The number of entries of the stash.
    #[serde(default)]
    pub stashes: u64,
    /// The directory of the repository, which a file `.git` may name.
    #[serde(default)]
    pub directory: PathBuf,
    /// The names of its other working trees, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<String>,
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
    /// The number of commits that the turn made, as far as the log of `HEAD` has them.
    #[serde(default)]
    pub commits: u64,
}

/// A repository as it was before a turn.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    state: RepositoryState,
    /// The bytes of the log of `HEAD`.
    logged: u64,
}

impl Repository {
    /// Reads the state of the repository around a directory, from its files; no program runs.
    pub(crate) fn find(directory: &Path, home: &Path) -> Option<Self> {
        let root = project_root(&Disk, directory, Some(home))?;
        let state = RepositoryState::read(&root)?;
        let logged = std::fs::metadata(head_log(&state)).map_or(0, |log| log.len());
        Some(Self { root, state, logged })
    }

    /// Returns what changed since, with the ignore patterns outside the working tree before and now.
    pub(crate) fn change(self, earlier: &[u8], patterns: &[u8]) -> Option<RepositoryChange> {
        let after = RepositoryState::read(&self.root);
        let ignored = if after.is_some() { new_lines(earlier, patterns) } else { Vec::new() };
        let is_changed = after.as_ref() != Some(&self.state) || !ignored.is_empty();
        let Self { root, state: before, logged } = self;
        is_changed.then(|| {
            let commits = after.as_ref().map_or(0, |after| commits_since(after, logged));
            RepositoryChange { root, before, after, ignored, commits }
        })
    }
}

/// Returns the directories below a recorded one that held a repository of their own and no longer do. An undo restores their
/// files, and no repository.
pub(crate) fn lost_repositories(root: &Path, before: &Manifest, after: &Manifest) -> Vec<TreePath> {
    let nested = before.directories.iter().filter(|(path, it)| it.is_repository && !path.is_root());
    let is_kept = |path: &TreePath| after.directories.get(path).is_some_and(|it| it.is_repository);
    let is_gone = |path: &TreePath| matches!(status(&git_in(path).under(root)), Ok(None));
    nested.map(|(path, _)| path).filter(|path| !is_kept(path) && is_gone(path)).cloned().collect()
}

/// Returns the path of the repository of a directory.
pub(crate) fn git_in(directory: &TreePath) -> TreePath {
    directory.join(b".git")
}

impl RepositoryChange {
    /// Returns the number of entries that the turn added to the stash.
    pub fn stashes(&self) -> u64 {
        let after = self.after.as_ref().map_or(0, |after| after.stashes);
        after.saturating_sub(self.before.stashes)
    }

    /// Counts the commits and stashes of the turn: `3 commits, 1 stash`. Empty if it made none.
    pub fn counts(&self) -> String {
        let count = |count: u64, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            _ => Some(format!("{count} {many}")),
        };
        let counts =
            [count(self.commits, "commit", "commits"), count(self.stashes(), "stash", "stashes")];
        counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl RepositoryState {
    fn read(root: &Path) -> Option<Self> {
        let directories = git_directories(&Disk, root)?;
        let head = Disk.read_text(&directories.own.join("HEAD"), FileKind::Pointer).ok()?;
        let resolve = |reference: &str| resolve(&directories.common, reference);
        let stash = resolve("refs/stash");
        let stashes = stash.as_ref().map_or(0, |_| {
            let log = Disk.read(&directories.common.join("logs/refs/stash"), FileKind::Record);
            log.map_or(1, |log| log.trim_ascii_end().split(|&byte| byte == b'\n').count() as u64)
        });
        let directory = directories.own.clone();
        let worktrees = worktrees(&directories.common);
        if let Some(branch) = head.trim().strip_prefix("ref:") {
            let (head, commit) = (branch.trim().to_owned(), resolve(branch.trim()));
            return Some(Self { head, commit, stash, stashes, directory, worktrees });
        }
        let (head, commit) = (head.trim().to_owned(), Some(head.trim().to_owned()));
        Some(Self { head, commit, stash, stashes, directory, worktrees })
    }
}

/// Returns the names of the working trees that `git worktree add` made, sorted.
fn worktrees(common: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let names = entries.map(|entry| TreePath::new(entry.file_name().into_encoded_bytes()));
    let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
    names.sort_unstable();
    names
}

fn head_log(state: &RepositoryState) -> PathBuf {
    state.directory.join("logs/HEAD")
}

/// Counts the commits in the log of `HEAD` after its first bytes. A log that was cut since has none.
fn commits_since(state: &RepositoryState, logged: u64) -> u64 {
    const MADE: [&[u8]; 5] = [b"commit", b"cherry-pick", b"revert", b"am", b"rebase (pick)"];
    let log = Disk.read(&head_log(state), FileKind::Record).unwrap_or_default();
    let new = usize::try_from(logged).ok().and_then(|logged| log.get(logged..));
    let is_commit = |line: &&[u8]| {
        let message = line.splitn(2, |&byte| byte == b'\t').nth(1).unwrap_or_default();
        let what = message.split(|&byte| byte == b':').next().unwrap_or_default();
        MADE.contains(&what) || what.starts_with(b"commit (")
    };
    let lines = new.unwrap_or_default().split(|&byte| byte == b'\n');
    lines.filter(is_commit).count() as u64
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
            return write!(
                f,
                "the repository of {root} is gone, with its commits, branches and stash"
            );
        };
        let mut separator = "";
        if !before.directory.as_os_str().is_empty() && before.directory != after.directory {
            let (from, to) = (before.directory.display(), after.directory.display());
            write!(f, "the repository of {root} was {from} and is {to}")?;
            separator = "; ";
        }
        if (&before.head, &before.commit) != (&after.head, &after.commit) {
            write!(f, "{separator}HEAD of {root} was {} and is {}", place(before), place(after))?;
            match self.commits {
                0 => {}
                1 => f.write_str(", by 1 commit")?,
                commits => write!(f, ", by {commits} commits")?,
            }
            separator = "; ";
        }
        match (&before.stash, &after.stash) {
            (before, after) if before == after => {}
            (_, Some(_)) => {
                match self.stashes() {
                    0 => write!(f, "{separator}the stash of {root} has another latest entry")?,
                    1 => write!(f, "{separator}the stash of {root} has 1 new entry")?,
                    new => write!(f, "{separator}the stash of {root} has {new} new entries")?,
                }
                separator = "; ";
            }
            (_, None) => {
                write!(f, "{separator}the stash of {root} is empty")?;
                separator = "; ";
            }
        }
        let trees = [
            ("new working trees", new_names(&before.worktrees, &after.worktrees)),
            ("no longer the working trees", new_names(&after.worktrees, &before.worktrees)),
        ];
        for (what, names) in trees.iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{separator}the repository of {root} has {what} {}", listed(names))?;
            separator = "; ";
        }
        if !self.ignored.is_empty() {
            let ignored: Vec<&str> = self.ignored.iter().map(String::as_str).collect();
            write!(
                f,
                "{separator}the repository of {root} ignores more files, by `info/exclude` or `core.excludesFile`: {}",
                listed(&ignored)
            )?;
        }
        Ok(())
    }
}

/// Returns the names that an earlier list does not have.
fn new_names<'a>(earlier: &[String], names: &'a [String]) -> Vec<&'a str> {
    names.iter().filter(|name| !earlier.contains(name)).map(String::as_str).collect()
}

/// Returns the first of some names, and the number of the others.
fn listed(names: &[&str]) -> String {
    let named = names[..names.len().min(LISTED_NAMES)].join(", ");
    match names.len().saturating_sub(LISTED_NAMES) {
        0 => named,
        more => format!("{named} and {more} more"),
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
