//! OpenAI Chat Completions: `POST /v1/chat/completions`.

use serde_json::{Value, json};

use super::moment::{self, Channel, Moment, moments, object_input};
use super::{FAILURE, Facts, event, openai_error};
use crate::body::SendStep;
use crate::script::{End, Reply};

pub(super) fn stream(reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let mut steps = vec![send(facts, &json!({"role": "assistant", "content": ""}), None)];
    let mut calls = 0;
    for moment in moments(reply) {
        match moment {
            Moment::Wait(time) => steps.push(SendStep::Wait(time)),
            Moment::Chunk(Channel::Text, text) => {
                steps.push(send(facts, &json!({"content": text}), None));
            }
            Moment::Chunk(Channel::Thinking, text) => {
                steps.push(send(facts, &json!({"reasoning_content": text}), None));
            }
            Moment::Call { name, input } => {
                let mut call = call(facts, calls, name, input);
                call["index"] = json!(calls);
                calls += 1;
                steps.push(send(facts, &json!({"tool_calls": [call]}), None));
            }
            Moment::Begins(_) | Moment::Ends(..) => {}
        }
    }
    match reply.end {
        End::Done | End::MaxTokens | End::Refused => {
            steps.push(send(facts, &json!({}), Some(finish_reason(reply))));
            if facts.stream_usage {
                let mut chunk = chunk(facts);
                chunk["choices"] = json!([]);
                chunk["usage"] = usage(facts);
                steps.push(event(None, &chunk));
            }
            steps.push(SendStep::Send("data: [DONE]\n\n".into()));
        }
        End::Failed => steps.push(event(None, &openai_error(500, FAILURE))),
        End::Cut => steps.push(SendStep::Cut),
        End::Hang => steps.push(SendStep::Hang),
    }
    steps
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

fn send(facts: &Facts, delta: &Value, finish_reason: Option<&str>) -> SendStep {
    let mut chunk = chunk(facts);
    chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    event(None, &chunk)
}
