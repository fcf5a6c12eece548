//! From the copies of a request and its answer to what may be stored.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use convoke_protocol::wire::Wire;
use convoke_redact::Redactor;
use convoke_wire::encoding::unpacked;
use convoke_wire::mask::masked;
use convoke_wire::{
    AnswerFacts, AnswerReader, Exchange, ModelCall, ReceivedAnswer, RequestKind, SentRequest,
};
use hyper::HeaderMap;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use crate::stored;
use crate::tee::{AnswerContent, AnswerCopy, BodyCopy, KeptBytes};

/// The maximum number of bytes of a body, when it is decoded.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The time that an answer has to begin before the request is read. Reading a large one takes milliseconds, which a quick
/// answer would wait for on a busy machine.
const HEAD_START: Duration = Duration::from_millis(20);

/// The status and headers of an answer, and the copy of its body to come.
pub(crate) type AnswerHead = (u16, HeaderMap, oneshot::Receiver<AnswerCopy>);

/// A request that passes, as far as it is known when it is forwarded.
pub(crate) struct Passing {
    pub number: u64,
    pub wire: Wire,
    /// The head, with the target that is forwarded.
    pub head: Parts,
    pub target: PathAndQuery,
    pub body: oneshot::Receiver<BodyCopy>,
    pub answer: oneshot::Receiver<Result<AnswerHead, String>>,
    /// The bytes of all requests that are kept.
    pub kept_bytes: Arc<AtomicUsize>,
}

impl Passing {
    /// Waits for the request and its answer, and reports both if it calls a model. A request whose body takes too long to
    /// read when the relay ends is reported without it; so is one whose body could not be read, which is the error.
    pub async fn report(
        self,
        exchanges: mpsc::Sender<Exchange>,
        ended: impl Future<Output = ()>,
    ) -> Result<(), JoinError> {
        let Self { number, wire, head, target, body, mut answer, kept_bytes } = self;
        let Ok(copy) = body.await else { return Ok(()) };
        let unread = SentRequest {
            number,
            target: stored::target(&target),
            headers: stored::headers(&head.headers),
            call: ModelCall { wire, model: String::new(), streamed: false, aside: false },
            sent_bytes: copy.bytes,
            sent_sha256: hexadecimal(&copy.sha256),
            body: None,
            masked: Vec::new(),
        };
        let early = tokio::time::timeout(HEAD_START, &mut answer).await.ok();
        let secrets = stored::credentials(&head.headers, &target);
        let redactor = secrets.iter().fold(Redactor::default(), |it, secret| it.and_key(secret));
        let read = {
            let (unread, redactor) = (unread.clone(), redactor.clone());
            move || sent(unread, &head, copy, kept_bytes, &redactor)
        };
        let (request, was_read) = read_or(unread, read, ended).await;
        let Some(request) = request else { return was_read };
        let _ = exchanges.send(Exchange::Sent(request)).await;
        let answer = match early {
            Some(answer) => answer,
            None => answer.await,
        };
        let answer = match answer {
            Err(_) => failed("the program ended the request".to_owned()),
            Ok(Err(reason)) => failed(reason),
            Ok(Ok((status, headers, copy))) => match copy.await {
                Err(_) => failed("the relay ended".to_owned()),
                Ok(copy) => {
                    let read = move || received(wire, status, &headers, copy);
                    let read = tokio::task::spawn_blocking(read).await;
                    read.unwrap_or_else(|error| failed(format!("the answer was not read: {error}")))
                }
            },
        };
        let answer = redacted(answer, &redactor);
        let _ = exchanges.send(Exchange::Answered { number, answer }).await;
        was_read
    }
}

/// Reads a request where nothing else waits for it, since it may be large. One that is not read in time, or cannot be read,
/// was sent all the same: it stays unread, with the error.
async fn read_or(
    unread: SentRequest,
    read: impl FnOnce() -> Option<SentRequest> + Send + 'static,
    ended: impl Future<Output = ()>,
) -> (Option<SentRequest>, Result<(), JoinError>) {
    tokio::select! {
        biased;
        read = tokio::task::spawn_blocking(read) => match read {
            Ok(request) => (request, Ok(())),
            Err(error) => (Some(unread), Err(error)),
        },
        () = ended => (Some(unread), Ok(())),
    }
}

