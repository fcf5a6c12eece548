//! Files and directories that a turn closed to their owner: they are opened while they are recorded, so that the turn can be
//! undone.
//!
//! What was closed before the turn, and stayed so, is left alone. The modes are noted before they are changed, and are put
//! back by the next command if the process is killed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use convoke_files::limit::FileKind as ReadKind;
use convoke_files::{Disk, Files as _};
use rustix::fs::{Access as Permission, access};
use serde::{Deserialize, Serialize};

use crate::change::FileMode;
use crate::content::Job;
use crate::entry::{Entry, Found};
use crate::error::ChangesError;
use crate::manifest::{Access, FileKind, MODE_BITS, Manifest, Stamp};
use crate::record::write_whole;
use crate::scan::is_gone;
use crate::store::Place;
use crate::tree_path::TreePath;

/// The permission to read a file, for its owner.
const OWNER_READS: FileMode = 0o400;
/// The permissions that reading a directory needs, for its owner.
const OWNER_SEARCHES: FileMode = 0o500;

/// What is opened, with the modes that it had.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    place: &'a Place,
    modes: BTreeMap<TreePath, ModeChange>,
}

/// A mode that was changed for a while. It is set back only as long as nothing else has changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModeChange {
    /// The mode before.
    pub(crate) had: FileMode,
    /// The mode that was set.
    pub(crate) set: FileMode,
    /// The file or directory.
    pub(crate) inode: u64,
}

impl ModeChange {
    /// Returns whether an entry is as the change has left it.
    pub(crate) fn is_as_set(&self, found: &Found) -> bool {
        (found.mode, found.stamp.inode) == (self.set, self.inode)
    }
}

impl<'a> Opened<'a> {
    /// Opens nothing yet.
    pub(crate) fn new(place: &'a Place) -> Self {
        Self { place, modes: BTreeMap::new() }
    }

    /// Opens what a state could not read, and what the jobs cannot read, if something closed it since an earlier state. Returns
    /// whether there was anything; the state is out of date then.
    pub(crate) fn open(
        &mut self,
        earlier: &Manifest,
        state: &Manifest,
        jobs: &[Job],
    ) -> Result<bool, ChangesError> {
        let is_since = |path: &TreePath, stamp: Stamp| {
            let known = earlier.directories.get(path);
            known.is_none_or(|known| known.access == Access::Open || known.stamp != stamp)
        };
        let directories = state.directories.iter().filter(|(_, it)| it.access != Access::Open);
        let directories = directories.filter(|(path, it)| is_since(path, it.stamp));
        let directories = directories.map(|(path, _)| (path.clone(), OWNER_SEARCHES));
        let files = jobs.iter().filter(|job| {
            let is_since = earlier.entry(&job.path).is_none_or(|known| known.stamp != job.stamp);
            job.kind == FileKind::Regular && is_since
        });
        let files = files.map(|job| (job.path.clone(), OWNER_READS));
        let own = fs::metadata(&self.place.store).map_or(0, |metadata| metadata.uid());
        let mut closed = Vec::new();
        for (path, needed) in directories.chain(files) {
            let at = path.under(self.place.root());
            let Ok(found) = fs::symlink_metadata(&at) else { continue };
            let mode = found.mode() & MODE_BITS;
            let search = Permission::READ_OK | Permission::EXEC_OK;
            let wanted = if found.is_dir() { search } else { Permission::READ_OK };
            let is_closed = mode & needed != needed
                && found.uid() == own
                && !found.is_symlink()
                && !self.modes.contains_key(&path)
                && access(&at, wanted).is_err();
            if is_closed {
                let set = mode | needed;
                closed.push((path, ModeChange { had: mode, set, inode: found.ino() }));
            }
        }
        if closed.is_empty() {
            return Ok(false);
        }
        self.modes.extend(closed.iter().cloned());
        let text = serde_json::to_vec(&self.modes.iter().collect::<Vec<_>>());
        let path = noted(self.place);
        let text = text.map_err(|error| ChangesError::damaged(&path, error))?;
        write_whole(&path, &text, self.place.failpoint())?;
        for (path, change) in closed {
            set(self.place, &path, change.set, |found| found.mode == change.had)?;
        }
        Ok(true)
    }

