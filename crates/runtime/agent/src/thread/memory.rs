//! Threads in memory.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_protocol::id::ThreadId;
use convoke_protocol::request::{RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};

use super::{Stored, ThreadStore, ThreadStoreError, first_kept};

/// A thread store in memory.
#[derive(Debug, Default)]
pub struct MemoryThreadStore(Mutex<HashMap<ThreadId, MemoryThread>>);

#[derive(Debug, Default)]
struct MemoryThread {
    lines: Vec<ThreadLine>,
    requests: Vec<RequestRecord>,
}

impl MemoryThreadStore {
    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, MemoryThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests of a thread with their texts, oldest first.
    pub fn records(&self, thread: &ThreadId) -> Vec<RequestRecord> {
        self.threads().get(thread).map(|it| it.requests.clone()).unwrap_or_default()
    }
}

impl ThreadStore for MemoryThreadStore {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        let lines = self.threads().get(thread).map(|it| it.lines.clone());
        Box::pin(ready(Ok(lines.unwrap_or_default())))
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        let mut threads = self.threads();
        let lines = &mut threads.entry(append.thread.clone()).or_default().lines;
        let appended = if lines.len() == append.known {
            let as_of = lines.last().and_then(|line| line.as_of);
            lines.extend(append.lines.iter().cloned().map(|text| ThreadLine { as_of, text }));
            Ok(())
        } else {
            Err(ThreadStoreError::Changed(append.thread.clone()))
        };
        Box::pin(ready(appended))
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        _: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        let mut threads = self.threads();
        let requests = &mut threads.entry(record.thread.clone()).or_default().requests;
        let number = requests.len() as u64 + 1;
        requests.push(RequestRecord { number, ..record.clone() });
        Box::pin(ready(Ok(number)))
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        let mut threads = self.threads();
        let requests = threads.get_mut(thread).into_iter().flat_map(|it| &mut it.requests);
        for request in requests.filter(|request| request.number == number) {
            request.outcome.clone_from(outcome);
        }
        Box::pin(ready(Ok(())))
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        let records = self.records(thread).into_iter();
        Box::pin(ready(Ok(records.map(|record| record.with_texts(())).collect())))
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        let found = self.records(thread).into_iter().find(|record| record.number == number);
        let none = || ThreadStoreError::NoRequest { thread: thread.clone(), number };
        Box::pin(ready(found.map(|record| record.texts).ok_or_else(none)))
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        Box::pin(ready(Ok(self.records(thread).pop())))
    }

    fn limit_texts<'s>(&'s self, thread: &'s ThreadId, max_bytes: u64) -> Stored<'s, u64> {
        let mut threads = self.threads();
        let requests = threads.get_mut(thread).map_or(&mut [][..], |it| &mut it.requests);
        let bytes = |texts: &RequestTexts| (texts.body.len() + texts.ledger.len()) as u64;
        let sizes = requests.iter().rev().map(|it| (it.number, bytes(&it.texts)));
        let first = first_kept(sizes, max_bytes).unwrap_or(0);
        let mut dropped = 0;
        for request in requests.iter_mut().filter(|it| it.number < first && !it.meta.dropped) {
            (request.meta.dropped, request.texts) = (true, RequestTexts::default());
            dropped += 1;
        }
        Box::pin(ready(Ok(dropped)))
    }
}
