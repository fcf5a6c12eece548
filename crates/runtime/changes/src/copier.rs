//! The background copy of a directory's contents, so that no turn waits for a first copy.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::content::{ContentWriter, Copied, Job, parts};
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::tree_path::TreePath;

/// The time that the files which are stored together may take.
const PART_TIME: Duration = Duration::from_mins(1);

/// The time that is waited for a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// For all files.
    pub(crate) all: Duration,
    /// For files that have no other copy, since the last progress.
    pub(crate) lone: Duration,
    /// For such files, at most.
    pub(crate) lone_most: Duration,
}

/// A background copy. Its thread ends when the queue is empty, or with the process.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Copies what is in the queue.
    writer: Option<ContentWriter>,
    queue: VecDeque<Job>,
    copied: Copied,
    /// The number of files until the last that is waited for is copied: those that are being copied, and the first of the
    /// queue.
    lone: usize,
    /// The number of files that are being copied.
    copying: usize,
    is_running: bool,
    /// Why the last copy stopped before its end.
    failure: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a copy that failed. The files that wait stay without one; the records say so, with the reason.
    fn stop(&self, why: &ChangesError) {
        let mut state = self.state();
        state.failure = Some(why.to_string());
        state.queue.clear();
        (state.copying, state.is_running) = (0, false);
        self.changed.notify_all();
    }
}

impl Copier {
    /// Replaces the queue; files that are being copied are not copied again. Waits for all of them, and longer for the first
    /// ones, which have no other copy. Returns whether all were copied.
    pub(crate) fn copy(
        &self,
        writer: &ContentWriter,
        jobs: Vec<Job>,
        lone: usize,
        wait: Wait,
    ) -> bool {
        let began = Instant::now();
        let mut state = self.shared.state();
        state.writer = Some(writer.clone());
        state.queue = jobs.into();
        state.lone = if lone == 0 { 0 } else { state.copying + lone };
        if !state.is_running && !state.queue.is_empty() {
            (state.is_running, state.failure) = (true, None);
            let shared = self.shared.clone();
            thread::spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| run(&shared)));
                let end = end.unwrap_or_else(|panic| Err(ChangesError::panicked(&*panic)));
                if let Err(error) = end {
                    shared.stop(&error);
                }
            });
        }
        let mut last_progress = Instant::now();
        while state.is_running && state.lone > 0 {
            let copied = state.copied.len();
            let left = wait.lone_most.saturating_sub(began.elapsed());
            let left = left.min(wait.lone.saturating_sub(last_progress.elapsed()));
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.copied.len() > copied {
                last_progress = Instant::now();
            }
        }
        let left = wait.all.saturating_sub(began.elapsed());
        let waited = self.shared.changed.wait_timeout_while(state, left, |state| state.is_running);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    /// Copies those of some files that are cloned before all others, and waits for that.
    pub(crate) fn copy_clones(&self, paths: &HashSet<&TreePath>, wait: Duration) {
        let mut state = self.shared.state();
        let is_asked = |job: &Job| job.is_cloned() && paths.contains(&job.path);
        let (first, others): (Vec<Job>, Vec<Job>) = state.queue.drain(..).partition(is_asked);
        // Those that are being copied come before them, and may be among them.
        state.lone = state.copying + first.len();
        state.queue = first.into_iter().chain(others).collect();
        let is_waiting = |state: &mut State| state.is_running && state.lone > 0;
        let _ = self.shared.changed.wait_timeout_while(state, wait, is_waiting);
    }

    /// Returns what was copied since the last call of [`Self::forget`].
    pub(crate) fn copied(&self) -> Copied {
        self.shared.state().copied.clone()
    }

    /// Forgets what was copied, once it is part of a stored manifest.
    pub(crate) fn forget(&self) {
        self.shared.state().copied.clear();
    }

    /// Returns why the last copy stopped before its end.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.state().failure.clone()
    }

    /// Returns whether files wait to be copied.
    pub(crate) fn is_running(&self) -> bool {
        self.shared.state().is_running
    }
}

/// Copies what is in the queue until it is empty.
fn run(shared: &Shared) -> Result<(), ChangesError> {
    let mut staged = None;
    loop {
        let mut state = shared.state();
        let count = parts(state.queue.make_contiguous()).first().map_or(0, |part| part.len());
        let jobs: Vec<Job> = state.queue.drain(..count).collect();
        state.copying = jobs.len();
        let writer = state.writer.clone();
        let Some(writer) = writer.filter(|_| !jobs.is_empty()) else {
            // The directory is not held any longer.
            state.writer = None;
            state.is_running = false;
            shared.changed.notify_all();
            return Ok(());
        };
        drop(state);
        let staged = staged.get_or_insert_with(|| writer.staged());
        writer.copy(&jobs, staged, Deadline::within(PART_TIME), |copied| {
            shared.state().copied.extend(copied);
            shared.changed.notify_all();
            true
        })?;
        let mut state = shared.state();
        state.copying = 0;
        state.lone = state.lone.saturating_sub(jobs.len());
        shared.changed.notify_all();
    }
}
