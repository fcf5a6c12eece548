//! Anthropic Messages: `POST /v1/messages`.

use serde_json::{Value, json};

use super::moment::{Channel, Moment, moments, object_input};
use super::{FAILURE, Facts, event};
use crate::body::SendStep;
use crate::script::{End, HttpError, Reply, ReplyStep};

pub(super) fn stream(reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let mut steps = vec![send(&json!({
        "type": "message_start",
        "message": {
            "id": id(facts), "type": "message", "role": "assistant", "model": facts.model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(facts, 1),
        },
    }))];
    let mut index = 0;
    let mut calls = 0;
    for moment in moments(reply) {
        match moment {
            Moment::Wait(time) => steps.push(SendStep::Wait(time)),
            Moment::Begins(channel) => {
                let block = match channel {
                    Channel::Text => json!({"type": "text", "text": ""}),
                    Channel::Thinking => {
                        json!({"type": "thinking", "thinking": "", "signature": ""})
                    }
                };
                steps.push(block_start(index, &block));
            }
            Moment::Chunk(Channel::Text, text) => {
                steps.push(delta(index, &json!({"type": "text_delta", "text": text})));
            }
            Moment::Chunk(Channel::Thinking, text) => {
                steps.push(delta(index, &json!({"type": "thinking_delta", "thinking": text})));
            }
            Moment::Ends(channel, _) => {
                if channel == Channel::Thinking {
                    steps.push(delta(
                        index,
                        &json!({"type": "signature_delta", "signature": SIGNATURE}),
                    ));
                }
                steps.push(block_stop(index));
                index += 1;
            }
            Moment::Call { name, input } => {
                calls += 1;
                let id = call_id(facts, calls);
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                let partial = object_input(input).to_string();
                steps.push(block_start(index, &block));
                steps.push(delta(
                    index,
                    &json!({"type": "input_json_delta", "partial_json": partial}),
                ));
                steps.push(block_stop(index));
                index += 1;
            }
        }
    }
    match reply.end {
        End::Done | End::MaxTokens | End::Refused => steps.extend([
            send(&json!({
                "type": "message_delta",
                "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
                "usage": usage(facts, facts.usage.output),
            })),
            send(&json!({"type": "message_stop"})),
        ]),
        End::Failed => steps.push(send(&json!({
            "type": "error",
            "error": {"type": "overloaded_error", "message": FAILURE},
        }))),
        End::Cut => steps.push(SendStep::Cut),
        End::Hang => steps.push(SendStep::Hang),
    }
    steps
}

pub(super) fn whole(reply: &Reply, facts: &Facts) -> Value {
    let mut content = Vec::new();
    let mut calls = 0;
    for moment in moments(reply) {
        match moment {
            Moment::Ends(Channel::Text, text) => {
                content.push(json!({"type": "text", "text": text}));
            }
            Moment::Ends(Channel::Thinking, text) => {
                content.push(json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}));
            }
            Moment::Call { name, input } => {
                calls += 1;
                let (id, input) = (call_id(facts, calls), object_input(input));
                content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
            }
            Moment::Begins(_) | Moment::Chunk(..) | Moment::Wait(_) => {}
        }
    }
    json!({
        "id": id(facts), "type": "message", "role": "assistant", "model": facts.model,
        "content": content, "stop_reason": stop_reason(reply), "stop_sequence": null,
        "usage": usage(facts, facts.usage.output),
    })
}

pub(super) fn error(error: &HttpError, number: usize) -> Value {
    let kind = match error.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({
        "type": "error",
        "error": {"type": kind, "message": error.message},
        "request_id": format!("req_rehearsal_{number:04}"),
    })
}

/// The signature of reasoning, which clients return unread.
const SIGNATURE: &str = "rehearsed";

fn stop_reason(reply: &Reply) -> &'static str {
    let calls = reply.steps.iter().any(|step| matches!(step, ReplyStep::Call { .. }));
    match reply.end {
        End::MaxTokens => "max_tokens",
        End::Refused => "refusal",
        _ if calls => "tool_use",
        _ => "end_turn",
    }
}

fn usage(facts: &Facts, output: u64) -> Value {
    json!({
        "input_tokens": facts.usage.input.saturating_sub(facts.usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": facts.usage.cached,
        "output_tokens": output,
    })
}

fn id(facts: &Facts) -> String {
    format!("msg_rehearsal_{:04}", facts.number)
}

fn call_id(facts: &Facts, call: usize) -> String {
    format!("toolu_rehearsal_{:04}_{call}", facts.number)
}

/// Every event carries its own name as its type.
fn send(data: &Value) -> SendStep {
    event(data["type"].as_str(), data)
}

fn block_start(index: usize, block: &Value) -> SendStep {
    send(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: usize, delta: &Value) -> SendStep {
    send(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn block_stop(index: usize) -> SendStep {
    send(&json!({"type": "content_block_stop", "index": index}))
}
