//! Reads the response of one attempt.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use convoke_protocol::verdict::FailureReason;
use convoke_thread::config::Wire;
use convoke_wire::sse::{Data, SseEvent, SseReader};

use super::{CallError, CallEvent, CallLimits};
use crate::wire::dialect::{format_of, mismatch};
use crate::wire::{ParsedResponse, ResponseDelta, ResponseReader};

/// A streamed response.
#[derive(Debug)]
pub(super) struct Stream {
    response: reqwest::Response,
    sse: SseReader,
    reader: ResponseReader,
    idle: Duration,
    bytes_left: u64,
    answer_bytes: u64,
    kind: ContentType,
    /// Whether a complete event has arrived.
    has_events: bool,
    wire: Wire,
    /// Whether an event was recognised as one of the configured wire.
    is_recognised: bool,
}

/// The content type of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ContentType {
    /// Events.
    Events,
    /// Unclear, because not every server sends the right content type.
    Unclear(String),
    /// Certainly not events.
    Other(String),
}

impl ContentType {
    fn from_response(response: &reqwest::Response) -> Self {
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*kind {
            "text/event-stream" => Self::Events,
            "application/json" => Self::Other(kind),
            other if other.contains("html") => Self::Other(kind),
            _ => Self::Unclear(kind),
        }
    }
}

/// The state of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    More,
    Over,
}

impl Stream {
    pub fn new(response: reqwest::Response, wire: Wire, limits: &CallLimits) -> Self {
        let kind = ContentType::from_response(&response);
        Self {
            response,
            sse: SseReader::new(limits.event_bytes),
            reader: ResponseReader::new(wire, limits.reply_bytes),
            idle: limits.idle,
            bytes_left: limits.answer_bytes,
            answer_bytes: limits.answer_bytes,
            kind,
            has_events: false,
            wire,
            is_recognised: false,
        }
    }

    /// Reads the next piece and adds its events.
    pub async fn advance(
        &mut self,
        events: &mut VecDeque<CallEvent>,
    ) -> Result<Advance, CallError> {
        if let ContentType::Other(kind) = &self.kind {
            return Err(no_stream(kind));
        }
        let Ok(read) = tokio::time::timeout(self.idle, self.response.chunk()).await else {
            return Err(CallError::Idle(self.idle));
        };
        match read {
            Ok(Some(piece)) => self.piece(&piece, events),
            Ok(None) => self.end(events),
            Err(_) if self.reader.is_whole_at_end() => Ok(Advance::Over),
            Err(_) => Err(CallError::Cut("the connection was lost".to_owned())),
        }
    }

    pub fn into_response(self) -> ParsedResponse {
        self.reader.into_response()
    }

    fn piece(
        &mut self,
        piece: &Bytes,
        events: &mut VecDeque<CallEvent>,
    ) -> Result<Advance, CallError> {
        let left = self.bytes_left.checked_sub(piece.len() as u64);
        self.bytes_left = left.ok_or(CallError::Flood(self.answer_bytes))?;
        let mut found = VecDeque::new();
        self.sse.push(piece, &mut found);
        self.has_events |= !found.is_empty();
        let mut deltas = Vec::new();
        for event in found {
            self.recognise(&event)?;
            self.reader.event(event, &mut deltas);
        }
        report(deltas, events)
    }

    /// Ends a stream of another wire format immediately, because another attempt would give the same.
    fn recognise(&mut self, event: &SseEvent) -> Result<(), CallError> {
        if self.is_recognised {
            return Ok(());
        }
        let Data::Whole(data) = &event.data else { return Ok(()) };
        let Some(format) = format_of(data) else { return Ok(()) };
        self.is_recognised = true;
        mismatch(format, self.wire).map_or(Ok(()), Err)
    }

    fn end(&mut self, events: &mut VecDeque<CallEvent>) -> Result<Advance, CallError> {
        let mut deltas = Vec::new();
        if let Some(event) = self.sse.finish() {
            self.has_events = true;
            self.recognise(&event)?;
            self.reader.event(event, &mut deltas);
        }
        if report(deltas, events)? == Advance::Over || self.reader.is_whole_at_end() {
            return Ok(Advance::Over);
        }
        let has_data = self.bytes_left < self.answer_bytes;
        match &self.kind {
            ContentType::Unclear(kind) if has_data && !self.has_events => {
                return Err(no_stream(kind));
            }
            _ => {}
        }
        Err(CallError::Cut("the stream ended without its terminal event".to_owned()))
    }
}

/// Creates the error of a response that is not an event stream.
fn no_stream(kind: &str) -> CallError {
    let kind = match kind.get(..60).unwrap_or(kind) {
        "" => String::new(),
        kind => format!(" (content-type `{kind}`)"),
    };
    let message = format!("the response is not an event stream{kind}; check `base-url` and `wire`");
    CallError::Reported { reason: FailureReason::Request, message }
}

/// Converts deltas to events, up to the end.
fn report(
    deltas: Vec<ResponseDelta>,
    events: &mut VecDeque<CallEvent>,
) -> Result<Advance, CallError> {
    for delta in deltas {
        match delta {
            ResponseDelta::Text(text) => events.push_back(CallEvent::Text(text)),
            ResponseDelta::Thought(text) => events.push_back(CallEvent::Thought(text)),
            ResponseDelta::Over => return Ok(Advance::Over),
            ResponseDelta::Failed(error) => return Err(error),
        }
    }
    Ok(Advance::More)
}
