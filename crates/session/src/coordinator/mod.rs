//! The coordinator: accepts messages of people, runs the agents' turns, and stores every step before
//! the next.

mod batch;
mod controls;
mod prepare;
mod shared;
mod signals;
mod team_agents;
mod team_calls;
mod turn_runner;

use std::time::Duration;

use convoke_agent::Verdict;
use convoke_agent::permission::PermissionAnswer;
use convoke_agent::thread::ThreadStoreError;
use convoke_core::marker::Intent;
use convoke_core::{Diagnostic, MessageId, NewMessage};
use convoke_team::Team;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use self::controls::{ControlQueues, StopRequest};
pub use self::controls::{Controls, INBOX_LIMIT};
use self::shared::Sharing;
pub use self::team_agents::{Clock, MemberAgent, TeamAgents};
use crate::attachment::Attachment;
use crate::diagnostics;
use crate::event::{SessionEvent, SessionEventKind, ShownMessage, StopReason};
use crate::event_queue::Observer;
use crate::id::{Head, MemberName, Millis, SessionId, TurnId};
use crate::progress::interrupt;
use crate::routing::conversation::{Conversation, MessageEffects};
use crate::routing::guard::Guard;
use crate::routing::queue::Concurrency;
use crate::routing::{Call, Routed, route};
use crate::session::{NewSession, State};
use crate::shared::{InboxNumber, QuestionId, TurnOffer};
use crate::store::{Commit, Holder, SessionHold as _, Store, StoreError};
use crate::turn::{Turn, TurnState};

/// A message from a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonMessage {
    /// The author.
    pub person: MemberName,
    /// The text, with markers.
    pub text: String,
    /// The recipients if the text has no `[NEXT: …]`.
    pub to: Vec<String>,
    /// The files that it attaches. Nothing in them is a marker.
    pub attachments: Vec<Attachment>,
}

impl PersonMessage {
    /// Creates a message whose recipients are those in its text.
    pub fn new(person: impl Into<MemberName>, text: impl Into<String>) -> Self {
        let (person, text) = (person.into(), text.into());
        Self { person, text, to: Vec::new(), attachments: Vec::new() }
    }

    /// Sets the recipients for a text without `[NEXT: …]`.
    #[must_use]
    pub fn to<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.to = names.into_iter().map(Into::into).collect();
        self
    }
}

/// Runs the conversation of a session that this process has locked.
///
/// [`Self::accept`] stores and routes a message of a person; [`Self::run`] then runs turns until the next
/// turn is a person's, a guard stops it, or a person cancels. All state is stored: a coordinator can be
/// dropped, or killed, at any moment.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
///
/// use convoke_agent::adapter::{Script, StandIn};
/// use convoke_session::conformance::new_session;
/// use convoke_session::{
/// Coordinator, MemberAgent, PersonMessage, SessionEvent, SqliteStore, StopReason, TeamAgents,
/// };
/// use convoke_team::Team;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let team = Team::parse("[[member]]\nname = \"max\"\nagent = \"claude\"\n")?;
/// let max = StandIn::new(Script::replies(["Looks good to me."]));
/// let agents = HashMap::from([("max".into(), MemberAgent::new(Arc::new(max), directory.path()))]);
/// let store = SqliteStore::open(directory.path()).await?;
///
/// let team_agents = TeamAgents::new(team, agents);
/// let observer = Box::new(|event: SessionEvent| println!("{event:?}"));
/// let mut coordinator = Coordinator::create(store, new_session(), team_agents, observer).await?;
/// coordinator.accept(PersonMessage::new("user", "What do you think? [NEXT: max]")).await?;
/// assert_eq!(coordinator.run().await?, StopReason::Idle { person: "user".into() });
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(example())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Coordinator<S: Store> {
    store: S,
    session: SessionId,
    head: Head,
    conversation: Conversation,
    team_agents: TeamAgents,
    guard: Guard,
    controls: Controls,
    inbox: mpsc::Receiver<PersonMessage>,
    /// Answers to questions of turns that other processes run.
    answers: mpsc::Receiver<(QuestionId, PermissionAnswer)>,
    observer: Box<dyn Observer>,
    /// The reason to stop that a guard gave while a message was stored.
    stop: Option<StopReason>,
    /// Whether the state in memory may differ from the store, and is to be read again.
    is_stale: bool,
    /// `None` while another process may write the session.
    hold: Option<S::Hold>,
    /// The state of a session that is shared with other processes; `None` if this process keeps it.
    sharing: Option<Sharing>,
}

