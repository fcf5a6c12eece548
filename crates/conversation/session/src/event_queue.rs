//! The queue of events between a conversation and its reader, which may be slow.
//!
//! The queue is bounded, and nothing in it is dropped:
//!
//! - Before it takes the next event of an agent, the coordinator waits until the queue has room
//!   ([`Observer::ready`]). Then the agent's own queues fill up, and finally the pipe that its program writes
//!   to.
//! - Events of a stored step (a message with the turns that it queued, the end of a turn) do not wait, so that
//!   [`Coordinator::accept`](crate::Coordinator::accept) also returns without a reader. The length of the turn queue
//!   bounds the number of events per step.
//! - A reader that shows a text as it grows can have adjacent pieces merged ([`EventQueue::merging`]).

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_protocol::agent_event::{AgentEventKind, TextPart};
use convoke_protocol::event::{Event, EventKind};
use tokio::sync::Notify;

/// The number of queued events at which events of agents start to wait.
pub const EVENT_LIMIT: usize = 1024;
/// The maximum size of a merged piece of text.
const MERGED_BYTES: usize = 16 << 10;

/// The future of [`Observer::ready`].
pub type Ready<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Receives the events of a conversation.
pub trait Observer: Send {
    /// Takes an event. Must not block.
    fn observe(&mut self, event: Event);

    /// Waits until there is room for events of agents.
    fn ready(&mut self) -> Ready<'_> {
        Box::pin(ready(()))
    }
}

impl<F: FnMut(Event) + Send> Observer for F {
    fn observe(&mut self, event: Event) {
        self(event);
    }
}

/// The sending end of a queue.
#[derive(Debug)]
pub struct EventQueue<T>(Arc<QueueState<T>>);

/// The receiving end of a queue.
#[derive(Debug)]
pub struct EventReceiver<T>(Arc<QueueState<T>>);

/// Appends an item to the last queued one; returns the item if it cannot be appended.
pub type Merge<T> = fn(&mut T, T) -> Option<T>;

#[derive(Debug)]
struct QueueState<T> {
    state: Mutex<State<T>>,
    merge: Merge<T>,
    added: Notify,
    removed: Notify,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

impl<T> EventQueue<T> {
    /// Creates a queue.
    pub fn new() -> (Self, EventReceiver<T>) {
        Self::merging(|_, item| Some(item))
    }

    /// Creates a queue that merges adjacent items.
    pub fn merging(merge: Merge<T>) -> (Self, EventReceiver<T>) {
        let state = Mutex::new(State { items: VecDeque::new(), senders: 1, has_receiver: true });
        let shared = QueueState { state, merge, added: Notify::new(), removed: Notify::new() };
        let shared = Arc::new(shared);
        (Self(Arc::clone(&shared)), EventReceiver(shared))
    }

    /// Adds an item, without waiting. Discards it if the receiver is gone.
    pub fn push(&self, item: T) {
        let mut state = self.0.state();
        if !state.has_receiver {
            return;
        }
        let item = match state.items.back_mut() {
            Some(last) => (self.0.merge)(last, item),
            None => Some(item),
        };
        state.items.extend(item);
        drop(state);
        self.0.added.notify_one();
    }

    /// Waits until fewer than [`EVENT_LIMIT`] items are queued, or the receiver is gone.
    pub async fn has_room(&self) {
        while self.0.state().items.len() >= EVENT_LIMIT {
            self.0.removed.notified().await;
        }
    }
}

impl<T> Clone for EventQueue<T> {
    fn clone(&self) -> Self {
        self.0.state().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for EventQueue<T> {
    fn drop(&mut self) {
        self.0.state().senders -= 1;
        self.0.added.notify_one();
    }
}

impl Observer for EventQueue<Event> {
    fn observe(&mut self, event: Event) {
        self.push(event);
    }

    fn ready(&mut self) -> Ready<'_> {
        Box::pin(self.has_room())
    }
}

impl<T> EventReceiver<T> {
    /// Waits for the next item; `None` if the senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.try_recv() {
                return Some(item);
            }
            if self.0.is_exhausted() {
                return None;
            }
            self.0.added.notified().await;
        }
    }

    /// Waits for items and moves up to `limit` of them into `items`. Returns their number; 0 if the senders
    /// are gone and the queue is empty.
    pub async fn recv_many(&mut self, items: &mut Vec<T>, limit: usize) -> usize {
        let Some(first) = self.recv().await else { return 0 };
        let before = items.len();
        items.push(first);
        items.extend(std::iter::from_fn(|| self.try_recv()).take(limit.saturating_sub(1)));
        items.len() - before
    }

    /// Returns the next item, if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        let item = self.0.state().items.pop_front()?;
        self.0.removed.notify_one();
        Some(item)
    }

    /// Returns the number of queued items.
    pub fn queued(&self) -> usize {
        self.0.state().items.len()
    }
}

impl<T> Drop for EventReceiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_receiver = false;
        state.items.clear();
        drop(state);
        self.0.removed.notify_one();
    }
}

impl<T> QueueState<T> {
    /// Returns whether the queue is empty and no sender is left.
    fn is_exhausted(&self) -> bool {
        let state = self.state();
        state.senders == 0 && state.items.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends a piece of a text to the piece before it, of the same turn and kind, up to 16 KiB.
pub fn merge_text(last: &mut EventKind, next: EventKind) -> Option<EventKind> {
    use EventKind::Agent;
    if let (Agent { turn: first, event: last, .. }, Agent { turn: second, event, .. }) =
        (last, &next)
        && first == second
        && last.sub_agent == event.sub_agent
        && let (
            AgentEventKind::Text { text, part: TextPart::Delta },
            AgentEventKind::Text { text: more, part: TextPart::Delta },
        )
        | (
            AgentEventKind::Thinking { text, part: TextPart::Delta },
            AgentEventKind::Thinking { text: more, part: TextPart::Delta },
        ) = (&mut last.kind, &event.kind)
        && text.len() + more.len() <= MERGED_BYTES
    {
        text.to_mut().push_str(more);
        return None;
    }
    Some(next)
}
