//! The cancellation of a call by its client.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Action = Box<dyn FnOnce() + Send>;

/// Whether a call was cancelled, and the action for that case. Clones belong to the same call.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    #[default]
    Open,
    Prepared(Action),
    Cancelled,
}

impl Cancellation {
    /// Sets the action to run when the call is cancelled, replacing an earlier one. Runs it immediately if the
    /// call was already cancelled.
    pub fn on_cancel(&self, action: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if matches!(*state, State::Cancelled) {
            drop(state);
            action();
        } else {
            *state = State::Prepared(Box::new(action));
        }
    }

    /// Returns whether the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.state(), State::Cancelled)
    }

    /// Cancels the call.
    pub(super) fn cancel(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Cancelled);
        if let State::Prepared(action) = state {
            action();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation").field(&self.is_cancelled()).finish()
    }
}
