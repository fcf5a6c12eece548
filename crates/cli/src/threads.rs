//! The threads of models, in the store of sessions.

use convoke_model::store::{StoreError, Stored};
use convoke_model::{ThreadId, ThreadStore};
use convoke_session::SqliteStore;
use convoke_session::store::sqlite::Appended;

/// Keeps threads in the store of sessions.
#[derive(Debug, Clone)]
pub struct StoredThreads(pub SqliteStore);

impl ThreadStore for StoredThreads {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move {
            let lines = self.0.thread_lines(thread.as_str()).await;
            lines.map_err(|error| StoreError::Failed(error.to_string()))
        })
    }

    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        lines: Vec<String>,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            match self.0.append_thread_lines(thread.as_str(), known, &lines).await {
                Ok(Appended::Done) => Ok(()),
                Ok(Appended::Conflict) => Err(StoreError::Conflict(thread.clone())),
                Err(error) => Err(StoreError::Failed(error.to_string())),
            }
        })
    }
}
