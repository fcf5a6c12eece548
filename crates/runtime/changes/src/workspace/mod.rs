//! Workspaces: copies of a project's directory, one for a member, in which it works alone.
//!
//! A workspace is in the directory `workspaces` of Convoke's data, at `STORE/SESSION/MEMBER`, with the
//! working tree and, beside it and out of the agent's reach, what Convoke keeps about it. Its tree is a
//! repository of its own that reads the contents of the project's store, so that nothing of the user's
//! repository can be changed or deleted from it. Convoke never runs git with the repository of a workspace,
//! whose configuration the agent can write.

mod apply;
mod checkout;
mod commit;
mod leftover;
mod merge;
mod repository;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use apply::ApplyPlan;
pub use leftover::Leftover;
pub use merge::{ConflictChoice, MergeConflict, Resolution};

use crate::change::{Change, Oid, changes};
use crate::error::ChangesError;
use crate::manifest::Manifest;
use crate::record::{Record, TurnKey, write_whole};
use crate::store::{Changes, Place, store_name};
use crate::tree_path::{TreePath, hex};
use crate::undone::is_undone;

/// The file that describes a workspace. It is written last.
const DESCRIPTION: &str = "workspace.json";
/// The state that a workspace began with.
const BASE: &str = "base.manifest";
/// The characters of a member's name in a path.
const NAME_CHARACTERS: usize = 40;

/// Files that a new workspace gets although git ignores them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceSettings {
    /// Paths of the project that are copied.
    pub copy: Vec<String>,
    /// Paths of the project that are linked to.
    pub link: Vec<String>,
}

/// A member's own copy of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The working tree.
    pub directory: PathBuf,
    /// The directory that it is a copy of.
    pub project: PathBuf,
    pub member: String,
    pub branch: String,
    /// Paths of the project that it lacks, at most 50.
    pub lacks: Vec<String>,
    /// The number of paths that it lacks.
    pub lacked: u64,
    /// The state of the working tree.
    pub tree: WorkspaceTree,
}

/// The state of a workspace's working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceTree {
    /// It was created just now.
    Created,
    /// It was gone, and was restored from its last record just now.
    Restored,
    /// It is there.
    Present,
    /// It is gone. The next turn restores it.
    Missing,
    /// A link or a file has taken its place, which Convoke neither follows nor removes.
    Replaced,
}

/// The stored description of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    session: String,
    member: String,
    project: PathBuf,
    branch: String,
    /// The time at which it was created, in milliseconds since 1970.
    created: i64,
    /// The last commit of the branch that Convoke made, and its tree.
    commit: Oid,
    tree: Oid,
    lacks: Vec<String>,
    lacked: u64,
    /// Patterns of the project's rules that lie outside the tree, and of what was copied and linked.
    excludes: String,
    /// The ignored files and directories that were copied and linked. Not known of older workspaces.
    #[serde(default)]
    added: Vec<TreePath>,
}

/// The parts of a working tree's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspacePath {
    /// The directory of the workspace.
    directory: PathBuf,
    /// The name of the project's store.
    pub(crate) project_store: String,
    pub(crate) session: String,
}

impl WorkspacePath {
    /// Names the workspace in a directory.
    fn at(directory: &Path) -> Self {
        let name = |above: usize| {
            let name = directory.ancestors().nth(above).and_then(Path::file_name);
            name.unwrap_or_default().to_string_lossy().into_owned()
        };
        Self { directory: directory.to_owned(), project_store: name(2), session: name(1) }
    }

    /// Names the workspace of a working tree.
    fn of_tree(tree: &Path) -> Self {
        Self::at(tree.parent().unwrap_or(tree))
    }

    /// Returns the path of the working tree, which has the name of the project. What is there may be gone, or
    /// something else.
    fn tree(&self) -> Result<PathBuf, ChangesError> {
        Ok(self.real_directory()?.join(tree_name(&self.read()?.project)))
    }

    /// Returns the directory without links. An agent may have put a link in its place, which is not followed.
    fn real_directory(&self) -> Result<PathBuf, ChangesError> {
        let io = ChangesError::io(&self.directory);
        let Some(root) = self.directory.ancestors().nth(3) else {
            return Err(ChangesError::Replaced { path: self.directory.clone() });
        };
        let below = self.directory.strip_prefix(root).unwrap_or(&self.directory);
        let expected = Disk.canonicalize(root).map_err(ChangesError::io(root))?.join(below);
        if Disk.canonicalize(&self.directory).map_err(io)? == expected {
            return Ok(expected);
        }
        Err(ChangesError::Replaced { path: self.directory.clone() })
    }

