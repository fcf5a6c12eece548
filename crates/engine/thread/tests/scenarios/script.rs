//! The scripted answers of the model.

use convoke_thread::item::ResponseItem;
use convoke_thread::thread::{ModelResponse, ResponseFailure};
use serde_json::{Value, json};

use crate::scenario::list;

const DEFAULT_TOKENS: u64 = 100;
/// Stands for the process session that the last tool output names.
pub(crate) const SESSION: &str = "@@SESSION@@";

/// The answers of a scenario, and how many were used.
pub(crate) struct Script<'a> {
    answers: &'a Value,
    responses: usize,
    compact: usize,
    chat: usize,
}

impl<'a> Script<'a> {
    pub(crate) fn new(answers: &'a Value) -> Self {
        Self { answers, responses: 0, compact: 0, chat: 0 }
    }

    /// Returns the answer to a request.
    pub(crate) fn next(&mut self, path: &str, body: &str) -> Result<ModelResponse, String> {
        match path {
            "/responses" => {
                self.responses += 1;
                let scripted = list(&self.answers["responses"]).get(self.responses - 1);
                Ok(response(scripted.unwrap_or(&Value::Null), self.responses, body))
            }
            "/responses/compact" => {
                self.compact += 1;
                let scripted = list(&self.answers["compact"]).get(self.compact - 1);
                compacted(scripted.unwrap_or(&Value::Null))
            }
            "/chat/completions" => {
                self.chat += 1;
                let scripted = list(&self.answers["chat"]).get(self.chat - 1);
                chat(scripted.unwrap_or(&Value::Null))
            }
            other => Err(format!("nobody answers at {other}")),
        }
    }
}

fn response(scripted: &Value, number: usize, body: &str) -> ModelResponse {
    let failure = failure(scripted);
    let default = || {
        let part = json!({"type": "output_text", "text": "ok"});
        let id = format!("msg_{number}");
        vec![json!({"type": "message", "role": "assistant", "id": id, "content": [part]})]
    };
    let scripted_items = match (scripted["items"].as_array(), &failure) {
        (Some(items), _) => items.clone(),
        (None, None) => default(),
        (None, Some(_)) => Vec::new(),
    };
    let session = last_session(body);
    let items = scripted_items.iter().filter_map(|item| read_item(item, session.as_deref()));
    let held = scripted.get("hold_s").is_some();
    let tokens = match &scripted["usage"] {
        Value::Null => Some(DEFAULT_TOKENS),
        Value::Number(total) => total.as_u64(),
        usage => usage["total_tokens"].as_u64(),
    };
    ModelResponse {
        items: items.collect(),
        tokens: tokens.filter(|_| !held && failure.is_none()),
        reasoning_is_counted: has_header(scripted, "x-reasoning-included"),
        failure,
    }
}

/// Parses an item like a client: an invalid item is ignored.
fn read_item(item: &Value, session: Option<&str>) -> Option<ResponseItem> {
    let mut text = item.to_string();
    if let Some(session) = session {
        text = text.replace(SESSION, session);
    }
    serde_json::from_str(&text).ok()
}

fn failure(scripted: &Value) -> Option<ResponseFailure> {
    if let Some(status) = scripted["status"].as_u64().filter(|status| *status >= 400) {
        let reason = format!("HTTP {status}");
        return Some(match status {
            500.. => ResponseFailure::Server(reason),
            400 | 429 => ResponseFailure::Fatal(reason),
            _ => ResponseFailure::Stream(reason),
        });
    }
    let failed = scripted.get("failed").filter(|it| !it.is_null())?;
    let reason = failed["message"].as_str().unwrap_or("").to_owned();
    Some(match failed["code"].as_str() {
        Some("context_length_exceeded") => ResponseFailure::ContextWindowExceeded,
        Some("insufficient_quota" | "usage_not_included" | "invalid_prompt") => {
            ResponseFailure::Fatal(reason)
        }
        _ => ResponseFailure::Stream(reason),
    })
}

fn has_header(scripted: &Value, name: &str) -> bool {
    let headers = scripted["headers"].as_object();
    headers.is_some_and(|it| it.keys().any(|key| key.eq_ignore_ascii_case(name)))
}

/// Returns the process session that the last tool output of a request names.
fn last_session(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let is_output = |item: &&Value| item["type"] == "function_call_output";
    let outputs = list(&body["input"]).iter().rev().filter(is_output);
    outputs.filter_map(|item| item["output"].as_str()).find_map(session_of).map(str::to_owned)
}

/// Returns the process session that a tool output names last.
pub(crate) fn session_of(output: &str) -> Option<&str> {
    let (_, rest) = output.rsplit_once("session ID ")?;
    let end = rest.find(|it: char| !it.is_ascii_digit());
    Some(&rest[..end.unwrap_or(rest.len())])
}

fn compacted(scripted: &Value) -> Result<ModelResponse, String> {
    let items = list(&scripted["output"]).iter();
    let items = items.map(|item| ResponseItem::try_from(item.clone()));
    let items: Result<Vec<_>, _> = items.collect();
    Ok(ModelResponse {
        items: items.map_err(|wrong| wrong.to_string())?,
        failure: failure(scripted),
        ..ModelResponse::default()
    })
}

/// Converts an answer on the Chat wire to items: reasoning, then calls, then text, which is complete only at
/// the end.
fn chat(scripted: &Value) -> Result<ModelResponse, String> {
    let mut items = Vec::new();
    if let Some(thought) = scripted["reasoning"].as_str() {
        let part = json!({"type": "reasoning_text", "text": thought});
        items.push(json!({"type": "reasoning", "summary": [], "content": [part]}));
    }
    let calls: &[Value] = ["tool_calls", "calls"]
        .iter()
        .map(|key| list(&scripted[*key]))
        .find(|calls| !calls.is_empty())
        .unwrap_or_default();
    for call in calls {
        let of = |key: &str| match &call["function"][key] {
            Value::Null => call[key].clone(),
            nested => nested.clone(),
        };
        let id = match &call["id"] {
            Value::Null => &call["call_id"],
            id => id,
        };
        let (name, arguments) = (of("name"), of("arguments"));
        items.push(json!({
            "type": "function_call", "name": name, "arguments": arguments, "call_id": id,
        }));
    }
    let text = match (scripted["text"].as_str(), calls) {
        (None, []) => Some("ok"),
        (text, _) => text,
    };
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        let part = json!({"type": "output_text", "text": text});
        items.push(json!({"type": "message", "role": "assistant", "content": [part]}));
    }
    let items: Result<Vec<_>, _> = items.into_iter().map(ResponseItem::try_from).collect();
    Ok(ModelResponse {
        items: items.map_err(|wrong| wrong.to_string())?,
        failure: failure(scripted),
        ..ModelResponse::default()
    })
}
