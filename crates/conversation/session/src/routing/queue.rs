//! The queue of turns.
//!
//! The next turn is, in this order: an interrupted turn; the oldest P1; a turn opened by the last finished
//! message, P2 before P3 and in the order of its text, at most five in a row; then any turn by priority and
//! arrival. This finishes one topic before the next, and no turn starves.

use convoke_core::marker::Intent;
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::turn::Turn;

use super::DropTurns;

/// The maximum number of consecutive turns of one topic while others are queued.
pub const MAX_IN_A_ROW: u32 = 5;

/// The queued turns and the state that decides their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// The turns, in the order of arrival.
    waiting: Vec<Turn>,
    pub last_finished: Option<MessageNumber>,
    /// The number of consecutive turns opened by that message that ran first.
    pub in_a_row: u32,
}

/// Whether turns may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// One after another.
    Serial,
    /// Independent turns run together.
    Parallel,
}

impl Queue {
    /// Creates a queue of turns.
    pub fn new(
        mut waiting: Vec<Turn>,
        last_finished: Option<MessageNumber>,
        in_a_row: u32,
    ) -> Self {
        waiting.sort_by_key(|turn| turn.id);
        Self { waiting, last_finished, in_a_row }
    }

    /// Returns the queued turns, in the order of arrival.
    pub fn waiting(&self) -> &[Turn] {
        &self.waiting
    }

    /// Adds a turn at the end.
    pub fn push(&mut self, turn: Turn) {
        self.waiting.push(turn);
    }

    /// Puts back a turn that is retried, at its original position.
    pub fn put_back(&mut self, turn: Turn) {
        let at = self.waiting.partition_point(|other| other.id < turn.id);
        self.waiting.insert(at, turn);
    }

    /// Removes and returns the dropped turns.
    pub fn drop_turns(&mut self, drop: &DropTurns) -> Vec<Turn> {
        self.waiting.extract_if(.., |turn| drop.concerns(&turn.member)).collect()
    }

    /// Removes a turn.
    pub fn remove(&mut self, id: TurnId) -> Option<Turn> {
        let at = self.waiting.iter().position(|turn| turn.id == id)?;
        Some(self.waiting.remove(at))
    }

    /// Returns the next turn without removing it.
    pub fn peek(&self) -> Option<&Turn> {
        self.select().map(|(at, _)| &self.waiting[at])
    }

    /// Removes the next turn, together with turns of the same message and priority that `may_join` allows.
    /// Returns each member at most once.
    pub fn take_next(
        &mut self,
        concurrency: Concurrency,
        may_join: impl Fn(&Turn) -> bool,
    ) -> Vec<Turn> {
        let Some((at, in_a_row)) = self.select() else { return Vec::new() };
        self.in_a_row = in_a_row;
        let first = self.waiting.remove(at);
        let mut batch = vec![first];
        if concurrency == Concurrency::Parallel {
            let mut index = 0;
            while index < self.waiting.len() {
                let turn = &self.waiting[index];
                let joins = turn.answers == batch[0].answers
                    && turn.intent == batch[0].intent
                    && batch.iter().all(|other| other.member != turn.member)
                    && may_join(turn);
                if joins {
                    batch.push(self.waiting.remove(index));
                } else {
                    index += 1;
                }
            }
        }
        batch
    }

    /// Returns the index of the next turn, and the new number of consecutive turns.
    fn select(&self) -> Option<(usize, u32)> {
        let find = |wanted: &dyn Fn(&Turn) -> bool| self.waiting.iter().position(wanted);
        if let Some(at) = find(&|turn| turn.attempts > 0) {
            return Some((at, self.in_a_row));
        }
        if let Some(at) = find(&|turn| turn.intent == Intent::P1) {
            return Some((at, 0));
        }
        if self.in_a_row < MAX_IN_A_ROW
            && let Some(last) = self.last_finished
        {
            for intent in [Intent::P2, Intent::P3] {
                if let Some(at) = find(&|turn| turn.answers == last && turn.intent == intent) {
                    return Some((at, self.in_a_row + 1));
                }
            }
        }
        let (at, _) = self.waiting.iter().enumerate().min_by_key(|(_, turn)| turn.intent)?;
        Some((at, 0))
    }
}

