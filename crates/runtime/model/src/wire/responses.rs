//! The stream of the Responses API.

use std::borrow::Cow;

use convoke_protocol::usage::Usage;
use convoke_thread::item::{ContentItem, ResponseItem};
use convoke_wire::sse::{Data, SseEvent};
use convoke_wire::usage::of_openai;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bounds::{self, ResponseRoom};
use super::{BoundedText, FinishReason, ParsedResponse, ResponseDelta, unreadable};
use crate::client::CallError;

/// Parses a response of the Responses API.
#[derive(Debug)]
pub(crate) struct ResponsesReader {
    /// The room for items.
    room: ResponseRoom,
    items: Vec<ResponseItem>,
    /// The streamed text of the current message, in case the complete item does not arrive.
    text: BoundedText,
    /// The remaining bytes of deltas to show, for messages and for reasoning.
    shown: [usize; 2],
    cut_bytes: u64,
    usage: Option<Usage>,
    model: Option<String>,
    stopped: Option<FinishReason>,
}

/// The fields of an event. Deltas, by far the most frequent events, borrow from the line.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    delta: Option<Cow<'a, str>>,
    item: Option<Value>,
    response: Option<Value>,
    error: Option<Value>,
    code: Option<Value>,
    message: Option<Value>,
}

/// The events that are parsed, except `response.created`, which only names the model.
const EVENTS_READ: [&str; 10] = [
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.output_item.done",
    "response.completed",
    "response.done",
    "response.incomplete",
    "response.failed",
    "error",
];

impl ResponsesReader {
    pub fn new(limit: usize) -> Self {
        Self {
            room: ResponseRoom::new(limit),
            items: Vec::new(),
            text: BoundedText::default(),
            shown: [limit; 2],
            cut_bytes: 0,
            usage: None,
            model: None,
            stopped: None,
        }
    }

