//! Removal of contents that no record needs any more.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::change::{Content, Oid};
use crate::error::ChangesError;
use crate::manifest::Manifest;
use crate::record::SessionRecords;
use crate::store::{Changes, Place, store_name};

impl Changes {
    /// Removes the contents in a directory's store that neither a record nor the recorded state needs. A
    /// store that no session uses goes whole.
    pub(crate) fn prune(&self, directory: &Path) -> Result<(), ChangesError> {
        let Ok(place) = self.place(directory) else { return Ok(()) };
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
        remove_loose(&place, &needed)
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

/// Removes loose objects that are not needed. Packs hold large files and stay.
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
