//! Finds skills like Codex: the searched directories, and the front matter of each `SKILL.md`.
//!
//! `convoke-thread` writes the list that Codex 0.98 sends; `convoke-explain` reports the lists of both
//! versions.

mod front_matter;
mod search;
mod switches;

use std::path::PathBuf;

pub use front_matter::{MAX_DESCRIPTION, SkillHeader, read};
pub use search::{FILE_NAME, Search, find};
pub use switches::Switches;

/// The directory below `skills` that Codex installs its own skills into.
pub const SYSTEM_FOLDER: &str = ".system";

/// The owner of a skill, in the order of the list of Codex 0.98.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The repository.
    Repo,
    /// The user.
    User,
    /// Codex, which installs them.
    System,
    /// The administrator.
    Admin,
}

/// A skill with valid front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSkill {
    /// The name, prefixed with the plugin's name if it belongs to one.
    pub name: String,
    /// The description, with white space collapsed.
    pub description: String,
    /// The description as written in the file.
    pub stated: String,
    /// The path in the list.
    pub path: PathBuf,
    /// The path of `SKILL.md`, with links resolved.
    pub real_path: PathBuf,
    /// The directory of skills that contains the skill.
    pub root: PathBuf,
    /// The owner.
    pub scope: Scope,
    /// Whether `agents/openai.yaml` hides the skill from the list.
    pub is_hidden: bool,
}

/// A `SKILL.md` that Codex rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSkill {
    /// The file, or a folder that is too large to search.
    pub path: PathBuf,
    /// The owner.
    pub scope: Scope,
    /// The problem.
    pub reason: String,
}

/// The skills of a directory.
#[derive(Debug, Default)]
pub struct FoundSkills {
    /// The valid skills, unordered.
    pub skills: Vec<FoundSkill>,
    pub rejected: Vec<RejectedSkill>,
    /// The directories of skills with more folders than are searched.
    pub limited: Vec<PathBuf>,
}

#[cfg(test)]
mod tests;
