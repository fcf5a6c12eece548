//! The environment of a program: variables, home and working directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use convoke_agent::Cli;
use convoke_agent::endpoint::UntrustedProject;
use convoke_agent::launch::{ConfinedEnvironment, Project, UntrustedFile};
use convoke_agent::search_path::{SearchPath, is_executable};
use convoke_agent::turn_input::Trust;
use convoke_vendor::UserHome;

/// The environment of a program.
#[derive(Debug, Clone)]
pub struct HostEnvironment {
    /// The variables.
    pub environment: BTreeMap<OsString, OsString>,
    /// The user's home directory.
    pub home: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
}

impl HostEnvironment {
    /// Returns a variable of the environment that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let value = self.environment.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    /// Returns the newest version of Landlock to use, where a variable limits it to test older kernels.
    pub fn newest_landlock(&self) -> Option<u8> {
        self.variable("CONVOKE_LANDLOCK_ABI")?.to_str()?.parse().ok()
    }

    /// Returns the environment of a program that is asked a question, as in a project that is not trusted.
    pub(crate) fn confined(
        &self,
        variables: BTreeMap<OsString, OsString>,
        vendor: Option<&'static dyn Cli>,
    ) -> Result<ConfinedEnvironment, UntrustedFile> {
        let trust = Trust::Untrusted;
        let project = Project { cwd: &self.cwd, home: Some(&self.home), trust };
        ConfinedEnvironment::new(variables, project, vendor, convoke_vendors::programs())
    }

    /// Returns the working directory as a project that is not trusted.
    pub(crate) fn untrusted_project(&self) -> UntrustedProject<'_> {
        UntrustedProject { cwd: &self.cwd, home: &self.home }
    }

    /// Returns the configuration that a CLI would use, with the variables that move it.
    pub fn user_home(&self, cli: &dyn Cli) -> UserHome {
        UserHome::new(cli, &self.home, |name| Some(self.cwd.join(self.variable(name)?)))
    }

    /// Returns the directories in which Convoke keeps its own configuration and data.
    pub fn private_directories(&self) -> [PathBuf; 2] {
        let directory = |own: &str, general: &str, usual: &str| {
            let absolute = |name: &str| {
                let path = PathBuf::from(self.variable(name)?);
                path.is_absolute().then_some(path)
            };
            let own = self.variable(own).map(|path| self.cwd.join(path));
            own.unwrap_or_else(|| {
                absolute(general).unwrap_or_else(|| self.home.join(usual)).join("convoke")
            })
        };
        [
            directory("CONVOKE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
            directory("CONVOKE_DATA_DIR", "XDG_DATA_HOME", ".local/share"),
        ]
    }

    /// Returns every executable file of this name on the `PATH`, in its order.
    pub fn programs(&self, name: &str) -> Vec<PathBuf> {
        let path = self.variable("PATH").unwrap_or_default();
        let candidates = std::env::split_paths(path).map(|directory| directory.join(name));
        let mut found: Vec<PathBuf> = candidates.filter(|path| is_executable(path)).collect();
        found.dedup();
        found
    }

    /// Returns the search path of programs that Convoke starts by name: without directories in the project, where an agent
    /// could have put a program.
    pub fn search_path(&self) -> SearchPath {
        let path = self.variable("PATH").unwrap_or_default();
        SearchPath::outside_project(path, &self.cwd, Some(&self.home))
    }

    /// Returns the environment of programs that run outside of a sandbox, which find others by [`Self::search_path`].
    #[must_use]
    pub fn outside_project(&self) -> Self {
        let mut outside = self.clone();
        outside.environment.insert("PATH".into(), self.search_path().to_variable());
        outside
    }

    /// Returns the program of an agent: by its path, or by its name outside of the project.
    pub fn agent_program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return self.program(OsStr::new(name));
        }
        self.search_path().programs(name).into_iter().next()
    }

    /// Returns a program as a shell would find it: by its path, or by its name on the `PATH`.
    pub fn program(&self, name: &OsStr) -> Option<PathBuf> {
        if Path::new(name).components().count() > 1 {
            let path = self.cwd.join(name);
            return is_executable(&path).then_some(path);
        }
        self.programs(name.to_str()?).into_iter().next()
    }
}
