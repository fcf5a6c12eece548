//! The messages of a conversation, oldest first, with lookup by id, speaker, reply and time.

mod index;

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::OnceLock;

use self::index::{Index, Sequence};
use crate::input::PromptContextMessage;
use crate::marker::{TextPolicy, strip_all_markers};
use crate::message::{ConversationMessage, MessageId, NewMessage};
use crate::name::NameKey;
use crate::timestamp::Millis;

/// The messages of a conversation.
///
/// Adding a message and lookup by id are O(1). Lookup by speaker, reply or time is O(results); by time, only
/// while the times ascend.
#[derive(Debug)]
pub struct History {
    stored: VecDeque<Stored>,
    /// The sequence number of the oldest stored message.
    first: Sequence,
    /// The number of the next id.
    next_number: u64,
    policy: TextPolicy,
    index: Index,
}

#[derive(Debug)]
struct Stored {
    message: ConversationMessage,
    /// The text without markers, computed on first use; `None` if it equals the content.
    clean: OnceLock<Option<Box<str>>>,
}

impl Default for History {
    fn default() -> Self {
        Self::new(TextPolicy::default())
    }
}

impl History {
    pub(super) fn new(policy: TextPolicy) -> Self {
        Self { stored: VecDeque::new(), first: 0, next_number: 1, policy, index: Index::default() }
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Returns the messages, oldest first.
    pub fn messages(
        &self,
    ) -> impl DoubleEndedIterator<Item = &ConversationMessage> + ExactSizeIterator {
        self.stored.iter().map(|stored| &stored.message)
    }

    /// Returns the newest message.
    pub fn latest(&self) -> Option<&ConversationMessage> {
        self.stored.back().map(|stored| &stored.message)
    }

    /// Returns the message with an id, or the newest of several.
    pub fn by_id(&self, id: &MessageId) -> Option<&ConversationMessage> {
        self.position(id).map(|position| &self.stored[position].message)
    }

    /// Returns the messages of a speaker, by its id, oldest first.
    pub fn by_speaker(
        &self,
        role_id: &str,
    ) -> impl DoubleEndedIterator<Item = &ConversationMessage> {
        self.at(self.index.by_speaker(role_id))
    }

    /// Returns the answers to a message, oldest first.
    pub fn replies_to(
        &self,
        id: &MessageId,
    ) -> impl DoubleEndedIterator<Item = &ConversationMessage> {
        self.at(self.index.replies_to(id))
    }

    /// Returns the messages of a time range, in milliseconds since 1970, in the order of insertion. Messages
    /// without a time are never included.
    ///
    /// ```
    /// # use convoke_core::{ContextManager, Millis, NewMessage, Speaker, SpeakerType, Timestamp};
    /// # let mut manager = ContextManager::default();
    /// let mut message = NewMessage::new(Speaker::new("a", "a", SpeakerType::Ai), "hello");
    /// message.timestamp = Some(Timestamp::Text("2026-11-15T08:53:00Z".to_owned()));
    /// manager.add_message(message);
    /// assert_eq!(manager.history().between(Millis(1_794_732_780_000)..).count(), 1);
    /// assert_eq!(manager.history().between(..Millis(1_794_732_780_000)).count(), 0);
    /// ```
    pub fn between(
        &self,
        range: impl RangeBounds<Millis>,
    ) -> impl Iterator<Item = &ConversationMessage> {
        self.index.between(range).map(|sequence| &self.stored[self.position_of(sequence)].message)
    }

    /// Returns the position of the message with an id.
    pub(super) fn position(&self, id: &MessageId) -> Option<usize> {
        self.index.by_id(id).map(|sequence| self.position_of(sequence))
    }

    /// Returns a message with its text without markers, which is computed once.
    pub(super) fn clean(&self, position: usize) -> (&ConversationMessage, &str) {
        let Stored { message, clean } = &self.stored[position];
        let content = message.content.as_str();
        let changed = clean.get_or_init(|| {
            let text = strip_all_markers(content, self.policy);
            (text != content).then(|| text.into_owned().into_boxed_str())
        });
        (message, changed.as_deref().unwrap_or(content))
    }

    fn context_message(&self, position: usize) -> PromptContextMessage<'_> {
        let (message, text) = self.clean(position);
        PromptContextMessage::new(message, text)
    }

    /// Returns the context of an answer to the message at `position`, newest first: the other answers to it, then
    /// earlier messages.
    pub(super) fn before(&self, position: usize) -> impl Iterator<Item = PromptContextMessage<'_>> {
        let id = &self.stored[position].message.id;
        let siblings = self.later_replies(id, position);
        siblings.chain((0..position).rev()).map(|position| self.context_message(position))
    }

    /// As [`Self::before`], but only messages that are visible to a member with one of these names.
    pub(super) fn visible_before<'a, 'n>(
        &'a self,
        position: usize,
        names: &'n [NameKey],
    ) -> impl Iterator<Item = PromptContextMessage<'a>> + use<'a, 'n> {
        let id = &self.stored[position].message.id;
        let siblings = self.later_replies(id, position).filter(move |&sibling| {
            crate::context::is_visible_to(&self.stored[sibling].message, names)
        });
        let earlier = self.index.visible_before(self.first + position as Sequence, names);
        let earlier = earlier.map(|sequence| self.position_of(sequence));
        siblings.chain(earlier).map(|position| self.context_message(position))
    }

    /// Returns the positions of the answers to a message after `position`, newest first.
    fn later_replies(&self, id: &MessageId, position: usize) -> impl Iterator<Item = usize> {
        let replies = self.index.replies_to(id).rev();
        replies.map(|sequence| self.position_of(sequence)).take_while(move |&at| at > position)
    }

    /// Stores a message under the next id, and returns that id.
    pub(super) fn push(&mut self, message: NewMessage) -> &MessageId {
        let id = MessageId::numbered(self.next_number);
        self.next_number += 1;
        self.store(message.with_id(id));
        &self.newest().id
    }

    /// Returns the message that was stored last.
    pub(super) fn newest(&self) -> &ConversationMessage {
        &self.stored[self.stored.len() - 1].message
    }

    /// Removes the oldest message.
    pub(super) fn pop_oldest(&mut self) -> Option<ConversationMessage> {
        let Stored { message, .. } = self.stored.pop_front()?;
        self.index.remove_oldest(self.first, &message);
        self.first += 1;
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.policy);
    }

    pub(super) fn replace(&mut self, messages: Vec<ConversationMessage>, next_number: u64) {
        self.clear();
        self.next_number = next_number;
        for message in messages {
            self.store(message);
        }
    }

    fn store(&mut self, message: ConversationMessage) {
        self.index.add(self.first + self.stored.len() as Sequence, &message);
        self.stored.push_back(Stored { message, clean: OnceLock::new() });
    }

    fn at(
        &self,
        sequences: impl DoubleEndedIterator<Item = Sequence>,
    ) -> impl DoubleEndedIterator<Item = &ConversationMessage> {
        sequences.map(|sequence| &self.stored[self.position_of(sequence)].message)
    }

    fn position_of(&self, sequence: Sequence) -> usize {
        usize::try_from(sequence - self.first).unwrap_or(usize::MAX)
    }
}
