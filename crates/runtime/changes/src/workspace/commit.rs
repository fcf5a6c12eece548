//! The commit at the end of a turn in a workspace.

use std::path::Path;

use super::repository::{Repository, head};
use super::{Description, file_name};
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::record::TurnKey;
use crate::store::Changes;

impl Changes {
    /// Commits the recorded state of a workspace to its branch; nothing if that has it already. Elsewhere
    /// there is nothing to do.
    pub fn commit(&self, directory: &Path, turn: &TurnKey) -> Result<(), ChangesError> {
        let place = self.place(directory)?;
        let Some(path) = self.workspace_path(&place.directory) else { return Ok(()) };
        let _lock = place.lock()?;
        let deadline = Deadline::within(place.limits().time * 2);
        let description = path.read()?;
        let repository = Repository::new(&path, &place.git);
        let root = repository.update(&place.load_known()?, &place.directory, deadline)?;
        // The agent may have committed itself; its commits stay.
        let head = head(&place.directory, &description.branch);
        let parent = head.unwrap_or(description.commit);
        if root == description.tree && parent == description.commit {
            return Ok(());
        }
        let message = format!("Turn {} of {}", turn.turn, turn.member);
        let author = file_name(&turn.member);
        let tree = &place.directory;
        let commit = repository.commit(root, Some(parent), &author, &message, tree, deadline)?;
        self.failpoint().reach();
        if head.is_some() {
            repository.publish(tree, &description.branch, commit, deadline)?;
            self.failpoint().reach();
        }
        path.write(self, &Description { commit, tree: root, ..description })
    }
}
