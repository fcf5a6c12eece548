//! The progress of an undo or a merge, for a person who waits for it.

use std::fmt;
use std::sync::Arc;

/// A callback for the progress of an undo or a merge.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(usize, usize) + Send + Sync>>);

impl Progress {
    /// Calls a function with the number of completed steps and of all steps.
    pub fn new(report: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    pub(crate) fn report(&self, done: usize, all: usize) {
        if let Some(report) = &self.0 {
            report(done, all);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
