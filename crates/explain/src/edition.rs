//! The agents whose rules are known, each at the version on which they were measured.

use std::fmt;
use std::str::FromStr;

/// An agent at the version whose rules are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edition {
    /// Claude Code 2.1.197.
    Claude,
    /// Gemini CLI 0.61.0.
    Gemini,
    /// Codex 0.98.
    Codex098,
    /// Codex 0.166.
    Codex0166,
}

impl Edition {
    /// Every edition, in the order in which they are shown.
    pub const ALL: [Edition; 4] =
        [Edition::Claude, Edition::Gemini, Edition::Codex098, Edition::Codex0166];

    /// The newest edition of each agent.
    pub const NEWEST: [Edition; 3] = [Edition::Claude, Edition::Gemini, Edition::Codex0166];

    /// Returns the agent's name: `claude`, `gemini` or `codex`.
    pub const fn agent(self) -> &'static str {
        match self {
            Edition::Claude => "claude",
            Edition::Gemini => "gemini",
            Edition::Codex098 | Edition::Codex0166 => "codex",
        }
    }

    /// Returns the name of the program for people.
    pub const fn title(self) -> &'static str {
        match self {
            Edition::Claude => "Claude Code",
            Edition::Gemini => "Gemini CLI",
            Edition::Codex098 | Edition::Codex0166 => "Codex",
        }
    }

    /// Returns the version on which the rules were measured.
    pub const fn version(self) -> &'static str {
        match self {
            Edition::Claude => "2.1.197",
            Edition::Gemini => "0.61.0",
            Edition::Codex098 => "0.98",
            Edition::Codex0166 => "0.166",
        }
    }

    /// Returns the edition whose rules come nearest to a version of the same agent.
    #[must_use]
    pub fn nearest(self, version: &str) -> Self {
        match self {
            Edition::Claude | Edition::Gemini => self,
            Edition::Codex098 | Edition::Codex0166 => {
                let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
                match (numbers.next().flatten(), numbers.next().flatten()) {
                    (Some(0), Some(minor)) if minor <= 98 => Edition::Codex098,
                    _ => Edition::Codex0166,
                }
            }
        }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.agent(), self.version())
    }
}

/// No rules are known under this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}`: use claude, gemini, codex, codex@0.98 or codex@0.166")]
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
            ("claude", Edition::Claude),
            ("gemini", Edition::Gemini),
            ("codex", Edition::Codex0166),
            ("codex@0.98", Edition::Codex098),
            ("codex@0.166", Edition::Codex0166),
            ("claude@2.1.197", Edition::Claude),
        ];
        for (name, expected) in cases {
            assert_eq!(name.parse(), Ok(expected), "{name}");
        }
        assert!("cursor".parse::<Edition>().is_err());
        assert!("codex@1".parse::<Edition>().is_err());
    }

    #[test]
    fn the_nearest_rules_are_those_of_the_last_measured_version_not_above_it() {
        let cases = [
            ("0.94.0", Edition::Codex098),
            ("0.98.0", Edition::Codex098),
            ("0.99.1", Edition::Codex0166),
            ("1.0.0", Edition::Codex0166),
            ("nightly", Edition::Codex0166),
        ];
        for (version, expected) in cases {
            assert_eq!(Edition::Codex098.nearest(version), expected, "{version}");
        }
        assert_eq!(Edition::Claude.nearest("3.0"), Edition::Claude);
    }
}
