//! The threads of models, in the store of sessions.

use convoke_model::store::{StoreError, Stored};
use convoke_model::{ThreadId, ThreadStore, log};
use convoke_session::SqliteStore;
use convoke_session::store::{Store as _, StoreError as SessionStoreError};
use convoke_session::transfer::BadThread;

/// Keeps threads in the store of sessions.
#[derive(Debug, Clone)]
pub struct StoredThreads(pub SqliteStore);

impl ThreadStore for StoredThreads {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move {
            let lines = self.0.thread(thread.as_str()).await;
            let lines = lines.map_err(|error| StoreError::Failed(error.to_string()))?;
            Ok(lines.into_iter().map(|line| line.text).collect())
        })
    }

    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        lines: Vec<String>,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            let added = self.0.extend_thread(thread.as_str(), known, &lines).await;
            added.map_err(|error| match error {
                SessionStoreError::ThreadChanged(_) => StoreError::Conflict(thread.clone()),
                error => StoreError::Failed(error.to_string()),
            })
        })
    }
}

/// Refuses what an imported session brings as a thread and is none.
pub fn check(lines: &[&str]) -> Result<(), BadThread> {
    log::check(lines).map_err(|bad| BadThread { line: bad.line, reason: bad.reason })
}
