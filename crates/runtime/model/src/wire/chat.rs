//! The stream of Chat Completions.

use std::collections::BTreeMap;

use convoke_protocol::usage::Usage;
use convoke_thread::item::{ContentItem, FunctionCall, Reasoning, ReasoningContent, ResponseItem};
use convoke_wire::sse::{Data, SseEvent};
use convoke_wire::usage::of_openai;
use serde::Deserialize;
use serde_json::Value;

use super::bounds::{self, MAX_CALLS, ResponseRoom, expect_short};
use super::{BoundedText, FinishReason, ParsedResponse, ResponseDelta, unreadable};
use crate::client::CallError;

/// Parses a response of Chat Completions.
#[derive(Debug)]
pub(crate) struct ChatReader {
    limit: usize,
    text: BoundedText,
    thoughts: BoundedText,
    room: ResponseRoom,
    calls: BTreeMap<u64, Call>,
    finish_reason: Option<String>,
    has_refused: bool,
    usage: Option<Usage>,
    model: Option<String>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    /// The reasoning, for which servers use two names.
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// JSON text in pieces; some servers send the JSON value itself.
    arguments: Option<Value>,
}

impl ChatReader {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            text: BoundedText::default(),
            thoughts: BoundedText::default(),
            room: ResponseRoom::new(limit),
            calls: BTreeMap::new(),
            finish_reason: None,
            has_refused: false,
            usage: None,
            model: None,
        }
    }

    /// Returns whether the finish reason has arrived. Some servers end the stream with it.
    pub fn has_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    pub fn event(&mut self, event: SseEvent, deltas: &mut impl Extend<ResponseDelta>) {
        // Chunks are small; one over the limit is an error.
        let Data::Whole(data) = event.data else {
            let lost = "an event exceeds the size limit".to_owned();
            return deltas.extend([ResponseDelta::Failed(CallError::Cut(lost))]);
        };
        if data.trim() == "[DONE]" {
            return deltas.extend([if self.has_finished() {
                ResponseDelta::Over
            } else {
                let cut = "the stream ended without a finish reason".to_owned();
                ResponseDelta::Failed(CallError::Cut(cut))
            }]);
        }
        match serde_json::from_str::<Chunk>(&data) {
            Ok(chunk) => self.chunk(chunk, deltas),
            Err(error) => deltas.extend([unreadable(&error)]),
        }
    }

    fn chunk(&mut self, chunk: Chunk, deltas: &mut impl Extend<ResponseDelta>) {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return deltas.extend([ResponseDelta::Failed(CallError::from_event(&error))]);
        }
        self.model = chunk.model.and_then(|model| bounds::model(&model)).or(self.model.take());
        self.usage = chunk.usage.as_ref().and_then(of_openai).or(self.usage);
        // Only one choice was requested.
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.delta(delta, deltas);
            }
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
    }

    fn delta(&mut self, delta: Delta, deltas: &mut impl Extend<ResponseDelta>) {
        let thought = delta.reasoning_content.or_else(|| match delta.reasoning {
            Some(Value::String(text)) => Some(text),
            Some(Value::Object(mut fields)) => match fields.remove("text") {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        });
        if let Some(mut text) = thought {
            text.truncate(self.thoughts.push(&text, self.limit));
            deltas.extend(Some(text).filter(|text| !text.is_empty()).map(ResponseDelta::Thought));
        }
        self.has_refused |= delta.refusal.as_ref().is_some_and(|text| !text.is_empty());
        for mut text in [delta.content, delta.refusal].into_iter().flatten() {
            text.truncate(self.text.push(&text, self.limit));
            deltas.extend(Some(text).filter(|text| !text.is_empty()).map(ResponseDelta::Text));
        }
        let mut calls = delta.tool_calls.into_iter().flatten();
        let failed = calls.find_map(|call| self.call(call).err());
        deltas.extend(failed.map(ResponseDelta::Failed));
    }

    /// Adds a piece of a call. Servers without an index send each call whole, with an id.
    fn call(&mut self, piece: CallDelta) -> Result<(), CallError> {
        let next = self.calls.last_key_value().map_or(0, |(last, _)| last + 1);
        let last = next.saturating_sub(1);
        let index = piece.index.unwrap_or(if piece.id.is_some() { next } else { last });
        if index >= MAX_CALLS as u64 {
            let most = MAX_CALLS;
            let message = format!("a call has the number {index}, of more than {most} tool calls");
            return Err(CallError::OverLimit(message));
        }
        let call = self.calls.entry(index).or_default();
        if let Some(id) = piece.id.filter(|id| !id.is_empty()) {
            expect_short(&id)?;
            call.id = id;
        }
        if let Some(function) = piece.function {
            if let Some(name) = function.name.filter(|name| *name != call.name) {
                call.name.push_str(&name);
                expect_short(&call.name)?;
            }
            let piece = match function.arguments.unwrap_or_default() {
                Value::Null => String::new(),
                Value::String(piece) => piece,
                whole => whole.to_string(),
            };
            // Arguments are never cut.
            self.room.admit_arguments(piece.len())?;
            call.arguments.push_str(&piece);
        }
        Ok(())
    }

    pub fn into_response(self) -> ParsedResponse {
        let mut items = Vec::new();
        if !self.thoughts.text.is_empty() {
            items.push(ResponseItem::Reasoning(Reasoning {
                id: String::new(),
                summary: Vec::new(),
                content: Some(vec![ReasoningContent::ReasoningText(self.thoughts.text)]),
                encrypted_content: None,
            }));
        }
        if !self.text.text.is_empty() {
            let content = vec![ContentItem::OutputText(self.text.text)];
            items.push(ResponseItem::message("assistant", content));
        }
        for (index, call) in self.calls {
            let call_id = if call.id.is_empty() { format!("call_{index}") } else { call.id };
            let arguments = match call.arguments.trim() {
                "" => "{}".to_owned(),
                _ => call.arguments,
            };
            items.push(ResponseItem::FunctionCall(FunctionCall {
                id: None,
                name: call.name,
                arguments,
                call_id,
            }));
        }
        ParsedResponse {
            items,
            usage: self.usage,
            model: self.model,
            stopped: match self.finish_reason.as_deref() {
                _ if self.has_refused => Some(FinishReason::Refused),
                Some("length") => Some(FinishReason::OutputFull),
                Some("content_filter") => Some(FinishReason::Refused),
                _ => None,
            },
            cut_bytes: self.text.cut + self.thoughts.cut,
        }
    }
}
