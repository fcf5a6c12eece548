//! Controls of a running conversation.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::PersonMessage;

/// Controls a running conversation from any task. Clones control the same one.
#[derive(Debug, Clone)]
pub struct Controls {
    stop_request: Arc<watch::Sender<StopRequest>>,
    inbox: mpsc::UnboundedSender<PersonMessage>,
}

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopRequest {
    /// None.
    GoOn,
    /// Cancel the running turn.
    CancelTurn,
    /// Stop at once.
    Leave,
}

impl Controls {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<PersonMessage>) {
        let (inbox, said) = mpsc::unbounded_channel();
        (Self { stop_request: Arc::new(watch::Sender::new(StopRequest::GoOn)), inbox }, said)
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
            StopRequest::GoOn => StopRequest::CancelTurn,
            StopRequest::CancelTurn | StopRequest::Leave => StopRequest::Leave,
        };
        self.raise(next);
    }

    /// Sends a message while agents run. It is stored and routed between two turns.
    pub fn interject(&self, saying: PersonMessage) {
        // Sending fails only if the coordinator is gone.
        let _ = self.inbox.send(saying);
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
                *request = StopRequest::GoOn;
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
