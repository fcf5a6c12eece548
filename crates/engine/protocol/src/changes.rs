//! The changes of a turn in its working directory, in numbers.

use serde::{Deserialize, Serialize};

/// The author of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangedBy {
    /// The agent of a turn.
    Agent,
    /// A person, before the turn.
    Person,
}

/// The number of changed files and lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounts {
    /// The changed files.
    pub files: u64,
    /// The added lines; `None` if they could not be counted.
    pub added: Option<u64>,
    /// The removed lines; `None` if they could not be counted.
    pub removed: Option<u64>,
}

impl std::fmt::Display for ChangeCounts {
    /// Writes `3 files, +40 −12`, and `3 files, +? −?` if the lines could not be counted.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { files, added, removed } = self;
        let noun = if *files == 1 { "file" } else { "files" };
        let lines = |count: &Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
        write!(f, "{files} {noun}, +{} −{}", lines(added), lines(removed))
    }
}