/// The reason why no turn can run here now.
enum Pause {
    /// The conversation stops.
    Stop(StopReason),
    /// The next turn is one that other processes run.
    Offer(TurnOffer),
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
        /// The name.
        name: String,
        /// The people of the team.
        people: Vec<MemberName>,
    },
    /// A turn cannot be retried.
    #[error("turn {turn} cannot be tried again: {why}")]
    NoRetry {
        /// The turn.
        turn: TurnId,
        /// The reason.
        why: &'static str,
    },
}

impl CoordinatorError {
    /// Returns advice for the person, to be printed apart from the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPerson { people, .. } => {
                let names: Vec<&str> = people.iter().map(MemberName::as_str).collect();
                Some(format!("people in this team: {}", names.join(", ")))
            }
            Self::Store(_) | Self::NoRetry { .. } => None,
        }
    }
}

impl<S: Store> Coordinator<S> {
    /// Creates a session and locks it. In a shared store, it is locked only when there is something to do.
    pub async fn create(
        store: S,
        session: NewSession,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let id = session.id;
        if store.shared().is_some() {
            store.create(session).await?;
            return Self::reopen(store, id, None, team_agents, observer).await;
        }
        let hold = store.hold(id, Holder::this_process(team_agents.now())).await?;
        store.create(session).await?;
        Self::reopen(store, id, Some(hold), team_agents, observer).await
    }

    /// Opens a session and requeues turns interrupted by a crash. In a shared store, that happens when this process
    /// has something to do.
    pub async fn open(
        store: S,
        session: SessionId,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        if store.shared().is_some() {
            return Self::reopen(store, session, None, team_agents, observer).await;
        }
        let hold = store.hold(session, Holder::this_process(team_agents.now())).await?;
        Self::reopen(store, session, Some(hold), team_agents, observer).await
    }

    /// Releases the session, and returns when others can hold it.
    pub async fn close(self) {
        if let Some(hold) = self.hold {
            hold.release().await;
        }
    }

    async fn reopen(
        store: S,
        id: SessionId,
        hold: Option<S::Hold>,
        team_agents: TeamAgents,
        observer: Box<dyn Observer>,
    ) -> Result<Self, CoordinatorError> {
        let (controls, ControlQueues { inbox, answers }) = Controls::new(team_agents.approvals());
        let sharing = store.shared().map(|shared| Sharing::new(shared.clone()));
        let mut coordinator = Self {
            store,
            session: id,
            // Both are read below.
            head: Head::default(),
            conversation: Conversation::new(State::default(), Vec::new(), 0),
            team_agents,
            guard: Guard::default(),
            controls,
            inbox,
            answers,
            observer,
            stop: None,
            is_stale: true,
            hold,
            sharing,
        };
        let interrupted = if coordinator.hold.is_some() {
            coordinator.refresh().await?
        } else {
            coordinator.look().await?;
            Vec::new()
        };
        let messages = coordinator.conversation.last_message().0;
        let waiting = coordinator.waiting().len() as u64;
        let at = coordinator.team_agents.now();
        coordinator.emit(at, SessionEventKind::Opened { messages, waiting, interrupted });
        Ok(coordinator)
    }

