//! The difference between two prompts of one member, and how much of the earlier one a provider's cache can reuse.

use std::time::Duration;

pub use convoke_diff::LineChange;
use convoke_diff::LineDiff;
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_protocol::turn::{Attempt, Turn};
use serde::Serialize;

use crate::rows::find_turn;
use crate::store::{Store, StoreError};

/// The difference between two prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptDiff {
    pub member: MemberName,
    pub system: TextDiff,
    pub prompt: TextDiff,
}

impl PromptDiff {
    /// Returns the number of equal bytes at the start; the system text comes first.
    pub fn reusable_bytes(&self) -> u64 {
        if self.system.is_same() {
            self.system.earlier_bytes + self.prompt.common_prefix
        } else {
            self.system.common_prefix
        }
    }
}

/// The difference between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TextDiff {
    /// The size of the earlier text.
    pub earlier_bytes: u64,
    /// The size of the later text.
    pub later_bytes: u64,
    /// The number of equal bytes at the start.
    pub common_prefix: u64,
    pub lines: Vec<DiffLine>,
}

impl TextDiff {
    /// Returns whether the texts are equal.
    pub fn is_same(&self) -> bool {
        self.earlier_bytes == self.later_bytes && self.common_prefix == self.earlier_bytes
    }
}

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// The texts that contain it.
    pub change: LineChange,
    /// The line, without its newline.
    pub text: String,
}

/// An error of [`diff`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such turn.
    #[error("there is no turn {0}")]
    NoTurn(TurnId),
    /// Nothing was sent for a turn.
    #[error("nothing was sent for turn {0}")]
    NotSent(TurnId),
    /// The turns belong to two members.
    #[error("turn {earlier} is {}'s and turn {later} is {}'s; only prompts of one member can be compared", members.0, members.1)]
    Members { earlier: TurnId, later: TurnId, members: (MemberName, MemberName) },
}

/// Compares the prompts of two turns, each from the last attempt.
pub async fn diff(
    store: &impl Store,
    session: SessionId,
    earlier: TurnId,
    later: TurnId,
) -> Result<PromptDiff, DiffError> {
    let (from, sent_before) = sent(store, session, earlier).await?;
    let (to, sent_after) = sent(store, session, later).await?;
    if from.member != to.member {
        let members = (from.member, to.member);
        return Err(DiffError::Members { earlier, later, members });
    }
    let system =
        text_diff(&system_of(store, &sent_before).await?, &system_of(store, &sent_after).await?);
    let prompt = text_diff(
        &store.content(sent_before.prompt.hash).await?,
        &store.content(sent_after.prompt.hash).await?,
    );
    Ok(PromptDiff { member: from.member, system, prompt })
}

async fn sent(
    store: &impl Store,
    session: SessionId,
    id: TurnId,
) -> Result<(Turn, Attempt), DiffError> {
    let turn = find_turn(store, session, id).await?.ok_or(DiffError::NoTurn(id))?;
    let attempt = store.attempts(session, id).await?.pop().ok_or(DiffError::NotSent(id))?;
    Ok((turn, attempt))
}

async fn system_of(store: &impl Store, attempt: &Attempt) -> Result<String, StoreError> {
    match attempt.system {
        Some(system) => store.content(system.hash).await,
        None => Ok(String::new()),
    }
}

/// Compares two texts.
pub fn text_diff(earlier: &str, later: &str) -> TextDiff {
    let same = earlier.bytes().zip(later.bytes()).take_while(|(a, b)| a == b).count();
    TextDiff {
        earlier_bytes: earlier.len() as u64,
        later_bytes: later.len() as u64,
        common_prefix: earlier.floor_char_boundary(same) as u64,
        lines: diff_lines(earlier, later),
    }
}

fn lines_of(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('\n').collect() }
}

/// The time limit after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_millis(500);

fn diff_lines(earlier: &str, later: &str) -> Vec<DiffLine> {
    let diff = LineDiff::of_lines(lines_of(earlier), lines_of(later), DIFF_TIME);
    diff.lines().map(|(change, text)| DiffLine { change, text: text.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(earlier: &str, later: &str) -> String {
        let lines = text_diff(earlier, later).lines.into_iter();
        let sign = |change| match change {
            LineChange::Same => ' ',
            LineChange::Removed => '-',
            LineChange::Added => '+',
        };
        let lines: Vec<String> =
            lines.map(|line| format!("{}{}", sign(line.change), line.text)).collect();
        lines.join("|")
    }

    #[test]
    fn lines_that_changed_are_shown_between_those_that_did_not() {
        let cases = [
            ("a\nb\nc", "a\nx\nc", " a|-b|+x| c"),
            ("a\nb\nc\nd", "b\nc\nd\ne", "-a| b| c| d|+e"),
            ("", "a", "+a"),
            ("a", "", "-a"),
            ("same", "same", " same"),
            ("a\na", "a", " a|-a"),
        ];
        for (earlier, later, expected) in cases {
            assert_eq!(shown(earlier, later), expected, "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn the_common_beginning_ends_at_a_character() {
        assert_eq!(text_diff("aé", "aè").common_prefix, 1);
        assert_eq!(text_diff("abc", "abcd").common_prefix, 3);
    }
}
