//! The user's own directories: configuration, and the data that Convoke stores.

use std::path::PathBuf;

use convoke_agent::config::Catalog;
use convoke_agent::sandbox::Secrets;
use convoke_files::{Disk, FileKind, Files};
use convoke_inspect::HostEnvironment;
use convoke_team::{PermissionFile, TeamFileErrors};

use super::project::TeamFileReport;

/// The user's own directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The directory of `agents.toml`.
    pub configuration: PathBuf,
    /// The directory of sessions, trust and the sample project.
    pub data: PathBuf,
    /// The user's secrets, which are never sent to an agent.
    pub secrets: Secrets,
    /// The user's home directory.
    pub user: PathBuf,
}

impl Home {
    /// Finds the directories by `CONVOKE_CONFIG_DIR` and `CONVOKE_DATA_DIR`, else by the rules of XDG.
    pub fn new(host_environment: &HostEnvironment) -> Self {
        let [configuration, data] = host_environment.private_directories();
        let HostEnvironment { home, cwd, .. } = host_environment;
        let variable = |name: &str| host_environment.variable(name);
        let private = [configuration.clone(), data.clone()];
        let secrets =
            Secrets::of_user(Some(home), cwd, variable, &private, convoke_vendors::programs());
        Self { configuration, data, secrets, user: home.clone() }
    }
}

impl Home {
    /// Reads the rules for agents that ask before they act.
    pub fn read_permissions(&self) -> anyhow::Result<PermissionFile> {
        let read = self.read_own("permissions.toml", PermissionFile::parse)?;
        Ok(read.unwrap_or_default())
    }

    /// Reads the built-in agents and the user's own.
    pub fn read_catalog(&self) -> anyhow::Result<Catalog> {
        let mut catalog = Catalog::built_in(convoke_vendors::programs());
        self.read_own("agents.toml", |text| catalog.add_user_file(text))?;
        Ok(catalog)
    }

    /// Reads one of the user's own files, if it exists.
    fn read_own<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, TeamFileErrors>,
    ) -> anyhow::Result<Option<T>> {
        let path = self.configuration.join(name);
        let report = |errors| TeamFileReport { file: path.display().to_string(), errors };
        let bytes = match Disk.read(&path, FileKind::Configuration) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let message = format!("cannot read the file: {error}");
                let fix = "make the file readable, or remove it";
                return Err(report(TeamFileErrors::unreadable(message, fix)).into());
            }
        };
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => parse(text),
            Err(_) => Err(TeamFileErrors::not_utf8(&bytes)),
        };
        Ok(Some(parsed.map_err(report)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_variables_come_before_the_general_ones() {
        let home = |variables: &[(&str, &str)]| {
            let environment = variables.iter().map(|(name, value)| (name.into(), value.into()));
            Home::new(&HostEnvironment {
                environment: environment.collect(),
                home: "/home/kim".into(),
                cwd: "/work".into(),
            })
        };
        for (variables, data) in [
            (&[][..], "/home/kim/.local/share/convoke"),
            (&[("XDG_DATA_HOME", "/data")], "/data/convoke"),
            (&[("XDG_DATA_HOME", "relative")], "/home/kim/.local/share/convoke"),
            (&[("XDG_DATA_HOME", "/data"), ("CONVOKE_DATA_DIR", "/own")], "/own"),
            (&[("CONVOKE_DATA_DIR", "own")], "/work/own"),
        ] {
            assert_eq!(home(variables).data, PathBuf::from(data), "{variables:?}");
        }
    }
}
