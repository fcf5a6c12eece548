//! Records requests: each is stored with its ledger before it is sent, and its outcome afterwards.
//!
//! Neither contains the key: it is sent in a header and removed from everything else before sending, so the
//! stored body is the sent body.

use convoke_agent::clock::now;
use convoke_agent::thread::{FirstDifference, ThreadStore, ThreadStoreError};
use convoke_core::Diagnostic;
use convoke_core::ledger::Source;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::{AttemptRef, ThreadId};
use convoke_protocol::request::{
    RequestEnd, RequestMeta, RequestOutcome, RequestRecord, RequestTexts,
};
use convoke_protocol::usage::Usage;
use convoke_protocol::wire::Wire;
use convoke_thread::prompt::{self, Request};
use convoke_wire::cache::{self, common_start};

use crate::diagnostics;

/// Records the requests of one turn.
pub(crate) struct Recorder<'r> {
    store: &'r dyn ThreadStore,
    thread: &'r ThreadId,
    attempt: Option<AttemptRef>,
    /// The last request of the thread, once it was read from the store.
    last: Option<RequestRecord>,
    has_read_last: bool,
    /// Whether the last request has not ended.
    is_open: bool,
}

impl<'r> Recorder<'r> {
    pub fn new(
        store: &'r dyn ThreadStore,
        thread: &'r ThreadId,
        attempt: Option<AttemptRef>,
    ) -> Self {
        Self { store, thread, attempt, last: None, has_read_last: false, is_open: false }
    }

    /// Stores a request before it is sent. Returns its number and facts, and a diagnostic if the previous
    /// request could not be read or its prefix was changed.
    pub async fn sending(
        &mut self,
        request: &Request,
    ) -> Result<(u64, RequestMeta, Option<Diagnostic>), ThreadStoreError> {
        let mut diagnostic = None;
        if !std::mem::replace(&mut self.has_read_last, true) {
            // An unreadable predecessor must not prevent a request.
            self.last = self.store.last_request(self.thread).await.unwrap_or_else(|error| {
                let message = format!("the last request of thread {}: {error}", self.thread);
                diagnostic = Some(Diagnostic::new(diagnostics::THREAD_REQUEST_UNREADABLE, message));
                None
            });
        }
        let before = self.last.take();
        let body = &request.body;
        let purpose = match request.purpose {
            prompt::RequestPurpose::Answer => RequestPurpose::Answer,
            prompt::RequestPurpose::Compaction => RequestPurpose::Compaction,
        };
        let meta = RequestMeta {
            unchanged_bytes: before.as_ref().map_or(0, |it| common_start(&it.texts.body, body)),
            wire: Wire::at(request.path),
            ..RequestMeta::new(now(), request.path, purpose, body.len() as u64)
        };
        diagnostic = diagnostic.or_else(|| broken(before.as_ref()?, &meta, request));
        let texts = RequestTexts::new(body.clone(), &request.ledger)
            .map_err(|error| ThreadStoreError::Failed(Box::new(error)))?;
        let mut record = RequestRecord {
            thread: self.thread.clone(),
            number: before.as_ref().map_or(0, |before| before.number) + 1,
            attempt: self.attempt,
            meta: meta.clone(),
            outcome: RequestOutcome::default(),
            texts,
        };
        let before = before.as_ref().map(|before| &before.texts);
        record.number = self.store.add_request(&record, before).await?;
        let number = record.number;
        self.last = Some(record);
        self.is_open = true;
        Ok((number, meta, diagnostic))
    }

    /// Records a failed attempt that is retried.
    pub async fn attempt_failed(&mut self, why: String) -> Result<(), ThreadStoreError> {
        self.update(|outcome| outcome.failed.push(why)).await
    }

    /// Records a response.
    pub async fn answered(
        &mut self,
        usage: Option<Usage>,
        model: Option<String>,
    ) -> Result<(), ThreadStoreError> {
        let end = |outcome: &mut RequestOutcome| {
            outcome.end = Some(RequestEnd::Answered);
            outcome.usage = usage;
            outcome.model = model;
        };
        self.close(end).await
    }

    /// Records the failure of a request, and how it ended.
    pub async fn failed(&mut self, why: String, end: RequestEnd) -> Result<(), ThreadStoreError> {
        let end = |outcome: &mut RequestOutcome| {
            outcome.failed.push(why);
            outcome.end = Some(end);
        };
        self.close(end).await
    }

    /// Records the end of the open request, if there is one.
    pub async fn ended(&mut self, end: RequestEnd) -> Result<(), ThreadStoreError> {
        self.close(|outcome| outcome.end = Some(end)).await
    }

    async fn close(
        &mut self,
        change: impl FnOnce(&mut RequestOutcome),
    ) -> Result<(), ThreadStoreError> {
        self.update(change).await?;
        self.is_open = false;
        Ok(())
    }

    async fn update(
        &mut self,
        change: impl FnOnce(&mut RequestOutcome),
    ) -> Result<(), ThreadStoreError> {
        let Some(record) = &mut self.last else { return Ok(()) };
        if !self.is_open {
            return Ok(());
        }
        change(&mut record.outcome);
        self.store.set_outcome(self.thread, record.number, &record.outcome).await
    }
}

/// Returns a diagnostic if a request changed the prefix of the previous one. A compaction changes it on
/// purpose.
fn broken(before: &RequestRecord, meta: &RequestMeta, request: &Request) -> Option<Diagnostic> {
    if before.meta.purpose != meta.purpose || before.meta.wire != meta.wire {
        return None;
    }
    let segments = |meta: &RequestMeta, body: &str| {
        cache::segments(meta.wire?, &meta.path, body.as_bytes()).ok()
    };
    let earlier = segments(&before.meta, &before.texts.body)?;
    let comparison = cache::compare(&earlier, &segments(meta, &request.body)?);
    let is_ours = |source: &Source<'_>| {
        !matches!(source, Source::Model { .. } | Source::History { .. } | Source::Message { .. })
    };
    let first = FirstDifference::of(&comparison, [None, Some(&request.ledger)])?;
    first.broken_prefix(&comparison, is_ours)
}
