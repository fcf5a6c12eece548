//! The loading rules of an agent, and the editions of them that were measured.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use convoke_core::Diagnostic;
use convoke_files::Files;
use serde::{Serialize, Serializer};

use crate::report::AgentReport;
use crate::session::Session;

/// The loading rules of an agent, in all their editions.
#[derive(Debug)]
pub struct LoadingRules {
    /// The agent's name.
    pub agent: &'static str,
    /// The name of the program for people.
    pub title: &'static str,
    /// The place of the agent in a report of all.
    pub place: u8,
    /// Whether a report of all has it only where its program is installed.
    pub is_optional: bool,
    /// The measured editions, the oldest first.
    pub editions: &'static [EditionFacts],
    /// The file that a project would add for this agent.
    pub main_file: &'static str,
    /// The directory of a project's skills that it searches in every edition.
    pub skills_directory: &'static str,
    /// The texts that end the wrapper which the agent puts around a file.
    pub wrapper_ends: &'static [&'static str],
    /// Whether it also loads files above the root of the repository.
    pub loads_above_root: bool,
    /// The environment variables that decide what is loaded.
    pub variables: &'static [&'static str],
    /// Finds what an edition loads; the session's directory is free of links.
    pub explain: fn(&dyn Files, &Session, Edition) -> AgentReport,
    /// Reports what the editions treat differently here, beside the reports that are there.
    pub compare_editions: fn(&dyn Files, &Session, &[AgentReport]) -> Option<Diagnostic>,
}

/// The facts about an edition.
#[derive(Debug)]
pub struct EditionFacts {
    /// The version on which the rules were measured.
    pub version: &'static str,
    /// The first version that the rules are applied to: the one after the edition before.
    pub since: [u64; 3],
}

/// An agent at the version whose rules are applied.
#[derive(Clone, Copy)]
pub struct Edition {
    rules: &'static LoadingRules,
    index: usize,
}

impl LoadingRules {
    /// Returns the editions, the oldest first.
    pub fn all(&'static self) -> impl DoubleEndedIterator<Item = Edition> {
        (0..self.editions.len()).map(move |index| Edition { rules: self, index })
    }

    /// Returns the newest edition.
    pub const fn newest(&'static self) -> Edition {
        Edition { rules: self, index: self.editions.len().saturating_sub(1) }
    }
}

impl Edition {
    /// Returns an edition by its place among those of the rules, of which the oldest is the first.
    pub const fn new(rules: &'static LoadingRules, index: usize) -> Self {
        Self { rules, index }
    }

    /// Returns the rules.
    pub const fn rules(self) -> &'static LoadingRules {
        self.rules
    }

    /// Returns its place among the editions.
    pub const fn index(self) -> usize {
        self.index
    }

    /// Returns whether it is the newest of the agent.
    pub const fn is_newest(self) -> bool {
        self.index + 1 == self.rules.editions.len()
    }

    /// Returns the agent's name.
    pub const fn agent(self) -> &'static str {
        self.rules.agent
    }

    /// Returns the name of the program for people.
    pub const fn title(self) -> &'static str {
        self.rules.title
    }

    fn facts(self) -> &'static EditionFacts {
        &self.rules.editions[self.index]
    }

    /// Returns the version on which the rules were measured.
    pub fn version(self) -> &'static str {
        self.facts().version
    }

    /// Returns the edition of the same agent whose rules apply to a version: the newest if the version is
    /// newer than all or not a number.
    #[must_use]
    pub fn nearest(self, version: &str) -> Self {
        let numbers = numbers(version);
        let covers = |it: &Self| numbers.is_none_or(|numbers| it.facts().since <= numbers);
        self.rules.all().rfind(covers).unwrap_or(self)
    }

    /// Returns whether a version of the agent is newer than the one on which these rules were measured.
    pub fn is_older_than(self, version: &str) -> bool {
        // `0.98` matches `0.98.x`.
        let length = self.version().split('.').count();
        match (numbers(version), numbers(self.version())) {
            (Some(installed), Some(measured)) => installed[..length] > measured[..length],
            _ => false,
        }
    }

    /// Finds an edition among the newest by the name of its agent, or among all by name and version.
    pub fn find(name: &str, editions: &[Self]) -> Result<Self, UnknownEdition> {
        let by_agent = editions.iter().find(|it| it.is_newest() && it.agent() == name);
        let found = by_agent.or_else(|| editions.iter().find(|it| it.to_string() == name));
        found.copied().ok_or_else(|| UnknownEdition::new(name, editions))
    }
}

/// Parses a version such as `2.1.325` or `0.98`; a suffix after a hyphen is ignored.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = [0; 3];
    for (place, part) in numbers.iter_mut().zip(release.split('.')) {
        *place = part.parse().ok()?;
    }
    Some(numbers)
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.agent(), self.version())
    }
}

impl fmt::Debug for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edition({self})")
    }
}

impl Edition {
    fn key(self) -> (u8, &'static str, usize) {
        (self.rules.place, self.rules.agent, self.index)
    }
}

impl PartialEq for Edition {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Edition {}

impl PartialOrd for Edition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Edition {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for Edition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Serialize for Edition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// No rules are known under this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{name}`: use {known}")]
pub struct UnknownEdition {
    name: String,
    known: String,
}

impl UnknownEdition {
    fn new(name: &str, editions: &[Edition]) -> Self {
        let agents = editions.iter().filter(|it| it.is_newest()).map(|it| it.agent().to_owned());
        let several = editions.iter().filter(|it| it.rules.editions.len() > 1);
        let known: Vec<String> = agents.chain(several.map(ToString::to_string)).collect();
        let (last, others) = known.split_last().map_or(("", &[][..]), |(last, it)| (last, it));
        Self { name: name.to_owned(), known: format!("{} or {last}", others.join(", ")) }
    }
}
