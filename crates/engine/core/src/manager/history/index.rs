//! Indexes of messages by id, speaker, reply, time and reader.
//!
//! Messages are identified by a sequence number that never changes, so that removing the oldest ones renumbers
//! nothing.

use std::collections::{HashMap, VecDeque};
use std::ops::{Bound, RangeBounds};

use crate::context::readers;
use crate::message::{ConversationMessage, MessageId};
use crate::name::NameKey;
use crate::timestamp::{Millis, Timestamp};

/// The number of a message in the order in which messages were added.
pub(super) type Sequence = u64;

type Sequences = VecDeque<Sequence>;

#[derive(Debug, Default)]
pub(super) struct Index {
    by_id: HashMap<MessageId, Sequence>,
    by_speaker: HashMap<String, Sequences>,
    replies: HashMap<MessageId, Sequences>,
    /// The messages from or to each name.
    addressed: HashMap<NameKey, Sequences>,
    /// The messages to everyone.
    to_everyone: Sequences,
    /// The messages that have a time.
    times: VecDeque<(Millis, Sequence)>,
    /// Whether a message is earlier than one before it. Without one, ranges are found by binary search.
    times_go_back: bool,
}

impl Index {
    pub(super) fn add(&mut self, sequence: Sequence, message: &ConversationMessage) {
        self.by_id.insert(message.id.clone(), sequence);
        push(&mut self.by_speaker, &message.speaker.role_id, sequence);
        if let Some(parent) = &message.in_reply_to {
            push(&mut self.replies, parent, sequence);
        }
        if message.is_to_everyone() {
            self.to_everyone.push_back(sequence);
        } else {
            for name in readers(message) {
                let addressed = self.addressed.entry(name).or_default();
                if addressed.back() != Some(&sequence) {
                    addressed.push_back(sequence);
                }
            }
        }
        if let Some(time) = message.timestamp.as_ref().and_then(Timestamp::millis) {
            self.times_go_back |= self.times.back().is_some_and(|&(last, _)| last > time);
            self.times.push_back((time, sequence));
        }
    }

    /// Removes the oldest message.
    pub(super) fn remove_oldest(&mut self, sequence: Sequence, message: &ConversationMessage) {
        if self.by_id.get(&message.id) == Some(&sequence) {
            self.by_id.remove(&message.id);
        }
        pop(&mut self.by_speaker, &message.speaker.role_id, sequence);
        if let Some(parent) = &message.in_reply_to {
            pop(&mut self.replies, parent, sequence);
        }
        if self.to_everyone.front() == Some(&sequence) {
            self.to_everyone.pop_front();
        }
        for name in readers(message) {
            pop(&mut self.addressed, &name, sequence);
        }
        if self.times.front().is_some_and(|&(_, timed)| timed == sequence) {
            self.times.pop_front();
        }
    }

    pub(super) fn by_id(&self, id: &MessageId) -> Option<Sequence> {
        self.by_id.get(id).copied()
    }

    pub(super) fn by_speaker(&self, role_id: &str) -> impl DoubleEndedIterator<Item = Sequence> {
        self.by_speaker.get(role_id).into_iter().flatten().copied()
    }

    pub(super) fn replies_to(&self, id: &MessageId) -> impl DoubleEndedIterator<Item = Sequence> {
        self.replies.get(id).into_iter().flatten().copied()
    }

    pub(super) fn between(
        &self,
        range: impl RangeBounds<Millis>,
    ) -> impl Iterator<Item = Sequence> {
        let (start, end) = if self.times_go_back {
            (0, self.times.len())
        } else {
            let is_before = |&(time, _): &(Millis, Sequence)| match range.start_bound() {
                Bound::Included(&start) => time < start,
                Bound::Excluded(&start) => time <= start,
                Bound::Unbounded => false,
            };
            let is_not_after = |&(time, _): &(Millis, Sequence)| match range.end_bound() {
                Bound::Included(&end) => time <= end,
                Bound::Excluded(&end) => time < end,
                Bound::Unbounded => true,
            };
            let start = self.times.partition_point(is_before);
            (start, self.times.partition_point(is_not_after).max(start))
        };
        let found = self.times.range(start..end);
        found.filter(move |(time, _)| range.contains(time)).map(|&(_, sequence)| sequence)
    }

    /// Returns the messages before one that a member with one of these names sees, newest first: the lists
    /// of its names and of messages to everyone, merged from their ends.
    pub(super) fn visible_before(
        &self,
        sequence: Sequence,
        names: &[NameKey],
    ) -> impl Iterator<Item = Sequence> {
        let lists =
            names.iter().filter_map(|name| self.addressed.get(name)).chain([&self.to_everyone]);
        let mut tails: Vec<_> = lists
            .map(|list| {
                let end = list.partition_point(|&found| found < sequence);
                list.range(..end).rev().copied().peekable()
            })
            .collect();
        std::iter::from_fn(move || {
            let newest = tails.iter_mut().filter_map(|tail| tail.peek().copied()).max()?;
            for tail in &mut tails {
                tail.next_if_eq(&newest);
            }
            Some(newest)
        })
    }
}

fn push<K: std::hash::Hash + Eq + Clone>(
    lists: &mut HashMap<K, Sequences>,
    key: &K,
    sequence: Sequence,
) {
    match lists.get_mut(key) {
        Some(list) => list.push_back(sequence),
        None => {
            lists.insert(key.clone(), Sequences::from([sequence]));
        }
    }
}

/// Removes the oldest message of a list, and an empty list.
fn pop<K: std::hash::Hash + Eq>(lists: &mut HashMap<K, Sequences>, key: &K, sequence: Sequence) {
    let Some(list) = lists.get_mut(key) else {
        return;
    };
    if list.front() == Some(&sequence) {
        list.pop_front();
    }
    if list.is_empty() {
        lists.remove(key);
    }
}
