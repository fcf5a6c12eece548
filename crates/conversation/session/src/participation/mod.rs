//! Sessions that move between processes: the holder runs turns, and the others follow.
//!
//! A process holds a shared session only while it stores a message or runs turns. If the next turn is one that
//! it does not run, it offers the turn, releases the session and follows it until the conversation stops or the
//! next turn is its own.

mod following;
mod signals;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_core::{Diagnostic, NewMessage};
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use tokio::time::{Instant, timeout};

use crate::TeamAgents;
use crate::coordinator::controls::StopRequest;
use crate::coordinator::{Coordinator, CoordinatorError, Pause};
use crate::diagnostics;
use crate::event_queue::Observer;
use crate::follow::Follower;
use crate::sharing::{Announcements, Attendance, NextTurn, Sharing};
use crate::store::{Holder, SessionHold, SharedStore, Store, StoreError};

/// The longest time between two reads of a session that another process holds. Commits are announced, but the
/// end of a process is not.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The time limit for a store that is not shared: none in practice.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// The time after which an unreachable database is given up.
const RECONNECT_LIMIT: Duration = Duration::from_mins(5);

/// The state of a process that shares a session with others.
#[derive(Default)]
pub(crate) struct SharedSession {
    /// The position up to which other processes' work was reported; `None` while this process holds the
    /// session.
    pub(crate) follower: Option<Follower>,
    /// The announced commits; `None` until they are needed.
    commits: Option<Box<dyn Announcements<Error = StoreError>>>,
    /// The result of the last glance at the session; `None` after a commit was announced.
    glance: Option<String>,
    /// Whether the session is as it was when it was read.
    is_unchanged: bool,
    /// The offer that this process continues from when it claims the session.
    pub(crate) resumed: Option<NextTurn>,
    /// The offer that was reported to the person, with the reason why no node takes it.
    pub(crate) reported_offer: Option<(TurnId, Option<String>)>,
    /// Announces to other machines that a person can answer here; `None` if no person can.
    attendance: Option<Box<dyn Attendance>>,
}

impl SharedSession {
    /// Starts to listen. Must happen before the session is read, so that every later commit is announced.
    async fn listen(&mut self, store: &SharedStore) -> Result<(), StoreError> {
        if self.commits.is_none() {
            self.commits = Some(store.listen().await?);
        }
        Ok(())
    }

    /// Waits until a session may have changed since it was read, but not longer than [`POLL_INTERVAL`]. A process whose
    /// session did not change in two of them keeps only the listening connection.
    async fn changed(&mut self, store: &SharedStore, session: SessionId) -> Result<(), StoreError> {
        self.is_unchanged = false;
        let Some(commits) = &mut self.commits else { return Ok(()) };
        match timeout(POLL_INTERVAL, commits.wait_for(session)).await {
            Ok(Err(error)) => {
                self.commits = None;
                return Err(error);
            }
            Ok(Ok(())) => self.glance = None,
            Err(_) => {
                let glance = store.glance(session).await?;
                let last = std::mem::replace(&mut self.glance, glance);
                // It was read since the last glance.
                self.is_unchanged = last.is_some() && last == self.glance;
            }
        }
        if self.is_unchanged {
            store.rest().await;
        }
        Ok(())
    }

    /// Returns whether the session need not be read again after [`Self::changed`].
    pub(crate) fn take_unchanged(&mut self) -> bool {
        std::mem::take(&mut self.is_unchanged)
    }
}