    /// Gives everything its mode back, also in the state that was recorded meanwhile.
    pub(crate) fn close(mut self, state: &mut Manifest) -> Result<(), ChangesError> {
        // What a directory holds comes before it.
        for (path, change) in std::mem::take(&mut self.modes).into_iter().rev() {
            set_back(self.place, &path, change)?;
            let Ok(found) = fs::symlink_metadata(path.under(self.place.root())) else {
                continue;
            };
            let (mode, stamp) = (found.mode() & MODE_BITS, Stamp::from_metadata(&found));
            if let Some(directory) = state.directories.get_mut(&path) {
                let directory = Arc::make_mut(directory);
                (directory.mode, directory.stamp) = (mode, stamp);
                (directory.settled, directory.access) = (false, Access::Closed);
            } else if let Some(entry) = state.file_mut(&path) {
                (entry.mode, entry.stamp, entry.settled) = (mode, stamp, false);
            }
        }
        let _ = fs::remove_file(noted(self.place));
        Ok(())
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // The note stays for what cannot be closed now.
        let closed = self.modes.iter().rev().map(|(path, it)| set_back(self.place, path, *it));
        let failed = closed.filter(Result::is_err).count();
        if failed == 0 && !self.modes.is_empty() {
            let _ = fs::remove_file(noted(self.place));
        }
    }
}

impl Place {
    /// Closes what a killed process has opened. Needs the lock.
    pub(crate) fn close_opened(&self) -> Result<(), ChangesError> {
        let path = noted(self);
        let text = match Disk.read(&path, ReadKind::State) {
            Ok(text) => text,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(ChangesError::io(&path)(error)),
        };
        let modes: Vec<(TreePath, ModeChange)> = match serde_json::from_slice(&text) {
            Ok(modes) => modes,
            Err(error) => {
                // It is said once, and is not in the way of what comes then.
                let aside = path.with_extension("damaged");
                fs::rename(&path, &aside).map_err(ChangesError::io(&path))?;
                return Err(ChangesError::damaged(&aside, error));
            }
        };
        let closed = modes.iter().rev().map(|(path, change)| set_back(self, path, *change));
        // One that fails does not keep the others open.
        let closed: Vec<Result<(), ChangesError>> = closed.collect();
        closed.into_iter().collect::<Result<(), ChangesError>>()?;
        fs::remove_file(&path).map_err(ChangesError::io(&path))
    }
}

fn noted(place: &Place) -> PathBuf {
    place.store.join("opened")
}

/// Sets a mode back, unless something else has changed it since.
fn set_back(place: &Place, path: &TreePath, change: ModeChange) -> Result<(), ChangesError> {
    set(place, path, change.had, |found| change.is_as_set(found))
}

/// Sets the mode of a file or a directory that is as it should be. One that is gone needs none.
fn set(
    place: &Place,
    path: &TreePath,
    mode: FileMode,
    is_expected: impl FnOnce(&Found) -> bool,
) -> Result<(), ChangesError> {
    let changed = Entry::open(place.root(), path).and_then(|entry| {
        let found = entry.found()?;
        if !is_expected(&found) {
            Ok(())
        } else if found.is_directory {
            entry.set_directory_mode(mode)
        } else {
            entry.set_file_mode(mode)
        }
    });
    match changed {
        Err(error) if !is_gone(&error) => {
            Err(ChangesError::io(&path.under(&place.directory))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::git::Host;
    use crate::store::Changes;

    /// Returns the mode of a file once recovery has found a note of it.
    fn closed(mode: FileMode, change: impl FnOnce(u64) -> ModeChange) -> FileMode {
        let directory = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(directory.path()).unwrap();
        let (project, home) = (at.join("project"), at.join("home"));
        fs::create_dir(&project).unwrap();
        let host = Host { path: "".into(), config: home.clone(), home };
        let place = Changes::new(&at.join("data"), host).place(&project).unwrap();
        let file = project.join("f");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let note = vec![(TreePath::new("f"), change(fs::metadata(&file).unwrap().ino()))];
        fs::write(noted(&place), serde_json::to_vec(&note).unwrap()).unwrap();
        place.close_opened().unwrap();
        assert!(!noted(&place).exists());
        fs::metadata(&file).unwrap().mode() & MODE_BITS
    }

    #[test]
    fn recovery_closes_only_what_nothing_else_has_changed() {
        let (had, set) = (0, 0o400);
        assert_eq!(closed(0o400, |inode| ModeChange { had, set, inode }), 0);
        // A person has opened it since, or it is another file.
        assert_eq!(closed(0o644, |inode| ModeChange { had, set, inode }), 0o644);
        assert_eq!(closed(0o400, |inode| ModeChange { had, set, inode: inode + 1 }), 0o400);
    }

    #[test]
    fn a_damaged_note_is_said_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(at.join("project")).unwrap();
        let home = at.join("home");
        let host = Host { path: "".into(), config: home.clone(), home };
        let place = Changes::new(&at.join("data"), host).place(&at.join("project")).unwrap();
        fs::write(noted(&place), "[[\"f\"").unwrap();
        let closed = place.close_opened();
        assert!(matches!(closed, Err(ChangesError::Damaged { .. })), "{closed:?}");
        place.close_opened().unwrap();
    }
}
