//! Removal of contents that no record needs any more.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

use crate::change::{Content, Oid};
use crate::error::ChangesError;
use crate::manifest::Manifest;
use crate::record::SessionRecords;
use crate::store::{Changes, Place, store_name};

impl Changes {
    /// Removes the contents in a directory's store that neither a record nor the recorded state needs. A
    /// store that no session uses goes whole.
    pub(crate) fn prune(&self, directory: &Path) -> Result<(), ChangesError> {
        let Some(place) = self.stored_place(directory) else { return Ok(()) };
        let lock = place.lock()?;
        if place.is_busy()? {
            return Ok(());
        }
        let name = store_name(&place.directory);
        let mut locks = Vec::new();
        let mut manifests = vec![place.load()?];
        for workspace in self.workspaces_of_store(&name)? {
            // A turn that runs in a workspace stores contents that no record has yet.
            let Some(lock) = workspace.try_lock() else { return Ok(()) };
            if workspace.is_busy()? {
                return Ok(());
            }
            locks.push(lock);
            manifests.extend(workspace.workspace_states()?);
        }
        let mut is_used = false;
        let mut needed: HashSet<Oid> = HashSet::new();
        for session in self.sessions()? {
            if !session.has_any(&place.directory)? {
                continue;
            }
            is_used = true;
            let records = session.load()?;
            let is_here = |directory: &Path| {
                let workspace = self.workspace_path(directory);
                directory == place.directory
                    || workspace.is_some_and(|workspace| workspace.project_store == name)
            };
            let records = records.iter().filter(|record| is_here(&record.directory));
            let changes = records.flat_map(|record| &record.changes);
            let nodes = changes.flat_map(|change| [&change.before, &change.after]).flatten();
            needed.extend(nodes.filter_map(|node| node.content()?.stored()));
        }
        if !is_used {
            drop(lock);
            return match fs::remove_dir_all(&place.store) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(ChangesError::io(&place.store)(error))
                }
                _ => Ok(()),
            };
        }
        let entries = manifests.iter().flat_map(Manifest::files);
        needed.extend(entries.filter_map(|(_, entry)| Content::stored(entry.content)));
        remove_loose(&place, &needed)?;
        remove_packs(&place, &needed)
    }

    fn sessions(&self) -> Result<Vec<SessionRecords>, ChangesError> {
        let directory = self.sessions_directory();
        let mut sessions = Vec::new();
        match fs::read_dir(&directory) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(ChangesError::io(&directory))?.file_name();
                    sessions.extend(name.to_str().map(|name| self.session(name)));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(ChangesError::io(&directory)(error)),
        }
        Ok(sessions)
    }
}

/// Removes loose objects that are not needed, and what killed processes left beside them.
fn remove_loose(place: &Place, needed: &HashSet<Oid>) -> Result<(), ChangesError> {
    for byte in 0..=u8::MAX {
        let directory = place.git.repository.join(format!("objects/{byte:02x}"));
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let entry = entry.map_err(ChangesError::io(&directory))?;
            let name = format!("{byte:02x}{}", entry.file_name().to_string_lossy());
            if Oid::parse(&name).is_none_or(|oid| !needed.contains(&oid)) {
                fs::remove_file(entry.path()).map_err(ChangesError::io(&entry.path()))?;
            }
        }
    }
    Ok(())
}

/// Removes the packs that have no object which is needed, and what killed processes left beside them. Files over a
/// megabyte are in packs, one for each process that stored some.
fn remove_packs(place: &Place, needed: &HashSet<Oid>) -> Result<(), ChangesError> {
    let directory = place.git.repository.join("objects/pack");
    let paths = fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let paths: Vec<PathBuf> = paths.collect();
    let mut removed = Vec::new();
    for path in &paths {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b"tmp_") {
            removed.push(path);
        } else if name.ends_with(b".idx") && is_unneeded(path, needed) {
            let is_of_pack = |other: &&PathBuf| other.file_stem() == path.file_stem();
            // Without its index, a pack is none.
            removed.push(path);
            removed.extend(paths.iter().filter(is_of_pack).filter(|other| *other != path));
        }
    }
    for path in removed {
        fs::remove_file(path).map_err(ChangesError::io(path))?;
    }
    Ok(())
}

/// Returns whether the index of a pack has no object that is needed. One that cannot be read may have any.
fn is_unneeded(index: &Path, needed: &HashSet<Oid>) -> bool {
    let Ok(bytes) = Disk.read(index, FileKind::Record) else { return false };
    packed(&bytes).is_some_and(|oids| !oids.iter().any(|oid| needed.contains(oid)))
}

/// Parses the names of objects in the index of a pack, of version 2.
fn packed(bytes: &[u8]) -> Option<Vec<Oid>> {
    const HEADER: &[u8] = b"\xfftOc\0\0\0\x02";
    const COUNTS: usize = 256 * 4;
    let rest = bytes.strip_prefix(HEADER)?;
    let count = rest.get(COUNTS - 4..COUNTS)?.try_into().ok().map(u32::from_be_bytes)?;
    let names = rest.get(COUNTS..)?.get(..usize::try_from(count).ok()?.checked_mul(20)?)?;
    names.chunks_exact(20).map(|name| name.try_into().ok().map(Oid)).collect()
}