/// Reads the body of a request. Returns `None` if it calls no model.
fn sent(
    mut request: SentRequest,
    head: &Parts,
    copy: BodyCopy,
    kept_bytes: Arc<AtomicUsize>,
    redactor: &Redactor,
) -> Option<SentRequest> {
    let packed = copy.kept.map(Bytes::from_owner);
    let body = packed.and_then(|it| unpacked(&head.headers, it, MAX_BODY_BYTES).ok());
    // What is too large to be read still calls a model.
    let Some(body) = body else { return Some(request) };
    let RequestKind::ModelCall(call) = RequestKind::parse(head, &body) else { return None };
    request.call = call;
    let Ok((masked, places)) = masked(request.call.wire, &body) else { return Some(request) };
    drop(body);
    request.masked = places;
    let Ok(mut text) = String::from_utf8(masked) else { return Some(request) };
    let removed = redactor.redact_in_place(&mut text);
    if removed > 0 {
        request.masked.push(format!("{removed} secrets"));
    }
    request.body = KeptBytes::from_bytes(text.into_bytes(), kept_bytes).map(Bytes::from_owner);
    Some(request)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn received(wire: Wire, status: u16, headers: &HeaderMap, copy: AnswerCopy) -> ReceivedAnswer {
    let AnswerCopy { content, first_byte, elapsed, failure } = copy;
    let facts = match content {
        AnswerContent::Read(reader) => reader.finish(),
        AnswerContent::Encoded(Some(bytes)) => {
            let mut reader = AnswerReader::new(wire, content_type(headers));
            if let Ok(bytes) = unpacked(headers, bytes.into(), MAX_BODY_BYTES) {
                reader.push(&bytes);
            }
            reader.finish()
        }
        AnswerContent::Encoded(None) | AnswerContent::Ignored => AnswerFacts::default(),
    };
    ReceivedAnswer { status: Some(status), facts, first_byte, elapsed, failure }
}

/// Returns the content type of an answer.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(hyper::header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn failed(reason: String) -> ReceivedAnswer {
    ReceivedAnswer { failure: Some(reason), ..ReceivedAnswer::default() }
}

/// A server may repeat a key in what it says of an error.
fn redacted(mut answer: ReceivedAnswer, redactor: &Redactor) -> ReceivedAnswer {
    let texts = [&mut answer.facts.error, &mut answer.failure];
    for text in texts.into_iter().flatten() {
        redactor.redact_in_place(text);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_request_that_is_not_read_in_time_is_reported_without_its_body() {
        let (kept_bytes, bytes) = (Arc::default(), vec![b' '; 4 << 20]);
        let copy = BodyCopy {
            bytes: bytes.len() as u64,
            kept: KeptBytes::from_bytes(bytes, Arc::clone(&kept_bytes)),
            sha256: [7; 32],
        };
        let (body_done, body) = oneshot::channel();
        let (_, answer) = oneshot::channel();
        assert!(body_done.send(copy).is_ok());
        let (head, ()) = hyper::Request::post("/v1/messages").body(()).unwrap().into_parts();
        let target = PathAndQuery::from_static("/v1/messages");
        let passing =
            Passing { number: 3, wire: Wire::Messages, head, target, body, answer, kept_bytes };
        let (exchanges, mut reported) = mpsc::channel(4);
        passing.report(exchanges, std::future::ready(())).await.unwrap();
        let Some(Exchange::Sent(request)) = reported.recv().await else { panic!("none") };
        assert_eq!((request.number, request.sent_bytes), (3, 4 << 20));
        assert_eq!((request.sent_sha256, request.body), ("07".repeat(32), None));
        assert!(matches!(reported.recv().await, Some(Exchange::Answered { number: 3, .. })));
    }

    #[tokio::test]
    async fn a_request_whose_reading_panics_is_reported_without_its_body_and_with_the_error() {
        let call =
            ModelCall { wire: Wire::Messages, model: String::new(), streamed: false, aside: false };
        let unread = SentRequest {
            number: 3,
            target: String::new(),
            headers: Vec::new(),
            call,
            sent_bytes: 7,
            sent_sha256: String::new(),
            body: None,
            masked: Vec::new(),
        };
        let (request, was_read) = read_or(unread, || panic!("a defect"), pending()).await;
        assert_eq!(request.map(|it| (it.number, it.sent_bytes)), Some((3, 7)));
        assert!(was_read.unwrap_err().is_panic());
    }
}
