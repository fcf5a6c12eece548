//! The repository of a project. It is never recorded; a turn that changes it is reported.

use std::fmt;
use std::path::{Path, PathBuf};

use convoke_files::git::{git_directories, project_root};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

/// The characters of a commit's name in messages.
const SHORT_NAME: usize = 7;

/// The branch and the stash of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryState {
    /// The checked out branch as a full reference, or the name of a commit.
    pub head: String,
    /// The commit that is checked out; `None` before the first one.
    pub commit: Option<String>,
    /// The latest entry of the stash.
    pub stash: Option<String>,
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

    /// Returns what changed since.
    pub(crate) fn change(self) -> Option<RepositoryChange> {
        let after = RepositoryState::read(&self.root);
        let is_changed = after.as_ref() != Some(&self.state);
        let Self { root, state: before } = self;
        is_changed.then_some(RepositoryChange { root, before, after })
    }
}

impl RepositoryState {
    fn read(root: &Path) -> Option<Self> {
        let directories = git_directories(&Disk, root)?;
        let head = Disk.read_text(&directories.own.join("HEAD"), FileKind::Pointer).ok()?;
        let resolve = |reference: &str| resolve(&directories.common, reference);
        let stash = resolve("refs/stash");
        if let Some(branch) = head.trim().strip_prefix("ref:") {
            let branch = branch.trim();
            return Some(Self { head: branch.to_owned(), commit: resolve(branch), stash });
        }
        let commit = head.trim().to_owned();
        Some(Self { head: commit.clone(), commit: Some(commit), stash })
    }
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
        if (&before.head, &before.commit) != (&after.head, &after.commit) {
            write!(f, "HEAD of {root} was {} and is {}", place(before), place(after))?;
            separator = "; ";
        }
        match (&before.stash, &after.stash) {
            (before, after) if before == after => Ok(()),
            (_, Some(_)) => write!(f, "{separator}the stash of {root} has another latest entry"),
            (_, None) => write!(f, "{separator}the stash of {root} is empty"),
        }
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
