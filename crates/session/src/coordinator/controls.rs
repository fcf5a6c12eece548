//! Controls of a running conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_agent::permission::{Answerer, PermissionAnswer};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::PersonMessage;
use crate::id::TurnId;

/// The most messages that wait to be stored while a turn runs.
pub const INBOX_LIMIT: usize = 64;

/// Controls a running conversation from any task. Clones control the same one.
#[derive(Debug, Clone)]
pub struct Controls {
    stop_request: Arc<watch::Sender<StopRequest>>,
    inbox: mpsc::Sender<PersonMessage>,
    /// The answerers of each running turn's questions.
    answerers: Arc<Mutex<HashMap<TurnId, Answerer>>>,
}

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopRequest {
    /// No request.
    None,
    /// Cancel the running turn.
    CancelTurn,
    /// Stop at once.
    Leave,
}

impl Controls {
    pub(super) fn new() -> (Self, mpsc::Receiver<PersonMessage>) {
        let (inbox, messages) = mpsc::channel(INBOX_LIMIT);
        let stop_request = Arc::new(watch::Sender::new(StopRequest::None));
        (Self { stop_request, inbox, answerers: Arc::default() }, messages)
    }

    /// Cancels the running turn: the agent is asked to stop, its partial reply is stored, and the conversation
    /// stops.
    pub fn cancel_turn(&self) {
        self.raise(StopRequest::CancelTurn);
    }

    /// Leaves the conversation: agents are terminated at once, everything is stored, and the conversation stops.
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

    /// Adds a message while agents are running. It is stored and routed between two turns. Returns the message if
    /// [`INBOX_LIMIT`] messages are queued already, or the coordinator was dropped.
    pub fn interject(&self, message: PersonMessage) -> Result<(), PersonMessage> {
        self.inbox.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Closed(message) => message,
        })
    }

    /// Answers a question of an agent, by the id that its event has. An answer to a question that is not
    /// open is ignored. This is the only way to answer one: no message can.
    pub fn answer(&self, question: &str, answer: PermissionAnswer) {
        let Some((turn, id)) = question.split_once('.') else { return };
        let Ok(turn) = turn.parse().map(TurnId) else { return };
        let answerers = self.answerers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answerer) = answerers.get(&turn) {
            answerer.answer(id, answer);
        }
    }

    /// Registers the answerer of a running turn's questions.
    pub(super) fn attend(&self, turn: TurnId, answerer: Answerer) {
        self.answerers.lock().unwrap_or_else(PoisonError::into_inner).insert(turn, answerer);
    }

    /// Removes the answerer of an ended turn.
    pub(super) fn dismiss(&self, turn: TurnId) {
        self.answerers.lock().unwrap_or_else(PoisonError::into_inner).remove(&turn);
    }

    pub(super) fn stop_request(&self) -> StopRequest {
        *self.stop_request.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<StopRequest> {
        self.stop_request.subscribe()
    }

    /// Resets the request to cancel a turn that has ended.
    pub(super) fn settle(&self) {
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
