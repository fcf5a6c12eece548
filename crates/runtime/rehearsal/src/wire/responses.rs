//! OpenAI Responses: `POST /v1/responses`.

use serde_json::{Value, json};

use super::moment::{Channel, Moment, moments};
use super::{FAILURE, Facts, event};
use crate::body::SendStep;
use crate::script::{End, Reply};

pub(super) fn stream(reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let mut stream = Stream::default();
    stream.send(json!({"type": "response.created", "response": response("in_progress", facts)}));
    stream
        .send(json!({"type": "response.in_progress", "response": response("in_progress", facts)}));
    let mut items = Items::new(facts);
    for moment in moments(reply) {
        let (index, id) = (items.done.len(), items.next_id());
        match moment {
            Moment::Wait(time) => stream.steps.push(SendStep::Wait(time)),
            Moment::Begins(channel) => {
                stream.item("response.output_item.added", index, &open_item(channel, &id));
                stream.part("added", channel, &id, index, "");
            }
            Moment::Chunk(channel, text) => {
                let (kind, place) = delta_of(channel);
                stream.send(json!({
                    "type": format!("{kind}.delta"), "item_id": id, "output_index": index,
                    place: 0, "delta": text,
                }));
            }
            Moment::Ends(channel, text) => {
                let (kind, place) = delta_of(channel);
                stream.send(json!({
                    "type": format!("{kind}.done"), "item_id": id, "output_index": index,
                    place: 0, "text": text,
                }));
                stream.part("done", channel, &id, index, &text);
                let item = items.push_text(channel, &text);
                stream.item("response.output_item.done", index, &item);
            }
            Moment::Call { name, input } => {
                let item = items.push_call(name, input);
                let mut opened = item.clone();
                let kind = if item["type"] == "custom_tool_call" {
                    opened["input"] = json!("");
                    "response.custom_tool_call_input"
                } else {
                    opened["arguments"] = json!("");
                    "response.function_call_arguments"
                };
                opened["status"] = json!("in_progress");
                stream.item("response.output_item.added", index, &opened);
                let text = item.get("arguments").or(item.get("input")).cloned();
                stream.send(json!({
                    "type": format!("{kind}.delta"), "item_id": id, "output_index": index, "delta": text,
                }));
                stream.item("response.output_item.done", index, &item);
            }
        }
    }
    match reply.end {
        End::Done | End::MaxTokens | End::Refused => {
            let whole = finished(reply, facts, &items.done);
            let status = whole["status"].as_str().unwrap_or_default().to_owned();
            stream.send(json!({"type": format!("response.{status}"), "response": whole}));
        }
        End::Failed => {
            let mut failed = response("failed", facts);
            failed["error"] = json!({"code": "server_error", "message": FAILURE});
            stream.send(json!({"type": "response.failed", "response": failed}));
        }
        End::Cut => stream.steps.push(SendStep::Cut),
        End::Hang => stream.steps.push(SendStep::Hang),
    }
    stream.steps
}

pub(super) fn whole(reply: &Reply, facts: &Facts) -> Value {
    let mut items = Items::new(facts);
    for moment in moments(reply) {
        match moment {
            Moment::Ends(channel, text) => drop(items.push_text(channel, &text)),
            Moment::Call { name, input } => drop(items.push_call(name, input)),
            Moment::Begins(_) | Moment::Chunk(..) | Moment::Wait(_) => {}
        }
    }
    finished(reply, facts, &items.done)
}

/// The items of the output that are done.
struct Items<'a> {
    facts: &'a Facts<'a>,
    done: Vec<Value>,
}

impl<'a> Items<'a> {
    fn new(facts: &'a Facts<'a>) -> Self {
        Self { facts, done: Vec::new() }
    }

    fn next_id(&self) -> String {
        format!("item_rehearsal_{:04}_{}", self.facts.number, self.done.len() + 1)
    }

    fn push_text(&mut self, channel: Channel, text: &str) -> Value {
        let id = self.next_id();
        let item = match channel {
            Channel::Text => json!({
                "type": "message", "id": id, "role": "assistant", "status": "completed",
                "content": [content_part(channel, text)],
            }),
            Channel::Thinking => json!({
                "type": "reasoning", "id": id, "summary": [content_part(channel, text)],
                "encrypted_content": "rehearsed",
            }),
        };
        self.push(item)
    }

    /// A tool whose input is a text, not an object, is a custom tool.
    fn push_call(&mut self, name: &str, input: &Value) -> Value {
        let id = self.next_id();
        let call_id = format!("call_rehearsal_{:04}_{}", self.facts.number, self.done.len() + 1);
        let item = match input.as_str() {
            Some(input) => json!({
                "type": "custom_tool_call", "id": id, "call_id": call_id, "status": "completed",
                "name": name, "input": input,
            }),
            None => json!({
                "type": "function_call", "id": id, "call_id": call_id, "status": "completed",
                "name": name, "arguments": input.to_string(),
            }),
        };
        self.push(item)
    }

    fn push(&mut self, item: Value) -> Value {
        self.done.push(item.clone());
        item
    }
}

/// The events so far; each carries its number.
#[derive(Default)]
struct Stream {
    steps: Vec<SendStep>,
    events: u64,
}

impl Stream {
    fn send(&mut self, mut data: Value) {
        data["sequence_number"] = json!(self.events);
        self.events += 1;
        self.steps.push(event(data["type"].as_str(), &data));
    }

    fn item(&mut self, kind: &str, index: usize, item: &Value) {
        self.send(json!({"type": kind, "output_index": index, "item": item}));
    }

    fn part(&mut self, what: &str, channel: Channel, id: &str, index: usize, text: &str) {
        let (kind, place) = match channel {
            Channel::Text => ("response.content_part", "content_index"),
            Channel::Thinking => ("response.reasoning_summary_part", "summary_index"),
        };
        self.send(json!({
            "type": format!("{kind}.{what}"), "item_id": id, "output_index": index,
            place: 0, "part": content_part(channel, text),
        }));
    }
}

fn delta_of(channel: Channel) -> (&'static str, &'static str) {
    match channel {
        Channel::Text => ("response.output_text", "content_index"),
        Channel::Thinking => ("response.reasoning_summary_text", "summary_index"),
    }
}

fn content_part(channel: Channel, text: &str) -> Value {
    match channel {
        Channel::Text => json!({"type": "output_text", "text": text, "annotations": []}),
        Channel::Thinking => json!({"type": "summary_text", "text": text}),
    }
}

fn open_item(channel: Channel, id: &str) -> Value {
    match channel {
        Channel::Text => json!({
            "type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": [],
        }),
        Channel::Thinking => json!({"type": "reasoning", "id": id, "summary": []}),
    }
}

fn response(status: &str, facts: &Facts) -> Value {
    json!({
        "id": format!("resp_rehearsal_{:04}", facts.number), "object": "response", "created_at": 0,
        "status": status, "model": facts.model, "output": [],
    })
}

fn finished(reply: &Reply, facts: &Facts, output: &[Value]) -> Value {
    let reason = match reply.end {
        End::MaxTokens => Some("max_output_tokens"),
        End::Refused => Some("content_filter"),
        End::Done | End::Failed | End::Cut | End::Hang => None,
    };
    let mut whole = response(reason.map_or("completed", |_| "incomplete"), facts);
    whole["output"] = json!(output);
    if let Some(reason) = reason {
        whole["incomplete_details"] = json!({"reason": reason});
    }
    let usage = facts.usage;
    whole["usage"] = json!({
        "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input.saturating_add(usage.output),
    });
    whole
}
