//! The coordinator: accepts people's messages, runs the agents' turns, and stores every step before the next.

mod batch;
pub(crate) mod controls;
mod messages;
mod prepare;
mod team_agents;
mod team_calls;
mod turn_runner;

use std::collections::VecDeque;
use std::sync::Arc;

use convoke_agent::thread::ThreadStoreError;
use convoke_core::{Diagnostic, MessageId, NewMessage};
use convoke_protocol::content::Content;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{EventNumber, MemberName, Millis, SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use convoke_protocol::session::{NewSession, State};
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::turn::{AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::Verdict;
use tokio::sync::mpsc;

pub use self::controls::Controls;
use self::controls::StopRequest;
use self::messages::UnsentMessage;
pub use self::team_agents::{Clock, MemberAgent, TeamAgents};
use crate::diagnostics;
use crate::event_queue::Observer;
use crate::participation::SharedSession;
use crate::routing::conversation::Conversation;
use crate::routing::queue::Concurrency;
use crate::rows::find_turn;
use crate::running_text::interrupted_result;
use crate::sharing::{Guard, NextTurn};
use crate::store::{ArrivalNumber, Commit, Holder, Piece, SessionHold as _, Store, StoreError};

/// Runs the conversation of a session that this process has locked.
///
/// [`Self::accept`] stores and routes a person's message; [`Self::run`] then runs turns until the next turn is
/// a person's, a guard stops the conversation, or a person cancels. All state is stored: a coordinator can be
/// dropped, or killed, at any moment.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
///
/// use convoke_agent::adapter::{Script, StandIn};
/// use convoke_protocol::event::{Event, StopReason};
/// use convoke_protocol::id::SessionId;
/// use convoke_protocol::session::NewSession;
/// use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
/// use convoke_team::Team;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let file = "[[member]]\nname = \"max\"\nagent = \"claude\"\n";
/// let team = Team::parse(file)?;
/// let max = StandIn::new(Script::replies(["Looks good to me."]));
/// let agents = HashMap::from([("max".into(), MemberAgent::new(Arc::new(max), directory.path()))]);
/// let store = SqliteStore::open(directory.path()).await?;
///
/// let team_agents = TeamAgents::new(team, agents);
/// let observer = Box::new(|event: Event| println!("{event:?}"));
/// let session = NewSession {
///     id: SessionId::generate(),
///     created_at: convoke_agent::clock::now(),
///     name: None,
///     directory: "/project".to_owned(),
///     team: file.to_owned(),
///     task: None,
///     rehearsal: None,
/// };
/// let mut coordinator = Coordinator::create(store, session, team_agents, observer).await?;
/// coordinator.accept(NewMessage::from_person("user", "What do you think? [NEXT: max]")).await?;
/// assert_eq!(coordinator.run().await?, StopReason::Idle { person: "user".into() });
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(example())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Coordinator<S: Store> {
    pub(crate) store: S,
    pub(crate) session: SessionId,
    pub(crate) head: EventNumber,
    pub(crate) conversation: Conversation,
    pub(crate) team_agents: TeamAgents,
    pub(crate) guard: Guard,
    pub(crate) controls: Controls,
    /// Messages of people that may not be stored yet.
    pub(crate) unsent: VecDeque<UnsentMessage>,
    /// Answers to questions of turns that other processes run.
    pub(crate) answers: mpsc::Receiver<(QuestionId, PermissionAnswer)>,
    pub(crate) observer: Box<dyn Observer>,
    /// Events of agents that are stored and emitted with the next step.
    pub(crate) pending: Vec<Event>,
    /// Whether the end of the conversation was emitted, by this process or by the one that ran its last turn.
    pub(crate) has_told_stop: bool,
    /// The reason to stop that a guard found while a message was stored.
    pub(crate) stop: Option<StopReason>,
    /// Whether the state in memory may differ from the store, so that it must be read again.
    pub(crate) is_stale: bool,
    /// `None` while another process may write the session.
    pub(crate) hold: Option<S::Hold>,
    /// The state of a session that is shared with other processes; `None` if the store is not shared.
    pub(crate) sharing: Option<SharedSession>,
}

/// A person's request to a conversation: an optional action, after which its turns run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRequest {
    /// Store and route a message.
    Say(Box<NewMessage>),
    /// Requeue a turn that failed or was cancelled.
    Retry(TurnId),
    /// Nothing else.
    Continue,
}

/// The reason why no turn can run here now.
pub(crate) enum Pause {
    /// The conversation stops.
    Stop(StopReason),
    /// The next turn is one that other processes run.
    Elsewhere(NextTurn),
}

/// An error that ends a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinatorError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The author of a message is not a person of the team.
    #[error("no person named `{name}` in this team")]
    NoPerson {
        name: String,
        /// The people of the team.
        people: Vec<MemberName>,
    },
    /// A person's message was not stored, because the store cannot be reached.
    #[error("the store cannot be reached, so this message was not stored: {text}")]
    NotStored {
        text: String,
        /// The reason.
        #[source]
        error: StoreError,
    },
    /// A turn cannot be retried.
    #[error("turn {turn} cannot be retried: {why}")]
    NoRetry {
        turn: TurnId,
        /// The reason.
        why: &'static str,
    },
}

