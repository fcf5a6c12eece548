//! Parses the event streams of both wire formats.

mod bounds;
mod chat;
pub(crate) mod dialect;
mod responses;
pub(crate) mod strings;

use std::collections::VecDeque;

use convoke_protocol::usage::Usage;
use convoke_thread::config::Wire;
use convoke_thread::item::ResponseItem;
use convoke_wire::sse::{SseEvent, SseReader};

use crate::client::CallError;

/// A parsed response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedResponse {
    /// The items, in the order of the stream.
    pub items: Vec<ResponseItem>,
    /// The tokens, if the server counted them.
    pub usage: Option<Usage>,
    /// The model, if the server named it.
    pub model: Option<String>,
    /// The reason why the model stopped early.
    pub stopped: Option<FinishReason>,
    /// The number of bytes of text over the limit, which were left out.
    pub cut_bytes: u64,
}

/// The reason why a model stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model reached its limit of output tokens.
    OutputFull,
    /// The model refused, or a filter stopped it.
    Refused,
}

/// A piece of a streamed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseDelta {
    Text(String),
    Thought(String),
    /// The terminal event.
    Over,
    /// An error event.
    Failed(CallError),
}

/// Parses one response.
#[derive(Debug)]
pub(crate) enum ResponseReader {
    Responses(responses::ResponsesReader),
    Chat(chat::ChatReader),
}

impl ResponseReader {
    /// Creates a reader that keeps at most `limit` bytes of messages, as many of reasoning, and as many of calls.
    pub fn new(wire: Wire, limit: usize) -> Self {
        match wire {
            Wire::Responses => Self::Responses(responses::ResponsesReader::new(limit)),
            Wire::Chat => Self::Chat(chat::ChatReader::new(limit)),
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: SseEvent, deltas: &mut impl Extend<ResponseDelta>) {
        match self {
            Self::Responses(reader) => reader.event(event, deltas),
            Self::Chat(reader) => reader.event(event, deltas),
        }
    }

    /// Returns whether the response is complete if the stream ends here.
    pub fn is_whole_at_end(&self) -> bool {
        match self {
            Self::Responses(_) => false,
            Self::Chat(reader) => reader.has_finished(),
        }
    }

    /// Returns the response.
    pub fn into_response(self) -> ParsedResponse {
        match self {
            Self::Responses(reader) => reader.into_response(),
            Self::Chat(reader) => reader.into_response(),
        }
    }
}

/// Reads a whole recorded stream, keeping at most `limit` bytes of each kind of text.
///
/// An error in the stream ends it; the answer is what came before.
pub fn read_stream(wire: Wire, bytes: &[u8], limit: usize) -> ParsedResponse {
    let mut sse = SseReader::new(bytes.len());
    let mut events = VecDeque::new();
    sse.push(bytes, &mut events);
    events.extend(sse.finish());
    let mut reader = ResponseReader::new(wire, limit);
    let mut deltas = Vec::new();
    for event in events {
        reader.event(event, &mut deltas);
        if deltas
            .iter()
            .any(|delta| matches!(delta, ResponseDelta::Over | ResponseDelta::Failed(_)))
        {
            break;
        }
        deltas.clear();
    }
    reader.into_response()
}

/// A text that grows up to a limit.
#[derive(Debug, Default)]
struct BoundedText {
    text: String,
    cut: u64,
}

impl BoundedText {
    /// Adds a piece, and returns the number of bytes that fit.
    fn push(&mut self, piece: &str, limit: usize) -> usize {
        let room = limit.saturating_sub(self.text.len());
        if piece.len() <= room && self.cut == 0 {
            self.text.push_str(piece);
            return piece.len();
        }
        let kept = match self.cut {
            0 => piece.floor_char_boundary(room),
            _ => 0,
        };
        self.text.push_str(&piece[..kept]);
        self.cut += (piece.len() - kept) as u64;
        kept
    }
}

/// Returns the error of an unreadable event. JSON of another form is permanent; invalid JSON was damaged in
/// transit.
fn unreadable(error: &serde_json::Error) -> ResponseDelta {
    ResponseDelta::Failed(if error.is_data() {
        CallError::Shape(format!("an event has an unexpected form ({error})"))
    } else {
        CallError::Cut(format!("an event is not JSON ({error})"))
    })
}

#[cfg(test)]
mod tests;
