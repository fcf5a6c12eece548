//! The state that all viewers of a session share: its status, and the texts of its running turns.
//!
//! A feed reads the store whenever the session's head has moved. For a session of this process it also sees the events
//! as they happen; the session of another process it follows by its log. Viewers have no queues: each one
//! compares the feed with the part that it has sent, so a slow viewer costs only its connection.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use convoke_core::Diagnostic;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MessageNumber, SessionId, TurnId};
use convoke_protocol::view::{ToolCall, View};
use convoke_session::event_queue::Observer;
use convoke_session::follow::Follower;
use convoke_session::store::SharedStore;
use convoke_session::{AnyStore, Store as _, StoreError};
use tokio::sync::watch;

use crate::query::ResponseForm;
use crate::stored::{PendingMessage, SessionStatus};

/// The interval at which the head of a session is polled that another process may write.
const POLL: Duration = Duration::from_millis(250);
/// The rendered messages that are kept for other viewers.
const MESSAGES_KEPT: usize = 32;
/// The maximum number of notes that are kept.
const NOTES: usize = 20;

/// The feeds of the sessions that are watched or held.
pub(crate) struct Feeds {
    store: AnyStore,
    feeds: Mutex<HashMap<SessionId, Weak<Feed>>>,
}

impl Feeds {
    pub fn new(store: AnyStore) -> Self {
        Self { store, feeds: Mutex::default() }
    }

    /// Returns the store if machines share it.
    pub fn sharing(&self) -> Option<&SharedStore> {
        self.store.sharing()
    }

    /// Returns whether an agent asks a person in a session that this process watches or holds.
    pub fn has_question(&self, session: SessionId) -> bool {
        let feed = lock(&self.feeds).get(&session).and_then(Weak::upgrade);
        feed.is_some_and(|feed| !lock(&feed.from_events).view.questions.is_empty())
    }

    /// Returns the feed of a session, which ends when it is no longer used.
    pub fn get(&self, session: SessionId) -> Arc<Feed> {
        let mut feeds = lock(&self.feeds);
        feeds.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = feeds.get(&session).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = Arc::new(Feed {
            session,
            changed: watch::Sender::new(0),
            stored: Mutex::default(),
            from_events: Mutex::default(),
            viewers: AtomicUsize::new(0),
            status_version: AtomicU64::new(0),
            rendered: Mutex::default(),
            follower: tokio::sync::Mutex::new(None),
            reading: tokio::sync::Mutex::new(()),
        });
        feeds.insert(session, Arc::downgrade(&feed));
        tokio::spawn(follow(self.store.clone(), Arc::downgrade(&feed)));
        feed
    }
}

/// The shared state of a session.
pub(crate) struct Feed {
    session: SessionId,
    /// Grows with every change.
    changed: watch::Sender<u64>,
    stored: Mutex<Option<Arc<SessionStatus>>>,
    from_events: Mutex<EventState>,
    viewers: AtomicUsize,
    /// Grows with every change of the status.
    status_version: AtomicU64,
    /// The last rendered events.
    rendered: Mutex<Rendered>,
    /// The position in the log of another process's session.
    follower: tokio::sync::Mutex<Option<Follower>>,
    /// Held while messages are read, so that many viewers read them once.
    pub reading: tokio::sync::Mutex<()>,
}

/// Rendered events, so that each is rendered once however many viewers there are.
#[derive(Default)]
struct Rendered {
    /// The status, with its version.
    status: HashMap<ResponseForm, (u64, Bytes)>,
    /// The last messages.
    messages: BTreeMap<(MessageNumber, ResponseForm), Bytes>,
}

/// A viewer of a session, counted until it is dropped.
pub(crate) struct Viewer(pub Arc<Feed>);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// State from the events of the conversation.
#[derive(Default)]
struct EventState {
    /// Whether this process runs the conversation.
    is_held: bool,
    view: View,
    notes: Vec<Diagnostic>,
    problem: Option<String>,
}

/// A part of a running turn's text that a viewer does not have.
pub(crate) struct LivePart {
    pub turn: TurnId,
    pub generation: u64,
    pub offset: usize,
    pub text: String,
    pub steps: Option<Vec<ToolCall>>,
}

/// The part of a running turn that a viewer has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentPart {
    pub generation: u64,
    pub offset: usize,
    pub steps_version: u64,
}

/// The maximum number of bytes of a text that are sent at a time.
const PART_BYTES: usize = 64 << 10;

impl Feed {
    /// Returns a receiver that wakes with every change.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Counts a viewer.
    pub fn view(self: &Arc<Self>) -> Viewer {
        self.viewers.fetch_add(1, Ordering::Relaxed);
        Viewer(Arc::clone(self))
    }

    /// Returns whether the session has a viewer.
    pub fn is_viewed(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }

