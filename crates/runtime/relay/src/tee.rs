//! Bodies that are copied while they pass: nothing is held up, and nothing is changed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use convoke_wire::AnswerReader;

/// The maximum number of bytes of all requests that are kept at a time, including those still in the queue. A program
/// that an agent runs can send many at once.
const MAX_KEPT_BYTES: usize = 256 << 20;

/// Bytes that count towards a limit of their own, and towards one that all of a relay share.
#[derive(Debug)]
pub(crate) struct KeptBytes {
    bytes: Vec<u8>,
    limit: usize,
    of_all: Arc<AtomicUsize>,
}

impl KeptBytes {
    /// Creates a copy of at most `limit` bytes. `of_all` has the bytes of all copies.
    pub fn new(limit: usize, of_all: Arc<AtomicUsize>) -> Self {
        Self { bytes: Vec::new(), limit, of_all }
    }

    /// Adds bytes, if both limits allow it. Returns whether they were added.
    fn extend(&mut self, data: &[u8]) -> bool {
        let fits = |all: usize| all.checked_add(data.len()).filter(|&all| all <= MAX_KEPT_BYTES);
        let is_kept = self.bytes.len() + data.len() <= self.limit
            && self.of_all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if is_kept {
            self.bytes.extend_from_slice(data);
        }
        is_kept
    }

    /// Creates a copy of bytes that are counted with others; `None` if the limit of all does not allow it.
    pub fn from_bytes(bytes: Vec<u8>, of_all: Arc<AtomicUsize>) -> Option<Self> {
        let fits = |all: usize| all.checked_add(bytes.len()).filter(|&all| all <= MAX_KEPT_BYTES);
        of_all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Self { limit: bytes.len(), bytes, of_all })
    }
}

impl AsRef<[u8]> for KeptBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The copy of a request's body.
pub(crate) struct BodyCopy {
    /// The bytes; `None` if there were more than are kept.
    pub kept: Option<KeptBytes>,
    pub bytes: u64,
    pub sha256: [u8; 32],
}

/// The body of a request on its way to the endpoint.
pub(crate) struct RequestTee {
    body: Incoming,
    kept: Option<KeptBytes>,
    bytes: u64,
    hash: Sha256,
    done: Option<oneshot::Sender<BodyCopy>>,
}

impl RequestTee {
    /// Copies the body into `kept`, if a copy is needed.
    pub fn new(body: Incoming, kept: KeptBytes, done: Option<oneshot::Sender<BodyCopy>>) -> Self {
        Self { body, kept: Some(kept), bytes: 0, hash: Sha256::new(), done }
    }

    fn copy(&mut self, data: &Bytes) {
        self.bytes += data.len() as u64;
        self.hash.update(data);
        if self.kept.as_mut().is_some_and(|kept| !kept.extend(data)) {
            self.kept = None;
        }
    }

    fn finish(&mut self) {
        if let Some(done) = self.done.take() {
            let sha256 = std::mem::take(&mut self.hash).finalize().into();
            // The receiver is gone when the relay has ended.
            let _ = done.send(BodyCopy { kept: self.kept.take(), bytes: self.bytes, sha256 });
        }
    }
}

impl Body for RequestTee {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && self.done.is_some()
        {
            self.copy(data);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestTee {
    /// Of a request whose body broke off, the received part was sent.
    fn drop(&mut self) {
        self.finish();
    }
}

/// The copy of an answer: its facts, or its compressed bytes.
pub(crate) struct AnswerCopy {
    pub content: AnswerContent,
    pub first_byte: Option<Duration>,
    pub elapsed: Duration,
    /// The reason why it is not the answer of a model, or not all of it.
    pub failure: Option<String>,
}

/// The content of an answer, as far as it is needed.
pub(crate) enum AnswerContent {
    /// Read as it passed.
    Read(Box<AnswerReader>),
    /// Compressed, to be decoded; `None` if there was too much of it.
    Encoded(Option<Vec<u8>>),
    /// Of no interest.
    Ignored,
}

/// The maximum number of bytes of a compressed answer that are kept until it ends.
const MAX_ENCODED_BYTES: usize = 32 << 20;

/// The body of an answer on its way to the program.
pub(crate) enum AnswerBody {
    /// The endpoint's.
    Tee(Box<AnswerTee>),
    /// One of the relay's own.
    Own(Full<Bytes>),
}

pub(crate) struct AnswerTee {
    body: Incoming,
    content: AnswerContent,
    since: Instant,
    first_byte: Option<Duration>,
    is_complete: bool,
    failure: Option<String>,
    done: Option<oneshot::Sender<AnswerCopy>>,
}

impl AnswerTee {
    /// Copies an answer; `failure` is the reason why it is not the answer of a model.
    pub fn new(
        body: Incoming,
        content: AnswerContent,
        since: Instant,
        failure: Option<String>,
        done: oneshot::Sender<AnswerCopy>,
    ) -> Self {
        Self {
            body,
            content,
            since,
            first_byte: None,
            is_complete: false,
            failure,
            done: Some(done),
        }
    }

    fn copy(&mut self, data: &Bytes) {
        self.first_byte.get_or_insert_with(|| self.since.elapsed());
        match &mut self.content {
            AnswerContent::Read(reader) => reader.push(data),
            AnswerContent::Encoded(kept) => match kept {
                Some(bytes) if bytes.len() + data.len() <= MAX_ENCODED_BYTES => {
                    bytes.extend_from_slice(data);
                }
                _ => *kept = None,
            },
            AnswerContent::Ignored => {}
        }
    }

    fn finish(&mut self) {
        let Some(done) = self.done.take() else { return };
        let mut failure = self.failure.take();
        if !self.is_complete && failure.is_none() {
            failure = Some("the program ended the request".to_owned());
        }
        let content = std::mem::replace(&mut self.content, AnswerContent::Ignored);
        let (first_byte, elapsed) = (self.first_byte, self.since.elapsed());
        // The receiver is gone when the relay has ended.
        let _ = done.send(AnswerCopy { content, first_byte, elapsed, failure });
    }
}

impl Drop for AnswerTee {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let tee = match self.get_mut() {
            Self::Own(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                return Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})));
            }
            Self::Tee(tee) => tee,
        };
        let frame = ready!(Pin::new(&mut tee.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    tee.copy(data);
                }
            }
            // An answer that breaks off breaks off for the program too.
            Some(Err(error)) => tee.failure = Some(format!("the response ended early: {error}")),
            None => {}
        }
        if frame.is_none() || tee.body.is_end_stream() {
            tee.is_complete = tee.failure.is_none();
            tee.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Tee(tee) => tee.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Tee(tee) => tee.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_copies_share_one_limit() {
        let all = Arc::default();
        let kept = || KeptBytes::new(MAX_KEPT_BYTES / 4, Arc::clone(&all));
        let quarter = vec![0; MAX_KEPT_BYTES / 4];
        let mut one = kept();
        assert!(one.extend(&quarter));
        assert!(!one.extend(b"x"), "its own limit");
        let mut others = [kept(), kept(), kept()];
        assert!(others.iter_mut().all(|other| other.extend(&quarter)));
        let mut late = kept();
        assert!(!late.extend(b"x"), "the limit of all");
        drop(one);
        assert!(late.extend(b"x"));
        drop((others, late));
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
