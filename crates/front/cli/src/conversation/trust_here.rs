//! The trust in the working directory, for commands that start a program there without a conversation.

use convoke_agent::command_files::TrustedCommands;
use convoke_core::Diagnostic;
use convoke_inspect::HostEnvironment;
use convoke_model::root_of;
use convoke_team::Trust;

use super::home::Home;
use super::project::{Project, UserConfiguration, find_team_file, place_in};

/// Whether the user trusts the working directory as it is.
#[derive(Debug)]
pub struct TrustHere {
    pub trust: Trust,
    /// A trusted file that names commands and has changed since, so that the directory is not trusted.
    pub changed: Option<Diagnostic>,
}

impl TrustHere {
    /// Finds the trust in the team file's directory; without a team file, in the directory or the root of its repository.
    pub fn find(host_environment: &HostEnvironment) -> anyhow::Result<Self> {
        let user = UserConfiguration::load(&Home::new(host_environment))?;
        let team_file = find_team_file(host_environment).map(|it| host_environment.cwd.join(it));
        // A team file with errors grants nothing.
        let project = team_file.and_then(|file| Project::read(&file, &user).ok());
        let commands = match project {
            Some(project) if project.trust() == Trust::Trusted => {
                Some(project.trusted_commands(&host_environment.cwd))
            }
            Some(_) => None,
            None => without_team_file(&user, host_environment),
        };
        let Some(commands) = commands else {
            return Ok(Self { trust: Trust::Untrusted, changed: None });
        };
        let changed = commands.check(&host_environment.cwd);
        let trust = if changed.is_some() { Trust::Untrusted } else { Trust::Trusted };
        Ok(Self { trust, changed })
    }
}

/// Returns the files that the user trusts in a directory without a team file.
fn without_team_file(
    user: &UserConfiguration,
    host_environment: &HostEnvironment,
) -> Option<TrustedCommands> {
    let HostEnvironment { cwd, home, .. } = host_environment;
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.clone());
    let root = root_of(&cwd, Some(home));
    let mut here = [&cwd, &root].into_iter();
    let (granted, grant) =
        here.find_map(|directory| Some((directory.clone(), user.trusted.granted(directory)?)))?;
    let (_, below) = place_in(&granted, &cwd);
    Some(TrustedCommands {
        files: grant.commands.clone(),
        below,
        granted,
        home: Some(home.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use convoke_agent::command_files::CommandFiles;

    use super::*;

    fn trust_of(cwd: &Path, home: &Path) -> TrustHere {
        let (home, cwd) = (home.to_owned(), cwd.to_owned());
        TrustHere::find(&HostEnvironment { environment: BTreeMap::new(), home, cwd }).unwrap()
    }

    #[test]
    fn a_directory_is_trusted_until_a_file_that_names_commands_changes() {
        let root = tempfile::tempdir().unwrap();
        let (home, cwd) = (root.path().join("home"), root.path().join("project"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(cwd.join(".claude")).unwrap();
        let cwd = cwd.canonicalize().unwrap();
        let settings = cwd.join(".claude/settings.json");
        std::fs::write(&settings, "{}").unwrap();
        assert_eq!(trust_of(&cwd, &home).trust, Trust::Untrusted);

        let environment = BTreeMap::new();
        let host = HostEnvironment { environment, home: home.clone(), cwd: cwd.clone() };
        let own = Home::new(&host);
        let mut user = UserConfiguration::load(&own).unwrap();
        let commands = CommandFiles::read(&cwd, &BTreeSet::new(), Some(&home));
        user.trusted.grant(cwd.clone(), &[], commands);
        user.trusted.save(&own).unwrap();
        assert_eq!(trust_of(&cwd, &home).trust, Trust::Trusted);

        std::fs::write(&settings, r#"{"env": {"GIT_CONFIG_COUNT": "0"}}"#).unwrap();
        let changed = trust_of(&cwd, &home);
        assert_eq!(changed.trust, Trust::Untrusted);
        assert!(changed.changed.unwrap().to_string().contains("settings.json"));
    }
}
