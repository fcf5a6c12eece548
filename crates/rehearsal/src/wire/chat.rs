//! OpenAI Chat Completions: `POST /v1/chat/completions`.

use serde_json::{Value, json};

use super::moment::{self, Channel, Moment, moments, object_input};
use super::{FAILURE, Facts, event, openai_error};
use crate::body::Beat;
use crate::script::{End, Reply};

pub(super) fn stream(reply: &Reply, facts: &Facts) -> Vec<Beat> {
    let mut beats = vec![send(facts, &json!({"role": "assistant", "content": ""}), None)];
    let mut calls = 0;
    for moment in moments(reply) {
        match moment {
            Moment::Wait(time) => beats.push(Beat::Wait(time)),
            Moment::Chunk(Channel::Text, text) => {
                beats.push(send(facts, &json!({"content": text}), None));
            }
            Moment::Chunk(Channel::Thinking, text) => {
                beats.push(send(facts, &json!({"reasoning_content": text}), None));
            }
            Moment::Call { name, input } => {
                let mut call = call(facts, calls, name, input);
                call["index"] = json!(calls);
                calls += 1;
                beats.push(send(facts, &json!({"tool_calls": [call]}), None));
            }
            Moment::Begins(_) | Moment::Ends(..) => {}
        }
    }
    match reply.end {
        End::Done | End::MaxTokens | End::Refused => {
            beats.push(send(facts, &json!({}), Some(finish_reason(reply))));
            if facts.stream_usage {
                let mut chunk = chunk(facts);
                chunk["choices"] = json!([]);
                chunk["usage"] = usage(facts);
                beats.push(event(None, &chunk));
            }
            beats.push(Beat::Send("data: [DONE]\n\n".into()));
        }
        End::Failed => beats.push(event(None, &openai_error(500, FAILURE))),
        End::Cut => beats.push(Beat::Cut),
        End::Hang => beats.push(Beat::Hang),
    }
    beats
}

pub(super) fn whole(reply: &Reply, facts: &Facts) -> Value {
    let text = moment::text(reply, Channel::Text);
    let thinking = moment::text(reply, Channel::Thinking);
    let calls = moment::calls(reply).enumerate();
    let calls: Vec<Value> =
        calls.map(|(index, (name, input))| call(facts, index, name, input)).collect();
    let mut message = json!({"role": "assistant", "content": text});
    if !thinking.is_empty() {
        message["reasoning_content"] = json!(thinking);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
        if text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    json!({
        "id": id(facts), "object": "chat.completion", "created": 0, "model": facts.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(facts),
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.end {
        End::MaxTokens => "length",
        End::Refused => "content_filter",
        _ if moment::calls(reply).next().is_some() => "tool_calls",
        _ => "stop",
    }
}

fn call(facts: &Facts, index: usize, name: &str, input: &Value) -> Value {
    json!({
        "id": format!("call_rehearsal_{:04}_{}", facts.number, index + 1), "type": "function",
        "function": {"name": name, "arguments": object_input(input).to_string()},
    })
}

fn usage(facts: &Facts) -> Value {
    let usage = facts.usage;
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn id(facts: &Facts) -> String {
    format!("chatcmpl-rehearsal-{:04}", facts.number)
}

fn chunk(facts: &Facts) -> Value {
    json!({"id": id(facts), "object": "chat.completion.chunk", "created": 0, "model": facts.model})
}

fn send(facts: &Facts, delta: &Value, finish_reason: Option<&str>) -> Beat {
    let mut chunk = chunk(facts);
    chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    event(None, &chunk)
}
