//! The two wires: from the events of a stream to what the model said.

mod bounds;
mod chat;
pub(crate) mod dialect;
mod responses;
pub(crate) mod strings;

use std::collections::VecDeque;

use convoke_agent::usage::Usage;
use convoke_thread::config::Wire;
use convoke_thread::item::ResponseItem;
use convoke_wire::sse::{SseEvent, SseReader};

use crate::client::CallError;

/// What an answer comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The items, whole, in the order of the stream.
    pub items: Vec<ResponseItem>,
    /// The tokens, when the server counted them.
    pub usage: Option<Usage>,
    /// The model, when the server named it.
    pub model: Option<String>,
    /// Why the model stopped before it was done, if it did.
    pub stopped: Option<FinishReason>,
    /// The bytes of text that were over the limit and left out.
    pub cut_bytes: u64,
}

/// Why a model stopped before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// It reached its limit of output tokens.
    OutputFull,
    /// A filter stopped it.
    Refused,
}

/// A piece of an answer, as it streams in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseDelta {
    Text(String),
    Thought(String),
    /// The terminal event came.
    Over,
    /// The answer itself says that it failed.
    Failed(CallError),
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) enum Reader {
    Responses(responses::Reader),
    Chat(chat::Reader),
}

impl Reader {
    /// Creates a reader that keeps at most `limit` bytes of messages, as many of reasoning, and as many of calls.
    pub fn new(wire: Wire, limit: usize) -> Self {
        match wire {
            Wire::Responses => Self::Responses(responses::Reader::new(limit)),
            Wire::Chat => Self::Chat(chat::Reader::new(limit)),
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: SseEvent, heard: &mut impl Extend<ResponseDelta>) {
        match self {
            Self::Responses(reader) => reader.event(event, heard),
            Self::Chat(reader) => reader.event(event, heard),
        }
    }

    /// Returns whether the answer was whole when the stream ended without more.
    pub fn is_whole_at_end(&self) -> bool {
        match self {
            Self::Responses(_) => false,
            Self::Chat(reader) => reader.has_finished(),
        }
    }

    /// Returns what the answer came to.
    pub fn into_answer(self) -> Answer {
        match self {
            Self::Responses(reader) => reader.into_answer(),
            Self::Chat(reader) => reader.into_answer(),
        }
    }
}

/// Reads a whole stream of bytes that was recorded, and keeps at most `limit` bytes of each kind of text.
///
/// Errors in the stream end it; the answer is what came before.
pub fn read_stream(wire: Wire, bytes: &[u8], limit: usize) -> Answer {
    let mut sse = SseReader::new(bytes.len());
    let mut events = VecDeque::new();
    sse.push(bytes, &mut events);
    events.extend(sse.finish());
    let mut reader = Reader::new(wire, limit);
    let mut heard = Vec::new();
    for event in events {
        reader.event(event, &mut heard);
        if heard.iter().any(|heard| matches!(heard, ResponseDelta::Over | ResponseDelta::Failed(_)))
        {
            break;
        }
        heard.clear();
    }
    reader.into_answer()
}

/// A text that grows up to a limit.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    cut: u64,
}

impl Bounded {
    /// Adds a piece, and returns how many bytes of it there was room for.
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

/// Says why an event cannot be read: JSON of another form stays what it is, and all else was damaged on
/// its way.
fn unreadable(error: &serde_json::Error) -> ResponseDelta {
    ResponseDelta::Failed(if error.is_data() {
        CallError::Shape(format!("an event has another form ({error})"))
    } else {
        CallError::Cut(format!("an event is not JSON ({error})"))
    })
}

#[cfg(test)]
mod tests;
