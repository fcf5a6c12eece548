//! The envelope of JSON-RPC 2.0.

use serde::Serialize;
use serde_json::{Value, json};

use crate::lines::TooLarge;

/// A parsed call.
pub(super) struct RpcCall {
    /// `None` for a notification.
    pub(super) id: Option<Value>,
    pub(super) method: String,
    pub(super) params: Value,
}

/// A line that is not a call, with the id for the answer.
pub(super) struct InvalidLine {
    pub(super) id: Value,
    pub(super) error: Error,
}

impl InvalidLine {
    /// Creates the answer to a line that was not parsed, so that its id is unknown.
    pub(super) fn too_long(line: &TooLarge) -> Self {
        Self { id: Value::Null, error: Error::new(-32700, line.to_string()) }
    }
}

/// An error of JSON-RPC.
#[derive(Debug, Serialize)]
pub(super) struct Error {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<Value>>,
}

impl Error {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format!("unknown method `{method}`"))
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Creates the error of a valid call that failed.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(-32000, message)
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }
}

/// Reads a call from a line.
pub(super) fn read_call(line: &[u8]) -> Result<RpcCall, InvalidLine> {
    let value: Value = serde_json::from_slice(line).map_err(|error| InvalidLine {
        id: Value::Null,
        error: Error::new(-32700, format!("not JSON: {error}")),
    })?;
    let refuse = |id: Option<Value>, why: &str| InvalidLine {
        id: id.unwrap_or(Value::Null),
        error: Error::invalid_request(why),
    };
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => {
            return Err(refuse(None, "batches are not supported: send one call per line"));
        }
        _ => return Err(refuse(None, "a call must be an object")),
    };
    let id = match object.shift_remove("id") {
        Some(id @ (Value::Null | Value::Number(_) | Value::String(_))) => Some(id),
        None => None,
        Some(_) => return Err(refuse(None, "`id` must be a string, a number or null")),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse(id, "`jsonrpc` must be \"2.0\""));
    }
    let Some(Value::String(method)) = object.shift_remove("method") else {
        return Err(refuse(id, "`method` must be a string"));
    };
    let params = object.shift_remove("params").unwrap_or_else(|| json!([]));
    Ok(RpcCall { id, method, params })
}

/// Writes the answer to a call; `result` is JSON text.
pub(super) fn response(id: &Value, result: Result<String, Error>) -> String {
    match result {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
    }
}

/// Writes a notification with one parameter, which is JSON text.
pub(super) fn notification(method: &str, param: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":[{param}]}}"#)
}
