//! Which agents are installed, and at which version. Nothing is run: the version stands in the files
//! beside the program.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use convoke_explain::Edition;

/// The versions of the installed agents, as far as they can be told.
#[derive(Debug, Default)]
pub struct Installed {
    versions: Vec<(&'static str, String)>,
}

impl Installed {
    /// Looks for the agents on `PATH`.
    pub fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<_> = std::env::split_paths(&path).collect();
        let versions = Edition::NEWEST.iter().filter_map(|edition| {
            let name = edition.agent();
            let program = directories.iter().map(|it| it.join(name)).find(|it| it.is_file())?;
            let program = program.canonicalize().ok()?;
            Some((name, version_of(&program)?))
        });
        Self { versions: versions.collect() }
    }

    /// Returns the edition whose rules come nearest to what is installed.
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

/// The version of a program: in the package that it belongs to, or in its own path.
fn version_of(program: &Path) -> Option<String> {
    const LEVELS: usize = 4;
    let mut packages = program.ancestors().skip(1).take(LEVELS).map(|it| it.join("package.json"));
    let mut named = program.components().rev().take(2).map(Component::as_os_str);
    packages
        .find_map(|package| package_version(&package))
        .or_else(|| named.find_map(version_in_name))
}

fn package_version(package: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(package).ok()?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}

fn version_in_name(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    let is_version = name.contains('.')
        && name
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit()));
    is_version.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_the_package_or_in_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("lib/node_modules/@openai/codex");
        std::fs::create_dir_all(package.join("bin")).unwrap();
        std::fs::write(package.join("package.json"), r#"{"version": "0.98.0"}"#).unwrap();
        let program = package.join("bin/codex.js");
        std::fs::write(&program, "").unwrap();
        assert_eq!(version_of(&program).as_deref(), Some("0.98.0"));

        let native = directory.path().join("share/claude/versions/2.1.197");
        assert_eq!(version_of(&native).as_deref(), Some("2.1.197"));
        assert_eq!(version_of(Path::new("/usr/bin/claude")), None);
    }
}
