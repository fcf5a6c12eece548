//! Token counts in a vendor-neutral form.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The tokens of a request, or of a turn.
///
/// `input` counts all tokens that the model read, cached or not; `cached` and `cache_write` are parts
/// of it. `output` counts all tokens that it wrote; `reasoning` is a part of it. Counts of vendors that
/// report the parts separately are converted to this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Of these, read from a cache.
    pub cached: u64,
    /// Of these, written to a cache.
    pub cache_write: u64,
    /// Tokens written.
    pub output: u64,
    /// Of these, reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Returns the sum, saturating: the counts come from other programs.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            cached: self.cached.saturating_add(more.cached),
            cache_write: self.cache_write.saturating_add(more.cache_write),
            output: self.output.saturating_add(more.output),
            reasoning: self.reasoning.saturating_add(more.reasoning),
        }
    }

    /// Returns the difference to `earlier`, for agents that count over a whole session.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            cached: self.cached.saturating_sub(earlier.cached),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
            output: self.output.saturating_sub(earlier.output),
            reasoning: self.reasoning.saturating_sub(earlier.reasoning),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, cached, cache_write, output, reasoning } = self;
        write!(
            f,
            "input={input},cached={cached},cache-write={cache_write},output={output},reasoning={reasoning}"
        )
    }
}
