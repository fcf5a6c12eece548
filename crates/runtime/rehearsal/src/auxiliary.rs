//! Requests besides model calls: health checks, lists of models, token counts. Telemetry is discarded.

use convoke_core::ledger::estimate_tokens;
use convoke_protocol::wire::Wire;
use convoke_wire::RequestKind;
use convoke_wire::recognition::one_model;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::script::HttpError;
use crate::wire;

/// Recognises a request that is not a model call, and returns the status and body of its response.
pub(crate) fn answer(parts: &Parts, body: &[u8], number: usize) -> (RequestKind, u16, Value) {
    let path = parts.uri.path();
    let wire = convoke_wire::recognition::spoken_by(parts);
    let kind = RequestKind::beside_calls(parts);
    let (status, value) = match &kind {
        RequestKind::Probe | RequestKind::Telemetry => (200, json!({})),
        RequestKind::TokenCount => (200, token_count(path, estimate_tokens(body.len() as u64))),
        RequestKind::ModelList => {
            (200, one_model(path).map_or_else(|| models(wire), |name| model(wire, name)))
        }
        RequestKind::WebSocket => {
            // This status makes Codex fall back to HTTP without retries.
            (
                426,
                json!({"error": {"message": "the rehearsal server does not support web sockets"}}),
            )
        }
        RequestKind::ModelCall(_) | RequestKind::Elsewhere { .. } | RequestKind::Unknown => {
            let message = format!("the rehearsal server does not know {} {path}", parts.method);
            let mut value = wire::error(wire, &HttpError::new(404, message), number);
            // The address is unknown, not a model.
            if let Some(code) = value.pointer_mut("/error/code").filter(|code| code.is_string()) {
                *code = Value::Null;
            }
            (404, value)
        }
    };
    (kind, status, value)
}

fn token_count(path: &str, tokens: u64) -> Value {
    if path.ends_with("/count_tokens") {
        json!({"input_tokens": tokens})
    } else if path.ends_with(":countTokens") {
        json!({"totalTokens": tokens})
    } else {
        json!({"object": "response.input_tokens", "input_tokens": tokens})
    }
}

/// Returns a list with one model; any name is accepted.
fn models(wire: Wire) -> Value {
    const NAME: &str = "rehearsal";
    let model = model(wire, NAME);
    match wire {
        Wire::Messages => {
            json!({"data": [model], "has_more": false, "first_id": NAME, "last_id": NAME})
        }
        Wire::Gemini => json!({"models": [model]}),
        // Codex reads `models`; if it is empty, Codex keeps its built-in list.
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
