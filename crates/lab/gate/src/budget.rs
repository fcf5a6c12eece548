//! Limits on what programs load.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The growth that is allowed where the file has no limit: the larger of both.
const DEFAULT_PERCENT: u64 = 10;
const DEFAULT_TOKENS: u64 = 100;

/// The limits of all programs, and of single ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budgets {
    pub all: Budget,
    /// By the name of the agent. A limit here replaces that of all programs.
    pub of: BTreeMap<String, Budget>,
}

/// The limits of a program in each place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Budget {
    /// The maximum number of tokens.
    pub max_tokens: Option<u64>,
    /// The maximum growth since the baseline.
    pub max_growth: Option<Growth>,
}

/// A limit on growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum Growth {
    /// Of the tokens in the baseline.
    Percent(u64),
    Tokens(u64),
}

/// A limit on growth is not written as one.
#[derive(Debug, thiserror::Error)]
#[error("a growth is written as \"10%\" or as a number of tokens")]
pub struct NoGrowth;

impl Budgets {
    /// Returns the limits of an agent.
    pub fn of(&self, agent: &str) -> Budget {
        let own = self.of.get(agent).copied().unwrap_or_default();
        Budget {
            max_tokens: own.max_tokens.or(self.all.max_tokens),
            max_growth: own.max_growth.or(self.all.max_growth),
        }
    }
}

impl Budget {
    /// Returns the limit of growth from a number of tokens, if the growth to another is over it.
    pub fn exceeded(self, before: u64, after: u64) -> Option<String> {
        let growth = after.saturating_sub(before);
        let part = |percent: u64| before.saturating_mul(percent) / 100;
        let (limit, shown) = match self.max_growth {
            Some(Growth::Percent(percent)) => (part(percent), format!("{percent} %")),
            Some(Growth::Tokens(tokens)) => (tokens, format!("{tokens} tokens")),
            None => {
                let limit = part(DEFAULT_PERCENT).max(DEFAULT_TOKENS);
                (limit, format!("{DEFAULT_PERCENT} %, or {DEFAULT_TOKENS} tokens"))
            }
        };
        (growth > limit).then_some(shown)
    }
}

impl FromStr for Growth {
    type Err = NoGrowth;

    fn from_str(text: &str) -> Result<Self, NoGrowth> {
        let parse = |digits: &str| digits.trim().parse().map_err(|_| NoGrowth);
        match text.trim().strip_suffix('%') {
            Some(percent) => parse(percent).map(Self::Percent),
            None => parse(text).map(Self::Tokens),
        }
    }
}

impl TryFrom<toml::Value> for Growth {
    type Error = NoGrowth;

    fn try_from(value: toml::Value) -> Result<Self, NoGrowth> {
        match value {
            toml::Value::String(text) => text.parse(),
            toml::Value::Integer(tokens) => {
                u64::try_from(tokens).map(Self::Tokens).map_err(|_| NoGrowth)
            }
            _ => Err(NoGrowth),
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "\"{percent}%\""),
            Self::Tokens(tokens) => write!(f, "{tokens}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_limited_in_percent_or_in_tokens() {
        let budget = |growth: &str| Budget { max_growth: growth.parse().ok(), max_tokens: None };
        for (growth, before, after, is_over) in [
            ("10%", 1000, 1100, false),
            ("10%", 1000, 1101, true),
            ("0%", 1000, 1001, true),
            ("50", 1000, 1050, false),
            ("50", 1000, 1051, true),
            ("50", 1000, 10, false),
            // Without a limit, a few tokens more are allowed even in a short file.
            ("none", 20, 120, false),
            ("none", 20, 121, true),
            ("none", 5000, 5501, true),
        ] {
            let exceeded = budget(growth).exceeded(before, after);
            assert_eq!(exceeded.is_some(), is_over, "{growth} {before} {after}");
        }
        assert!("ten".parse::<Growth>().is_err() && "-1%".parse::<Growth>().is_err());
    }

    #[test]
    fn the_limit_of_a_program_replaces_that_of_all() {
        let all = Budget { max_tokens: Some(9), max_growth: Some(Growth::Percent(5)) };
        let own = Budget { max_tokens: Some(7), max_growth: None };
        let budgets = Budgets { all, of: BTreeMap::from([("codex".to_owned(), own)]) };
        assert_eq!(budgets.of("claude"), all);
        assert_eq!(budgets.of("codex"), Budget { max_tokens: Some(7), ..all });
    }
}
