//! Sessions that move between processes: the holder runs turns, and the others follow.
//!
//! A process holds a shared session only while it stores a message or runs turns. When the next turn is one that it
//! does not run, it offers the turn, releases the session and follows it until the conversation stops or the next
//! turn is one of its own.

use std::time::Duration;

use convoke_agent::permission::PermissionAnswer;
use convoke_core::{Diagnostic, NewMessage};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::controls::StopRequest;
use super::messages::UnsentMessage;
use super::{Coordinator, CoordinatorError, Pause};
use crate::TeamAgents;
use crate::diagnostics;
use crate::event::{SessionEventKind, StopReason};
use crate::event_queue::Observer;
use crate::follow::{Follower, interrupted};
use crate::id::{MemberName, SessionId, TurnId};
use crate::routing::conversation::Conversation;
use crate::shared::{QuestionId, SEND_KEY, SharedState, TurnOffer, unclaimable};
use crate::store::postgres::{Attendance, Commits, PostgresStore, SessionLease};
use crate::store::{Holder, SessionHold, Store, StoreError};
use crate::turn::TurnState;

/// The longest time between two reads of a session that another process holds. Commits are announced; the end of a
/// process is not.
pub(super) const LOOK: Duration = Duration::from_secs(2);
/// The time for a store that is a file.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// The time for which an unreachable database is asked again.
const RECONNECT_LIMIT: Duration = Duration::from_mins(5);

/// The state of a process that shares a session with others.
pub(super) struct Sharing {
    store: PostgresStore,
    /// The position up to which the work of others was reported; `None` while this process holds the session.
    follower: Option<Follower>,
    /// The announced commits; `None` until they are needed.
    commits: Option<Commits>,
    /// The offer with which the conversation continues here when the session is held.
    resumed: Option<TurnOffer>,
    /// The offer that was reported to the person, and why no node takes it.
    told: Option<(TurnId, Option<String>)>,
    /// Reports to other machines that a person can answer here; `None` if there is none.
    attendance: Option<Attendance>,
}

impl Sharing {
    pub(super) fn new(store: PostgresStore) -> Self {
        Self { store, follower: None, commits: None, resumed: None, told: None, attendance: None }
    }

    /// Returns whether a message with a key is in the inbox of a session.
    pub(super) async fn is_in_inbox(
        &self,
        session: SessionId,
        key: Option<&Value>,
    ) -> Result<bool, StoreError> {
        let messages = self.store.inbox(session).await?;
        Ok(messages.iter().any(|(_, message)| message.extra.get(SEND_KEY) == key))
    }

    /// Begins to listen, before the session is read: what is committed after that is announced.
    async fn listen(&mut self) -> Result<(), StoreError> {
        if self.commits.is_none() {
            self.commits = Some(self.store.listen().await?);
        }
        Ok(())
    }

