//! Findings about files of a repository, and the formats in which CI systems take them.
//!
//! `sarif` writes SARIF 2.1.0, `annotations` the annotations of a workflow. What is found is the caller's.

pub mod annotations;
pub mod sarif;

/// A rule by which something is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The stable name, for example `gate.growth`.
    pub id: String,
    /// What the rule finds, as one sentence.
    pub summary: String,
    /// What to do about it; empty if nothing is to be done.
    pub help: String,
}

/// Something that was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The id of the rule.
    pub rule: String,
    pub level: Level,
    /// What was found, as one sentence.
    pub message: String,
    pub place: Option<Place>,
    /// What tells the finding from others of its rule and file, and stays the same when lines move.
    pub key: String,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    /// Returns the name that SARIF uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The path from the root of the repository, or an absolute one of a file outside.
    pub file: String,
    /// The 1-based line, where it is known.
    pub line: Option<u64>,
}
