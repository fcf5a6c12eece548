//! Installed CLIs and their versions.

use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use serde::Serialize;

use crate::capture::CapturedAgent;
use crate::host_environment::HostEnvironment;
use crate::question::{self, QuestionError};
use convoke_agent::Cli;
use convoke_agent::process::guardian::Guardian;

/// An installed CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed<A = &'static dyn Cli> {
    pub agent: A,
    /// The path where it was found.
    pub path: PathBuf,
    pub real_path: PathBuf,
    /// The version, if known.
    pub version: Option<String>,
}

impl Installed {
    /// Inspects a program; runs it only if its package does not name its version. The error is why that failed.
    pub fn at(
        path: &Path,
        agent: &'static dyn Cli,
        host_environment: &HostEnvironment,
        guardian: &Guardian,
    ) -> (Self, Option<QuestionError>) {
        let mut installed = Self::on_disk(path, agent);
        if installed.version.is_none() {
            match version_by_asking(path, agent, host_environment, guardian) {
                Ok(version) => installed.version = version,
                Err(error) => return (installed, Some(error)),
            }
        }
        (installed, None)
    }

    /// Inspects a program without running it. The version is absent if its package does not name it.
    pub fn on_disk(path: &Path, agent: &'static dyn Cli) -> Self {
        let real_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let version = version_on_disk(&real_path, agent);
        Self { agent, path: path.to_owned(), real_path, version }
    }

    /// Returns whether Convoke was measured with exactly this version.
    pub fn is_measured(&self) -> bool {
        let version = self.version.as_deref();
        version.is_some_and(|version| self.agent.facts().versions.contains(&version))
    }

    /// Returns the interpreter in the program's first line, for example `node`.
    pub fn interpreter(&self) -> Option<String> {
        let bytes = read_beginning(&self.real_path)?;
        let line = bytes.strip_prefix(b"#!")?;
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
        let name = words.find(|word| !word.starts_with('-') && !word.ends_with("/env"))?;
        Some(name.rsplit('/').next()?.to_owned())
    }
}

impl Installed<CapturedAgent> {
    /// Inspects the program of an agent whose requests are captured, without running it.
    pub(crate) fn captured(path: &Path, agent: CapturedAgent) -> Self {
        let real_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let version = version_of(&real_path, agent.package());
        Self { agent, path: path.to_owned(), real_path, version }
    }
}

fn read_beginning(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
    file.take(256).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Finds a program's version without running it: in its package, or in its path.
pub fn version_on_disk(program: &Path, agent: &'static dyn Cli) -> Option<String> {
    version_of(program, agent.facts().package)
}

/// Finds the version of a program of an npm package in the same way.
pub fn version_of(program: &Path, package: &str) -> Option<String> {
    let mut names = program.components().rev().take(2);
    let in_path = || names.find_map(|name| version_in(name.as_os_str().to_str()?));
    version_of_package(program, package).or_else(in_path)
}

/// Finds the version in the `package.json` of the package that contains the program.
fn version_of_package(program: &Path, package: &str) -> Option<String> {
    program.ancestors().skip(1).take(6).find_map(|directory| {
        let text = Disk.read(&directory.join("package.json"), FileKind::Configuration).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let name = manifest["name"].as_str()?;
        let version = manifest["version"].as_str()?;
        (name == package || name.starts_with(&format!("{package}-"))).then(|| version.to_owned())
    })
}

/// Asks a program for its version. Its answer may have none.
pub(crate) fn version_by_asking(
    program: &Path,
    agent: &'static dyn Cli,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> Result<Option<String>, QuestionError> {
    let answer = question::version(program, agent, host_environment, guardian)?;
    Ok(version_in(&answer.output))
}

/// Returns the first version in a text: three numbers separated by dots.
pub(crate) fn version_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().map(|word| word.trim_start_matches('v'));
    let is_version = |word: &&str| {
        let core = word.split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<&str> = core.split('.').collect();
        numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u64>().is_ok())
    };
    words.find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_on_disk_in_the_package_or_in_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("lib/node_modules/@openai/codex");
        std::fs::create_dir_all(package.join("bin")).unwrap();
        let manifest = r#"{"name": "@openai/codex", "version": "0.98.0"}"#;
        std::fs::write(package.join("package.json"), manifest).unwrap();
        let [claude, codex, ..] = convoke_vendors::programs().clis else { panic!("no CLIs") };
        let version = version_on_disk(&package.join("bin/codex.js"), *codex);
        assert_eq!(version.as_deref(), Some("0.98.0"));

        let native = directory.path().join("share/claude/versions/2.1.197");
        assert_eq!(version_on_disk(&native, *claude).as_deref(), Some("2.1.197"));
        assert_eq!(version_on_disk(Path::new("/usr/bin/claude"), *claude), None);
    }

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        for (said, version) in [
            ("codex-cli 0.98.0\n", Some("0.98.0")),
            ("2.1.197 (Claude Code)", Some("2.1.197")),
            ("v0.61.0-nightly.3", Some("0.61.0-nightly.3")),
            ("Not a version: 1.2 or 1.2.3.4", None),
            ("", None),
        ] {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
    }
}
