//! The state and queue of a conversation, and the effects of a message on them.

use convoke_core::{MessageId, NewMessage, Timestamp};
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{MemberName, MessageNumber, Millis, TurnId};
use convoke_protocol::memory::MemberMemory;
use convoke_protocol::message::Message;
use convoke_protocol::session::State;
use convoke_protocol::turn::{Turn, TurnState};

use super::Routed;
use super::queue::Queue;

/// The state and queue of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    state: State,
    /// The queued turns.
    pub queue: Queue,
    /// The maximum number of queued turns.
    queue_limit: u64,
}

/// The message that another one answers, and the turn whose reply it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageOrigin {
    pub answers: Option<MessageNumber>,
    pub turn: Option<TurnId>,
}

/// The effects of a message.
#[derive(Debug)]
pub struct MessageEffects {
    /// The message with its id.
    pub message: Message,
    pub dropped: Vec<Turn>,
    pub queued: Vec<Turn>,
    /// The number of turns that did not fit into the queue.
    pub left_out: u64,
}

impl MessageEffects {
    /// Returns the events of the message, in the order of its effects.
    pub fn into_events(self, routed: &Routed) -> Vec<EventKind> {
        let problem = format!("dropped by {}", self.message.id());
        let mut events = vec![EventKind::Message(Box::new(self.message))];
        let diagnostics = routed.diagnostics.iter().cloned();
        events
            .extend(diagnostics.map(|diagnostic| EventKind::Diagnostic { turn: None, diagnostic }));
        events.extend(self.dropped.into_iter().map(|Turn { id: turn, member, .. }| {
            EventKind::TurnDropped { turn, member, problem: problem.clone() }
        }));
        if let Some(task) = routed.task.clone() {
            events.push(EventKind::Task { task, by: routed.speaker.clone() });
        }
        events.extend(self.queued.iter().map(EventKind::queued));
        events
    }
}

impl Conversation {
    /// Creates a conversation with its queued turns.
    pub fn new(state: State, waiting: Vec<Turn>, queue_limit: u64) -> Self {
        let queue = Queue::new(waiting, state.last_finished, state.in_a_row);
        Self { state, queue, queue_limit }
    }

    /// Returns the state for storage.
    pub fn state(&self) -> State {
        State {
            last_finished: self.queue.last_finished,
            in_a_row: self.queue.in_a_row,
            ..self.state.clone()
        }
    }

    /// Returns the team task.
    pub fn task(&self) -> Option<&str> {
        self.state.task.as_deref()
    }

    /// Returns the number of the newest message; 0 without one.
    pub fn last_message(&self) -> MessageNumber {
        self.state.last_message
    }

    /// Returns the person to whom control returns when no turn is queued.
    pub fn asker(&self) -> Option<&MemberName> {
        self.state.asker.as_ref()
    }

    /// Returns what a member remembers.
    pub fn memory(&self, member: &MemberName) -> Option<&MemberMemory> {
        self.state.memory.get(member)
    }

    /// Adds what an event means for the memory of its member.
    pub fn remember(&mut self, event: &EventKind) {
        self.state.remember(event);
    }

    /// Adds a message, in this order: drops turns, sets the task, queues turns. `asker` is the person who asked for it, and
    /// `answers` tells which of the called members answer it.
    pub fn add(
        &mut self,
        mut message: NewMessage,
        origin: MessageOrigin,
        routed: &Routed,
        asker: &MemberName,
        at: Millis,
        answers: impl Fn(&MemberName) -> bool,
    ) -> MessageEffects {
        let number = self.state.last_message.next();
        let id = MessageId::numbered(self.state.next_message_id);
        self.state.last_message = number;
        self.state.next_message_id += 1;
        self.state.asker = Some(asker.clone());
        if routed.task.is_some() {
            self.state.task.clone_from(&routed.task);
        }
        let dropped = self.queue.drop_turns(&routed.drop);
        self.queue.last_finished = Some(number);
        let mut queued = Vec::new();
        let mut left_out = 0;
        for call in routed.calls.iter().filter(|call| answers(&call.member)) {
            if self.queue.waiting().len() as u64 >= self.queue_limit {
                left_out += 1;
                continue;
            }
            let turn_id = self.state.last_turn.next();
            self.state.last_turn = turn_id;
            let turn = Turn {
                id: turn_id,
                member: call.member.clone(),
                answers: number,
                intent: call.intent,
                asker: asker.clone(),
                state: TurnState::Queued,
                reply: None,
                problem: None,
                attempts: 0,
                queued_at: at,
                ended_at: None,
            };
            self.queue.push(turn.clone());
            queued.push(turn);
        }
        message.timestamp = Some(Timestamp::Millis(at.0.into()));
        if !routed.calls.is_empty() {
            message = message.to(routed.calls.iter().map(|call| call.member.as_str()));
        }
        let MessageOrigin { answers, turn } = origin;
        let (asker, text) = (asker.clone(), routed.text.clone());
        let message = Message { number, answers, turn, asker, text, message: message.with_id(id) };
        MessageEffects { message, dropped, queued, left_out }
    }
}
