//! Controls: what a person can do while agents are at work.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::Saying;

/// Steers a conversation from anywhere. Clones steer the same one.
#[derive(Debug, Clone)]
pub struct Controls {
    wish: Arc<watch::Sender<Wish>>,
    inbox: mpsc::UnboundedSender<Saying>,
}

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// To go on.
    GoOn,
    /// To end the turn that is under way.
    CancelTurn,
    /// To leave, now.
    Leave,
}

impl Controls {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Saying>) {
        let (inbox, said) = mpsc::unbounded_channel();
        (Self { wish: Arc::new(watch::Sender::new(Wish::GoOn)), inbox }, said)
    }

    /// Cancels the turn that is under way: the agent is asked to stop, what it wrote is saved, and the
    /// conversation stops.
    pub fn cancel_turn(&self) {
        self.raise(Wish::CancelTurn);
    }

    /// Leaves: agents are ended without further waiting, everything is saved, and the conversation
    /// stops.
    pub fn leave(&self) {
        self.raise(Wish::Leave);
    }

    /// Does what Ctrl-C means: once, the turn is cancelled; again, the person leaves.
    pub fn interrupt(&self) {
        let next = match self.wish() {
            Wish::GoOn => Wish::CancelTurn,
            Wish::CancelTurn | Wish::Leave => Wish::Leave,
        };
        self.raise(next);
    }

    /// Says something while agents are at work. It is stored and routed between two turns.
    pub fn interject(&self, saying: Saying) {
        // Without a coordinator there is nobody to hear it.
        let _ = self.inbox.send(saying);
    }

    pub(super) fn wish(&self) -> Wish {
        *self.wish.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    /// Forgets the wish to cancel a turn that has ended.
    pub(super) fn settle(&self) {
        self.wish.send_if_modified(|wish| {
            let cancelled = *wish == Wish::CancelTurn;
            if cancelled {
                *wish = Wish::GoOn;
            }
            cancelled
        });
    }

    fn raise(&self, to: Wish) {
        self.wish.send_if_modified(|wish| {
            let raised = *wish < to;
            *wish = to.max(*wish);
            raised
        });
    }
}