    /// Reads the conversation from the store if memory may differ from it. Requeues and returns the turns
    /// that were interrupted.
    async fn refresh(&mut self) -> Result<Vec<TurnId>, StoreError> {
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
                turn.problem = Some(Verdict::Cancelled.to_string());
                turn.ended_at = Some(self.team_agents.now());
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
            let mut commit = self.commit_of(&self.conversation);
            for turn in &interrupted {
                let attempts = self.store.attempts(self.session, turn.id).await?;
                for mut attempt in attempts.into_iter().filter(|attempt| attempt.ended.is_none()) {
                    let (at, contents) = (commit.at, &mut commit.contents);
                    interrupt(&self.store, self.session, &mut attempt, at, contents).await?;
                    commit.attempts.push(attempt);
                }
            }
            commit.turns = interrupted;
            let (at, ended) = (commit.at, cancelled_turns(&commit));
            self.commit(commit).await?;
            if !ended.is_empty() {
                self.stop = Some(StopReason::Cancelled { person: self.asker() });
            }
            for kind in ended {
                self.emit(at, kind);
            }
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

    /// Stores and routes a message of a person. The message is durable when this returns. Returns its id; `None` if
    /// another process holds the session, which stores the message between two turns.
    pub async fn accept(
        &mut self,
        given: PersonMessage,
    ) -> Result<Option<MessageId>, CoordinatorError> {
        self.person_of(&given)?;
        if !self.is_held_or_claimed().await? {
            self.put_into_inbox(&given).await?;
            return Ok(None);
        }
        self.refresh().await?;
        // A new message goes on with a conversation that was cancelled.
        self.stop = None;
        self.store_message(given, None).await.map(Some)
    }

    /// Returns the author of a message.
    fn person_of(&self, given: &PersonMessage) -> Result<MemberName, CoordinatorError> {
        let team = self.team_agents.team();
        team.resolve_person(given.person.as_str()).cloned().ok_or_else(|| {
            let people = team.people().cloned().collect();
            CoordinatorError::NoPerson { name: given.person.to_string(), people }
        })
    }

    /// Stores and routes a message of a person, from the inbox or not.
    async fn store_message(
        &mut self,
        given: PersonMessage,
        taken: Option<InboxNumber>,
    ) -> Result<MessageId, CoordinatorError> {
        let person = self.person_of(&given)?;
        let team = self.team_agents.team();
        let mut routed = route(team, &person, &given.text);
        // An unknown name is left to the person to correct; no other member answers instead.
        if routed.calls.is_empty() && !routed.has_recipients {
            call_instead(&mut routed, &given.to, team);
        }
        let mut message = NewMessage::new(team.speaker(&routed.speaker), given.text);
        Attachment::store(given.attachments, &mut message.extra);
        let mut next = self.conversation.clone();
        // If the next turn is the person's own, this message answers it.
        let is_answered = next.queue.peek().is_some_and(|turn| turn.member == routed.speaker);
        let answered = match next.queue.peek().map(|turn| turn.id) {
            Some(id) if is_answered => next.queue.remove(id),
            _ => None,
        };
        let answers = answered.as_ref().map(|turn| turn.answers);
        if let Some(number) = answers {
            message.in_reply_to = Some(self.store.message(self.session, number).await?.message.id);
        }
        let at = self.team_agents.now();
        let effects = next.add(message, answers, &routed, &routed.speaker, at);
        let mut commit = self.commit_of(&next);
        commit.at = at;
        commit.taken = taken;
        commit.turns.extend(answered.map(|turn| Turn {
            state: TurnState::Done,
            reply: Some(effects.message.number),
            ended_at: Some(at),
            ..turn
        }));
        let id = effects.message.message.id.clone();
        self.write(next, commit, &routed, effects).await?;
        self.guard.reset();
        Ok(id)
    }

    /// Runs turns until the next is a person's, a guard stops the conversation, or a person cancels or
    /// leaves.
    ///
    /// Each call resets the limits: it is a person's decision to continue.
    pub async fn run(&mut self) -> Result<StopReason, CoordinatorError> {
        self.guard.reset();
        self.controls.settle();
        let stop = if self.sharing.is_some() {
            let stop = Box::pin(self.run_shared()).await;
            self.end_attendance();
            stop?
        } else {
            self.refresh().await?;
            loop {
                // No other process can run an offered turn.
                if let Pause::Stop(stop) = Box::pin(self.run_here()).await? {
                    break stop;
                }
            }
        };
        self.emit(self.team_agents.now(), SessionEventKind::Stopped(stop.clone()));
        Ok(stop)
    }

    /// Runs turns until none can run here.
    async fn run_here(&mut self) -> Result<Pause, CoordinatorError> {
        loop {
            if let Some(pause) = self.between_turns().await? {
                return Ok(pause);
            }
            if let Some(stop) = self.run_next().await? {
                return Ok(Pause::Stop(stop));
            }
        }
    }

    /// Stores queued messages, and returns the reason why no turn can run here now.
    async fn between_turns(&mut self) -> Result<Option<Pause>, CoordinatorError> {
        while let Ok(message) = self.inbox.try_recv() {
            self.store_message(message, None).await?;
        }
        self.take_inbox().await?;
        Ok(self.pause())
    }

    /// Runs the next turns.
    async fn run_next(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
        // If this future is dropped, the store may have turns that are not in memory.
        self.is_stale = true;
        let stop = self.run_batch().await?;
        self.is_stale = false;
        Ok(stop)
    }

    /// Requeues a turn that failed or was cancelled, before all others.
    pub async fn retry(&mut self, turn: TurnId) -> Result<(), CoordinatorError> {
        self.claim().await?;
        self.refresh().await?;
        let no = |why| CoordinatorError::NoRetry { turn, why };
        let before = TurnId(turn.0.saturating_sub(1));
        let found = self.store.turns_after(self.session, before, 1).await?.pop();
        let found = found.filter(|found| found.id == turn);
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
        next.queue.put_back(found.clone());
        let mut commit = self.commit_of(&next);
        commit.turns.push(found);
        self.commit(commit).await?;
        self.conversation = next;
        Ok(())
    }

    /// Cancels the turns of agents that wait. Nothing is started for them.
    pub async fn cancel_waiting(&mut self) -> Result<(), CoordinatorError> {
        self.refresh().await?;
        let mut next = self.conversation.clone();
        let team = self.team_agents.team();
        let waiting = next.queue.waiting().iter().filter(|turn| !team.is_person(&turn.member));
        let waiting: Vec<TurnId> = waiting.map(|turn| turn.id).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut commit = self.commit_of(&next);
        let at = commit.at;
        let cancelled: Vec<Turn> =
            waiting.into_iter().filter_map(|turn| next.queue.remove(turn)).collect();
        commit.turns.extend(cancelled.iter().cloned().map(|turn| Turn {
            state: TurnState::Cancelled,
            problem: Some("cancelled before it began".to_owned()),
            ended_at: Some(at),
            ..turn
        }));
        self.commit(commit).await?;
        self.conversation = next;
        for turn in cancelled {
            self.emit(at, SessionEventKind::TurnDropped { turn: turn.id, member: turn.member });
        }
        Ok(())
    }

    /// Returns the reason why no turn can run here now.
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
        is_elsewhere.then(|| Pause::Offer(self.offer_of(next)))
    }