#[cfg(test)]
mod tests {
    use convoke_protocol::id::Millis;
    use convoke_protocol::turn::TurnState;

    use super::*;

    fn turn(id: u64, member: &str, answers: u64, intent: Intent) -> Turn {
        Turn {
            id: TurnId(id),
            member: member.into(),
            answers: MessageNumber(answers),
            intent,
            asker: "kailai".into(),
            state: TurnState::Queued,
            reply: None,
            problem: None,
            attempts: 0,
            queued_at: Millis(0),
            ended_at: None,
        }
    }

    /// Removes all turns in order, without finishing a message.
    fn order(mut queue: Queue) -> Vec<u64> {
        let mut order = Vec::new();
        while let [next] = queue.take_next(Concurrency::Serial, |_| true).as_slice() {
            order.push(next.id.0);
        }
        order
    }

    #[test]
    fn p1_goes_first_oldest_first() {
        let waiting = vec![
            turn(1, "a", 1, Intent::P2),
            turn(2, "b", 1, Intent::P1),
            turn(3, "c", 2, Intent::P1),
        ];
        assert_eq!(order(Queue::new(waiting, Some(MessageNumber(2)), 0)), [2, 3, 1]);
    }

    #[test]
    fn what_the_last_message_opened_goes_before_older_turns_even_as_p3() {
        let waiting = vec![
            turn(1, "a", 1, Intent::P2),
            turn(2, "b", 2, Intent::P3),
            turn(3, "c", 2, Intent::P2),
        ];
        assert_eq!(order(Queue::new(waiting, Some(MessageNumber(2)), 0)), [3, 2, 1]);
    }

    #[test]
    fn after_five_in_a_row_an_older_turn_has_its_chance() {
        let mut waiting = vec![turn(1, "a", 1, Intent::P2)];
        waiting.extend((2..=8).map(|id| turn(id, "b", 2, Intent::P2)));
        assert_eq!(order(Queue::new(waiting, Some(MessageNumber(2)), 0)), [2, 3, 4, 5, 6, 1, 7, 8]);
    }

    #[test]
    fn without_a_last_message_intent_decides_then_arrival() {
        let waiting = vec![
            turn(1, "a", 1, Intent::P3),
            turn(2, "b", 2, Intent::P2),
            turn(3, "c", 1, Intent::P2),
        ];
        assert_eq!(order(Queue::new(waiting, None, 0)), [2, 3, 1]);
    }

    #[test]
    fn a_turn_that_was_begun_goes_before_everything() {
        let mut begun = turn(3, "c", 1, Intent::P3);
        begun.attempts = 1;
        let waiting = vec![turn(1, "a", 1, Intent::P1), turn(2, "b", 1, Intent::P2), begun];
        assert_eq!(order(Queue::new(waiting, None, 0)), [3, 1, 2]);
    }

    #[test]
    fn a_batch_answers_one_message_with_one_intent_and_has_nobody_twice() {
        let waiting = vec![
            turn(1, "a", 1, Intent::P2),
            turn(2, "b", 1, Intent::P2),
            turn(3, "a", 1, Intent::P2),
            turn(4, "person", 1, Intent::P2),
            turn(5, "c", 1, Intent::P3),
            turn(6, "d", 2, Intent::P2),
        ];
        let mut queue = Queue::new(waiting, None, 0);
        let batch = queue.take_next(Concurrency::Parallel, |turn| turn.member.as_str() != "person");
        assert_eq!(batch.iter().map(|turn| turn.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(queue.waiting().len(), 4);
    }

    #[test]
    fn dropping_takes_out_every_turn_of_a_member() {
        let waiting = vec![
            turn(1, "a", 1, Intent::P2),
            turn(2, "b", 1, Intent::P2),
            turn(3, "a", 2, Intent::P1),
        ];
        let mut queue = Queue::new(waiting, None, 0);
        let dropped = queue.drop_turns(&DropTurns::Members(vec!["a".into()]));
        assert_eq!(dropped.len(), 2);
        assert_eq!(queue.waiting().len(), 1);
        assert_eq!(queue.drop_turns(&DropTurns::All).len(), 1);
    }
}
