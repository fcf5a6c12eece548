//! Skills as Codex finds them: the directories that it searches, and the front matter of a `SKILL.md`.
//!
//! `convoke-thread` writes the list that Codex 0.98 sends; `convoke-explain` reports the lists of both
//! versions.

mod front_matter;
mod search;
mod switches;

use std::path::PathBuf;

pub use front_matter::{About, MAX_DESCRIPTION, read};
pub use search::{FILE_NAME, Search, find};
pub use switches::Switches;

/// The directory below `skills` that Codex installs its own skills into.
pub const SYSTEM_FOLDER: &str = ".system";

/// The owner of a skill, in the order of the list of Codex 0.98.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The repository's.
    Repo,
    /// The user's.
    User,
    /// Installed with Codex.
    System,
    /// The administrator's.
    Admin,
}

/// A skill with valid front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkill {
    /// Its name, with the plugin's name before it where it belongs to one.
    pub name: String,
    /// The description, white space collapsed.
    pub description: String,
    /// The description as the file states it.
    pub stated: String,
    /// The path under which it is listed.
    pub path: PathBuf,
    /// Its `SKILL.md`, links resolved.
    pub real_path: PathBuf,
    /// The directory of skills that it was found below.
    pub root: PathBuf,
    /// The owner.
    pub scope: Scope,
    /// Whether its `agents/openai.yaml` keeps it out of the list.
    pub is_hidden: bool,
}

/// A `SKILL.md` that Codex does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSkill {
    /// The file, or a folder that is too large to be searched.
    pub path: PathBuf,
    /// The owner.
    pub scope: Scope,
    /// The problem.
    pub reason: String,
}

/// The skills of a directory.
#[derive(Debug, Default)]
pub struct Found {
    /// The valid ones, in no order.
    pub skills: Vec<FoundSkill>,
    /// The others.
    pub rejected: Vec<RejectedSkill>,
    /// The directories of skills that exceed the limit on folders, of which only a part was searched.
    pub limited: Vec<PathBuf>,
}

#[cfg(test)]
mod tests;
