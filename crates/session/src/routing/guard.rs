//! Guards: what ends a conversation that would go on by itself for ever.

use std::collections::HashMap;

use crate::content::ContentHash;
use crate::id::MemberName;

/// How often a member may say the same thing before somebody looks.
pub const MOST_REPEATS: u32 = 3;

/// Counts what happens between two decisions of a person: what a person says, or that a stopped
/// conversation goes on, sets everything back.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    turns: u64,
    said: HashMap<(MemberName, ContentHash), u32>,
}

impl Guard {
    /// Begins to count anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns how many more turns may be taken.
    pub fn turns_left(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.turns)
    }

    /// Notes that a turn was taken.
    pub fn took_turn(&mut self) {
        self.turns += 1;
    }

    /// Notes what a member said, without markers; returns how often it has now said so when that is
    /// often enough to stop.
    pub fn said(&mut self, member: &MemberName, text: &str) -> Option<u32> {
        let times = self.said.entry((member.clone(), ContentHash::of(text))).or_insert(0);
        *times += 1;
        (*times >= MOST_REPEATS).then_some(*times)
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
            assert_eq!(guard.said(&max, "ok"), None);
            assert_eq!(guard.said(&sarah, "ok"), None);
        }
        assert_eq!(guard.said(&max, "no"), None);
        assert_eq!(guard.said(&max, "ok"), Some(3));
        guard.reset();
        assert_eq!(guard.said(&max, "ok"), None);
    }
}