    /// Returns the status of the session, with the state from events; `None` until it was read.
    pub fn status(&self) -> Option<SessionStatus> {
        let stored = SessionStatus::clone(lock(&self.stored).as_ref()?);
        Some(self.with_events(stored))
    }

    /// Adds the state from events to a state that was read from the store.
    pub fn with_events(&self, mut status: SessionStatus) -> SessionStatus {
        let from_events = lock(&self.from_events);
        status.is_held_here = from_events.is_held;
        let View { running, questions, stop, .. } = &from_events.view;
        status.live = running.iter().map(|running| running.turn).collect();
        status.questions.clone_from(questions);
        status.notes.clone_from(&from_events.notes);
        status.problem.clone_from(&from_events.problem);
        status.stop.clone_from(stop);
        status
    }

    /// Returns the number of the last message; `None` until the status was read.
    pub fn last_message(&self) -> Option<MessageNumber> {
        lock(&self.stored).as_ref().map(|status| status.last_message)
    }

    /// Returns the event of the status with its version; `None` if the viewer has it, or until it was read.
    pub fn status_event(
        &self,
        form: ResponseForm,
        seen: Option<u64>,
        render: impl FnOnce(&SessionStatus) -> String,
    ) -> Option<(u64, Bytes)> {
        // Read first: a change in between is rendered again.
        let version = self.status_version.load(Ordering::Acquire);
        if seen == Some(version) {
            return None;
        }
        let mut rendered = lock(&self.rendered);
        if let Some((known, event)) = rendered.status.get(&form)
            && *known == version
        {
            return Some((version, event.clone()));
        }
        let event = Bytes::from(render(&self.status()?));
        rendered.status.insert(form, (version, event.clone()));
        Some((version, event))
    }

    /// Returns the event of a message, if it was rendered recently.
    pub fn message_event(&self, number: MessageNumber, form: ResponseForm) -> Option<Bytes> {
        lock(&self.rendered).messages.get(&(number, form)).cloned()
    }

    /// Keeps the event of a message for other viewers, if it is one of the last.
    pub fn keep_message_event(&self, number: MessageNumber, form: ResponseForm, event: &Bytes) {
        let mut rendered = lock(&self.rendered);
        rendered.messages.insert((number, form), event.clone());
        while rendered.messages.len() > MESSAGES_KEPT {
            rendered.messages.pop_first();
        }
    }

    /// Returns the parts of running turns that a viewer does not have, and removes ended turns from `seen`.
    pub fn unseen(&self, seen: &mut HashMap<TurnId, SentPart>) -> Vec<LivePart> {
        let from_events = lock(&self.from_events);
        seen.retain(|turn, _| from_events.view.running(*turn).is_some());
        let mut parts = Vec::new();
        for live in &from_events.view.running {
            let turn = live.turn;
            let is_new = !seen.contains_key(&turn);
            let had = seen.entry(turn).or_default();
            if had.generation != live.generation {
                *had = SentPart { generation: live.generation, ..SentPart::default() };
            }
            let rest = &live.text[had.offset.min(live.text.len())..];
            let text = &rest[..rest.floor_char_boundary(PART_BYTES)];
            let has_steps = had.steps_version != live.tools_version;
            if text.is_empty() && !has_steps && !is_new {
                continue;
            }
            parts.push(LivePart {
                turn,
                generation: live.generation,
                offset: had.offset,
                text: text.to_owned(),
                steps: has_steps.then(|| live.tools.clone()),
            });
            had.offset += text.len();
            had.steps_version = live.tools_version;
        }
        parts
    }

    /// Sets whether this process holds the session.
    pub fn set_held(&self, is_held: bool) {
        let mut from_events = lock(&self.from_events);
        let (problem, stop) = (from_events.problem.take(), from_events.view.stop.take());
        let view = View { stop, ..View::default() };
        *from_events = EventState { is_held, view, notes: Vec::new(), problem };
        drop(from_events);
        self.change_status();
    }

    /// Adds a note for the viewers.
    pub fn note(&self, diagnostic: Diagnostic) {
        add_note(&mut lock(&self.from_events), diagnostic);
        self.change_status();
    }

    /// Sets the error that ended the conversation; `None` once it continues.
    pub fn set_problem(&self, problem: Option<String>) {
        lock(&self.from_events).problem = problem;
        self.change_status();
    }