impl CoordinatorError {
    /// Returns advice for the person, to be printed separately from the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPerson { people, .. } => {
                let names: Vec<&str> = people.iter().map(MemberName::as_str).collect();
                Some(format!("people in this team: {}", names.join(", ")))
            }
            Self::Store(_) | Self::NotStored { .. } | Self::NoRetry { .. } => None,
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// Creates a session and locks it. In a shared store, it is locked only while there is something to do.
    pub async fn create(
        store: S,
        session: NewSession,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let id = session.id;
        let hold = hold_at_once(&store, id, &team_agents).await?;
        let (kind, at, number) =
            (EventKind::created(&session), session.created_at, Some(EventNumber(1)));
        store.create(session).await?;
        let mut observer = observer;
        observer.observe(Event { kind, session: id, at, number, migrated: false });
        Self::reopen(store, id, hold, team_agents, observer).await
    }

    /// Opens a session and requeues turns interrupted by a crash. In a shared store, both happen only when this
    /// process has something to do.
    pub async fn open(
        store: S,
        session: SessionId,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let hold = hold_at_once(&store, session, &team_agents).await?;
        Self::reopen(store, session, hold, team_agents, observer).await
    }

    /// Releases the session, and returns when others can hold it.
    pub async fn close(self) {
        if let Some(hold) = self.hold {
            hold.release().await;
        }
    }

    pub(crate) async fn reopen(
        store: S,
        id: SessionId,
        hold: Option<S::Hold>,
        mut team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        if store.sharing().is_some() {
            let shared = store.clone();
            team_agents.clock = Arc::new(move || shared.now());
        }
        let (controls, answers) = Controls::new(&store, id, team_agents.approvals());
        let sharing = store.sharing().map(|_| SharedSession::default());
        let mut coordinator = Self {
            store,
            session: id,
            // The head and the conversation are read below.
            head: EventNumber::default(),
            conversation: Conversation::new(State::default(), Vec::new(), 0),
            team_agents,
            guard: Guard::default(),
            controls,
            unsent: VecDeque::new(),
            answers,
            observer,
            pending: Vec::new(),
            has_told_stop: false,
            stop: None,
            is_stale: true,
            hold,
            sharing,
        };
        let is_held = coordinator.hold.is_some();
        let interrupted = if is_held {
            let interrupted = coordinator.refresh().await?;
            if coordinator.sharing.is_none() {
                Box::pin(coordinator.take_left_messages()).await?;
            }
            interrupted
        } else {
            coordinator.read_conversation().await?;
            Vec::new()
        };
        let messages = coordinator.conversation.last_message().0;
        let waiting = coordinator.waiting().len() as u64;
        let opened = EventKind::Opened { messages, waiting, interrupted };
        if !is_held {
            coordinator.report(opened);
        } else if coordinator.sharing.is_some() {
            // Nobody looks at a session that was claimed for its next turn, so this is stored with the first step.
            let at = coordinator.team_agents.now();
            coordinator.pending.push(unnumbered(id, at, opened));
        } else {
            coordinator.log(opened).await?;
        }
        Ok(coordinator)
    }

    /// Reads the conversation from the store if the state in memory may be stale. Requeues interrupted turns
    /// and returns them.
    pub(crate) async fn refresh(&mut self) -> Result<Vec<TurnId>, StoreError> {
        if !self.is_stale {
            return Ok(Vec::new());
        }
        let session = self.store.session(self.session).await?;
        let mut open = self.store.open_turns(self.session).await?;
        let cancelled = self.cancelled_elsewhere(&open).await?;
        let mut interrupted = Vec::new();
        for turn in open.iter_mut().filter(|turn| turn.state == TurnState::Running) {
            turn.state = TurnState::Queued;
            if cancelled.contains(&turn.id) {
                turn.state = TurnState::Cancelled;
            }
            interrupted.push(turn.clone());
        }
        open.retain(|turn| turn.state.is_open());
        let requeued = interrupted.iter().filter(|turn| turn.state == TurnState::Queued);
        let ids = requeued.map(|turn| turn.id).collect();
        self.head = session.head;
        let queue_limit = self.team_agents.team().limits.queue;
        self.conversation = Conversation::new(session.state, open, queue_limit);
        if !interrupted.is_empty() {
            let mut step = Step::at(self.team_agents.now());
            for turn in interrupted {
                let attempts = self.store.attempts(self.session, turn.id).await?;
                for attempt in attempts.into_iter().filter(|attempt| attempt.ended.is_none()) {
                    let (at, contents) = (step.at, &mut step.contents);
                    let result =
                        interrupted_result(&self.store, self.session, &attempt, at, contents);
                    let result = Box::new(result.await?);
                    let Turn { id, member, .. } = turn.clone();
                    let (number, began_at) = (attempt.number, attempt.began_at);
                    step.events.push(if turn.state == TurnState::Cancelled {
                        let result = AttemptResult { verdict: Verdict::Cancelled, ..*result };
                        self.stop = Some(StopReason::Cancelled { person: self.asker() });
                        EventKind::ended(&turn, number, began_at, None, result)
                    } else {
                        EventKind::TurnInterrupted { turn: id, member, attempt: number, result }
                    });
                    if self.sharing.is_some() && turn.state == TurnState::Queued {
                        let message =
                            format!("turn {id} of {} was interrupted; retrying", turn.member);
                        let diagnostic = Diagnostic::new(diagnostics::TURN_INTERRUPTED, message);
                        step.events.push(EventKind::Diagnostic { turn: Some(id), diagnostic });
                    }
                }
            }
            self.append(self.conversation.clone(), step).await?;
        }
        self.is_stale = false;
        Ok(ids)
    }

    /// Returns the session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the team and its agents.
    pub fn team_agents(&self) -> &TeamAgents {
        &self.team_agents
    }

    /// Returns the controls of the running conversation.
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Returns the queued turns, in the order of arrival.
    pub fn waiting(&self) -> &[Turn] {
        self.conversation.queue.waiting()
    }

    /// Returns the next turn if it is a person's.
    pub fn awaited(&self) -> Option<&Turn> {
        let next = self.conversation.queue.peek()?;
        self.team_agents.team().is_person(&next.member).then_some(next)
    }

    /// Returns the team task.
    pub fn task(&self) -> Option<&str> {
        self.conversation.task()
    }

    /// Runs turns until the next is a person's, a guard stops the conversation, or a person cancels or
    /// leaves.
    ///
    /// Each call resets the limits, because it is a person's decision to continue.
    pub async fn run(&mut self) -> Result<StopReason, CoordinatorError> {
        self.guard.reset();
        self.controls.reset_cancel();
        self.has_told_stop = false;
        let stop = if self.sharing.is_some() {
            let stop = Box::pin(self.run_shared()).await;
            self.end_attendance();
            stop?
        } else {
            self.refresh().await?;
            loop {
                // The store is not shared, so no other process can run the next turn.
                if let Pause::Stop(stop) = Box::pin(self.run_here()).await? {
                    break stop;
                }
            }
        };
        let stopped = EventKind::Stopped(stop.clone());
        if self.has_told_stop {
            // Emitted with the last turn.
        } else if self.hold.is_some() {
            self.log(stopped).await?;
        } else {
            self.report(stopped);
        }
        Ok(stop)
    }

    /// Runs turns until none can run here.
    pub(crate) async fn run_here(&mut self) -> Result<Pause, CoordinatorError> {
        loop {
            if let Some(pause) = self.between_turns().await? {
                return Ok(pause);
            }
            if let Some(stop) = self.run_batch().await? {
                return Ok(Pause::Stop(stop));
            }
        }
    }

    /// Stores the messages that have arrived, and returns the reason why no turn can run here now, if any.
    pub(crate) async fn between_turns(&mut self) -> Result<Option<Pause>, CoordinatorError> {
        Box::pin(self.store_unsent()).await?;
        self.take_arrived().await?;
        Ok(self.pause())
    }

    /// Carries out a request of a person, up to the turns that [`Self::run`] runs then. Returns the id of a stored
    /// message.
    pub async fn carry_out(
        &mut self,
        request: SessionRequest,
    ) -> Result<Option<MessageId>, CoordinatorError> {
        match request {
            SessionRequest::Say(message) => self.accept(*message).await,
            SessionRequest::Retry(turn) => self.retry(turn).await.map(|()| None),
            SessionRequest::Continue => Ok(None),
        }
    }

    /// Requeues a turn that failed or was cancelled, ahead of all others.
    pub async fn retry(&mut self, turn: TurnId) -> Result<(), CoordinatorError> {
        self.claim().await?;
        self.refresh().await?;
        let no = |why| CoordinatorError::NoRetry { turn, why };
        let found = find_turn(&self.store, self.session, turn).await?;
        let mut found = found.ok_or_else(|| no("there is no such turn"))?;
        match found.state {
            TurnState::Failed | TurnState::Cancelled => {}
            TurnState::Done => return Err(no("it is done")),
            TurnState::Queued | TurnState::Running => return Err(no("it has not ended")),
        }
        found.state = TurnState::Queued;
        found.ended_at = None;
        found.problem = None;
        let mut next = self.conversation.clone();
        let retried = EventKind::TurnRetried { turn, member: found.member.clone() };
        next.queue.put_back(found);
        Ok(self.append(next, Step::of(self.team_agents.now(), [retried])).await?)
    }

    /// Cancels the queued turns of agents, without starting any.
    pub async fn cancel_waiting(&mut self) -> Result<(), CoordinatorError> {
        self.refresh().await?;
        let mut next = self.conversation.clone();
        let team = self.team_agents.team();
        let waiting = next.queue.waiting().iter().filter(|turn| !team.is_person(&turn.member));
        let waiting: Vec<TurnId> = waiting.map(|turn| turn.id).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let cancelled = waiting.into_iter().filter_map(|turn| next.queue.remove(turn));
        let dropped: Vec<EventKind> = cancelled
            .map(|Turn { id: turn, member, .. }| {
                let problem = "cancelled before it began".to_owned();
                EventKind::TurnDropped { turn, member, problem }
            })
            .collect();
        Ok(self.append(next, Step::of(self.team_agents.now(), dropped)).await?)
    }

    /// Returns the reason why no turn can run here now, if any.
    fn pause(&mut self) -> Option<Pause> {
        let stop = match self.controls.stop_request() {
            StopRequest::Leave => Some(StopReason::Left),
            StopRequest::CancelTurn => Some(StopReason::Cancelled { person: self.asker() }),
            StopRequest::None => self.stop.take(),
        };
        if let Some(stop) = stop {
            return Some(Pause::Stop(stop));
        }
        let Some(next) = self.conversation.queue.peek() else {
            return Some(Pause::Stop(StopReason::Idle { person: self.asker() }));
        };
        if self.team_agents.team().is_person(&next.member) {
            let (person, turn, answers) = (next.member.clone(), next.id, next.answers);
            return Some(Pause::Stop(StopReason::Addressed { person, turn, answers }));
        }
        let limit = self.team_agents.team().limits.turns;
        if self.guard.turns_left(limit) == 0 {
            return Some(Pause::Stop(StopReason::TurnLimit { person: self.asker(), limit }));
        }
        let is_elsewhere = self.sharing.is_some() && self.team_agents.is_elsewhere(&next.member);
        is_elsewhere.then(|| Pause::Elsewhere(self.next_turn(next)))
    }

    /// Returns a turn as other processes see it.
    pub(crate) fn next_turn(&self, turn: &Turn) -> NextTurn {
        NextTurn {
            turn: turn.id,
            member: turn.member.clone(),
            requirements: self.team_agents.requirements_of(&turn.member),
            guard: self.guard.clone(),
        }
    }

    /// Returns the person to whom control returns.
    pub(crate) fn asker(&self) -> MemberName {
        let asker =
            self.conversation.asker().filter(|asker| self.team_agents.team().is_person(asker));
        let anybody = || self.team_agents.team().people().next();
        // A team always has a person.
        asker.or_else(anybody).cloned().unwrap_or_else(|| "user".into())
    }

    fn pace(&self) -> Concurrency {
        if self.team_agents.team().limits.parallel {
            Concurrency::Parallel
        } else {
            Concurrency::Serial
        }
    }

    /// Stores one event, and emits it.
    pub(crate) async fn log(&mut self, event: EventKind) -> Result<(), StoreError> {
        let step = Step::of(self.team_agents.now(), [event]);
        self.append(self.conversation.clone(), step).await
    }

    /// Stores a step with the events of agents before it, and emits them: only what is stored is seen. `next` is the
    /// conversation after the step.
    async fn append(&mut self, mut next: Conversation, step: Step) -> Result<(), StoreError> {
        let session = self.session;
        let Step { at, events, contents, pieces, threads, taken, next: after } = step;
        let mut told = self.pending.clone();
        told.extend(events.into_iter().map(|kind| unnumbered(session, at, kind)));
        let mut head = self.head;
        for event in told.iter_mut().filter(|event| event.kind.is_logged()) {
            head = head.next();
            event.number = Some(head);
        }
        let events: Vec<Event> =
            told.iter().filter(|event| event.number.is_some()).cloned().collect();
        for event in &events {
            next.remember(&event.kind);
        }
        let state = next.state();
        if cfg!(debug_assertions) {
            let mut folded = self.conversation.state();
            for event in &events {
                folded.apply(&event.kind);
            }
            debug_assert_eq!(folded, state, "the state is what the events add up to");
        }
        let on = self.head;
        let commit = Commit { on, events, state, contents, pieces, threads, taken, next: after };
        self.commit(commit).await?;
        self.pending.clear();
        self.conversation = next;
        for event in told {
            self.emit(event);
        }
        Ok(())
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        // If this future is dropped, only the store knows whether the commit succeeded.
        let was_stale = std::mem::replace(&mut self.is_stale, true);
        let leaving = self.leaving();
        let committed = tokio::select! {
            committed = Box::pin(self.store.commit(self.session, commit)) => committed,
            // A person who leaves does not wait for a server that is away.
            () = leaving, if self.sharing.is_some() => Err(StoreError::unanswered()),
        };
        // The commit was refused because of a changed thread, so the session is unchanged.
        if matches!(committed, Ok(_) | Err(StoreError::Thread(ThreadStoreError::Changed(_)))) {
            self.is_stale = was_stale;
        }
        self.head = committed?;
        Ok(())
    }

    /// Emits an event that is not in the log, because it concerns this process alone.
    pub(crate) fn report(&mut self, kind: EventKind) {
        self.emit(unnumbered(self.session, self.team_agents.now(), kind));
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.has_told_stop |= matches!(event.kind, EventKind::Stopped(_));
        self.observer.observe(event);
    }
}

/// A step of a conversation: events, and what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Step {
    at: Millis,
    events: Vec<EventKind>,
    contents: Vec<Content>,
    pieces: Vec<Piece>,
    threads: Vec<ThreadAppend>,
    taken: Option<ArrivalNumber>,
    next: Option<NextTurn>,
}

impl Step {
    fn at(at: Millis) -> Self {
        Self { at, ..Self::default() }
    }

    fn of(at: Millis, events: impl IntoIterator<Item = EventKind>) -> Self {
        Self { events: events.into_iter().collect(), ..Self::at(at) }
    }
}

fn unnumbered(session: SessionId, at: Millis, kind: EventKind) -> Event {
    Event { kind, session, at, number: None, migrated: false }
}

/// Locks a session for as long as it is open; not in a shared store.
async fn hold_at_once<S: Store>(
    store: &S,
    session: SessionId,
    team_agents: &TeamAgents,
) -> Result<Option<S::Hold>, StoreError> {
    match store.sharing() {
        Some(_) => Ok(None),
        None => store.hold(session, Holder::this_process(team_agents.now())).await.map(Some),
    }
}
