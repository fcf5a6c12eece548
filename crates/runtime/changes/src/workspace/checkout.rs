//! Creation of a workspace from the recorded state of its project.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_files::{Disk, Files as _};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::repository::{Repository, excludes};
use super::{
    BASE, Description, WorkspacePath, WorkspaceSettings, file_name, leftover, setting_path,
    tree_name,
};
use crate::change::{Content, Oid};
use crate::content::{fill, pending};
use crate::copier::Wait;
use crate::entry::Entry;
use crate::error::ChangesError;
use crate::git::{Deadline, Git};
use crate::limits::Limits;
use crate::manifest::{FileKind, MODE_BITS, Manifest, Stamp};
use crate::record::{TurnKey, private_directory, write_cache};
use crate::store::{Changes, Place};
use crate::tree_path::TreePath;
use crate::turn::milliseconds;

/// The paths that a description names of those that a workspace lacks.
pub(super) const LACKED_PATHS: usize = 50;
/// The time limit of the creation of a workspace, as a multiple of a recording's.
const TIME_FACTOR: u32 = 6;

impl Changes {
    /// Creates a workspace, whole or not at all. Needs the lock of the project.
    pub(super) fn create_workspace(
        &self,
        project: &Place,
        directory: &Path,
        turn: &TurnKey,
        settings: &WorkspaceSettings,
    ) -> Result<(), ChangesError> {
        let deadline = Deadline::within(project.limits().time * TIME_FACTOR);
        let state = self.state_of_project(project, turn, deadline)?;
        let new = leftover::marked(directory, leftover::NEW);
        let created = check_space(&self.workspaces, &state, project.limits())
            .and_then(|()| self.fill(project, &state, (&new, directory), turn, settings, deadline));
        if created.is_err() {
            leftover::remove_tree(&new)?;
        }
        created?;
        self.failpoint().reach();
        fs::rename(&new, directory).map_err(ChangesError::io(directory))?;
        self.failpoint().reach();
        Ok(())
    }

    /// Records the state of the project with all of its contents.
    fn state_of_project(
        &self,
        project: &Place,
        turn: &TurnKey,
        deadline: Deadline,
    ) -> Result<Manifest, ChangesError> {
        project.recover()?;
        let records = self.session(&turn.session);
        let old = project.load()?;
        let mut state = project.scan(&old, None, deadline)?;
        if let Some(copier) = project.copier().filter(|copier| copier.is_running()) {
            // It copies the same files, and leaves a processor to the turn that waits for them here.
            let wait =
                Wait { all: deadline.left(), lone: Duration::ZERO, lone_most: Duration::ZERO };
            copier.copy(&project.writer(), Vec::new(), 0, wait);
            fill(&mut state, &copier.copied());
        }
        let jobs = pending(&state);
        if !jobs.is_empty() {
            project.copy(&mut state, &jobs, deadline)?;
        }
        if records.has_any(&project.directory)? && !project.is_busy()? {
            project.record_person(&old, &state, turn)?;
        }
        records.visit(&project.directory)?;
        project.save(&state)?;
        project.attribute_again();
        Ok(state)
    }

    /// Writes everything of a workspace into a new directory, which is renamed to `directory` later.
    fn fill(
        &self,
        project: &Place,
        state: &Manifest,
        (new, directory): (&Path, &Path),
        turn: &TurnKey,
        settings: &WorkspaceSettings,
        deadline: Deadline,
    ) -> Result<(), ChangesError> {
        let tree = new.join(tree_name(&project.directory));
        private_directory(&tree)?;
        self.failpoint().reach();
        let (path, place) = (WorkspacePath::at(new), self.place(&tree)?);
        let repository = Repository::create(&path, &project.git)?;
        let root = check_out(&repository, state, &tree, deadline)?;
        self.failpoint().reach();
        let mut lacks = copy_unstored(project, state, &tree)?;
        let added = add_ignored(project, &tree, settings)?;
        lacks.extend(ignored(project, state).filter(|path| !added.contains(path)));
        lacks.sort_unstable();
        set_modes(state, &tree)?;
        let session = self.session(&turn.session).name().into_owned();
        let branch = format!("convoke/{session}/{}", file_name(&turn.member));
        let message = format!("State of the working directory before turn {}", turn.turn);
        let commit = repository.commit(root, None, "convoke", &message, &tree, deadline)?;
        let name = |path: &TreePath| {
            let is_directory = path.under(project.root()).is_dir();
            if is_directory { format!("{path}/") } else { path.to_string() }
        };
        let description = Description {
            session: turn.session.clone(),
            member: turn.member.clone(),
            project: project.directory.clone(),
            branch,
            created: milliseconds(),
            commit,
            tree: root,
            lacked: lacks.len() as u64,
            lacks: lacks.iter().take(LACKED_PATHS).map(name).collect(),
            excludes: excludes(project, &added),
            added,
        };
        super::repository::write(&tree, &description, &path, directory)?;
        self.failpoint().reach();
        let own = own_manifest(&place, state, deadline)?;
        place.save(&own)?;
        write_cache(&new.join(BASE), &own.encode(), self.failpoint())?;
        path.write(self, &description)
    }