impl<S: Store> Coordinator<S> {
    /// Holds the session, if no other process does. Returns whether it is held.
    pub(crate) async fn try_claim(&mut self) -> Result<bool, CoordinatorError> {
        match self.claim().await {
            Err(CoordinatorError::Store(StoreError::Held { .. })) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Holds the session. Fails with the holder if another process has it.
    pub(crate) async fn claim(&mut self) -> Result<(), CoordinatorError> {
        if self.hold.is_some() {
            return Ok(());
        }
        let holder = Holder::this_process(self.team_agents.now());
        self.hold = Some(self.store.hold(self.session, holder).await?);
        self.is_stale = true;
        self.begin_hold().await
    }

    /// Reports what other processes did before this one held the session, and requeues interrupted turns.
    async fn begin_hold(&mut self) -> Result<(), CoordinatorError> {
        self.catch_up().await?;
        self.refresh().await?;
        if let Some(sharing) = &mut self.sharing {
            (sharing.follower, sharing.reported_offer) = (None, None);
            if let Some(offer) = sharing.resumed.take() {
                self.resume_guard(offer);
            }
        }
        Ok(())
    }

    /// Continues the counts of a conversation. A process that was lost after the offered turn started did not
    /// count it.
    fn resume_guard(&mut self, offer: NextTurn) {
        self.guard = offer.guard;
        if !self.waiting().iter().any(|turn| turn.id == offer.turn) {
            self.guard.count_turn();
        }
    }

    /// Waits before an unreachable store is asked again, and reports that once. Fails after
    /// [`RECONNECT_LIMIT`], or if the person cancels or leaves while a message is not stored.
    pub(crate) async fn wait_for_store(
        &mut self,
        since: &mut Option<Instant>,
        error: StoreError,
    ) -> Result<(), CoordinatorError> {
        if since.is_none() {
            let message = format!("the store cannot be reached, retrying: {error}");
            let diagnostic = Diagnostic::new(diagnostics::STORE_UNREACHABLE, message);
            self.report(EventKind::Diagnostic { turn: None, diagnostic });
        }
        if since.get_or_insert_with(Instant::now).elapsed() < RECONNECT_LIMIT {
            let mut requests = self.controls.watch();
            let stopped = requests.wait_for(|request| *request != StopRequest::None);
            if timeout(POLL_INTERVAL / 4, stopped).await.is_err() || self.unsent.is_empty() {
                return Ok(());
            }
        }
        Err(self.not_stored(error))
    }

    /// Returns the error of a store that was given up, with the messages that were not stored.
    pub(crate) fn not_stored(&mut self, error: StoreError) -> CoordinatorError {
        let unsent = self.unsent.drain(..).map(|unsent| unsent.message.content);
        let text = unsent.collect::<Vec<_>>().join("\n\n");
        if text.is_empty() { error.into() } else { CoordinatorError::NotStored { text, error } }
    }

    /// Puts a message into the inbox of a session that another process holds.
    pub(crate) async fn pass_to_holder(&mut self, message: &NewMessage) -> Result<(), StoreError> {
        self.store.say(self.session, message).await?;
        let from = MemberName::new(message.speaker.name());
        let text = message.content.clone();
        self.report(EventKind::MessageWaits { from, text });
        Ok(())
    }

    /// Announces whether a person can answer here.
    pub(crate) async fn update_attendance(&mut self) {
        let (Some(sharing), Some(store)) = (&mut self.sharing, self.store.sharing()) else {
            return;
        };
        if !self.controls.is_attended() {
            sharing.attendance = None;
        } else if sharing.attendance.is_none() {
            // No question is asked while the server is unreachable.
            sharing.attendance = store.attend(self.session).await.ok();
        }
    }

    /// Announces that no person can answer here any longer.
    pub(crate) fn end_attendance(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.attendance = None;
        }
    }

    /// Stores the messages of the inbox, each once and in order.
    pub(crate) async fn take_arrived(&mut self) -> Result<(), CoordinatorError> {
        let limit = self.team_agents.team().limits.queue;
        for (number, mut message) in self.store.arrived(self.session).await? {
            // The turns of a message would not fit: it stays in the inbox until there is room. A shared session is released with
            // an empty inbox.
            if self.sharing.is_none() && self.waiting().len() as u64 >= limit {
                break;
            }
            let mut noted = None;
            // The speaker may have had another team file.
            if self.person_of(&message).is_err() {
                let known = self.asker();
                let text = format!(
                    "no person named `{}`; stored as a message of {known}",
                    message.speaker.name()
                );
                let diagnostic = Diagnostic::new(diagnostics::MARKER_UNRESOLVED, text);
                noted = Some(EventKind::Diagnostic { turn: None, diagnostic });
                message.speaker = self.team_agents.team().speaker(&known);
            }
            Box::pin(self.store_message(message, Some(number), noted)).await?;
        }
        Ok(())
    }

    /// Stores the messages that a process which ended left in the inbox. Whoever opens the session reads them with the other
    /// stored ones, so that only the diagnostics about them are emitted.
    pub(crate) async fn take_left_messages(&mut self) -> Result<(), CoordinatorError> {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let notes = noted.clone();
        let only_diagnostics = move |event: Event| {
            if matches!(event.kind, EventKind::Diagnostic { .. }) {
                notes.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }
        };
        let observer = std::mem::replace(&mut self.observer, Box::new(only_diagnostics));
        let taken = self.take_arrived().await;
        self.observer = observer;
        let noted = std::mem::take(&mut *noted.lock().unwrap_or_else(PoisonError::into_inner));
        for event in noted {
            self.observer.observe(event);
        }
        taken
    }

    /// Stores the messages of the inbox before this process leaves the session, unless another process holds it.
    pub async fn deliver(&mut self) -> Result<(), CoordinatorError> {
        if self.try_claim().await? {
            self.refresh().await?;
            self.take_arrived().await?;
        }
        Ok(())
    }

    /// Runs turns here, and follows those that run elsewhere, until the conversation stops.
    pub(crate) async fn run_shared(&mut self) -> Result<StopReason, CoordinatorError> {
        let mut is_asked_for = true;
        // An unresponsive server is noticed below.
        let _ = timeout(self.store_timeout(), self.update_attendance()).await;
        loop {
            if self.hold.is_none()
                && let Some(stop) = self.follow(is_asked_for).await?
            {
                return Ok(stop);
            }
            is_asked_for = false;
            match self.hold_and_run().await {
                Ok(Some(stop)) => return Ok(stop),
                Ok(None) => {}
                Err(CoordinatorError::Store(error))
                    if matches!(error, StoreError::HoldLost { .. }) || error.is_transient() =>
                {
                    self.lose_hold();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs turns while the session is held. Returns the reason to stop; `None` if another process holds the
    /// session or the conversation continues.
    async fn hold_and_run(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
        let (session, store_timeout) = (self.session, self.store_timeout());
        match timeout(store_timeout, self.try_claim()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(None),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(StoreError::unanswered().into()),
        }
        let lost = self.hold.as_ref().map(SessionHold::lost);
        let lost = async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
            tokio::time::sleep(store_timeout).await;
        };
        let running = async {
            let pause = self.run_here().await?;
            self.end_hold(pause).await
        };
        tokio::select! {
            stopped = running => stopped,
            // The operation that waits for a lost connection is dropped.
            () = lost => Err(StoreError::HoldLost { session }.into()),
        }
    }

    /// Returns the time limit for reading a shared session or sending a message to it.
    pub(crate) fn store_timeout(&self) -> Duration {
        let patience = self.store.sharing().map(Sharing::patience);
        patience.map_or(FOREVER, |patience| POLL_INTERVAL + patience)
    }

    /// Drops the hold of a session that another process may hold now.
    pub(crate) fn lose_hold(&mut self) {
        self.hold = None;
        self.is_stale = true;
        let message =
            "this process lost the session to another one; its running turns were terminated";
        let diagnostic = Diagnostic::new(diagnostics::LEASE_LOST, message);
        self.report(EventKind::Diagnostic { turn: None, diagnostic });
        self.pending.clear();
        self.follow_from_here();
    }

    /// Releases the session. Returns the reason to stop; `None` if the conversation continues, elsewhere or
    /// because messages arrived.
    async fn end_hold(&mut self, pause: Pause) -> Result<Option<StopReason>, CoordinatorError> {
        if let Pause::Stop(stop) = &pause
            && !self.store.arrived(self.session).await?.is_empty()
        {
            tracing::debug!("messages arrived, so the conversation goes on: {stop:?}");
            return Ok(None);
        }
        if let Pause::Stop(stop) = &pause {
            self.log(EventKind::Stopped(stop.clone())).await?;
        }
        let Some(store) = self.store.sharing() else { return Ok(None) };
        let stop = match pause {
            Pause::Stop(stop) => {
                if !store.stop(self.session, self.head, &stop).await? {
                    return Ok(None);
                }
                Some(stop)
            }
            Pause::Elsewhere(next) => {
                store.hand_over(self.session, self.head, &next).await?;
                None
            }
        };
        if let Some(hold) = self.hold.take() {
            hold.forget();
        }
        self.is_stale = true;
        self.follow_from_here();
        Ok(stop)
    }
}

impl<S: Store> Coordinator<S> {
    /// Opens a session that was claimed to run its next turn.
    pub async fn of_claim(
        store: S,
        session: SessionId,
        hold: S::Hold,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let next = match store.sharing() {
            Some(store) => store.state(session).await?.next,
            None => None,
        };
        let mut coordinator =
            Self::reopen(store, session, Some(hold), team_agents, observer).await?;
        if let Some(next) = next {
            coordinator.resume_guard(next);
        }
        // The people are at other machines.
        coordinator.controls.set_attended(false);
        Ok(coordinator)
    }

    /// Stores queued messages, runs the next turn if it belongs to this process, and releases the session.
    /// Returns whether a turn ran.
    pub async fn run_claimed(mut self) -> Result<bool, CoordinatorError> {
        let mut has_run = false;
        loop {
            let pause = match self.between_turns().await? {
                Some(pause) => pause,
                // Other sessions wait for their turns too.
                None if has_run => match self.conversation.queue.peek() {
                    Some(next) => Pause::Elsewhere(self.next_turn(next)),
                    None => continue,
                },
                None => {
                    has_run = true;
                    match Box::pin(self.run_batch()).await? {
                        Some(stop) => Pause::Stop(stop),
                        None => continue,
                    }
                }
            };
            let is_offer = matches!(pause, Pause::Elsewhere(_));
            if self.end_hold(pause).await?.is_some() || is_offer {
                return Ok(has_run);
            }
        }
    }
}