    /// Returns the workspace with its description.
    fn open(&self) -> Result<Workspace, ChangesError> {
        let directory = self.tree()?;
        let tree = match fs::symlink_metadata(&directory) {
            Ok(found) if found.is_dir() => WorkspaceTree::Present,
            Ok(_) => WorkspaceTree::Replaced,
            Err(error) if error.kind() == io::ErrorKind::NotFound => WorkspaceTree::Missing,
            Err(error) => return Err(ChangesError::io(&directory)(error)),
        };
        let Description { member, project, branch, lacks, lacked, .. } = self.read()?;
        Ok(Workspace { directory, project, member, branch, lacks, lacked, tree })
    }

    /// Returns the files of stored states.
    fn states(&self) -> Result<Vec<PathBuf>, ChangesError> {
        let files = entries(&self.directory)?.into_iter();
        Ok(files.filter(|file| file.extension().is_some_and(|it| it == "manifest")).collect())
    }

    /// Returns the directory of the state of recording.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    fn description(&self) -> PathBuf {
        self.directory.join(DESCRIPTION)
    }

    /// Returns the directory of commits and trees.
    fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }

    fn base(&self) -> PathBuf {
        self.directory.join(BASE)
    }

    /// Returns the file of a state that was merged.
    fn merged(&self, at: i64) -> PathBuf {
        self.directory.join(format!("merged-{at}.manifest"))
    }

    /// Returns the index that matches the last commit.
    fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    fn read(&self) -> Result<Description, ChangesError> {
        let path = self.description();
        let text = Disk.read(&path, FileKind::State).map_err(ChangesError::io(&path))?;
        serde_json::from_slice(&text).map_err(|error| ChangesError::damaged(&path, error))
    }

    fn write(&self, changes: &Changes, description: &Description) -> Result<(), ChangesError> {
        let path = self.description();
        let text =
            serde_json::to_vec(description).map_err(|error| ChangesError::damaged(&path, error))?;
        write_whole(&path, &text, changes.failpoint())
    }
}

impl Changes {
    /// Returns the workspace of a member, created from the state of the project now if there is none.
    pub fn workspace(
        &self,
        project: &Path,
        turn: &TurnKey,
        settings: &WorkspaceSettings,
    ) -> Result<Workspace, ChangesError> {
        let project = self.place(project)?;
        if is_private(&project) {
            return Err(ChangesError::NotAProject { path: project.directory });
        }
        let _lock = project.lock()?;
        let directory = self.member_directory(&project, turn);
        leftover::remove_broken(&directory)?;
        let path = WorkspacePath::at(&directory);
        if fs::symlink_metadata(&directory).is_ok_and(|found| !found.is_dir()) {
            return Err(ChangesError::Replaced { path: directory });
        }
        if !path.description().exists() {
            self.create_workspace(&project, &directory, turn, settings)?;
            return Ok(Workspace { tree: WorkspaceTree::Created, ..path.open()? });
        }
        let workspace = path.open()?;
        match workspace.tree {
            WorkspaceTree::Replaced => Err(ChangesError::Replaced { path: workspace.directory }),
            WorkspaceTree::Missing => {
                self.restore_tree(&project, &path, &workspace.directory, settings)?;
                Ok(Workspace { tree: WorkspaceTree::Restored, ..workspace })
            }
            _ => {
                repository::repair(self, &path, &workspace.directory)?;
                Ok(workspace)
            }
        }
    }

    /// Returns the workspaces of a session, sorted by member.
    pub fn workspaces(&self, session: &str) -> Result<Vec<Workspace>, ChangesError> {
        let mut found = Vec::new();
        for directory in self.session_directories(session)? {
            for entry in entries(&directory)? {
                if is_complete(&entry) {
                    found.push(WorkspacePath::at(&entry).open()?);
                }
            }
        }
        found.sort_by(|one, other| one.member.cmp(&other.member));
        Ok(found)
    }

    /// Returns what a workspace has changed that is not in its project: since its start, or since it was
    /// merged last. Reads what was recorded at the end of the last turn.
    pub fn workspace_changes(
        &self,
        session: &str,
        workspace: &Workspace,
    ) -> Result<Vec<Change>, ChangesError> {
        let Some(path) = self.workspace_path(&workspace.directory) else {
            return Err(ChangesError::Replaced { path: workspace.directory.clone() });
        };
        let place = self.recorded_place(&path, &workspace.directory);
        let base = place.merge_base(&self.session(session).load()?)?;
        Ok(changes(&base, &place.load_known()?))
    }

