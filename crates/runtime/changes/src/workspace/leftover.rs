//! Removal of workspaces, and what crashes leave of them.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{DESCRIPTION, entries, is_whole};
use crate::error::ChangesError;
use crate::store::Changes;

/// Marks the directory of a workspace that is being created.
pub(super) const NEW: &str = "new";
/// Marks the directory of a workspace that is being removed.
pub(super) const GONE: &str = "gone";

/// A directory of a workspace that nothing uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The directory.
    pub path: PathBuf,
    /// The reason why it is there.
    pub reason: &'static str,
}

impl Changes {
    /// Finds what crashes left of workspaces, and workspaces of sessions that do not exist.
    pub fn leftovers(&self, sessions: &HashSet<String>) -> Result<Vec<Leftover>, ChangesError> {
        let mut found = Vec::new();
        for store in entries(&self.workspaces)? {
            for session in entries(&store)? {
                let name = session.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if !sessions.contains(&name) {
                    let reason = "its session no longer exists";
                    found.push(Leftover { path: session, reason });
                    continue;
                }
                for path in entries(&session)? {
                    if !is_whole(&path) {
                        let reason = "its creation or removal was interrupted";
                        found.push(Leftover { path, reason });
                    } else if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                        found.push(Leftover { path, reason: "it is not a directory" });
                    } else if !path.join(DESCRIPTION).exists() {
                        found.push(Leftover { path, reason: "its description is missing" });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Removes all workspaces of a session.
    pub(crate) fn remove_workspaces(&self, session: &str) -> Result<(), ChangesError> {
        for directory in self.session_directories(session)? {
            remove_tree(&directory)?;
            if let Some(store) = directory.parent() {
                // It may hold workspaces of other sessions.
                let _ = fs::remove_dir(store);
            }
        }
        Ok(())
    }
}

/// Removes what interrupted creations and removals left of a member's workspace. Needs the lock of the
/// project.
pub(super) fn remove_broken(directory: &Path) -> Result<(), ChangesError> {
    let (parent, name) = (directory.parent(), directory.file_name());
    for path in parent.map(entries).transpose()?.unwrap_or_default() {
        if !is_whole(&path) && path.file_stem() == name {
            remove_tree(&path)?;
        }
    }
    Ok(())
}

/// Returns the name of a directory that is being created or removed.
pub(super) fn marked(directory: &Path, mark: &str) -> PathBuf {
    directory.with_extension(format!("{mark}-{}", std::process::id()))
}

/// Removes a directory with everything in it, also where an agent took the permission to.
pub(super) fn remove_tree(path: &Path) -> Result<(), ChangesError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directories(path);
            fs::remove_dir_all(path).map_err(ChangesError::io(path))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ChangesError::io(path)(error)),
        _ => Ok(()),
    }
}

fn open_directories(path: &Path) {
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        let _ = fs::set_permissions(&directory, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
}
