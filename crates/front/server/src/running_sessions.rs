//! The sessions that this process runs, and the actions of people in them.
//!
//! A session is opened by the first action on it, and released when it has had no viewer for a while and no turn is running.
//! A session of another process is only read, and an action on it fails with the process that holds it, unless machines
//! share the store: then a message, a cancel and an answer reach the process that holds the session.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_core::MessageId;
use convoke_core::name::NameKey;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use convoke_session::event_queue::Observer;
use convoke_session::{
    AnyStore, Controls, Coordinator, CoordinatorError, NewMessage, SessionRequest,
};
use convoke_team::Team;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::feed::{Feed, FeedObserver, Feeds};
use crate::host::{Compose, Host, OpenedSession};
use crate::stored::SessionStatus;

/// The maximum number of requests that wait for a session.
const REQUEST_LIMIT: usize = 16;
/// The interval at which a session is checked for viewers.
const LOOK: Duration = Duration::from_secs(1);
/// The number of checks without a viewer after which a session is released.
const LOOKS: u32 = 30;

/// The time that conversations have to end with the server.
const GRACE: Duration = Duration::from_secs(10);

/// An action that failed, with a message for the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActionError(pub String);

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionResult {
    /// The id of the message that was stored; `None` if it waits until the running turn has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the action waits until the running turn has ended.
    pub waits: bool,
}

/// The reply to a request.
pub type Reply = oneshot::Sender<Result<ActionResult, ActionError>>;

/// A request to the task that runs a session.
#[derive(Debug)]
pub enum HeldRequest {
    /// A person acts.
    Act(SessionRequest, Reply),
    /// The session is released, unless a turn runs.
    Release(Reply),
}

/// The sending end of the requests to a session that this process runs.
#[derive(Clone)]
pub struct SessionRequests {
    requests: mpsc::Sender<HeldRequest>,
    controls: Controls,
    team: Arc<Team>,
    compose: Compose,
}

/// Creates the two ends of a session's requests: one for the server, one for the task that runs the conversation.
pub fn session_requests(
    controls: Controls,
    team: Team,
    compose: Compose,
) -> (SessionRequests, mpsc::Receiver<HeldRequest>) {
    let (requests, asked) = mpsc::channel(REQUEST_LIMIT);
    (SessionRequests { requests, controls, team: Arc::new(team), compose }, asked)
}

impl SessionRequests {
    /// Sends a request and waits for its reply.
    async fn ask(
        &self,
        request: impl FnOnce(Reply) -> HeldRequest,
    ) -> Result<ActionResult, ActionError> {
        let (reply, replied) = oneshot::channel();
        let is_busy = |_| ActionError("the session is busy; try again".to_owned());
        self.requests.try_send(request(reply)).map_err(is_busy)?;
        replied.await.unwrap_or_else(|_| Err(ActionError("the session was closed".to_owned())))
    }
}

/// The sessions of this process.
pub(crate) struct RunningSessions {
    host: Arc<dyn Host>,
    feeds: Arc<Feeds>,
    sessions: Mutex<HashMap<SessionId, SessionRequests>>,
    /// Held while a session is opened, so that two actions open it once.
    opening: tokio::sync::Mutex<()>,
}

impl RunningSessions {
    pub fn new(host: Arc<dyn Host>, feeds: Arc<Feeds>) -> Self {
        Self { host, feeds, sessions: Mutex::default(), opening: tokio::sync::Mutex::new(()) }
    }

    /// Adds a session that another part of this process runs. Returns an observer for its events.
    pub fn attend(&self, session: SessionId, requests: SessionRequests) -> Box<dyn Observer> {
        self.sessions().insert(session, requests);
        let feed = self.feeds.get(session);
        feed.set_held(true);
        Box::new(FeedObserver(feed))
    }