    /// Returns the files and directories of a workspace that git ignores, which no record has: without those that were copied
    /// or linked there and did not change since.
    pub fn ignored_in_workspace(
        &self,
        workspace: &Workspace,
    ) -> Result<Vec<TreePath>, ChangesError> {
        let Some(path) = self.workspace_path(&workspace.directory) else {
            return Err(ChangesError::Replaced { path: workspace.directory.clone() });
        };
        let place = self.place(&workspace.directory)?;
        let _lock = place.lock()?;
        let state = place.scan(&place.load()?, None, place.deadline())?;
        let description = path.read()?;
        let is_as_added = |path: &TreePath| {
            description.added.contains(path)
                && is_older(&path.under(&workspace.directory), description.created)
        };
        let mut ignored = Vec::new();
        for (directory, known) in &state.directories {
            let names = known.left_out.iter().filter(|(_, left_out)| left_out.is_ignored());
            ignored.extend(names.map(|(name, _)| directory.join(name)));
        }
        ignored.retain(|path| !is_as_added(path));
        ignored.sort_unstable();
        Ok(ignored)
    }

    /// Returns whether a directory is the working tree of a workspace, which may be gone.
    pub fn is_workspace(&self, directory: &Path) -> bool {
        self.workspace_path(directory).is_some()
    }

    /// Removes the workspace of a member. Its records stay.
    pub fn discard(&self, session: &str, member: &str) -> Result<Workspace, ChangesError> {
        let workspace = self.workspace_of(session, member)?;
        let Some(path) = self.workspace_path(&workspace.directory) else {
            return Err(ChangesError::Replaced { path: workspace.directory });
        };
        let place = self.recorded_place(&path, &workspace.directory);
        let lock = place.lock()?;
        if place.is_busy()? {
            return Err(ChangesError::Busy { path: place.directory });
        }
        drop(lock);
        let directory = path.real_directory()?;
        let gone = leftover::marked(&directory, leftover::GONE);
        fs::rename(&directory, &gone).map_err(ChangesError::io(&directory))?;
        self.failpoint().reach();
        leftover::remove_tree(&gone)?;
        // Others of the project stay.
        let _ = gone.parent().map(fs::remove_dir);
        Ok(workspace)
    }

    /// Finds the workspace of a member by name.
    pub(crate) fn workspace_of(
        &self,
        session: &str,
        member: &str,
    ) -> Result<Workspace, ChangesError> {
        let mut workspaces = self.workspaces(session)?;
        let is_named = |it: &Workspace| it.member.eq_ignore_ascii_case(member);
        if let Some(found) = workspaces.iter().position(is_named) {
            return Ok(workspaces.swap_remove(found));
        }
        let members = workspaces.into_iter().map(|workspace| workspace.member).collect();
        Err(ChangesError::NoWorkspace { member: member.to_owned(), members })
    }

    /// Returns the paths that an agent of a session must be able to read: its workspaces and their contents.
    pub fn workspace_paths(&self, session: &str) -> Result<Vec<PathBuf>, ChangesError> {
        let mut paths = Vec::new();
        for directory in self.session_directories(session)? {
            let store = directory.parent().and_then(Path::file_name).unwrap_or_default();
            paths.push(self.store_of(&store.to_string_lossy()).join("git/objects"));
            paths.push(directory);
        }
        Ok(paths)
    }

    /// Returns the parts of the path of a working tree; `None` for other directories.
    pub(crate) fn workspace_path(&self, directory: &Path) -> Option<WorkspacePath> {
        let root = Disk.canonicalize(&self.workspaces).ok()?;
        let below = directory.strip_prefix(&root).ok()?;
        let parts: Vec<_> = below.iter().collect();
        let [store, session, _, _] = parts.as_slice() else { return None };
        let (project_store, session) = (store.to_str()?.to_owned(), session.to_str()?.to_owned());
        Some(WorkspacePath { directory: directory.parent()?.to_owned(), project_store, session })
    }

    /// Returns the workspaces whose contents are in a store.
    pub(crate) fn workspaces_of_store(&self, store: &str) -> Result<Vec<Place>, ChangesError> {
        let mut places = Vec::new();
        for session in entries(&self.workspaces.join(store))? {
            for directory in entries(&session)? {
                if is_complete(&directory) {
                    let path = WorkspacePath::at(&directory);
                    places.push(self.recorded_place(&path, &path.tree()?));
                }
            }
        }
        Ok(places)
    }

    fn member_directory(&self, project: &Place, turn: &TurnKey) -> PathBuf {
        let session = self.session(&turn.session);
        self.workspaces
            .join(store_name(&project.directory))
            .join(&*session.name())
            .join(file_name(&turn.member))
    }

