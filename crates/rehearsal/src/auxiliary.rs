//! The small requests around a model call: is anybody there, which models are there, how many tokens
//! is this. Reports about the user are swallowed.

use convoke_core::ledger::estimate_tokens;
use hyper::http::request::Parts;
use hyper::{Method, header};
use serde_json::{Value, json};

use crate::record::Kind;
use crate::script::HttpError;
use crate::wire::{self, Wire};

/// Says what a request asks for that calls no model, with the status and body of its answer.
pub(crate) fn answer(parts: &Parts, body: &[u8], number: usize) -> (Kind, u16, Value) {
    let (method, path) = (&parts.method, parts.uri.path());
    let wire = wire::spoken_by(parts);
    let tokens = estimate_tokens(body.len() as u64);
    if method == Method::HEAD || (method == Method::GET && path == "/") {
        (Kind::Probe, 200, json!({}))
    } else if path.ends_with("/count_tokens") {
        (Kind::TokenCount, 200, json!({"input_tokens": tokens}))
    } else if path.ends_with(":countTokens") {
        (Kind::TokenCount, 200, json!({"totalTokens": tokens}))
    } else if path.ends_with("/responses/input_tokens") {
        let count = json!({"object": "response.input_tokens", "input_tokens": tokens});
        (Kind::TokenCount, 200, count)
    } else if method == Method::GET && path.ends_with("/models") {
        (Kind::ModelList, 200, models(wire))
    } else if let Some(name) = one_model(parts) {
        (Kind::ModelList, 200, model(wire, name))
    } else if parts.headers.contains_key(header::UPGRADE) {
        // This status is what makes Codex go on over HTTP without trying again.
        let message = "the rehearsal server has no web sockets";
        (Kind::WebSocket, 426, json!({"error": {"message": message}}))
    } else if is_telemetry(path) {
        (Kind::Telemetry, 200, json!({}))
    } else {
        let message = format!("the rehearsal server does not know {method} {path}");
        let mut value = wire::error(wire, &HttpError::new(404, message), number);
        // It is the address that is unknown, and not a model.
        if let Some(code) = value.pointer_mut("/error/code").filter(|code| code.is_string()) {
            *code = Value::Null;
        }
        (Kind::Unknown, 404, value)
    }
}

fn is_telemetry(path: &str) -> bool {
    ["telemetry", "event_logging", "metrics", "analytics", "/traces", "/logs"]
        .iter()
        .any(|word| path.contains(word))
}

/// Returns the model that a client wants to know of.
fn one_model(parts: &Parts) -> Option<&str> {
    let (_, name) = parts.uri.path().rsplit_once("/models/")?;
    (parts.method == Method::GET && !name.is_empty() && !name.contains(['/', ':'])).then_some(name)
}

/// The list has one entry: any name is answered.
fn models(wire: Wire) -> Value {
    const NAME: &str = "rehearsal";
    let model = model(wire, NAME);
    match wire {
        Wire::Messages => {
            json!({"data": [model], "has_more": false, "first_id": NAME, "last_id": NAME})
        }
        Wire::Gemini => json!({"models": [model]}),
        // `models` beside `data` is what Codex asks for; empty, it keeps the list that it brings along.
        Wire::Responses | Wire::Chat => json!({"object": "list", "data": [model], "models": []}),
    }
}

fn model(wire: Wire, name: &str) -> Value {
    match wire {
        Wire::Messages => json!({
            "type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z",
        }),
        Wire::Gemini => json!({
            "name": format!("models/{name}"), "displayName": name, "inputTokenLimit": 1_000_000,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
        Wire::Responses | Wire::Chat => {
            json!({"id": name, "object": "model", "created": 0, "owned_by": "convoke"})
        }
    }
}
