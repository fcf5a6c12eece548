//! Threads in memory, for tests and for conversations that nobody wants to keep.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{StoreError, Stored, ThreadId, ThreadStore};

/// Keeps threads while the program runs.
#[derive(Debug, Default)]
pub struct MemoryStore {
    threads: Mutex<HashMap<ThreadId, Vec<String>>>,
}

impl MemoryStore {
    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<String>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadStore for MemoryStore {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        let lines = self.threads().get(thread).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(lines)))
    }

    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        mut lines: Vec<String>,
    ) -> Stored<'s, ()> {
        let mut threads = self.threads();
        let kept = threads.entry(thread.clone()).or_default();
        let added = if kept.len() == known {
            kept.append(&mut lines);
            Ok(())
        } else {
            Err(StoreError::Conflict(thread.clone()))
        };
        Box::pin(std::future::ready(added))
    }
}