    /// Writes the working tree of a workspace again, as it was recorded last. Needs the lock of the project.
    pub(super) fn restore_tree(
        &self,
        project: &Place,
        path: &WorkspacePath,
        tree: &Path,
        settings: &WorkspaceSettings,
    ) -> Result<(), ChangesError> {
        let deadline = Deadline::within(project.limits().time * TIME_FACTOR);
        let recorded = self.recorded_place(path, tree);
        let _lock = recorded.lock()?;
        let state = recorded.load()?;
        // It is beside the tree until it is complete. An earlier one may have been interrupted.
        let draft = path.directory.join("restored");
        leftover::remove_tree(&draft)?;
        private_directory(&draft)?;
        let repository = Repository::new(path, &project.git);
        check_out(&repository, &state, &draft, deadline)?;
        self.failpoint().reach();
        add_ignored(project, &draft, settings)?;
        set_modes(&state, &draft)?;
        super::repository::write(&draft, &path.read()?, path, &path.directory)?;
        fs::rename(&draft, tree).map_err(ChangesError::io(tree))?;
        self.failpoint().reach();
        let place = self.place(tree)?;
        place.save(&own_manifest(&place, &state, deadline)?)
    }
}

/// Writes the stored contents of a state into an empty directory. Returns its tree.
fn check_out(
    repository: &Repository<'_>,
    state: &Manifest,
    tree: &Path,
    deadline: Deadline,
) -> Result<Oid, ChangesError> {
    let root = repository.update(state, tree, deadline)?;
    let mut command = repository.command(tree);
    // As many processes as there are processors.
    command.args(["-c", "checkout.workers=0", "checkout-index", "-a", "-f", "-q", "-u"]);
    Git::output(command, "checkout-index", Vec::new(), 0, deadline)?;
    Ok(root)
}

/// Copies and links the ignored files that the settings name. Returns their paths.
fn add_ignored(
    project: &Place,
    tree: &Path,
    settings: &WorkspaceSettings,
) -> Result<Vec<TreePath>, ChangesError> {
    let mut added = Vec::new();
    let mut budget = Budget::new(project.limits());
    for written in &settings.copy {
        let wanted = setting_path(written)?;
        if let Some((_, to)) = addition(project, tree, &wanted)? {
            copy_all(&wanted.under(project.root()), &to, &mut budget)?;
            added.push(wanted);
        }
    }
    for written in &settings.link {
        let wanted = setting_path(written)?;
        if let Some((from, to)) = addition(project, tree, &wanted)? {
            symlink(&from, &to).map_err(ChangesError::io(&to))?;
            added.push(wanted);
        }
    }
    Ok(added)
}

/// Scans a new working tree; its names and contents are known.
fn own_manifest(
    place: &Place,
    state: &Manifest,
    deadline: Deadline,
) -> Result<Manifest, ChangesError> {
    let mut unsettled = state.clone();
    for directory in unsettled.directories.values_mut() {
        Arc::make_mut(directory).settled = false;
    }
    let mut own = place.scan(&unsettled, None, deadline)?;
    for (path, directory) in &mut own.directories {
        let Some(recorded) = state.directories.get(path) else { continue };
        for (name, entry) in &mut Arc::make_mut(directory).files {
            if let Some(known) = recorded.files.get(name)
                && known.kind == entry.kind
                && known.size == entry.size
            {
                entry.content = known.content;
            }
        }
    }
    Ok(own)
}

