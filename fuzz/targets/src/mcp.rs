use std::sync::Arc;

use convoke_pipe::mcp::{Cancellation, MAX_BATCH, Server, Tool, ToolResult, Tools, serve};
use serde_json::{Map, Value, json};

/// A tool that returns its arguments.
struct Echo;

impl Tools for Echo {
    fn list(&self) -> Vec<Tool> {
        let schema = json!({ "type": "object" });
        let (name, description) = ("echo".to_owned(), "Echoes.".to_owned());
        vec![Tool { name, description, schema, only_reads: true }]
    }

    fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        _: &Cancellation,
    ) -> Option<ToolResult> {
        let text = Value::Object(arguments).to_string();
        (name == "echo").then_some(ToolResult { text, is_error: false })
    }

    fn instructions(&self) -> &'static str {
        "Echoes."
    }
}

/// Sends any lines to the MCP server: every request is answered once, in valid JSON, unless it was cancelled.
pub fn mcp(bytes: &[u8]) -> bool {
    let server = Server::new(Arc::new(Echo), "test", "1");
    let mut output = Vec::new();
    serve(bytes, &mut output, &server, 1 << 20).expect("no I/O");
    let mut answers = Vec::new();
    let mut has_result = false;
    for line in output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).expect("a line of JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        assert!(message.get("method").is_none(), "a server of tools asks nothing");
        assert_eq!(message.get("result").is_some(), message.get("error").is_none());
        has_result |= message.get("result").is_some();
        if !message["id"].is_null() {
            answers.push(message["id"].clone());
        }
    }
    let lines = bytes.split(|&byte| byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let messages = messages.flat_map(|message| match message {
        Value::Array(batch) if batch.len() <= MAX_BATCH => batch,
        Value::Array(_) => Vec::new(),
        message => vec![message],
    });
    let mut is_cancelled = false;
    for message in messages.filter(|message| message["method"].is_string()) {
        is_cancelled |= message["method"] == "notifications/cancelled";
        if let id @ (Value::Number(_) | Value::String(_)) = &message["id"] {
            let answered = answers.iter().position(|answer| answer == id);
            assert!(answered.is_some() || is_cancelled, "{id} is not answered");
            answered.map(|at| answers.swap_remove(at));
        }
    }
    assert!(answers.is_empty(), "{answers:?} were not asked");
    has_result
}
