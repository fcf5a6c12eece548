//! The agents whose rules are known, each at the version on which they were measured.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// An agent at the version whose rules are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Edition {
    /// Claude Code 2.1.197.
    Claude197,
    /// Claude Code 2.1.325.
    Claude325,
    /// Gemini CLI 0.61.0.
    Gemini,
    /// Codex 0.98.
    Codex098,
    /// Codex 0.166.
    Codex0166,
}

/// The facts about an edition.
struct Facts {
    agent: &'static str,
    title: &'static str,
    /// The version on which the rules were measured.
    version: &'static str,
    /// The first version that the rules are applied to: the one after the edition before.
    since: [u64; 3],
}

impl Edition {
    /// Every edition, in the order in which they are shown; of one agent the oldest first.
    pub const ALL: [Edition; 5] = [
        Edition::Claude197,
        Edition::Claude325,
        Edition::Gemini,
        Edition::Codex098,
        Edition::Codex0166,
    ];

    /// The newest edition of each agent.
    pub const NEWEST: [Edition; 3] = [Edition::Claude325, Edition::Gemini, Edition::Codex0166];

    const fn facts(self) -> Facts {
        let (agent, title, version, since) = match self {
            Edition::Claude197 => ("claude", "Claude Code", "2.1.197", [0, 0, 0]),
            Edition::Claude325 => ("claude", "Claude Code", "2.1.325", [2, 1, 198]),
            Edition::Gemini => ("gemini", "Gemini CLI", "0.61.0", [0, 0, 0]),
            Edition::Codex098 => ("codex", "Codex", "0.98", [0, 0, 0]),
            Edition::Codex0166 => ("codex", "Codex", "0.166", [0, 99, 0]),
        };
        Facts { agent, title, version, since }
    }

    /// Returns the agent's name: `claude`, `gemini` or `codex`.
    pub const fn agent(self) -> &'static str {
        self.facts().agent
    }

    /// Returns the name of the program for people.
    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// Returns the version on which the rules were measured.
    pub const fn version(self) -> &'static str {
        self.facts().version
    }

    /// Returns the edition of the same agent whose rules apply to a version: the newest if the version is
    /// newer than all or not a number.
    #[must_use]
    pub fn nearest(self, version: &str) -> Self {
        let of_agent = || Self::ALL.into_iter().filter(|it| it.agent() == self.agent());
        let numbers = numbers(version);
        let covers = |it: &Self| numbers.is_none_or(|numbers| it.facts().since <= numbers);
        of_agent().rfind(covers).unwrap_or(self)
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

impl Serialize for Edition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// No rules are known under this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown agent `{0}`: use claude, gemini, codex, claude@2.1.197, claude@2.1.325, codex@0.98 or codex@0.166"
)]
pub struct UnknownEdition(pub String);

impl FromStr for Edition {
    type Err = UnknownEdition;

    fn from_str(name: &str) -> Result<Self, UnknownEdition> {
        let newest = Self::NEWEST.iter().find(|it| it.agent() == name);
        let exact = || Self::ALL.iter().find(|it| it.to_string() == name);
        let found = newest.or_else(exact).copied();
        found.ok_or_else(|| UnknownEdition(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_means_the_newest() {
        let cases = [
            ("claude", Edition::Claude325),
            ("gemini", Edition::Gemini),
            ("codex", Edition::Codex0166),
            ("codex@0.98", Edition::Codex098),
            ("codex@0.166", Edition::Codex0166),
            ("claude@2.1.197", Edition::Claude197),
            ("claude@2.1.325", Edition::Claude325),
        ];
        for (name, expected) in cases {
            assert_eq!(name.parse(), Ok(expected), "{name}");
        }
        assert!("cursor".parse::<Edition>().is_err());
        assert!("codex@1".parse::<Edition>().is_err());
        assert!("claude@2.1.326".parse::<Edition>().is_err());
    }

    #[test]
    fn an_edition_covers_the_versions_after_the_one_before() {
        let cases = [
            ("codex", "0.94.0", Edition::Codex098),
            ("codex", "0.98.0", Edition::Codex098),
            ("codex", "0.99.1", Edition::Codex0166),
            ("codex", "1.0.0", Edition::Codex0166),
            ("codex", "nightly", Edition::Codex0166),
            ("claude", "1.0.5", Edition::Claude197),
            ("claude", "2.1.197", Edition::Claude197),
            ("claude", "2.1.198", Edition::Claude325),
            ("claude", "2.1.325", Edition::Claude325),
            ("claude", "2.2", Edition::Claude325),
            ("gemini", "3.0", Edition::Gemini),
        ];
        for (agent, version, expected) in cases {
            let named: Edition = agent.parse().unwrap();
            assert_eq!(named.nearest(version), expected, "{agent} {version}");
        }
    }

    #[test]
    fn a_version_is_newer_than_an_edition_if_its_numbers_are() {
        let cases = [
            (Edition::Claude325, "2.1.325", false),
            (Edition::Claude325, "2.1.326", true),
            (Edition::Claude325, "3.0.0-beta.1", true),
            (Edition::Claude325, "2.1.197", false),
            (Edition::Codex0166, "0.166.4", false),
            (Edition::Codex0166, "0.167.0-alpha.2", true),
            (Edition::Gemini, "nightly", false),
        ];
        for (edition, version, expected) in cases {
            assert_eq!(edition.is_older_than(version), expected, "{edition} {version}");
        }
    }
}
