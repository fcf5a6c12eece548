//! Protects against a project's settings for Gemini CLI before the user trusts its directory.
//!
//! The program does not run in a directory that it does not trust itself. In a trusted directory, it applies
//! settings that can run commands, and loads every variable of a `.env` file, including its own address and
//! key. Settings cannot be withheld, so the turn is refused. Variables can: the program does not override
//! variables that are set, so those that the user has not set are set to empty values.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files};

use convoke_agent::command_files::{Location, locate};
use convoke_agent::diagnostics;
use convoke_agent::env_file;
use convoke_agent::launch::{Project, UntrustedFile, WithheldVariables};

/// Files of a project that Gemini CLI applies and that cannot be withheld.
pub(super) const FOLLOWED: &[&str] = &[
    ".gemini/agents",
    ".gemini/commands",
    ".gemini/extensions",
    ".gemini/hooks",
    ".gemini/policies",
    ".gemini/settings.json",
    ".gemini/skills",
];

/// The maximum number of names in a `.env` file; a file with more is refused.
const MAX_NAMES: usize = 1000;

/// Refuses a project that has settings.
pub(super) fn check_settings(cwd: &Path) -> Result<(), UntrustedFile> {
    let cwd = real(cwd);
    let is_there = |path: &PathBuf| locate(path) != Location::Missing;
    let found = FOLLOWED.iter().map(|name| cwd.join(name)).find(is_there);
    found.map_or(Ok(()), |path| Err(untrusted(&path)))
}

/// Withholds variables that the program is not given already. Refuses a file whose variables cannot be withheld.
pub(super) fn withhold(
    project: Project<'_>,
    given: &BTreeMap<OsString, OsString>,
) -> Result<WithheldVariables, UntrustedFile> {
    let cwd = real(project.cwd);
    let variable = |name: &str| given.get(OsStr::new(name));
    let mut withheld = WithheldVariables::default();
    let mut names = BTreeSet::new();
    for path in project_env_files(project.home, &cwd) {
        let Some(text) = read(&path)? else { continue };
        let found: BTreeSet<&str> = env_file::names(&text).collect();
        if found.is_empty() {
            continue;
        }
        // In Cloud Shell, the file's value overrides this variable even if it is set.
        let in_cloud_shell = variable("CLOUD_SHELL").is_some_and(|value| value == "true");
        if found.len() > MAX_NAMES || (in_cloud_shell && found.contains("GOOGLE_CLOUD_PROJECT")) {
            return Err(untrusted(&path));
        }
        let message = format!(
            "gemini does not load the variables of `{}` until the directory is trusted",
            path.display()
        );
        let count = found.len() as u64;
        withheld
            .diagnostics
            .push(Diagnostic::new(diagnostics::AGENT_SETTING_REFUSED, message).with_count(count));
        names.extend(found.into_iter().map(str::to_owned));
    }
    let unset = names.into_iter().filter(|name| variable(name).is_none());
    withheld.variables = unset.map(|name| (name.into(), OsString::new())).collect();
    Ok(withheld)
}

/// Returns the `.env` files that the program may load, from the working directory and all directories above it.
/// Files in the home directory are the user's own, unless it is the working directory.
fn project_env_files(home: Option<&Path>, cwd: &Path) -> Vec<PathBuf> {
    let home = home.map(real);
    let is_users = |dir: &Path| dir != cwd && home.as_deref() == Some(dir);
    let above = cwd.ancestors().filter(|dir| !is_users(dir));
    above.flat_map(|dir| [dir.join(".gemini/.env"), dir.join(".env")]).collect()
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Reads a file, if it exists. Refuses one that the program may read otherwise.
fn read(path: &Path) -> Result<Option<String>, UntrustedFile> {
    match locate(path) {
        Location::Missing => Ok(None),
        Location::Unclear => Err(untrusted(path)),
        Location::Found(real) => match Disk.read(&real, FileKind::Variables) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(_) => Err(untrusted(path)),
        },
    }
}

fn untrusted(path: &Path) -> UntrustedFile {
    UntrustedFile::Applied { program: "gemini".to_owned(), path: path.to_owned() }
}
