//! Controls of a running conversation.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_agent::approvals::{Answerer, Approvals};
use convoke_core::NewMessage;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use tokio::sync::{mpsc, watch};

use super::messages::put_message;
use crate::sharing::TurnSignal;
use crate::store::{Store, StoreError};

/// The maximum number of answers for other processes that are not sent yet.
const ANSWERS: usize = 64;

/// Passes messages to whoever runs the session, through its store.
#[derive(Clone)]
struct Messenger(Arc<PutMessage>);

type PutMessage = dyn Fn(NewMessage) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>
    + Send
    + Sync;

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Messenger")
    }
}

/// Controls a running conversation from any task. Clones control the same one.
#[derive(Debug, Clone)]
pub struct Controls {
    stop_request: Arc<watch::Sender<StopRequest>>,
    messenger: Messenger,
    /// The answerers of the questions of each running turn, with its attempt.
    answerers: Arc<Mutex<HashMap<TurnId, (u32, Answerer)>>>,
    /// The answers to questions of turns that other processes run.
    answers: mpsc::Sender<(QuestionId, PermissionAnswer)>,
    attention: Arc<Mutex<PersonPresence>>,
    approvals: Arc<[Approvals]>,
}

/// Whether a person can answer questions, and where.
#[derive(Debug, Clone, Copy)]
struct PersonPresence {
    /// In this process.
    here: bool,
    /// In another process that follows the session.
    elsewhere: bool,
}

/// The answers to questions of turns that other processes run.
pub(crate) type Answers = mpsc::Receiver<(QuestionId, PermissionAnswer)>;

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopRequest {
    /// No request.
    None,
    /// Cancel the running turn.
    CancelTurn,
    /// Stop at once.
    Leave,
}

impl Controls {
    /// Creates the controls of a conversation; `approvals` are those of its agents.
    pub(crate) fn new(
        store: &impl Store,
        session: SessionId,
        approvals: Vec<Approvals>,
    ) -> (Self, Answers) {
        let store = store.clone();
        let put = move |message| -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
            Box::pin(put_message(store.clone(), session, message))
        };
        let (answers, answered) = mpsc::channel(ANSWERS);
        let controls = Self {
            stop_request: Arc::new(watch::Sender::new(StopRequest::None)),
            messenger: Messenger(Arc::new(put)),
            answerers: Arc::default(),
            answers,
            attention: Arc::new(Mutex::new(PersonPresence { here: true, elsewhere: false })),
            approvals: approvals.into(),
        };
        (controls, answered)
    }

    /// Cancels the running turn: the agent is asked to stop, its partial reply is stored, and the conversation
    /// stops.
    pub fn cancel_turn(&self) {
        self.raise(StopRequest::CancelTurn);
    }

    /// Leaves the conversation: agents are terminated immediately, and everything is stored.
    pub fn leave(&self) {
        self.raise(StopRequest::Leave);
    }

    /// Handles Ctrl-C: once cancels the turn, twice leaves.
    pub fn interrupt(&self) {
        let next = match self.stop_request() {
            StopRequest::None => StopRequest::CancelTurn,
            StopRequest::CancelTurn | StopRequest::Leave => StopRequest::Leave,
        };
        self.raise(next);
    }

    /// Adds a message while agents are running: puts it where the session's messages arrive, in its store, where it survives the end of this
    /// process. It is stored and routed between two turns, or when the session is opened again. The conversation must
    /// make progress meanwhile.
    pub async fn interject(&self, message: NewMessage) -> Result<(), StoreError> {
        (self.messenger.0)(message).await
    }

    /// Answers a question of an agent; `question` is the id in its event. An answer to a question that is not
    /// open is ignored. Only this method answers questions: a message cannot.
    pub fn answer(&self, question: &str, answer: PermissionAnswer) {
        let Some(question) = QuestionId::parse(question) else { return };
        if !self.answer_here(&question, answer) {
            // People do not answer fast enough to fill the queue.
            let _ = self.answers.try_send((question, answer));
        }
    }

    /// Refuses a question of a turn that this process runs. Questions of other processes stay open.
    pub fn refuse(&self, question: &str) {
        if let Some(question) = QuestionId::parse(question) {
            self.answer_here(&question, PermissionAnswer::Never);
        }
    }

    /// Sets whether a person can answer questions here. If no person can, here or elsewhere, questions that no rule
    /// answers are refused.
    pub fn set_attended(&self, is_attended: bool) {
        self.attend_to(|attention| attention.here = is_attended);
    }

    /// Sets whether a person can answer questions in another process.
    pub(crate) fn set_attended_elsewhere(&self, is_attended: bool) {
        self.attend_to(|attention| attention.elsewhere = is_attended);
    }

    /// Returns whether a person can answer questions here.
    pub(crate) fn is_attended(&self) -> bool {
        self.attention().here
    }

    fn attend_to(&self, change: impl FnOnce(&mut PersonPresence)) {
        let mut attention = self.attention.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut attention);
        let is_attended = attention.here || attention.elsewhere;
        self.approvals.iter().for_each(|approvals| approvals.set_attended(is_attended));
    }

    fn attention(&self) -> PersonPresence {
        *self.attention.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a signal from another machine to a turn that this process runs. Returns whether this process
    /// runs the turn.
    pub(crate) fn apply_signal(&self, signal: &TurnSignal) -> bool {
        match signal {
            TurnSignal::Cancel(turn) => {
                let is_running = self.answerers().contains_key(turn);
                if is_running {
                    self.cancel_turn();
                }
                is_running
            }
            TurnSignal::Answer(question, answer) => self.answer_here(question, *answer),
        }
    }

    /// Answers a question of a turn that this process runs. Returns whether this process runs the turn.
    fn answer_here(&self, question: &QuestionId, answer: PermissionAnswer) -> bool {
        let answerers = self.answerers();
        let Some((attempt, answerer)) = answerers.get(&question.turn) else { return false };
        if *attempt == question.attempt {
            answerer.answer(&question.id, answer);
        }
        true
    }

    /// Registers the answerer of a running turn.
    pub(crate) fn register_answerer(&self, turn: TurnId, attempt: u32, answerer: Answerer) {
        self.answerers().insert(turn, (attempt, answerer));
    }

    /// Removes the answerer of an ended turn.
    pub(crate) fn remove_answerer(&self, turn: TurnId) {
        self.answerers().remove(&turn);
    }

    fn answerers(&self) -> MutexGuard<'_, HashMap<TurnId, (u32, Answerer)>> {
        self.answerers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop_request(&self) -> StopRequest {
        *self.stop_request.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<StopRequest> {
        self.stop_request.subscribe()
    }

    /// Resets the request to cancel, after the turn has ended.
    pub(crate) fn reset_cancel(&self) {
        self.stop_request.send_if_modified(|request| {
            let cancelled = *request == StopRequest::CancelTurn;
            if cancelled {
                *request = StopRequest::None;
            }
            cancelled
        });
    }

    fn raise(&self, to: StopRequest) {
        self.stop_request.send_if_modified(|request| {
            let raised = *request < to;
            *request = to.max(*request);
            raised
        });
    }
}