    /// Returns the directories that hold the workspaces of a session.
    fn session_directories(&self, session: &str) -> Result<Vec<PathBuf>, ChangesError> {
        let name = self.session(session).name().into_owned();
        let stores = entries(&self.workspaces)?.into_iter();
        Ok(stores.map(|store| store.join(&name)).filter(|path| path.is_dir()).collect())
    }
}

impl Place {
    /// Returns the state that a workspace is compared with when it is merged.
    fn merge_base(&self, records: &[Record]) -> Result<Manifest, ChangesError> {
        let path = WorkspacePath::of_tree(&self.directory);
        let created = path.read()?.created;
        let merges = records.iter().rev().filter(|record| record.undoes.is_none());
        let mut merges = merges.filter_map(|record| Some((record.id, record.applied.as_ref()?)));
        let last =
            merges.find(|(id, applied)| applied.workspace == created && !is_undone(records, *id));
        let file = match last {
            Some((_, applied)) => path.merged(applied.state),
            None => path.base(),
        };
        known(&file)
    }

    /// Returns every stored state of a workspace.
    pub(crate) fn workspace_states(&self) -> Result<Vec<Manifest>, ChangesError> {
        let files = WorkspacePath::of_tree(&self.directory).states()?.into_iter();
        files.chain([self.manifest_path()]).map(|file| Manifest::load(&file)).collect()
    }
}

impl Place {
    /// Reads the state of a workspace, which must not be lost.
    fn load_known(&self) -> Result<Manifest, ChangesError> {
        known(&self.manifest_path())
    }
}

/// Returns whether nothing at a path, or below it, changed since a time in milliseconds. Links are not followed.
fn is_older(path: &Path, since: i64) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    if found.is_symlink() {
        return true;
    }
    if found.mtime() * 1000 + found.mtime_nsec() / 1_000_000 > since {
        return false;
    }
    !found.is_dir() || entries(path).is_ok_and(|all| all.iter().all(|it| is_older(it, since)))
}

/// Reads a state that cannot be made again.
fn known(file: &Path) -> Result<Manifest, ChangesError> {
    let state = Manifest::load(file)?;
    let lost = || ChangesError::damaged(file, "it is missing or damaged");
    if state.is_known() { Ok(state) } else { Err(lost()) }
}

/// Returns whether a directory may hold secrets that agents cannot read where they are.
fn is_private(project: &Place) -> bool {
    let below = project.directory.strip_prefix(&project.host().home).ok();
    let below = below.and_then(|below| below.iter().next());
    below.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn tree_name(project: &Path) -> &std::ffi::OsStr {
    project.file_name().unwrap_or("project".as_ref())
}

/// Returns a member's name as a part of paths and branches. Names that differ stay different.
fn file_name(member: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let short: String = member
        .chars()
        .take(NAME_CHARACTERS)
        .map(|c| if is_plain(c) { c.to_ascii_lowercase() } else { '-' })
        .collect();
    if short == member {
        return short;
    }
    format!("{short}-{}", hex(&Sha256::digest(member)[..4]))
}

/// Returns whether a path is the directory of a complete workspace.
fn is_complete(path: &Path) -> bool {
    is_whole(path)
        && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
        && path.join(DESCRIPTION).exists()
}

/// Returns whether a directory is not part of a creation or removal.
fn is_whole(directory: &Path) -> bool {
    directory.extension().is_none()
}

/// Returns the entries of a directory, sorted. One that does not exist has none.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, ChangesError> {
    let mut found = Vec::new();
    match fs::read_dir(directory) {
        Ok(list) => {
            for entry in list {
                found.push(entry.map_err(ChangesError::io(directory))?.path());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(ChangesError::io(directory)(error)),
    }
    found.sort_unstable();
    Ok(found)
}

/// Parses a path of the settings: below the project, and not in a repository's directory.
fn setting_path(written: &str) -> Result<TreePath, ChangesError> {
    let path = TreePath::new(written.trim_end_matches('/'));
    if path.is_safe() && !written.contains(char::is_control) {
        Ok(path)
    } else {
        Err(ChangesError::BadPath { path: written.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_members_become_parts_of_paths_and_stay_different() {
        assert_eq!(file_name("max"), "max");
        let names = ["Max", "a b", "a-b", "é", "../x", "a.lock", &"x".repeat(300)];
        let mut files: Vec<String> = names.iter().map(|name| file_name(name)).collect();
        for name in &files {
            assert!(name.len() < 60, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        }
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), names.len());
    }

    #[test]
    fn settings_name_paths_of_the_project_only() {
        assert!(setting_path(".env").is_ok() && setting_path("target/").is_ok());
        for bad in ["../x", "/etc", ".git/config", "", "a//b"] {
            assert!(setting_path(bad).is_err(), "{bad}");
        }
    }
}
