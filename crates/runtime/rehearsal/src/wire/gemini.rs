//! Gemini: `POST /v1beta/models/MODEL:generateContent` and `…:streamGenerateContent`.

use serde_json::{Value, json};

use super::moment::{Channel, Moment, moments, object_input};
use super::{FAILURE, Facts, event};
use crate::body::SendStep;
use crate::script::{End, HttpError, Reply};

pub(super) fn stream(reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let chunks = chunks(reply, facts).into_iter();
    chunks
        .map(|chunk| match chunk {
            Chunk::Send(value) => event(None, &value),
            Chunk::Other(step) => step,
        })
        .collect()
}

/// Without `alt=sse` the stream is one JSON array that grows.
pub(super) fn stream_array(reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let mut separator = "[";
    let chunks = chunks(reply, facts).into_iter();
    let mut steps: Vec<SendStep> = chunks
        .map(|chunk| match chunk {
            Chunk::Send(value) => {
                let text = format!("{separator}{value}");
                separator = ",\r\n";
                SendStep::Send(text.into())
            }
            Chunk::Other(step) => step,
        })
        .collect();
    if !matches!(reply.end, End::Cut | End::Hang) {
        steps.push(SendStep::Send("]".into()));
    }
    steps
}

pub(super) fn whole(reply: &Reply, facts: &Facts) -> Value {
    let mut parts = Vec::new();
    for moment in moments(reply) {
        match moment {
            Moment::Ends(channel, text) => parts.push(text_part(channel, &text)),
            Moment::Call { name, input } => parts.push(call_part(facts, parts.len(), name, input)),
            Moment::Begins(_) | Moment::Chunk(..) | Moment::Wait(_) => {}
        }
    }
    candidate(&parts, Some(finish_reason(reply)), facts)
}

pub(super) fn error(error: &HttpError) -> Value {
    let status = match error.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    };
    json!({"error": {"code": error.status, "message": error.message, "status": status}})
}

enum Chunk {
    Send(Value),
    Other(SendStep),
}

fn chunks(reply: &Reply, facts: &Facts) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for moment in moments(reply) {
        let part = match moment {
            Moment::Wait(time) => {
                chunks.push(Chunk::Other(SendStep::Wait(time)));
                continue;
            }
            Moment::Chunk(channel, text) => text_part(channel, text),
            Moment::Call { name, input } => call_part(facts, chunks.len(), name, input),
            Moment::Begins(_) | Moment::Ends(..) => continue,
        };
        chunks.push(Chunk::Send(candidate(&[part], None, facts)));
    }
    chunks.push(match reply.end {
        End::Done | End::MaxTokens | End::Refused => {
            let empty = text_part(Channel::Text, "");
            Chunk::Send(candidate(&[empty], Some(finish_reason(reply)), facts))
        }
        End::Failed => Chunk::Send(error(&HttpError::new(500, FAILURE))),
        End::Cut => Chunk::Other(SendStep::Cut),
        End::Hang => Chunk::Other(SendStep::Hang),
    });
    chunks
}

fn candidate(parts: &[Value], finish_reason: Option<&str>, facts: &Facts) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let usage = facts.usage;
    let mut metadata = json!({"promptTokenCount": usage.input, "totalTokenCount": usage.input});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = json!(reason);
        metadata = json!({
            "promptTokenCount": usage.input, "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.input.saturating_add(usage.output), "cachedContentTokenCount": usage.cached,
        });
    }
    json!({
        "candidates": [candidate], "usageMetadata": metadata, "modelVersion": facts.model,
        "responseId": format!("rehearsal-{:04}", facts.number),
    })
}

fn text_part(channel: Channel, text: &str) -> Value {
    match channel {
        Channel::Text => json!({"text": text}),
        Channel::Thinking => json!({"text": text, "thought": true}),
    }
}

fn call_part(facts: &Facts, index: usize, name: &str, input: &Value) -> Value {
    let id = format!("call-rehearsal-{:04}-{}", facts.number, index + 1);
    json!({
        "functionCall": {"id": id, "name": name, "args": object_input(input)},
        "thoughtSignature": "cmVoZWFyc2Vk",
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.end {
        End::MaxTokens => "MAX_TOKENS",
        End::Refused => "SAFETY",
        End::Done | End::Failed | End::Cut | End::Hang => "STOP",
    }
}
