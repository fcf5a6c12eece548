//! The small requests around a model call: is anybody there, which models are there, how many tokens
//! is this. Reports about the user are swallowed.

use convoke_core::ledger::estimate_tokens;
use hyper::http::request::Parts;
use hyper::{Method, header};
use serde_json::{Value, json};

use crate::record::Kind;

/// Says what a request asks for that calls no model, with the status and body of its answer.
pub(crate) fn answer(parts: &Parts, body: &[u8]) -> (Kind, u16, Value) {
    let (method, path) = (&parts.method, parts.uri.path());
    let tokens = estimate_tokens(body.len() as u64);
    if method == Method::HEAD || (method == Method::GET && path == "/") {
        (Kind::Probe, 200, json!({}))
    } else if path.ends_with("/count_tokens") {
        (Kind::TokenCount, 200, json!({"input_tokens": tokens}))
    } else if path.ends_with(":countTokens") {
        (Kind::TokenCount, 200, json!({"totalTokens": tokens}))
    } else if method == Method::GET && path.ends_with("/models") {
        let is_anthropic = parts.headers.contains_key("anthropic-version");
        (Kind::ModelList, 200, models(path, is_anthropic))
    } else if parts.headers.contains_key(header::UPGRADE) {
        // This status is what makes Codex go on over HTTP without trying again.
        let message = "the rehearsal server has no web sockets";
        (Kind::WebSocket, 426, json!({"error": {"message": message}}))
    } else if is_telemetry(path) {
        (Kind::Telemetry, 200, json!({}))
    } else {
        let message = format!("the rehearsal server does not know {method} {path}");
        (Kind::Unknown, 404, json!({"error": {"message": message, "type": "not_found_error"}}))
    }
}

fn is_telemetry(path: &str) -> bool {
    ["telemetry", "event_logging", "metrics", "analytics", "/traces", "/logs"]
        .iter()
        .any(|word| path.contains(word))
}

/// The list has one entry: any name is answered.
fn models(path: &str, is_anthropic: bool) -> Value {
    const NAME: &str = "rehearsal";
    if is_anthropic {
        let model = json!({
            "type": "model", "id": NAME, "display_name": NAME, "created_at": "2025-01-01T00:00:00Z",
        });
        json!({"data": [model], "has_more": false, "first_id": NAME, "last_id": NAME})
    } else if path.contains("/v1beta") {
        let model = json!({
            "name": format!("models/{NAME}"), "displayName": NAME, "inputTokenLimit": 1_000_000,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        });
        json!({"models": [model]})
    } else {
        // `models` beside `data` is what Codex asks for; empty, it keeps the list that it brings along.
        let model = json!({"id": NAME, "object": "model", "created": 0, "owned_by": "convoke"});
        json!({"object": "list", "data": [model], "models": []})
    }
}
