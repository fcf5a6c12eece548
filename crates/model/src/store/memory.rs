//! Threads in memory, for tests and for conversations that nobody wants to keep.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{KeptRequest, NewRequest, StoreError, Stored, ThreadId, ThreadStore};

/// Keeps threads while the program runs.
#[derive(Debug, Default)]
pub struct MemoryStore {
    threads: Mutex<HashMap<ThreadId, Vec<String>>>,
    requests: Mutex<HashMap<ThreadId, Vec<MemoryRequest>>>,
}

/// A request in memory.
#[derive(Debug, Clone)]
pub struct MemoryRequest {
    /// What is known of it.
    pub about: String,
    /// Its texts.
    pub kept: KeptRequest,
    /// What came of it.
    pub outcome: Option<String>,
}

impl MemoryStore {
    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<String>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_requests(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<MemoryRequest>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests of a thread, oldest first.
    pub fn requests(&self, thread: &ThreadId) -> Vec<MemoryRequest> {
        self.all_requests().get(thread).cloned().unwrap_or_default()
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

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<KeptRequest>> {
        let requests = self.all_requests();
        let last = requests.get(thread).and_then(|it| it.last()).map(|it| it.kept.clone());
        Box::pin(std::future::ready(Ok(last)))
    }

    fn keep_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        request: NewRequest<'s>,
    ) -> Stored<'s, u64> {
        let mut requests = self.all_requests();
        let requests = requests.entry(thread.clone()).or_default();
        let number = requests.len() as u64 + 1;
        let (body, ledger) = (request.body.to_owned(), request.ledger.to_owned());
        let kept = KeptRequest { number, body, ledger };
        requests.push(MemoryRequest { about: request.about.to_owned(), kept, outcome: None });
        Box::pin(std::future::ready(Ok(number)))
    }

    fn note_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: String,
    ) -> Stored<'s, ()> {
        let mut requests = self.all_requests();
        let requests = requests.get_mut(thread).into_iter().flatten();
        for request in requests.filter(|request| request.kept.number == number) {
            request.outcome = Some(outcome.clone());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