    pub fn event(&mut self, event: SseEvent, deltas: &mut impl Extend<ResponseDelta>) {
        let data = match event.data {
            Data::Whole(data) => data,
            Data::Oversized => return self.oversized(&event.name, deltas),
        };
        if data.trim() == "[DONE]" {
            return;
        }
        match serde_json::from_str::<Event<'_>>(&data) {
            Ok(event) => self.read(event, deltas),
            Err(_) if is_of_no_concern(&data) => {}
            Err(error) => deltas.extend([unreadable(&error)]),
        }
    }

    fn read(&mut self, event: Event<'_>, deltas: &mut impl Extend<ResponseDelta>) {
        let delta = event.delta.unwrap_or_default();
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                if event.kind == "response.refusal.delta" {
                    self.stopped = Some(FinishReason::Refused);
                }
                let kept = self.text.push(&delta, self.room.for_text());
                let shown = show(&delta[..kept], &mut self.shown[0]);
                deltas.extend(shown.map(ResponseDelta::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.extend(show(&delta, &mut self.shown[1]).map(ResponseDelta::Thought));
            }
            "response.created" => self.note_model(event.response.as_ref()),
            "response.output_item.done" => {
                let failed = self.item(event.item.unwrap_or_default()).err();
                deltas.extend(failed.map(ResponseDelta::Failed));
            }
            "response.completed" | "response.done" => self.completed(event.response, deltas),
            "response.incomplete" => {
                let response = event.response.unwrap_or_default();
                let reason = response["incomplete_details"]["reason"].as_str();
                self.stopped = Some(match reason {
                    Some("content_filter") => FinishReason::Refused,
                    _ => FinishReason::OutputFull,
                });
                self.completed(Some(response), deltas);
            }
            "response.failed" => {
                let response = event.response.unwrap_or_default();
                deltas.extend([ResponseDelta::Failed(CallError::from_event(&response["error"]))]);
            }
            "error" => {
                let own = json!({"code": event.code, "message": event.message});
                let error = event.error.unwrap_or(own);
                deltas.extend([ResponseDelta::Failed(CallError::from_event(&error))]);
            }
            // All other events announce or repeat these.
            _ => {}
        }
    }

    /// Handles an event over the size limit, using only its name.
    fn oversized(&mut self, name: &str, deltas: &mut impl Extend<ResponseDelta>) {
        match name {
            "response.output_item.done" => {
                deltas.extend(self.keep_streamed_text().err().map(ResponseDelta::Failed));
            }
            "response.completed" => deltas.extend([ResponseDelta::Over]),
            _ => {}
        }
    }

    fn item(&mut self, mut item: Value) -> Result<(), CallError> {
        if as_output_text(&mut item) {
            self.stopped = Some(FinishReason::Refused);
        }
        as_json_text(item.get_mut("arguments"));
        match ResponseItem::try_from(item) {
            Ok(ResponseItem::Other(_)) => Ok(()),
            Ok(item) => {
                if item.role().is_some() {
                    self.text = BoundedText::default();
                }
                self.keep(item)
            }
            // Keep the streamed text, if there is any.
            Err(_) => self.keep_streamed_text(),
        }
    }

    fn keep(&mut self, mut item: ResponseItem) -> Result<(), CallError> {
        self.cut_bytes += self.room.admit(&mut item)?;
        self.items.push(item);
        Ok(())
    }

    fn keep_streamed_text(&mut self) -> Result<(), CallError> {
        let text = std::mem::take(&mut self.text);
        self.cut_bytes += text.cut;
        if text.text.is_empty() {
            return Ok(());
        }
        self.keep(ResponseItem::message("assistant", vec![ContentItem::OutputText(text.text)]))
    }

    fn completed(&mut self, response: Option<Value>, deltas: &mut impl Extend<ResponseDelta>) {
        let mut response = response.unwrap_or_default();
        self.note_model(Some(&response));
        self.usage = response.get("usage").and_then(of_openai);
        let output = response.get_mut("output").map(Value::take);
        let kept = self.keep_streamed_text().and_then(|()| match output {
            Some(Value::Array(output)) if self.items.is_empty() => {
                output.into_iter().try_for_each(|item| self.item(item))
            }
            _ => Ok(()),
        });
        deltas.extend([kept.err().map_or(ResponseDelta::Over, ResponseDelta::Failed)]);
    }

    fn note_model(&mut self, response: Option<&Value>) {
        let named = response.and_then(|it| it.get("model")).and_then(Value::as_str);
        self.model = named.and_then(bounds::model).or(self.model.take());
    }

    pub fn into_response(mut self) -> ParsedResponse {
        // Fails only in a failed response.
        let _ = self.keep_streamed_text();
        ParsedResponse {
            items: self.items,
            usage: self.usage,
            model: self.model,
            stopped: self.stopped,
            cut_bytes: self.cut_bytes,
        }
    }
}

/// Returns the part of a piece that may be shown.
fn show(piece: &str, room: &mut usize) -> Option<String> {
    let shown = &piece[..piece.floor_char_boundary(*room)];
    *room = if shown.len() < piece.len() { 0 } else { *room - shown.len() };
    (!shown.is_empty()).then(|| shown.to_owned())
}

/// Returns whether an unreadable event can be ignored.
fn is_of_no_concern(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let named = serde_json::from_str::<Named<'_>>(data);
    named.is_ok_and(|event| !EVENTS_READ.contains(&&*event.kind))
}

/// Converts arguments to JSON text, for servers that send the JSON value itself.
fn as_json_text(arguments: Option<&mut Value>) {
    if let Some(arguments) = arguments.filter(|it| it.is_object() || it.is_array()) {
        *arguments = Value::String(arguments.to_string());
    }
}

/// Converts refusals in a message to text. Returns whether there are any.
fn as_output_text(item: &mut Value) -> bool {
    let Some(Value::Array(parts)) = item.get_mut("content") else { return false };
    let mut has_refused = false;
    for part in parts {
        if part["type"] == "refusal" {
            has_refused = true;
            let text = part.get_mut("refusal").map_or(Value::Null, Value::take);
            *part = json!({"type": "output_text", "text": text});
        }
    }
    has_refused
}
