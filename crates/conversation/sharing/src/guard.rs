//! Guards against endless conversations.

use convoke_protocol::content::ContentHash;
use convoke_protocol::id::MemberName;
use serde::{Deserialize, Serialize};

/// The number of equal messages of one member at which a conversation stops.
pub const MAX_REPEATS: u32 = 3;

/// Counts turns and repetitions since a person last decided: by a message, or by continuing a stopped
/// conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    turns: u64,
    /// The repeated texts of each member.
    #[serde(rename = "said")]
    messages: Vec<RepeatedMessage>,
}

/// A message of a member, and how often it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RepeatedMessage {
    member: MemberName,
    text: ContentHash,
    times: u32,
}

impl Guard {
    /// Resets the counts.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of turns left.
    pub fn turns_left(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.turns)
    }

    /// Counts a turn.
    pub fn count_turn(&mut self) {
        self.turns += 1;
    }

    /// Counts a member's message, without markers. Returns the number of repetitions if the limit is reached.
    pub fn count_message(&mut self, member: &MemberName, text: &str) -> Option<u32> {
        let text = ContentHash::new(text);
        let same = |it: &&mut RepeatedMessage| it.text == text && it.member == *member;
        let times = if let Some(repeated) = self.messages.iter_mut().find(same) {
            repeated.times += 1;
            repeated.times
        } else {
            self.messages.push(RepeatedMessage { member: member.clone(), text, times: 1 });
            1
        };
        (times >= MAX_REPEATS).then_some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_time_stops_whoever_spoke_in_between() {
        let mut guard = Guard::default();
        let (max, sarah) = (MemberName::from("max"), MemberName::from("sarah"));
        for _ in 0..2 {
            assert_eq!(guard.count_message(&max, "ok"), None);
            assert_eq!(guard.count_message(&sarah, "ok"), None);
        }
        assert_eq!(guard.count_message(&max, "no"), None);
        assert_eq!(guard.count_message(&max, "ok"), Some(3));
        guard.reset();
        assert_eq!(guard.count_message(&max, "ok"), None);
    }
}
