//! One attempt's answer, read from the socket.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use convoke_agent::verdict::Reason;
use convoke_thread::config::Wire;

use super::{CallError, CallEvent, CallLimits};
use crate::sse::SseReader;
use crate::wire::{Answer, Heard, Reader};

/// An answer that streams in.
#[derive(Debug)]
pub(super) struct Stream {
    response: reqwest::Response,
    sse: SseReader,
    reader: Reader,
    idle: Duration,
    bytes_left: u64,
    answer_bytes: u64,
    has_events: bool,
}

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    More,
    Over,
}

impl Stream {
    pub fn new(response: reqwest::Response, wire: Wire, limits: &CallLimits) -> Self {
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("text/event-stream");
        let has_events = !kind.starts_with("application/json") && !kind.contains("html");
        Self {
            response,
            sse: SseReader::new(limits.event_bytes),
            reader: Reader::new(wire, limits.reply_bytes),
            idle: limits.idle,
            bytes_left: limits.answer_bytes,
            answer_bytes: limits.answer_bytes,
            has_events,
        }
    }

    /// Reads the next piece and adds what it says.
    pub async fn advance(
        &mut self,
        events: &mut VecDeque<CallEvent>,
    ) -> Result<Advance, CallError> {
        if !self.has_events {
            let message = "the answer is no stream of events; does this address speak this wire?";
            return Err(CallError::Said { reason: Reason::Request, message: message.to_owned() });
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

    pub fn into_answer(self) -> Answer {
        self.reader.into_answer()
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
        let mut heard = Vec::new();
        for event in found {
            self.reader.event(event, &mut heard);
        }
        tell(heard, events)
    }

    fn end(&mut self, events: &mut VecDeque<CallEvent>) -> Result<Advance, CallError> {
        let mut heard = Vec::new();
        if let Some(event) = self.sse.finish() {
            self.reader.event(event, &mut heard);
        }
        if tell(heard, events)? == Advance::Over || self.reader.is_whole_at_end() {
            return Ok(Advance::Over);
        }
        Err(CallError::Cut("the stream ended without its terminal event".to_owned()))
    }
}

/// Hands on what was heard, up to the end.
fn tell(heard: Vec<Heard>, events: &mut VecDeque<CallEvent>) -> Result<Advance, CallError> {
    for heard in heard {
        match heard {
            Heard::Text(text) => events.push_back(CallEvent::Text(text)),
            Heard::Thought(text) => events.push_back(CallEvent::Thought(text)),
            Heard::Over => return Ok(Advance::Over),
            Heard::Failed(error) => return Err(error),
        }
    }
    Ok(Advance::More)
}
