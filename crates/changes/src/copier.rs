//! The background copy of a directory's contents, so that no turn waits for a first copy.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::content::{ContentWriter, Copied, Job};
use crate::error::ChangesError;
use crate::git::Deadline;

/// The files that are copied between two looks at the queue.
const BATCH: usize = 256;
/// The time that one batch may take.
const BATCH_TIME: Duration = Duration::from_mins(1);

/// A background copy. Its thread ends when the queue is empty, or with the process.
#[derive(Debug)]
pub(crate) struct Copier {
    writer: ContentWriter,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    copied: Copied,
    is_running: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a copy that failed. The files that wait stay without one; the records say so.
    fn stop(&self) {
        let mut state = self.state();
        state.queue.clear();
        state.is_running = false;
        self.changed.notify_all();
    }
}

impl Copier {
    pub(crate) fn new(writer: ContentWriter) -> Self {
        Self { writer, shared: Arc::default() }
    }

    /// Replaces the queue; files that are being copied are not copied again. Returns whether all were
    /// copied within a time.
    pub(crate) fn copy(&self, jobs: Vec<Job>, wait: Duration) -> bool {
        let mut state = self.shared.state();
        state.queue = jobs.into();
        if !state.is_running && !state.queue.is_empty() {
            state.is_running = true;
            let (writer, shared) = (self.writer.clone(), self.shared.clone());
            thread::spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| run(&writer, &shared)));
                if !matches!(end, Ok(Ok(()))) {
                    shared.stop();
                }
            });
        }
        let waited = self.shared.changed.wait_timeout_while(state, wait, |state| state.is_running);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    /// Returns what was copied since the last call of [`Self::forget`].
    pub(crate) fn copied(&self) -> Copied {
        self.shared.state().copied.clone()
    }

    /// Forgets what was copied, once it is part of a stored manifest.
    pub(crate) fn forget(&self) {
        self.shared.state().copied.clear();
    }

    /// Returns whether files wait to be copied.
    pub(crate) fn is_running(&self) -> bool {
        self.shared.state().is_running
    }
}

/// Copies what is in the queue until it is empty.
fn run(writer: &ContentWriter, shared: &Shared) -> Result<(), ChangesError> {
    let mut staged = writer.staged();
    loop {
        let mut state = shared.state();
        let count = state.queue.len().min(BATCH);
        let jobs: Vec<Job> = state.queue.drain(..count).collect();
        if jobs.is_empty() {
            state.is_running = false;
            shared.changed.notify_all();
            return Ok(());
        }
        drop(state);
        writer.copy(&jobs, &mut staged, Deadline::within(BATCH_TIME), |copied| {
            shared.state().copied.extend(copied);
            true
        })?;
    }
}
