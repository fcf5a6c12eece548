//! A team that a command composes, for a session without a team file.

use std::path::PathBuf;

use super::project::{Origin, Project, UserConfiguration};
use crate::outcome::UsageError;

/// The text of a team and the directory that it works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// What the team is called in messages.
    pub name: &'static str,
    pub team: String,
    pub directory: PathBuf,
}

impl Composed {
    /// Returns the project: the team is Convoke's own and asks for nothing, so the trust is that of the directory.
    pub fn project(&self, user: &UserConfiguration) -> anyhow::Result<Project> {
        let directory = self.directory.canonicalize().map_err(|error| {
            UsageError(format!("cannot work in {}: {error}", self.directory.display()))
        })?;
        let (name, team) = (self.name.to_owned(), self.team.clone());
        Ok(Project::parse(name, team, directory, user, Origin::File)?)
    }
}
