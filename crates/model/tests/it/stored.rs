//! Threads in the store of sessions, as the binary keeps them.

use convoke_model::store::{StoreError, Stored};
use convoke_model::{ThreadId, ThreadStore};
use convoke_session::{SqliteStore, Store as _, StoreError as SessionStoreError};

pub struct StoredThreads(pub SqliteStore);

impl ThreadStore for StoredThreads {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move {
            let lines = self.0.thread(thread.as_str()).await.unwrap();
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