    /// Stores a message of a person; while a turn runs, queues it.
    pub async fn say(
        &self,
        session: SessionId,
        message: NewMessage,
    ) -> Result<ActionResult, ActionError> {
        let requests = self.open(session).await?;
        if requests.team.resolve_person(message.speaker.name()).is_none() {
            let people: Vec<String> = requests.team.people().map(ToString::to_string).collect();
            return Err(ActionError(format!(
                "no person named `{}` in this team; its people: {}",
                message.speaker.name(),
                people.join(", ")
            )));
        }
        check_recipients(&message, &requests.team)?;
        let message = (requests.compose)(message).await.map_err(ActionError)?;
        let request = SessionRequest::Say(Box::new(message));
        requests.ask(|reply| HeldRequest::Act(request, reply)).await
    }

    /// Requeues a turn that failed or was cancelled.
    pub async fn retry(
        &self,
        session: SessionId,
        turn: TurnId,
    ) -> Result<ActionResult, ActionError> {
        let request = SessionRequest::Retry(turn);
        self.open(session).await?.ask(|reply| HeldRequest::Act(request, reply)).await
    }

    /// Runs the queued turns.
    pub async fn resume(&self, session: SessionId) -> Result<ActionResult, ActionError> {
        let request = SessionRequest::Continue;
        self.open(session).await?.ask(|reply| HeldRequest::Act(request, reply)).await
    }

    /// Releases a session for other processes.
    pub async fn release(&self, session: SessionId) -> Result<ActionResult, ActionError> {
        self.held(session)?.ask(HeldRequest::Release).await
    }

    /// Cancels the running turn, wherever it runs.
    pub async fn cancel(&self, session: SessionId) -> Result<ActionResult, ActionError> {
        match self.feeds.sharing() {
            // The process that runs the turn is notified, even if it is this one.
            Some(shared) => {
                let running = shared.cancel_turns(session).await;
                if running.map_err(|error| ActionError(error.to_string()))? == 0 {
                    return Err(ActionError("no turn is running".to_owned()));
                }
            }
            None => self.held(session)?.controls.cancel_turn(),
        }
        Ok(ActionResult { message: None, waits: false })
    }

    /// Answers a question that an agent of this very session has asked, wherever it runs.
    pub async fn answer(
        &self,
        session: SessionId,
        question: &str,
        answer: PermissionAnswer,
    ) -> Result<ActionResult, ActionError> {
        let closed = || ActionError("this question is no longer open".to_owned());
        let status = self.feeds.get(session).status();
        let is_open =
            |status: SessionStatus| status.questions.iter().any(|it| it.question.id == question);
        if let Some(shared) = self.feeds.sharing() {
            if status.is_some_and(|status| !is_open(status)) {
                return Err(closed());
            }
            let question = QuestionId::parse(question).ok_or_else(closed)?;
            let answered = shared.answer_question(session, &question, answer).await;
            if !answered.map_err(|error| ActionError(error.to_string()))? {
                return Err(closed());
            }
        } else {
            let requests = self.held(session)?;
            if !status.is_some_and(is_open) {
                return Err(closed());
            }
            requests.controls.answer(question, answer);
        }
        Ok(ActionResult { message: None, waits: false })
    }

    /// Starts a new session.
    pub async fn create(&self) -> Result<SessionId, ActionError> {
        let _opening = self.opening.lock().await;
        // The session has no viewer before its id is known.
        let late = Arc::new(LateObserver::default());
        let observer = Box::new(LateHandle(Arc::clone(&late)));
        let opened = self.host.open(None, observer).await.map_err(ActionError)?;
        let session = opened.coordinator.session();
        let feed = self.feeds.get(session);
        late.set(FeedObserver(Arc::clone(&feed)));
        self.start(session, opened, feed);
        Ok(session)
    }

    /// Leaves every running conversation, and waits for a limited time until all is stored.
    pub async fn leave(&self) {
        let sessions: Vec<SessionRequests> = self.sessions().drain().map(|(_, it)| it).collect();
        for session in &sessions {
            session.controls.leave();
        }
        let closed = async {
            for SessionRequests { requests, .. } in sessions {
                let (reply, _replied) = oneshot::channel();
                // Refused while a turn ends; then the queue closes when the last sender is dropped.
                let _ = requests.send(HeldRequest::Release(reply)).await;
                requests.closed().await;
            }
        };
        let _ = tokio::time::timeout(GRACE, closed).await;
    }

