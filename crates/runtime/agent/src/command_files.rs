//! The files of a project that name commands for agents' programs and for git: settings, hooks, servers, skills.
//!
//! The user trusts these files in their current state. Otherwise, a member that may edit the project could have
//! its commands run by members with wider permissions.

mod git_config;
mod location;
mod search;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use serde::{Deserialize, Serialize};

pub use self::location::{Location, locate};
pub use self::search::GitDirectory;
use self::search::{CommandFileSearch, OVER_LIMIT};
use crate::diagnostics;

/// The maximum number of files named in a message.
const NAMED_FILES: usize = 3;

/// The files of a project that name commands, by path, each with its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandFiles(BTreeMap<String, String>);

impl CommandFiles {
    /// Reads the files in a project and above it, with paths relative to the project; `below` are working
    /// directories in it. Files in the user's home are the user's own and are skipped.
    pub fn read(project: &Path, below: &BTreeSet<PathBuf>, home: Option<&Path>) -> Self {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        Self(CommandFileSearch::around(&project, below, home.as_deref()))
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the files that are not trusted or have changed since. A file that was removed names no commands.
    pub fn changed_since(&self, trusted: &Self) -> Vec<&str> {
        let is_trusted =
            |path: &String, hash: &String| hash != OVER_LIMIT && trusted.0.get(path) == Some(hash);
        let changed = self.0.iter().filter(|(path, hash)| !is_trusted(path, hash));
        changed.map(|(path, _)| path.as_str()).collect()
    }

    /// Returns whether there is a file with this path.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Adds the files of another directory, under its path.
    pub fn add(&mut self, place: &Path, files: Self) {
        let named = |path: String| place.join(path).to_string_lossy().into_owned();
        self.0.extend(files.0.into_iter().map(|(path, hash)| (named(path), hash)));
    }

    /// Returns the files in a directory, with paths relative to it.
    #[must_use]
    pub fn within(&self, directory: &Path) -> Self {
        let below = |(path, hash): (&String, &String)| {
            let below = Path::new(path).strip_prefix(directory).ok()?;
            Some((below.to_string_lossy().into_owned(), hash.clone()))
        };
        Self(self.0.iter().filter_map(below).collect())
    }
}

/// The command files that the user trusts, for turns in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCommands {
    /// The files, relative to the project.
    pub files: CommandFiles,
    /// The working directory of the turns, relative to the project or to a copy of it.
    pub below: PathBuf,
    /// The directory that the user trusts.
    pub granted: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
}

impl TrustedCommands {
    /// Compares the files around a working directory with the trusted ones. Returns a diagnostic if one has changed.
    pub fn check(&self, cwd: &Path) -> Option<Diagnostic> {
        let project = cwd.ancestors().nth(self.below.components().count())?;
        let now = CommandFiles::read(project, &[self.below.clone()].into(), self.home.as_deref());
        let changed = now.changed_since(&self.files);
        if changed.is_empty() {
            return None;
        }
        let count = changed.len();
        let mut named = changed[..count.min(NAMED_FILES)].join(", ");
        if count > NAMED_FILES {
            let _ = write!(named, " and {} more", count - NAMED_FILES);
        }
        let granted = self.granted.display();
        let message = format!(
            "{named}: changed since you trusted the directory, and can name commands; the agent is started as in a \
             directory that is not trusted. `convoke trust {granted}` trusts it again"
        );
        let diagnostic = Diagnostic::new(diagnostics::AGENT_COMMANDS_CHANGED, message);
        Some(diagnostic.with_count(count as u64))
    }
}

/// The configuration files of the repositories in a directory.
pub(crate) struct GitConfigurations {
    pub files: Vec<PathBuf>,
    /// A path below which a repository may have been missed, relative to the directory.
    pub unclear: Option<PathBuf>,
    /// Whether there are too many directories to look into all of them.
    pub is_cut: bool,
}

impl GitConfigurations {
    /// Finds the files, within the limits.
    pub(crate) fn below(directory: &Path) -> Self {
        let mut search = CommandFileSearch::new(directory);
        search.add_below(None);
        Self { files: search.configurations, unclear: search.unclear, is_cut: search.is_cut }
    }
}