    /// Waits until a session may have changed since it was read.
    async fn changed(&mut self, session: SessionId) -> Result<(), StoreError> {
        let Some(commits) = &mut self.commits else { return Ok(()) };
        match timeout(LOOK, commits.wait_for(session)).await {
            Ok(Err(error)) => {
                self.commits = None;
                Err(error)
            }
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

/// The next step of a process that does not hold a session.
enum Next {
    /// Claim the session, with the counts of the conversation so far.
    Claim(Option<TurnOffer>),
    /// Look again when something has changed.
    Wait,
    /// The conversation has stopped.
    Stop(StopReason),
}

impl Next {
    /// Decides the next step for a session. A person who has just sent a message continues a stopped conversation.
    fn new(standing: SharedState, team_agents: &TeamAgents, is_asked_for: bool) -> Self {
        if standing.holder.is_some() {
            return Self::Wait;
        }
        match (standing.offer, standing.stopped) {
            _ if standing.has_messages => Self::Claim(None),
            (Some(offer), _) if team_agents.is_elsewhere(&offer.member) => Self::Wait,
            (Some(offer), _) => Self::Claim(Some(offer)),
            (None, Some(stop)) if !is_asked_for => Self::Stop(stop),
            (None, _) => Self::Claim(None),
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// Reads the conversation without holding the session.
    pub(super) async fn look(&mut self) -> Result<(), StoreError> {
        let session = self.store.session(self.session).await?;
        let open = self.store.open_turns(self.session).await?;
        if let Some(sharing) = &mut self.sharing
            && sharing.follower.is_none()
        {
            sharing.follower =
                Some(Follower::new(self.session, session.head, &session.state, &open));
        }
        let queued = open.into_iter().filter(|turn| turn.state == TurnState::Queued).collect();
        let limit = self.team_agents.team().limits.queue;
        self.head = session.head;
        self.conversation = Conversation::new(session.state, queued, limit);
        self.is_stale = true;
        Ok(())
    }

    /// Holds the session, if no other process does. Returns whether it is held.
    pub(super) async fn is_held_or_claimed(&mut self) -> Result<bool, CoordinatorError> {
        match self.claim().await {
            Err(CoordinatorError::Store(StoreError::Held { .. })) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Holds the session. Fails with the holder if another process has it.
    pub(super) async fn claim(&mut self) -> Result<(), CoordinatorError> {
        if self.hold.is_some() {
            return Ok(());
        }
        let holder = Holder::this_process(self.team_agents.now());
        self.hold = Some(self.store.hold(self.session, holder).await?);
        self.is_stale = true;
        self.begin_hold().await
    }

    /// Reports what others did before this process held the session, and requeues interrupted turns.
    async fn begin_hold(&mut self) -> Result<(), CoordinatorError> {
        self.catch_up().await?;
        for turn in self.refresh().await? {
            let requeued = self.waiting().iter().find(|waiting| waiting.id == turn).cloned();
            if let Some(turn) = requeued {
                self.emit(self.team_agents.now(), interrupted(&turn));
            }
        }
        if let Some(sharing) = &mut self.sharing {
            (sharing.follower, sharing.told) = (None, None);
            if let Some(offer) = sharing.resumed.take() {
                self.resume_guard(offer);
            }
        }
        Ok(())
    }

    /// Continues the counts of a conversation. A process that was lost after the offered turn did not count it.
    fn resume_guard(&mut self, offer: TurnOffer) {
        self.guard = offer.guard;
        if !self.waiting().iter().any(|turn| turn.id == offer.turn) {
            self.guard.count_turn();
        }
    }

    /// Waits before an unreachable store is asked again, and tells the person once. Fails after [`RECONNECT_LIMIT`], or
    /// if the person cancels or leaves while a message is not stored.
    pub(super) async fn wait_for_store(
        &mut self,
        since: &mut Option<Instant>,
        error: StoreError,
    ) -> Result<(), CoordinatorError> {
        if since.is_none() {
            let message = format!("the store cannot be reached, asking again: {error}");
            let diagnostic = Diagnostic::new(diagnostics::STORE_UNREACHABLE, message);
            let at = self.team_agents.now();
            self.emit(at, SessionEventKind::Diagnostic { turn: None, diagnostic });
        }
        if since.get_or_insert_with(Instant::now).elapsed() < RECONNECT_LIMIT {
            let mut requests = self.controls.watch();
            let stopped = requests.wait_for(|request| *request != StopRequest::None);
            if timeout(LOOK / 4, stopped).await.is_err() || self.unsent.is_empty() {
                return Ok(());
            }
        }
        Err(self.not_stored(error))
    }

    /// Returns the error of a store that was given up, with the messages that were not stored.
    pub(super) fn not_stored(&mut self, error: StoreError) -> CoordinatorError {
        let unsent = self.unsent.drain(..).map(|unsent| unsent.message.content);
        let text = unsent.collect::<Vec<_>>().join("\n\n");
        if text.is_empty() { error.into() } else { CoordinatorError::NotStored { text, error } }
    }

    /// Puts a message into the inbox of a session that another process holds.
    pub(super) async fn put_into_inbox(&mut self, message: &NewMessage) -> Result<(), StoreError> {
        let Some(sharing) = &self.sharing else {
            return Err(StoreError::LeaseLost { session: self.session });
        };
        sharing.store.say(self.session, message).await?;
        let from = MemberName::new(message.speaker.name());
        let text = message.content.clone();
        self.emit(self.team_agents.now(), SessionEventKind::MessageWaits { from, text });
        Ok(())
    }

    /// Sends an answer to the process that runs the turn of a question.
    async fn put_answer(
        &mut self,
        question: &QuestionId,
        answer: PermissionAnswer,
    ) -> Result<(), StoreError> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        if !sharing.store.answer_question(self.session, question, answer).await? {
            let message = "the answer came too late: the question was answered elsewhere, or its turn has ended";
            let diagnostic = Diagnostic::new(diagnostics::ANSWER_LATE, message);
            let kind = SessionEventKind::Diagnostic { turn: Some(question.turn), diagnostic };
            self.emit(self.team_agents.now(), kind);
        }
        Ok(())
    }

    /// Announces whether a person can answer here.
    async fn update_attendance(&mut self) {
        let Some(sharing) = &mut self.sharing else { return };
        if !self.controls.is_attended() {
            sharing.attendance = None;
        } else if sharing.attendance.is_none() {
            // No question is asked while the server is unreachable.
            sharing.attendance = sharing.store.attend(self.session).await.ok();
        }
    }

    /// Announces that no person can answer here any more.
    pub(super) fn end_attendance(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.attendance = None;
        }
    }

    /// Stores the messages of the inbox, each once and in order.
    pub(super) async fn take_inbox(&mut self) -> Result<(), CoordinatorError> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        for (number, mut message) in sharing.store.inbox(self.session).await? {
            // The speaker may have had another team file.
            if self.person_of(&message).is_err() {
                let known = self.asker();
                let text = format!(
                    "no person named `{}`; stored as a message of {known}",
                    message.speaker.name()
                );
                let diagnostic = Diagnostic::new(diagnostics::MARKER_UNRESOLVED, text);
                let at = self.team_agents.now();
                self.emit(at, SessionEventKind::Diagnostic { turn: None, diagnostic });
                message.speaker = self.team_agents.team().speaker(&known);
            }
            Box::pin(self.store_message(message, Some(number))).await?;
        }
        Ok(())
    }

    /// Runs turns here, and follows those that run elsewhere, until the conversation stops.
    pub(super) async fn run_shared(&mut self) -> Result<StopReason, CoordinatorError> {
        let mut is_asked_for = true;
        // A server that does not answer is noticed below.
        let _ = timeout(self.patience(), self.update_attendance()).await;
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
                    if matches!(error, StoreError::LeaseLost { .. }) || error.is_transient() =>
                {
                    self.lose_hold();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs turns for as long as the session is held. Returns the reason to stop; `None` if another process holds it, or
    /// the conversation continues.
    async fn hold_and_run(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
        let (session, patience) = (self.session, self.patience());
        match timeout(patience, self.is_held_or_claimed()).await {
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
            tokio::time::sleep(patience).await;
        };
        let running = async {
            let pause = self.run_here().await?;
            self.end_hold(pause).await
        };
        tokio::select! {
            stopped = running => stopped,
            // What waits for a lost connection is given up.
            () = lost => Err(StoreError::LeaseLost { session }.into()),
        }
    }

    /// Returns how long a look at a shared session, or a message for it, may take.
    pub(super) fn patience(&self) -> Duration {
        let lease = self.sharing.as_ref().map(|sharing| sharing.store.lease_duration());
        lease.map_or(FOREVER, |lease| LOOK + lease)
    }

    /// Drops the hold of a session that another process may have now.
    pub(super) fn lose_hold(&mut self) {
        self.hold = None;
        self.is_stale = true;
        let message = "this process lost the session to another one; what it was doing was ended";
        let diagnostic = Diagnostic::new(diagnostics::LEASE_LOST, message);
        let at = self.team_agents.now();
        self.emit(at, SessionEventKind::Diagnostic { turn: None, diagnostic });
        self.follow_from_here();
    }

    /// Starts to follow from what this process has stored itself.
    fn follow_from_here(&mut self) {
        let state = self.conversation.state();
        let follower =
            Follower::new(self.session, self.head, &state, self.conversation.queue.waiting());
        if let Some(sharing) = &mut self.sharing {
            sharing.follower = Some(follower);
        }
    }

    /// Releases the session. Returns the reason to stop; `None` if the conversation continues, elsewhere or because
    /// messages came in.
    async fn end_hold(&mut self, pause: Pause) -> Result<Option<StopReason>, CoordinatorError> {
        let Some(sharing) = &self.sharing else { return Ok(None) };
        let stop = match pause {
            Pause::Stop(stop) => {
                if !sharing.store.stop(self.session, self.head, &stop).await? {
                    return Ok(None);
                }
                Some(stop)
            }
            Pause::Offer(offer) => {
                sharing.store.hand_over(self.session, self.head, &offer).await?;
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

    /// Follows the session until this process can claim it, which returns `None`, or until the conversation has
    /// stopped.
    async fn follow(&mut self, is_asked_for: bool) -> Result<Option<StopReason>, CoordinatorError> {
        let mut is_asked_for = is_asked_for;
        let mut unreachable = None;
        loop {
            let leaving = self.leaving();
            let looking = timeout(self.patience(), Box::pin(self.follow_once(is_asked_for)));
            let looked = tokio::select! {
                looked = looking => looked.unwrap_or_else(|_| Err(StoreError::unanswered().into())),
                () = leaving => Err(StoreError::unanswered().into()),
            };
            match looked {
                Ok(Next::Claim(offer)) => {
                    if let Some(sharing) = &mut self.sharing {
                        sharing.resumed = offer.filter(|_| !is_asked_for);
                    }
                    return Ok(None);
                }
                Ok(Next::Stop(stop)) => return Ok(Some(stop)),
                Ok(Next::Wait) => (is_asked_for, unreachable) = (false, None),
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    self.wait_for_store(&mut unreachable, error).await?;
                }
                Err(error) => return Err(error),
            }
            // The turn continues where it runs.
            if self.controls.stop_request() == StopRequest::Leave {
                return Ok(Some(StopReason::Left));
            }
        }
    }

    /// Waits until the person leaves and nothing has come of that for some time: the server does not answer.
    pub(super) fn leaving(&self) -> impl Future<Output = ()> + Send + use<S> {
        let mut requests = self.controls.watch();
        async move {
            // Without a sender there is no coordinator either.
            let _ = requests.wait_for(|request| *request == StopRequest::Leave).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reports new events, and waits for more unless there is something to do.
    async fn follow_once(&mut self, is_asked_for: bool) -> Result<Next, CoordinatorError> {
        self.update_attendance().await;
        self.listen().await?;
        self.catch_up().await?;
        self.send_interjected().await?;
        while let Ok((question, answer)) = self.answers.try_recv() {
            self.put_answer(&question, answer).await?;
        }
        let Some(sharing) = &mut self.sharing else { return Ok(Next::Claim(None)) };
        let standing = sharing.store.shared_state(self.session).await?;
        let offer = standing.offer.clone().filter(|_| standing.holder.is_none());
        let is_held = standing.holder.is_some();
        let heard = self.controls.stop_request();
        let next = match Next::new(standing, &self.team_agents, is_asked_for) {
            Next::Wait if heard == StopRequest::CancelTurn => {
                if is_held {
                    // Asked again with every look: the next turn may have begun.
                    sharing.store.cancel_turns(self.session).await?;
                    Next::Wait
                } else {
                    // No turn runs. The conversation stops here, and the queued turns are not offered.
                    Next::Claim(None)
                }
            }
            next => next,
        };
        if !matches!(next, Next::Wait) {
            // Deliver earlier events first.
            self.catch_up().await?;
            return Ok(next);
        }
        if let Some(offer) = offer {
            let problem = unclaimable(&sharing.store.nodes().await?, self.session, &offer);
            let TurnOffer { turn, member, requirements, .. } = offer;
            let told = Some((turn, problem.clone()));
            if std::mem::replace(&mut sharing.told, told.clone()) != told {
                let node = requirements.node;
                let kind = SessionEventKind::TurnOffered { turn, member, node, problem };
                self.emit(self.team_agents.now(), kind);
            }
        }
        let Some(sharing) = &mut self.sharing else { return Ok(Next::Wait) };
        let mut requests = self.controls.watch();
        tokio::select! {
            changed = sharing.changed(self.session) => changed?,
            () = async {
                // Without a sender there is no coordinator either.
                let _ = requests.wait_for(|request| *request > heard).await;
            } => {}
            answer = self.answers.recv() => {
                if let Some((question, answer)) = answer {
                    self.put_answer(&question, answer).await?;
                }
            }
            message = self.inbox.recv() => {
                self.unsent.extend(message.map(UnsentMessage::from));
            }
        }
        Ok(Next::Wait)
    }

    /// Reports what other processes have stored.
    async fn catch_up(&mut self) -> Result<(), CoordinatorError> {
        let Some(follower) = self.sharing.as_mut().and_then(|sharing| sharing.follower.as_mut())
        else {
            return Ok(());
        };
        let events = follower.advance(&self.store, self.team_agents.team()).await?;
        if events.is_empty() {
            return Ok(());
        }
        for event in events {
            self.observer.observe(event);
        }
        self.look().await?;
        Ok(())
    }

    /// Waits until another process changes a stopped session, and reports its events. Returns when the conversation
    /// continues, so that [`Self::run`] takes part; never where sessions are not shared.
    pub async fn wake(&mut self) -> Result<(), CoordinatorError> {
        loop {
            if self.sharing.is_none() || self.hold.is_some() {
                std::future::pending::<()>().await;
            }
            let looked = timeout(self.patience(), Box::pin(self.look_for_work())).await;
            match looked.unwrap_or_else(|_| Err(StoreError::unanswered().into())) {
                Ok(true) => return Ok(()),
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    tokio::time::sleep(LOOK).await;
                }
                other => {
                    other?;
                }
            }
        }
    }

    async fn look_for_work(&mut self) -> Result<bool, CoordinatorError> {
        self.update_attendance().await;
        self.listen().await?;
        self.catch_up().await?;
        let Some(sharing) = &mut self.sharing else { return Ok(false) };
        let standing = sharing.store.shared_state(self.session).await?;
        if standing.holder.is_some() || standing.continues {
            return Ok(true);
        }
        sharing.changed(self.session).await?;
        Ok(false)
    }
}

impl<S: Store> Coordinator<S> {
    /// Reports what other processes store, until it is dropped, and changes nothing. Returns an error that ends it; waits for
    /// ever where sessions are not shared.
    pub async fn watch(&mut self) -> CoordinatorError {
        loop {
            if self.sharing.is_none() || self.hold.is_some() {
                std::future::pending::<()>().await;
            }
            let told = timeout(self.patience(), Box::pin(self.report_changes())).await;
            match told.unwrap_or_else(|_| Err(StoreError::unanswered().into())) {
                Ok(()) => {}
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return error,
            }
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// Reports what is new, and waits until there may be more.
    async fn report_changes(&mut self) -> Result<(), CoordinatorError> {
        self.listen().await?;
        self.catch_up().await?;
        let session = self.session;
        if let Some(sharing) = &mut self.sharing {
            sharing.changed(session).await?;
        }
        Ok(())
    }

    async fn listen(&mut self) -> Result<(), StoreError> {
        match &mut self.sharing {
            Some(sharing) => sharing.listen().await,
            None => Ok(()),
        }
    }
}

impl Coordinator<PostgresStore> {
    /// Opens a session that was claimed for its next turn.
    pub async fn of_claim(
        store: PostgresStore,
        session: SessionId,
        lease: SessionLease,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let offer = store.shared_state(session).await?.offer;
        let mut coordinator =
            Self::reopen(store, session, Some(lease), team_agents, observer).await?;
        if let Some(offer) = offer {
            coordinator.resume_guard(offer);
        }
        // The people are at other machines.
        coordinator.controls.set_attended(false);
        Ok(coordinator)
    }

    /// Stores the messages that wait, runs the next turn if it is one of this process, and lets the session go.
    /// Returns whether a turn ran.
    pub async fn run_claimed(mut self) -> Result<bool, CoordinatorError> {
        let mut has_run = false;
        loop {
            let pause = match self.between_turns().await? {
                Some(pause) => pause,
                // Others wait for their turns too.
                None if has_run => match self.conversation.queue.peek() {
                    Some(next) => Pause::Offer(self.offer_of(next)),
                    None => continue,
                },
                None => {
                    has_run = true;
                    match Box::pin(self.run_next()).await? {
                        Some(stop) => Pause::Stop(stop),
                        None => continue,
                    }
                }
            };
            let is_offer = matches!(pause, Pause::Offer(_));
            if self.end_hold(pause).await?.is_some() || is_offer {
                return Ok(has_run);
            }
        }
    }
}
