//! The thread that a turn continues, and the state to which it returns.
//!
//! From 0.99 on, turns have ids by which a thread is forked. Earlier versions count turns anew in every process, so a
//! state is named by the number of its turns, and the ones after it are rolled back.

use convoke_agent::adapter::Context;

/// A thread to continue.
pub(super) struct ContinuedThread {
    pub(super) session: String,
    pub(super) state: ThreadState,
}

/// The state in which a thread is continued.
pub(super) enum ThreadState {
    /// As it is.
    Any,
    /// As it was at a mark; what came later is taken back.
    At(Mark),
    /// In a copy that ends at a mark.
    Branched(Mark),
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// The turn, by its id.
    Turn(String),
    /// The number of turns up to it.
    Count(usize),
}

/// How a mark begins that is a number of turns.
const COUNTED: &str = "turns:";

impl ContinuedThread {
    pub(super) fn new(context: &Context<'_>, session: &str) -> Self {
        let mark = context.mark().map(Mark::parse);
        let state = match mark {
            None => ThreadState::Any,
            Some(mark) if context.is_branch() => ThreadState::Branched(mark),
            Some(mark) => ThreadState::At(mark),
        };
        Self { session: session.to_owned(), state }
    }
}

impl Mark {
    fn parse(written: &str) -> Self {
        let counted = written.strip_prefix(COUNTED).and_then(|count| count.parse().ok());
        counted.map_or_else(|| Self::Turn(written.to_owned()), Self::Count)
    }

    /// Returns the number of turns after the mark; `None` if the thread does not have it.
    pub(super) fn surplus(&self, turns: &[String]) -> Option<usize> {
        match self {
            Self::Turn(id) => turns.iter().rev().position(|turn| turn == id),
            Self::Count(count) => turns.len().checked_sub(*count),
        }
    }
}

/// Returns the mark of a turn after a number of others. Ids that are unique have hyphens.
pub(super) fn mark(turn: &str, earlier: usize) -> String {
    if turn.contains('-') { turn.to_owned() } else { format!("{COUNTED}{}", earlier + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_returns_to_the_turn_of_its_mark() {
        let turns = ["a-1", "b-2", "c-3"].map(str::to_owned);
        for (written, surplus) in [
            ("c-3", Some(0)),
            ("a-1", Some(2)),
            ("d-4", None),
            ("turns:3", Some(0)),
            ("turns:1", Some(2)),
            ("turns:4", None),
        ] {
            assert_eq!(Mark::parse(written).surplus(&turns), surplus, "{written}");
        }
        assert_eq!(mark("01a1f571-f989", 7), "01a1f571-f989");
        assert_eq!(mark("0", 2), "turns:3");
    }
}
