//! The installed agents and their versions, read from the files of each program without running it.

use convoke_explain::Edition;
use convoke_inspect::installed::version_of;

/// The versions of the installed agents, where known.
#[derive(Debug, Default)]
pub struct Installed {
    versions: Vec<(&'static str, String)>,
}

impl Installed {
    /// Finds the agents on `PATH`.
    pub fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<_> = std::env::split_paths(&path).collect();
        let versions = convoke_vendors::newest_editions().into_iter().filter_map(|edition| {
            let name = edition.agent();
            let program = directories.iter().map(|it| it.join(name)).find(|it| it.is_file())?;
            let program = program.canonicalize().ok()?;
            let package = convoke_vendors::programs().package(name)?;
            Some((name, version_of(&program, package)?))
        });
        Self { versions: versions.collect() }
    }

    /// Returns the edition whose rules apply to the installed version.
    pub fn nearest(&self, edition: Edition) -> Edition {
        match self.version(edition) {
            Some(version) => edition.nearest(version),
            None => edition,
        }
    }

    /// Returns the version of an agent that is installed.
    pub fn version(&self, edition: Edition) -> Option<&str> {
        let mut versions = self.versions.iter();
        let found = versions.find(|(name, _)| *name == edition.agent());
        found.map(|(_, version)| version.as_str())
    }
}
