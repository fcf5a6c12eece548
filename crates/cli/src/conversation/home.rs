//! The user's own directories: configuration, and the data that Convoke stores.

use std::path::PathBuf;

use convoke_agent::config::Catalog;
use convoke_files::{Disk, FileKind, Files};
use convoke_inspect::HostEnvironment;
use convoke_team::PermissionFile;

use crate::outcome::UsageError;

/// The user's own directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The directory of `agents.toml`.
    pub configuration: PathBuf,
    /// The directory of sessions, trust and the sample project.
    pub data: PathBuf,
}

impl Home {
    /// Finds them by `CONVOKE_CONFIG_DIR` and `CONVOKE_DATA_DIR`, else by the rules of XDG.
    pub fn of(host_environment: &HostEnvironment) -> Self {
        let directory = |own: &str, general: &str, usual: &str| {
            let absolute = |name: &str| {
                let path = PathBuf::from(host_environment.variable(name)?);
                path.is_absolute().then_some(path)
            };
            let own = host_environment.variable(own).map(|path| host_environment.cwd.join(path));
            own.unwrap_or_else(|| {
                let general =
                    absolute(general).unwrap_or_else(|| host_environment.home.join(usual));
                general.join("convoke")
            })
        };
        Self {
            configuration: directory("CONVOKE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
            data: directory("CONVOKE_DATA_DIR", "XDG_DATA_HOME", ".local/share"),
        }
    }
}

impl Home {
    /// Reads the rules for agents that ask before they act.
    pub fn read_permissions(&self) -> Result<PermissionFile, UsageError> {
        let path = self.configuration.join("permissions.toml");
        let shown = path.display();
        match Disk.read_text(&path, FileKind::Configuration) {
            Ok(text) => PermissionFile::parse(&text)
                .map_err(|error| UsageError(format!("{shown}: {error}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(PermissionFile::default())
            }
            Err(error) => Err(UsageError(format!("cannot read {shown}: {error}"))),
        }
    }

    /// Reads the built-in agents and the user's own.
    pub fn read_catalog(&self) -> Result<Catalog, UsageError> {
        let mut catalog = Catalog::built_in();
        let path = self.configuration.join("agents.toml");
        match Disk.read_text(&path, FileKind::Configuration) {
            Ok(text) => {
                let added = catalog.add_user_file(&path, &text);
                added.map_err(|error| UsageError(error.to_string()))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(UsageError(format!("cannot read {}: {error}", path.display())));
            }
        }
        Ok(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_variables_come_before_the_general_ones() {
        let home = |variables: &[(&str, &str)]| {
            let environment = variables.iter().map(|(name, value)| (name.into(), value.into()));
            Home::of(&HostEnvironment {
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
