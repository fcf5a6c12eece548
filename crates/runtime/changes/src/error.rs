//! Errors of this crate.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::figures::size;

use crate::tree_path::TreePath;

/// An error of recording, undo or a workspace.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// The `git` program is missing.
    #[error("the program `git` was not found on `PATH`")]
    NoGit,
    /// The `git` program failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// The subcommand.
        command: &'static str,
        /// The end of its standard error, or its exit status.
        message: String,
    },
    /// A recording takes too long.
    #[error("it takes more than {seconds} s")]
    OverTime {
        /// The limit.
        seconds: u64,
    },
    /// The directory has too many files.
    #[error("the directory has more than {limit} files")]
    OverFiles { limit: u64 },
    /// The files have too many bytes.
    #[error("the files to copy are larger than {} together", limit_of(*limit))]
    OverBytes { limit: u64 },
    /// The disk is nearly full.
    #[error("less than {} is free in {}; free some space there", limit_of(*needed), path.display())]
    DiskFull {
        /// The directory of the store.
        path: PathBuf,
        /// The bytes that are kept free.
        needed: u64,
    },
    /// The directory is not one that is recorded.
    #[error("{} is not the directory of a project", path.display())]
    NotAProject {
        /// The directory.
        path: PathBuf,
    },
    /// There is nothing to undo.
    #[error("{0}")]
    NothingToUndo(String),
    /// Files changed since the turn, or since an undo or a merge was planned.
    #[error("{}", changed_since(paths))]
    Conflicts {
        /// The files.
        paths: Vec<TreePath>,
    },
    /// Another turn or a person may have made some of the changes.
    #[error(
        "some of these changes may be another turn's, or yours, made after the turn was interrupted"
    )]
    Shared,
    /// An undo or a merge failed, and what it had done could not be put back.
    #[error(
        "{error}; what was done could not be put back ({reason}), and the next command completes it"
    )]
    HalfDone {
        error: Box<ChangesError>,
        /// The reason why it could not be put back.
        reason: Box<ChangesError>,
    },
    /// A turn is running in the directory.
    #[error("a turn is running in {}; wait for its end", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The member has no workspace.
    #[error("{}", no_workspace(member, members))]
    NoWorkspace {
        member: String,
        /// The members of the session that have one.
        members: Vec<String>,
    },
    /// The working tree of a workspace is gone.
    #[error("{} is gone; the next turn of its member restores it from its last record", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A recorded directory has been replaced by a link or a file.
    #[error("{} is no longer the directory that was recorded: something else has taken its place", path.display())]
    Replaced {
        /// The directory.
        path: PathBuf,
    },
    /// A path of the settings of workspaces leads out of the project.
    #[error("`{path}` is not a path below the project's directory")]
    BadPath { path: String },
    /// The lines of a path cannot be attributed.
    #[error("the lines of {path} cannot be shown: {why}")]
    Unblamable { path: TreePath, why: &'static str },
    /// A file of the store is damaged.
    #[error("{} is damaged: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// A thread panicked.
    #[error("the recording stopped at a bug: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl ChangesError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns the error of a panic, by what it was raised with.
    pub fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Panicked { message: text.unwrap_or("it gave no reason").to_owned() }
    }

    pub(crate) fn damaged(path: &Path, message: impl std::fmt::Display) -> Self {
        Self::Damaged { path: path.to_owned(), message: format!("{message}") }
    }
}

/// Returns a limit in the units of the documentation, in which limits are round.
fn limit_of(bytes: u64) -> String {
    match (bytes >> 30, bytes >> 20) {
        (gibibytes, _) if gibibytes << 30 == bytes && gibibytes > 0 => format!("{gibibytes} GiB"),
        (_, mebibytes) if mebibytes << 20 == bytes && mebibytes > 0 => format!("{mebibytes} MiB"),
        _ => size(bytes),
    }
}

/// The files that a message names.
const NAMED_FILES: usize = 5;

fn changed_since(paths: &[TreePath]) -> String {
    let named = paths.iter().take(NAMED_FILES).map(ToString::to_string).collect::<Vec<_>>();
    match (named.is_empty(), paths.len().saturating_sub(NAMED_FILES)) {
        (true, _) => "files changed since".to_owned(),
        (false, 0) => format!("{} changed since", named.join(", ")),
        (false, more) => format!("{} and {more} more changed since", named.join(", ")),
    }
}

fn no_workspace(member: &str, members: &[String]) -> String {
    if members.is_empty() {
        return format!("{member} has no workspace: no member of the session has one");
    }
    let have = if members.len() == 1 { "has" } else { "have" };
    format!("{member} has no workspace; {} {have} one", members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_units_of_the_documentation() {
        let shown = [256 << 20, 4 << 30, 1000].map(limit_of);
        assert_eq!(shown, ["256 MiB", "4 GiB", &size(1000)]);
    }

    #[test]
    fn several_members_have_a_workspace() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(no_workspace("x", &names(&["one"])), "x has no workspace; one has one");
        let two = no_workspace("x", &names(&["one", "two"]));
        assert_eq!(two, "x has no workspace; one, two have one");
    }
}