fn check_space(workspaces: &Path, state: &Manifest, limits: &Limits) -> Result<(), ChangesError> {
    let bytes: u64 = state.files().map(|(_, entry)| entry.size).sum();
    if bytes > limits.bytes {
        return Err(ChangesError::OverBytes { limit: limits.bytes });
    }
    private_directory(workspaces)?;
    let disk = rustix::fs::statvfs(workspaces);
    let disk = disk.map_err(|error| ChangesError::io(workspaces)(error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < limits.free_bytes.saturating_add(bytes) {
        let path = workspaces.to_owned();
        return Err(ChangesError::DiskFull { path, needed: limits.free_bytes });
    }
    Ok(())
}

/// Copies the files whose contents are not in the store. Returns those that could not be copied.
fn copy_unstored(
    project: &Place,
    state: &Manifest,
    tree: &Path,
) -> Result<Vec<TreePath>, ChangesError> {
    let mut lacks = Vec::new();
    for (path, entry) in state.files() {
        if entry.content.stored().is_some() {
            continue;
        }
        let (from, to) = (path.under(project.root()), path.under(tree));
        let is_large = matches!(entry.content, Content::HashOnly(_));
        if is_large && entry.kind == FileKind::Regular {
            create_parent(&to)?;
            let opened = Entry::open(project.root(), &path).and_then(|it| it.open_file());
            let Ok(file) = opened else {
                lacks.push(path);
                continue;
            };
            copy_file(file, &to)?;
            let now =
                fs::symlink_metadata(&from).ok().map(|metadata| Stamp::from_metadata(&metadata));
            if now == Some(entry.stamp) {
                continue;
            }
            fs::remove_file(&to).map_err(ChangesError::io(&to))?;
        }
        lacks.push(path);
    }
    Ok(lacks)
}

/// Returns the paths that git ignores.
fn ignored<'a>(project: &'a Place, state: &'a Manifest) -> impl Iterator<Item = TreePath> + 'a {
    state.directories.iter().flat_map(|(path, directory)| {
        let ignored = directory.left_out.iter().filter(|(_, why)| why.is_ignored());
        ignored
            .map(|(name, _)| path.join(name))
            .filter(|path| fs::symlink_metadata(path.under(project.root())).is_ok())
    })
}

/// Returns where a path of the settings is and where it goes; `None` if there is nothing to do.
fn addition(
    project: &Place,
    tree: &Path,
    path: &TreePath,
) -> Result<Option<(PathBuf, PathBuf)>, ChangesError> {
    let (from, to) = (path.under(&project.directory), path.under(tree));
    let Some(parent) = from.parent().and_then(|parent| Disk.canonicalize(parent).ok()) else {
        return Ok(None);
    };
    // No link leads there, neither in the project nor in its copy.
    if Some(parent.as_path()) != from.parent() {
        return Err(ChangesError::BadPath { path: path.to_string() });
    }
    if fs::symlink_metadata(&from).is_err() || fs::symlink_metadata(&to).is_ok() {
        return Ok(None);
    }
    create_parent(&to)?;
    Ok(Some((from, to)))
}

/// The files and bytes that may still be copied.
struct Budget {
    files: u64,
    bytes: u64,
    limits: Limits,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self { files: limits.files, bytes: limits.bytes, limits: limits.clone() }
    }

    fn spend(&mut self, bytes: u64) -> Result<(), ChangesError> {
        let over_files = || ChangesError::OverFiles { limit: self.limits.files };
        self.files = self.files.checked_sub(1).ok_or_else(over_files)?;
        let over_bytes = || ChangesError::OverBytes { limit: self.limits.bytes };
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(over_bytes)?;
        Ok(())
    }
}

/// Copies a file, a link or a directory with everything in it. Links are not followed.
fn copy_all(from: &Path, to: &Path, budget: &mut Budget) -> Result<(), ChangesError> {
    let metadata = fs::symlink_metadata(from).map_err(ChangesError::io(from))?;
    budget.spend(if metadata.is_file() { metadata.len() } else { 0 })?;
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(ChangesError::io(from))?;
        symlink(target, to).map_err(ChangesError::io(to))?;
    } else if metadata.is_file() {
        // A link that has taken its place is not followed.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, from, flags, Mode::empty());
        copy_file(file.map_err(|error| ChangesError::io(from)(error.into()))?.into(), to)?;
    } else if metadata.is_dir() {
        fs::create_dir(to).map_err(ChangesError::io(to))?;
        for entry in fs::read_dir(from).map_err(ChangesError::io(from))? {
            let name = entry.map_err(ChangesError::io(from))?.file_name();
            copy_all(&from.join(&name), &to.join(&name), budget)?;
        }
    }
    Ok(())
}

/// Copies a file with its permissions.
fn copy_file(mut from: fs::File, to: &Path) -> Result<(), ChangesError> {
    let mut copied = fs::File::create_new(to).map_err(ChangesError::io(to))?;
    let written = std::io::copy(&mut from, &mut copied);
    let written = written.and_then(|_| copied.set_permissions(from.metadata()?.permissions()));
    written.map_err(ChangesError::io(to))
}

/// Creates the directories that git has none of, and sets all permission bits.
fn set_modes(state: &Manifest, tree: &Path) -> Result<(), ChangesError> {
    for path in state.directories.keys() {
        let at = path.under(tree);
        fs::create_dir_all(&at).map_err(ChangesError::io(&at))?;
    }
    let set = |at: &Path, mode: u32| {
        let found = match fs::symlink_metadata(at) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if found.is_symlink() || found.mode() & MODE_BITS == mode {
            return Ok(());
        }
        fs::set_permissions(at, Permissions::from_mode(mode))
    };
    for (path, entry) in state.files() {
        let at = path.under(tree);
        set(&at, entry.mode).map_err(ChangesError::io(&at))?;
    }
    // Entries before the directory that holds them.
    for (path, directory) in state.directories.iter().rev().filter(|(path, _)| !path.is_root()) {
        let at = path.under(tree);
        set(&at, directory.mode).map_err(ChangesError::io(&at))?;
    }
    Ok(())
}

fn create_parent(path: &Path) -> Result<(), ChangesError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(ChangesError::io(parent))
}

/// Returns the entries of an index that a state has: contents that are stored.
pub(super) fn index_entries(
    state: &Manifest,
) -> impl Iterator<Item = (TreePath, &'static str, Oid)> {
    state.files().filter_map(|(path, entry)| {
        let mode = match entry.kind {
            FileKind::Link => "120000",
            FileKind::Regular if entry.mode & 0o100 != 0 => "100755",
            FileKind::Regular => "100644",
        };
        Some((path, mode, entry.content.stored()?))
    })
}
