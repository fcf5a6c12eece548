//! Failpoints: the process ends at the n-th write, or a task panics, for tests of what that leaves behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Aborts the process at the n-th write; by default never.
#[derive(Debug, Clone, Default)]
pub struct Failpoint(Option<Arc<AtomicU64>>);

impl Failpoint {
    /// Aborts the process at the `nth` write, from 1.
    pub fn at(nth: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(nth))))
    }

    /// Counts a write point.
    pub fn reach(&self) {
        if let Some(left) = &self.0
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            // No destructor runs and nothing is flushed, as with `kill -9`.
            std::process::abort();
        }
    }
}

/// The task that panics, if a test asked for one.
static PANICKING: OnceLock<String> = OnceLock::new();

/// Makes a task of this process panic. For the binary alone, so that a test can ask an installed program for it.
pub fn panic_in(task: impl Into<String>) {
    // The first choice holds.
    let _ = PANICKING.set(task.into());
}

/// Ends a task that was chosen by [`panic_in`].
///
/// # Panics
///
/// Panics if this task was chosen.
pub fn reach_task(task: &str) {
    let is_chosen = PANICKING.get().is_some_and(|chosen| chosen == task);
    assert!(!is_chosen, "the task `{task}` was chosen to panic");
}
