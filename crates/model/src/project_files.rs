//! The files of a project that the user does not trust: what lies in it is read, and no link of it leads
//! out. Otherwise a project could have any file of the user's read to a model.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_files::{Disk, Files, Head, Kind};

use crate::diagnostics;
use crate::redacted::{self, LONGEST_KEY};
use crate::secret::Key;

/// The files of this machine, as far as a project may lead to them.
#[derive(Debug)]
pub(crate) struct ProjectFiles {
    /// The project, when links may not lead out of it.
    confined_to: Option<Project>,
    /// The user's own configuration, which may lie in a project, and lead anywhere.
    configuration: PathBuf,
    /// What no file may bring into a thread.
    key: Option<Key>,
    refused: RefCell<BTreeSet<PathBuf>>,
}

/// A project that is not trusted.
#[derive(Debug)]
struct Project {
    /// Its real path.
    root: PathBuf,
    /// The same, as the working directory spells it.
    spelt: PathBuf,
}

impl Project {
    /// Tells whether a path is spelt as one of the project's, wherever it may lead.
    fn names(&self, path: &Path) -> bool {
        path.starts_with(&self.root) || path.starts_with(&self.spelt)
    }
}

impl ProjectFiles {
    /// Opens the project of a working directory: the repository that it lies in, or it alone.
    pub fn open(cwd: &Path, trust: Trust, configuration: PathBuf, key: Option<Key>) -> Self {
        let confined_to = match trust {
            Trust::Trusted => None,
            Trust::Untrusted => {
                let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
                let root = root_of(&real).to_owned();
                Some(Project { root, spelt: root_of(cwd).to_owned() })
            }
        };
        Self { confined_to, configuration, key, refused: RefCell::default() }
    }

    /// Returns a diagnostic for each file that was not read since this was last asked.
    pub fn take_refused(&self) -> Vec<Diagnostic> {
        let refused = std::mem::take(&mut *self.refused.borrow_mut());
        let diagnostic = |path: PathBuf| {
            let shown = path.display().to_string();
            let message =
                format!("{shown} leads out of a project that is not trusted: it was not read");
            Diagnostic::new(diagnostics::PROJECT_FILE_OUTSIDE, message).at_path(shown)
        };
        refused.into_iter().map(diagnostic).collect()
    }

    /// Returns the path to read instead of a given one; a link that leads out is not there.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(project) = &self.confined_to else { return Ok(path.to_owned()) };
        let real = path.canonicalize()?;
        // What is not spelt as the project's is the user's own.
        let is_own = !project.names(path) || path.starts_with(&self.configuration);
        if is_own || real.starts_with(&project.root) {
            return Ok(real);
        }
        self.refused.borrow_mut().insert(path.to_owned());
        Err(io::ErrorKind::NotFound.into())
    }

    /// Says whether a path leads out, and notes it; one that leads nowhere does not.
    fn is_refused(&self, path: &Path) -> bool {
        self.inside(path).is_err() && self.refused.borrow().contains(path)
    }
}

/// Returns the project's root.
pub fn root_of(cwd: &Path) -> &Path {
    let marked = |directory: &&Path| directory.join(".git").exists();
    cwd.ancestors().find(marked).unwrap_or(cwd)
}

impl Files for ProjectFiles {
    fn entry_kind(&self, path: &Path) -> io::Result<Kind> {
        // Not there at all, or it would be missed a second time as a link that leads nowhere.
        if self.is_refused(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Disk.entry_kind(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        Disk.kind(path)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let real = self.inside(path)?;
        match &self.key {
            Some(key) if limit > 0 => {
                let head = Disk.read_head(&real, limit.saturating_add(LONGEST_KEY))?;
                Ok(redacted::head(key, head, limit))
            }
            _ => Disk.read_head(&real, limit),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Disk.names(directory)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        Disk.entries(directory)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        match &self.confined_to {
            Some(_) => self.inside(path),
            None => Disk.canonicalize(path),
        }
    }
}