    /// Returns the offer of a turn.
    fn offer_of(&self, turn: &Turn) -> TurnOffer {
        TurnOffer {
            turn: turn.id,
            member: turn.member.clone(),
            requirements: self.team_agents.requirements_of(&turn.member),
            guard: self.guard.clone(),
        }
    }

    /// Returns the person to whom control returns.
    fn asker(&self) -> MemberName {
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

    /// Stores a message with its effects, and emits their events.
    async fn write(
        &mut self,
        next: Conversation,
        mut commit: Commit,
        routed: &Routed,
        effects: MessageEffects,
    ) -> Result<(), CoordinatorError> {
        let MessageEffects { message, dropped, queued, left_out } = effects;
        let shown = ShownMessage::new(&message, routed.text.clone());
        let at = commit.at;
        commit.messages.push(message);
        commit.turns.extend(dropped.iter().chain(&queued).cloned());
        self.commit(commit).await?;
        self.conversation = next;
        self.emit(at, SessionEventKind::Message(shown));
        for diagnostic in &routed.diagnostics {
            let diagnostic = diagnostic.clone();
            self.emit(at, SessionEventKind::Diagnostic { turn: None, diagnostic });
        }
        for turn in dropped {
            self.emit(at, SessionEventKind::TurnDropped { turn: turn.id, member: turn.member });
        }
        if let Some(task) = &routed.task {
            self.emit(
                at,
                SessionEventKind::Task { task: task.clone(), by: routed.speaker.clone() },
            );
        }
        for Turn { id: turn, member, answers, intent, .. } in queued {
            self.emit(at, SessionEventKind::TurnQueued { turn, member, answers, intent });
        }
        if left_out > 0 {
            self.note_overflow(at, left_out);
        }
        Ok(())
    }

    fn note_overflow(&mut self, at: Millis, left_out: u64) {
        let limit = self.team_agents.team().limits.queue;
        let message = format!("queue full: {limit} turns queued, {left_out} not added");
        let diagnostic = Diagnostic::new(diagnostics::QUEUE_FULL, message).with_count(left_out);
        self.emit(at, SessionEventKind::Diagnostic { turn: None, diagnostic });
        self.stop = Some(StopReason::QueueFull { person: self.asker(), limit, left_out });
    }

    /// Creates a commit with the state of a conversation.
    fn commit_of(&self, conversation: &Conversation) -> Commit {
        Commit {
            on: self.head,
            at: self.team_agents.now(),
            contents: Vec::new(),
            messages: Vec::new(),
            turns: Vec::new(),
            attempts: Vec::new(),
            progress: Vec::new(),
            threads: Vec::new(),
            state: conversation.state(),
            taken: None,
            offer: None,
        }
    }

    async fn commit(&mut self, commit: Commit) -> Result<(), StoreError> {
        // If this future is dropped, only the store knows whether the commit succeeded.
        let was_stale = std::mem::replace(&mut self.is_stale, true);
        let committed = match self.store.shared() {
            Some(shared) => shared.commit_surely(self.session, commit).await,
            None => self.store.commit(self.session, commit).await,
        };
        // A changed thread refuses the commit, so the session is unchanged.
        if matches!(committed, Ok(_) | Err(StoreError::Thread(ThreadStoreError::Changed(_)))) {
            self.is_stale = was_stale;
        }
        self.head = committed?;
        Ok(())
    }

    fn emit(&mut self, at: Millis, kind: SessionEventKind) {
        self.observer.observe(SessionEvent { kind, session: self.session, at });
    }
}

/// Returns the ends of the turns that a commit cancels.
fn cancelled_turns(commit: &Commit) -> Vec<SessionEventKind> {
    let cancelled = commit.turns.iter().filter(|turn| turn.state == TurnState::Cancelled);
    let ended = cancelled.filter_map(|turn| {
        let attempt = commit.attempts.iter().rfind(|attempt| attempt.turn == turn.id)?;
        let result = attempt.ended.clone()?;
        Some(SessionEventKind::TurnEnded {
            turn: turn.id,
            member: turn.member.clone(),
            state: turn.state,
            reply: None,
            elapsed: Duration::from_millis(
                u64::try_from(result.at.0 - attempt.began_at.0).unwrap_or_default(),
            ),
            result: Box::new(result),
        })
    });
    ended.collect()
}

/// Queues turns for the recipients that a message has beside its text.
fn call_instead(routed: &mut Routed, to: &[String], team: &Team) {
    for name in to {
        match team.resolve(name) {
            Some(member) if routed.calls.iter().any(|call| call.member == *member) => {}
            Some(member) => {
                routed.calls.push(Call { member: member.clone(), intent: Intent::default() });
            }
            None => {
                let message = format!("no member has the name `{name}`; {}", team.hint(name));
                routed.diagnostics.push(Diagnostic::new(diagnostics::MARKER_UNRESOLVED, message));
            }
        }
    }
}