    /// Returns a session of this process.
    fn held(&self, session: SessionId) -> Result<SessionRequests, ActionError> {
        let found = self.sessions().get(&session).cloned();
        found
            .filter(|requests| !requests.requests.is_closed())
            .ok_or_else(|| ActionError("this process does not run the session".to_owned()))
    }

    /// Returns a session of this process, and opens it first if needed.
    async fn open(&self, session: SessionId) -> Result<SessionRequests, ActionError> {
        let _opening = self.opening.lock().await;
        if let Ok(requests) = self.held(session) {
            return Ok(requests);
        }
        let feed = self.feeds.get(session);
        let observer = Box::new(FeedObserver(Arc::clone(&feed)));
        let opened = self.host.open(Some(session), observer).await.map_err(ActionError)?;
        Ok(self.start(session, opened, feed))
    }

    fn start(&self, session: SessionId, opened: OpenedSession, feed: Arc<Feed>) -> SessionRequests {
        let coordinator = &opened.coordinator;
        let team = coordinator.team_agents().team().clone();
        let compose = Arc::clone(&opened.compose);
        let (requests, asked) = session_requests(coordinator.controls(), team, compose);
        feed.set_held(true);
        for diagnostic in &opened.diagnostics {
            feed.note(diagnostic.clone());
        }
        self.sessions().insert(session, requests.clone());
        let running = tokio::spawn(run_session(opened, asked, Arc::clone(&feed)));
        tokio::spawn(async move {
            if let Err(error) = running.await {
                feed.set_held(false);
                feed.set_problem(Some(format!("the session was closed: {error}")));
            }
        });
        requests
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionRequests>> {
        // No holder of the lock panics.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An observer whose feed is known only after the session was created.
#[derive(Default)]
struct LateObserver(Mutex<Option<FeedObserver>>);

impl LateObserver {
    fn set(&self, observer: FeedObserver) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }
}

struct LateHandle(Arc<LateObserver>);

impl Observer for LateHandle {
    fn observe(&mut self, event: convoke_protocol::event::Event) {
        let mut observer = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observer) = observer.as_mut() {
            observer.observe(event);
        }
    }
}

/// Runs a session until it is released.
async fn run_session(
    opened: OpenedSession,
    mut asked: mpsc::Receiver<HeldRequest>,
    feed: Arc<Feed>,
) {
    let OpenedSession { mut coordinator, keep, .. } = opened;
    let mut unwatched = 0;
    loop {
        let request = tokio::select! {
            request = asked.recv() => request,
            // Other processes continue a shared session: viewers see it, and its turns may run here.
            woken = coordinator.wake() => {
                let ran = match woken {
                    Ok(()) => run(&mut coordinator, &mut asked).await.map(drop),
                    Err(error) => Err(error),
                };
                if let Err(error) = ran {
                    feed.set_problem(Some(error.to_string()));
                    break;
                }
                continue;
            }
            () = tokio::time::sleep(LOOK) => {
                unwatched = if feed.is_viewed() { 0 } else { unwatched + 1 };
                if unwatched < LOOKS {
                    continue;
                }
                None
            }
        };
        unwatched = 0;
        let started = match request {
            None => break,
            Some(HeldRequest::Release(reply)) => {
                let _ = reply.send(Ok(ActionResult { message: None, waits: false }));
                break;
            }
            Some(HeldRequest::Act(request, reply)) => {
                answer(reply, coordinator.carry_out(request).await)
            }
        };
        if !started {
            continue;
        }
        feed.set_problem(None);
        if let Err(error) = run(&mut coordinator, &mut asked).await {
            feed.set_problem(Some(error.to_string()));
        }
    }
    drop(coordinator);
    drop(keep);
}

/// Replies to a request that was carried out. Returns whether turns can run.
pub fn answer(reply: Reply, done: Result<Option<MessageId>, CoordinatorError>) -> bool {
    let is_done = done.is_ok();
    let done = done
        .map(|id| ActionResult { message: id.map(|id| id.to_string()), waits: false })
        .map_err(|error| ActionError(error.to_string()));
    // A disconnected client does not need its reply.
    let _ = reply.send(done);
    is_done
}

/// Runs turns until the conversation stops, and takes requests meanwhile.
async fn run(
    coordinator: &mut Coordinator<AnyStore>,
    asked: &mut mpsc::Receiver<HeldRequest>,
) -> Result<StopReason, CoordinatorError> {
    let controls = coordinator.controls();
    let mut interjections = Interjections::new(controls);
    loop {
        let running = coordinator.run();
        tokio::pin!(running);
        let stop = loop {
            tokio::select! {
                biased;
                stop = &mut running => break stop?,
                () = interjections.next() => {}
                Some(request) = asked.recv(), if interjections.is_ready() => interjections.begin(request),
            }
        };
        // A message that was put into the inbox after the last turn is stored by the next run.
        if !interjections.finish().await {
            return Ok(stop);
        }
    }
}

/// Handles requests while a turn runs, one after the other. The conversation must be polled together with it: both write
/// to the store, and one may wait for the other.
pub struct Interjections {
    controls: Controls,
    current: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    has_put: bool,
}

impl Interjections {
    /// Creates the handler of a conversation's requests.
    pub fn new(controls: Controls) -> Self {
        Self { controls, current: None, has_put: false }
    }

