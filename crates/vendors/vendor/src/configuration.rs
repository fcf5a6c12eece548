//! A user's configuration of a CLI, and its copy into a private home: never with credentials.

use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use convoke_agent::Cli;
use convoke_explain::{LoadReason, Session, explain};
use convoke_files::Disk;

use crate::MeasuredCli;

/// The maximum number of files in a configuration.
const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 32 << 20;

/// The location of a user's configuration of a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserHome {
    /// The home directory.
    pub home: PathBuf,
    /// The CLI's own directory, by default in the home directory.
    pub directory: PathBuf,
}

impl UserHome {
    /// Returns the configuration in a home directory.
    pub fn below(cli: &dyn Cli, home: &Path) -> Self {
        Self { home: home.to_owned(), directory: home.join(cli.facts().directory) }
    }

    /// Returns the configuration that the CLI would use with a home; `moved` returns the directory that a variable
    /// names.
    pub fn new(cli: &dyn Cli, home: &Path, moved: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let facts = cli.facts();
        let moved_home = facts.home_variable.and_then(&moved);
        let user = Self::below(cli, moved_home.as_deref().unwrap_or(home));
        match facts.directory_variable.and_then(&moved) {
            Some(directory) => Self { directory, ..user },
            None => user,
        }
    }

    /// Returns the directories of a private home, each with the user's directory that it replaces; the most specific
    /// first.
    pub fn places(&self, cli: &dyn Cli, private_home: &Path) -> [(PathBuf, PathBuf); 2] {
        let directory = private_home.join(cli.facts().directory);
        [(directory, self.directory.clone()), (private_home.to_owned(), self.home.clone())]
    }
}

/// A copy of a configuration that is being made.
pub struct ConfigurationCopy<'a> {
    /// The user's configuration.
    pub from: &'a UserHome,
    /// The private home.
    pub to: &'a Path,
    /// The working directory of the CLI.
    pub cwd: &'a Path,
    budget: Budget,
}

impl<'a> ConfigurationCopy<'a> {
    /// Copies a CLI's configuration, without credentials, logs and caches. Returns the parts of the configuration that
    /// were not copied.
    pub fn make(
        cli: &dyn MeasuredCli,
        from: &'a UserHome,
        to: &'a Path,
        cwd: &'a Path,
    ) -> Result<Vec<PathBuf>, HomeError> {
        let budget = Budget { files: MAX_FILES, bytes: MAX_BYTES };
        let mut copy = Self { from, to, cwd, budget };
        let facts = cli.facts();
        let directory = to.join(facts.directory);
        let own = facts.configuration.iter();
        let own = own.map(|name| (name, from.directory.join(name), directory.join(name)));
        let shared = facts.shared_configuration.iter();
        let shared = shared.map(|name| (name, from.home.join(name), to.join(name)));
        for (name, source, target) in own.chain(shared) {
            cli.copy_entry(&mut copy, name, &source, &target)?;
        }
        for name in cli.unnamed_configuration(&from.directory, cwd) {
            copy.copy(&from.directory.join(&name), &directory.join(&name))?;
        }
        copy.copy_imports(cli)?;
        cli.complete_copy(&mut copy)
    }

    /// Copies the files that instructions import from the home directory and from the program's own directory, each to
    /// where the program looks for it: a path that begins with `~` leads into its own home, and any other starts beside
    /// the file that names it.
    fn copy_imports(&mut self, cli: &dyn MeasuredCli) -> Result<(), HomeError> {
        let (from, facts) = (self.from, cli.facts());
        let mut session = Session::new(self.cwd, &from.home);
        if let (Some(name), Some(directory)) = (facts.directory_variable, from.directory.to_str()) {
            session.variables.insert(name.to_owned(), directory.to_owned());
        }
        for (name, value) in cli.trusting_variables() {
            session.variables.insert((*name).to_owned(), (*value).to_owned());
        }
        let explained = explain(&Disk, &session, &[cli.loading_rules().newest()]).agents;
        let loaded = explained.into_iter().flat_map(|agent| agent.loaded);
        for file in loaded.filter(|file| matches!(file.why, LoadReason::Import { .. })) {
            let is_credential = file.path.file_name().is_some_and(|name| name == ".env")
                || facts.sign_in.credentials.iter().any(|name| file.path.ends_with(name));
            let targets = from.places(cli, self.to).into_iter().filter_map(|(private, users)| {
                let below = file.path.strip_prefix(users).ok()?;
                Some(private.join(below))
            });
            // Of a directory in the home, the first is the more specific.
            let target = targets.take(1).find(|target| !is_credential && !target.exists());
            if let Some(target) = target {
                self.copy(&file.path, &target)?;
            }
        }
        Ok(())
    }

    /// Copies a file or directory, following a link. Links below it stay links, because some programs treat them
    /// differently.
    pub fn copy(&mut self, source: &Path, target: &Path) -> Result<(), HomeError> {
        copy(source, target, &mut self.budget)
    }

    /// Links a directory by its real path.
    pub fn link_directory(&self, source: &Path, target: &Path) -> Result<(), HomeError> {
        let failed = |error| HomeError::Copy { path: source.to_owned(), source: error };
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        symlink(source.canonicalize().map_err(failed)?, target).map_err(failed)
    }
}

struct Budget {
    files: usize,
    bytes: u64,
}

fn copy(source: &Path, target: &Path, budget: &mut Budget) -> Result<(), HomeError> {
    let failed = |error| HomeError::Copy { path: source.to_owned(), source: error };
    let metadata = match std::fs::metadata(source) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let over = || HomeError::TooMuch { path: source.to_owned() };
    budget.files = budget.files.checked_sub(1).ok_or_else(over)?;
    if metadata.is_dir() {
        std::fs::create_dir_all(target).map_err(failed)?;
        for entry in std::fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let target = target.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_symlink() {
                link(&entry.path(), &target).map_err(failed)?;
            } else {
                copy(&entry.path(), &target, budget)?;
            }
        }
    } else if metadata.is_file() {
        budget.bytes = budget.bytes.checked_sub(metadata.len()).ok_or_else(over)?;
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::copy(source, target).map_err(failed)?;
    }
    Ok(())
}

/// Creates a link with the same target as another one.
fn link(source: &Path, target: &Path) -> io::Result<()> {
    let leads_to = std::fs::read_link(source)?;
    let from = source.parent().unwrap_or(source);
    symlink(from.join(leads_to), target)
}

/// A configuration could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A file cannot be copied.
    #[error("cannot copy {} into the private home", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The configuration is too large.
    #[error("the configuration at {} is more than {MAX_FILES} files or {} MiB", path.display(), MAX_BYTES >> 20)]
    TooMuch {
        /// The last file.
        path: PathBuf,
    },
}
