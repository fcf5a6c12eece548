//! A team of one agent and the person, for a session without a team file.

use std::path::{Path, PathBuf};

use convoke_protocol::session::NewSession;
use convoke_team::Team;

use super::project::{Origin, Project, UserConfiguration};
use crate::outcome::UsageError;

/// One agent and the directory that it works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    pub agent: String,
    pub directory: PathBuf,
}

impl Alone {
    /// Returns the project: the team is Convoke's own and asks for nothing, so the trust is that of the directory.
    pub fn project(&self, user: &UserConfiguration) -> anyhow::Result<Project> {
        let directory = self.directory.canonicalize().map_err(|error| {
            UsageError(format!("cannot work in {}: {error}", self.directory.display()))
        })?;
        let file = format!("the team of {} alone", self.agent);
        Ok(Project::parse(file, team(&self.agent), directory, user, Origin::File)?)
    }

    /// Returns the agent of a session that was begun with such a team.
    pub fn of_session(session: &NewSession) -> Option<Self> {
        let parsed = Team::parse(&session.team).ok()?;
        let agent = parsed.members.iter().find_map(|member| member.agent())?.agent.clone();
        let directory = Path::new(&session.directory).to_owned();
        (session.team == team(&agent)).then_some(Self { agent, directory })
    }
}

fn team(agent: &str) -> String {
    let agent = toml::Value::from(agent);
    format!(
        "[[member]]\nname = \"you\"\nhuman = true\n\n[[member]]\nname = {agent}\nagent = {agent}\n"
    )
}

#[cfg(test)]
mod tests {
    use convoke_protocol::id::{Millis, SessionId};

    use super::*;

    #[test]
    fn a_session_of_one_agent_is_recognised_by_its_whole_team() {
        let session = |team: String| NewSession {
            id: SessionId::generate(),
            created_at: Millis(0),
            name: None,
            directory: "/shop".to_owned(),
            team,
            task: None,
            rehearsal: None,
        };
        let alone = Alone { agent: "codex".to_owned(), directory: "/shop".into() };
        assert_eq!(Alone::of_session(&session(team("codex"))), Some(alone));
        let asking = team("codex") + "sandbox = \"edit\"\n";
        assert_eq!(Alone::of_session(&session(asking)), None);
    }
}