    /// Returns whether the next request can begin.
    pub fn is_ready(&self) -> bool {
        self.current.is_none()
    }

    /// Begins to handle a request.
    pub fn begin(&mut self, request: HeldRequest) {
        self.current = Some(Box::pin(interject(self.controls.clone(), request)));
    }

    /// Waits until the current request is handled; forever if there is none. Can be dropped and called again.
    pub async fn next(&mut self) {
        match &mut self.current {
            Some(current) => self.has_put |= current.await,
            None => std::future::pending().await,
        }
        self.current = None;
    }

    /// Handles the current request, and returns whether a message was put into the inbox since the last call.
    pub async fn finish(&mut self) -> bool {
        if self.current.is_some() {
            self.next().await;
        }
        std::mem::take(&mut self.has_put)
    }
}

/// Refuses a message to an unknown member, which would reach no one, or to its own author.
fn check_recipients(message: &NewMessage, team: &Team) -> Result<(), ActionError> {
    let author = team.resolve(message.speaker.name());
    for name in message.addressees() {
        if NameKey::new(name).is_all() {
            continue;
        }
        let member = team.resolve(name);
        if member.is_none() {
            let members: Vec<&str> = team.names().map(MemberName::as_str).collect();
            let members = members.join(", ");
            return Err(ActionError(format!(
                "no member has the name `{name}`; the members are {members}"
            )));
        }
        if member == author {
            return Err(ActionError(format!(
                "`{name}` is the author of the message; address another member"
            )));
        }
    }
    Ok(())
}

/// Handles a request while a turn runs. Returns whether a message was put into the inbox.
async fn interject(controls: Controls, request: HeldRequest) -> bool {
    let refuse = |why: &str| Err(ActionError(why.to_owned()));
    let (reply, result) = match request {
        HeldRequest::Act(request, reply) => {
            let done = match request {
                SessionRequest::Say(message) => match controls.interject(*message).await {
                    Ok(()) => Ok(ActionResult { message: None, waits: true }),
                    Err(error) => refuse(&error.to_string()),
                },
                SessionRequest::Continue => Ok(ActionResult { message: None, waits: false }),
                SessionRequest::Retry(_) => {
                    refuse("a turn is running; try again when it has ended")
                }
            };
            (reply, done)
        }
        HeldRequest::Release(reply) => (reply, refuse("a turn is running; cancel it first")),
    };
    let is_message = result.as_ref().is_ok_and(|done| done.waits);
    let _ = reply.send(result);
    is_message
}