    fn change_status(&self) {
        self.status_version.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    fn observe(&self, event: &Event) {
        let mut from_events = lock(&self.from_events);
        from_events.view.apply(event);
        match &event.kind {
            EventKind::Agent { .. } => {
                drop(from_events);
                return self.wake();
            }
            EventKind::Diagnostic { diagnostic, .. } => {
                add_note(&mut from_events, diagnostic.clone());
            }
            _ => {}
        }
        drop(from_events);
        self.change_status();
    }

    /// Reads the store if the head of the session has moved. Returns whether the feed has changed.
    async fn refresh(&self, store: &AnyStore) -> Result<bool, StoreError> {
        let session = store.session(self.session).await?;
        let is_held = store.is_held(self.session).await?;
        // A message comes into the inbox without a commit.
        let pending = PendingMessage::read(store, self.session).await?;
        let before = lock(&self.stored).clone();
        let is_same = |before: &Arc<SessionStatus>| {
            before.head == session.head.0
                && before.is_held == is_held
                && before.pending == pending
                && before.name == session.began.name
        };
        let has_followed = self.follow(store, session.head, is_held).await?;
        if before.as_ref().is_some_and(is_same) {
            return Ok(has_followed);
        }
        let mut status = SessionStatus::read(store, session, is_held).await?;
        status.costs = store.costs(self.session).await?;
        *lock(&self.stored) = Some(Arc::new(status));
        Ok(true)
    }

    /// Reads what another process has added to the log, unless this one holds the session: then its events have more. Returns
    /// whether there was anything.
    async fn follow(
        &self,
        store: &AnyStore,
        head: EventNumber,
        is_held: bool,
    ) -> Result<bool, StoreError> {
        let mut follower = self.follower.lock().await;
        if lock(&self.from_events).is_held {
            *follower = None;
            return Ok(false);
        }
        if follower.is_none() {
            *follower = Some(Follower::at(store, self.session, head).await?);
        }
        let Some(follower) = &mut *follower else { return Ok(false) };
        let events = follower.advance(store).await?;
        let mut has_changed = !events.is_empty();
        events.iter().filter(|event| is_of_turn(&event.kind)).for_each(|event| self.observe(event));
        let view = &mut lock(&self.from_events).view;
        if !is_held && !view.running.is_empty() {
            // The process that ran the turns is gone.
            view.running.clear();
            view.questions.clear();
            has_changed = true;
        }
        Ok(has_changed)
    }
}

/// Returns whether an event shows the progress of a turn. The rest of another process's conversation is read from the store.
fn is_of_turn(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TurnStarted { .. }
            | EventKind::Agent { .. }
            | EventKind::PermissionAsked { .. }
            | EventKind::PermissionAnswered { .. }
            | EventKind::TurnInterrupted { .. }
            | EventKind::TurnEnded { .. }
    )
}

fn add_note(from_events: &mut EventState, diagnostic: Diagnostic) {
    if from_events.notes.len() == NOTES {
        from_events.notes.remove(0);
    }
    from_events.notes.push(diagnostic);
}

/// Follows the store until the feed is dropped.
async fn follow(store: AnyStore, feed: Weak<Feed>) {
    let mut attendance = None;
    loop {
        let Some(feed) = feed.upgrade() else { return };
        // A viewer of a session that another machine runs can answer the questions of its agents.
        if !feed.is_viewed() {
            attendance = None;
        } else if attendance.is_none()
            && let Some(shared) = store.sharing()
        {
            attendance = shared.attend(feed.session).await.ok();
        }
        // After an error the store is read again; viewers keep their state.
        if feed.refresh(&store).await.unwrap_or(false) {
            feed.change_status();
        }
        let mut changed = feed.watch();
        drop(feed);
        // Events of this process come just after their commits.
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = changed.changed() => tokio::time::sleep(POLL / 10).await,
        }
    }
}

/// The observer of a conversation of this process.
pub(crate) struct FeedObserver(pub Arc<Feed>);

impl Observer for FeedObserver {
    fn observe(&mut self, event: Event) {
        self.0.observe(&event);
    }
}

impl Drop for FeedObserver {
    fn drop(&mut self) {
        self.0.set_held(false);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder of the lock panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use convoke_conformance_store::shown;

    use super::*;
    use crate::views::conversation;

    #[tokio::test]
    async fn the_facts_of_recorded_logs_are_on_the_page() {
        let directory = tempfile::tempdir().unwrap();
        let recorded = shown::recorded_store(directory.path()).await.unwrap();
        let store = AnyStore::from(recorded.clone());
        let feeds = Feeds::new(store.clone());
        for (session, events) in shown::logs(&recorded).await.unwrap() {
            let feed = feeds.get(session);
            let read = store.session(session).await.unwrap();
            let stored = SessionStatus::read(&store, read, false).await.unwrap();
            let mut seen = HashMap::new();
            let mut page = String::new();
            for event in &events {
                feed.observe(event);
                for part in feed.unseen(&mut seen) {
                    page.push_str(&part.text);
                    let steps = part.steps.unwrap_or_default();
                    page.push_str(&conversation::steps(&steps).into_string());
                }
                let status = feed.with_events(stored.clone());
                page.push_str(&conversation::status(session, &status).into_string());
                if let EventKind::Message(message) = &event.kind {
                    page.push_str(&conversation::message(session, message).into_string());
                }
            }
            shown::check("page", session, &events, &text_of(&page));
        }
    }

    /// Returns the text of a page, without its elements.
    fn text_of(page: &str) -> String {
        let texts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        let text: String = texts.collect();
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }
}
