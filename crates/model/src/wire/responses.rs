//! The stream of the Responses API.

use std::borrow::Cow;

use convoke_agent::usage::Usage;
use convoke_thread::item::{ContentItem, ResponseItem};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Bounded, Heard, Stopped, not_json, usage};
use crate::client::CallError;
use crate::sse::{Data, SseEvent};

/// Reads an answer of the Responses API.
#[derive(Debug)]
pub(crate) struct Reader {
    limit: usize,
    items: Vec<ResponseItem>,
    /// The text of the message that streams, in case its whole form does not come or is too long.
    text: Bounded,
    cut_bytes: u64,
    usage: Option<Usage>,
    model: Option<String>,
    stopped: Option<Stopped>,
}

/// An event, as far as it matters. Deltas are by far the most, and borrow from the event.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
    item: Option<Value>,
    response: Option<Value>,
    error: Option<Value>,
    code: Option<Value>,
    message: Option<Value>,
}

impl Reader {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            items: Vec::new(),
            text: Bounded::default(),
            cut_bytes: 0,
            usage: None,
            model: None,
            stopped: None,
        }
    }

    pub fn event(&mut self, event: SseEvent, heard: &mut impl Extend<Heard>) {
        let data = match event.data {
            Data::Whole(data) => data,
            Data::Oversized => return self.oversized(&event.name, heard),
        };
        if data.trim() == "[DONE]" {
            return;
        }
        match serde_json::from_str::<Event<'_>>(&data) {
            Ok(event) => self.read(event, heard),
            Err(error) => heard.extend([not_json(&error)]),
        }
    }

    fn read(&mut self, event: Event<'_>, heard: &mut impl Extend<Heard>) {
        let delta = event.delta.unwrap_or_default();
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text.push(&delta, self.limit);
                heard.extend([Heard::Text(delta.into_owned())]);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                heard.extend([Heard::Thought(delta.into_owned())]);
            }
            "response.created" => self.note_model(event.response.as_ref()),
            "response.output_item.done" => self.item(event.item.unwrap_or_default()),
            "response.completed" | "response.done" => self.completed(event.response, heard),
            "response.incomplete" => {
                let response = event.response.unwrap_or_default();
                let reason = response["incomplete_details"]["reason"].as_str();
                self.stopped = Some(match reason {
                    Some("content_filter") => Stopped::Refused,
                    _ => Stopped::OutputFull,
                });
                self.completed(Some(response), heard);
            }
            "response.failed" => {
                let response = event.response.unwrap_or_default();
                heard.extend([Heard::Failed(CallError::said(&response["error"]))]);
            }
            "error" => {
                let own = json!({"code": event.code, "message": event.message});
                let error = event.error.unwrap_or(own);
                heard.extend([Heard::Failed(CallError::said(&error))]);
            }
            // All else announces or repeats what the events above carry.
            _ => {}
        }
    }

    /// Passes over an event that is too long, except for what its name says.
    fn oversized(&mut self, name: &str, heard: &mut impl Extend<Heard>) {
        match name {
            "response.output_item.done" => self.keep_streamed_text(),
            "response.completed" => heard.extend([Heard::Over]),
            _ => {}
        }
    }

    fn item(&mut self, mut item: Value) {
        as_output_text(&mut item);
        match ResponseItem::try_from(item) {
            Ok(ResponseItem::Other(_)) => {}
            Ok(item) if self.is_too_long(&item) => self.keep_streamed_text(),
            Ok(item) => {
                if item.role().is_some() {
                    self.text = Bounded::default();
                }
                self.items.push(item);
            }
            // What it says streamed in before; without that there is nothing to keep.
            Err(_) => self.keep_streamed_text(),
        }
    }

    fn is_too_long(&self, item: &ResponseItem) -> bool {
        let limit = self.limit as u64;
        item.role().is_some() && item.text_bytes() > limit && !self.text.text.is_empty()
    }

    fn keep_streamed_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.cut_bytes += text.cut;
        if !text.text.is_empty() {
            self.items
                .push(ResponseItem::message("assistant", vec![ContentItem::OutputText(text.text)]));
        }
    }

    fn completed(&mut self, response: Option<Value>, heard: &mut impl Extend<Heard>) {
        let mut response = response.unwrap_or_default();
        self.note_model(Some(&response));
        self.usage = response.get("usage").and_then(usage);
        self.keep_streamed_text();
        if self.items.is_empty()
            && let Some(Value::Array(output)) = response.get_mut("output").map(Value::take)
        {
            for item in output {
                self.item(item);
            }
        }
        heard.extend([Heard::Over]);
    }

    fn note_model(&mut self, response: Option<&Value>) {
        let named = response.and_then(|it| it.get("model")).and_then(Value::as_str);
        if let Some(model) = named.filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    pub fn into_answer(mut self) -> Answer {
        self.keep_streamed_text();
        Answer {
            items: self.items,
            usage: self.usage,
            model: self.model,
            stopped: self.stopped,
            cut_bytes: self.cut_bytes,
        }
    }
}

/// Turns refusals in a message into the text that they are.
fn as_output_text(item: &mut Value) {
    let Some(Value::Array(parts)) = item.get_mut("content") else { return };
    for part in parts {
        if part["type"] == "refusal" {
            let text = part.get_mut("refusal").map_or(Value::Null, Value::take);
            *part = json!({"type": "output_text", "text": text});
        }
    }
}
