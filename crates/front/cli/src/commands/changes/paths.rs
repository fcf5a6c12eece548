//! Paths on a command line, as paths below the directory that a session works in.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use convoke_changes::{Record, TreePath};

use crate::outcome::UsageError;

/// The files and directories that a command is limited to.
#[derive(Debug, Default, Args)]
pub(in crate::commands) struct Paths {
    /// Only these files and directories
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Paths {
    pub(in crate::commands) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the paths below the directories of records.
    pub(in crate::commands) fn below(
        &self,
        cwd: &Path,
        records: &[Record],
    ) -> Result<Vec<TreePath>, UsageError> {
        self.paths.iter().map(|path| below(path, cwd, records)).collect()
    }
}

/// Returns a path below a directory of records. It is relative to the working directory or, outside of those, to the directory of
/// the session.
pub(super) fn below(path: &Path, cwd: &Path, records: &[Record]) -> Result<TreePath, UsageError> {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let absolute = normal(&cwd.join(path));
    let mut directories = records.iter().map(|record| &record.directory);
    let is_outside = directories.clone().all(|it| !cwd.starts_with(it));
    let found = directories.find_map(|it| absolute.strip_prefix(it).ok());
    let as_written = || Some(path).filter(|_| is_outside && path.is_relative());
    let found = found.or_else(as_written).ok_or_else(|| {
        let named = path.display();
        UsageError(format!("{named} is in no directory that this session has changed"))
    })?;
    Ok(TreePath::new(found.as_os_str().as_encoded_bytes()))
}

/// Returns whether a path is one of some, or below one; with none it is.
pub(in crate::commands) fn names(paths: &[TreePath], path: &TreePath) -> bool {
    paths.is_empty() || paths.iter().any(|named| named == path || path.is_below(named))
}

/// Resolves `.` and `..` without looking at the file system: the file may be gone.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}
