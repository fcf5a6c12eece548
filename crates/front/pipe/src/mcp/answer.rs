//! Answers single requests, of either generation of the protocol.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Cancellation, Tool, ToolResult, Tools};

/// The versions that open a connection with `initialize`, newest first.
const OPENING: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The versions that each request names.
const NAMED: [&str; 1] = ["2026-07-28"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

/// The generation of the protocol that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Up to 2025-11-25: a connection is opened with `initialize`.
    Opening,
    /// From 2026-07-28: each request names its version.
    Named,
}

impl Generation {
    /// Returns the generation of a request, from its content.
    pub fn from_request(request: &Value) -> Self {
        let is_named = match request["method"].as_str() {
            Some("initialize") => false,
            Some("server/discover") => true,
            _ => !request["params"]["_meta"][VERSION].is_null(),
        };
        if is_named { Self::Named } else { Self::Opening }
    }
}

/// The parts of a server that all answers share.
pub struct Server {
    tools: Arc<dyn Tools>,
    name: &'static str,
    version: &'static str,
}

/// An error response.
struct ErrorResponse {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl ErrorResponse {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl Server {
    /// Creates a server with its name and version.
    pub fn new(tools: Arc<dyn Tools>, name: &'static str, version: &'static str) -> Self {
        Self { tools, name, version }
    }

    /// Answers a request, which must have an `id` and a `method`. A tool call takes as long as the tool.
    pub fn answer(&self, generation: Generation, request: &Value) -> Value {
        self.answer_call(generation, request, &Cancellation::default())
    }

    /// Answers a request that can be cancelled meanwhile.
    pub(super) fn answer_call(
        &self,
        generation: Generation,
        request: &Value,
        cancellation: &Cancellation,
    ) -> Value {
        let (method, params) = (request["method"].as_str().unwrap_or_default(), &request["params"]);
        let answered = match generation {
            Generation::Opening => self.of_connection(method, params, cancellation),
            Generation::Named => self.of_request(method, params, cancellation),
        };
        let id = &request["id"];
        match answered {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(ErrorResponse { code, message, data }) => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data;
                }
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        }
    }

    fn of_connection(
        &self,
        method: &str,
        params: &Value,
        cancellation: &Cancellation,
    ) -> Result<Value, ErrorResponse> {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let known = OPENING.into_iter().find(|known| *known == asked);
                Ok(json!({
                    "protocolVersion": known.unwrap_or(OPENING[0]),
                    "capabilities": abilities(),
                    "serverInfo": self.info(),
                    "instructions": self.tools.instructions(),
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list()),
            "tools/call" => self.call(params, cancellation),
            _ => Err(not_found(method)),
        }
    }

    fn of_request(
        &self,
        method: &str,
        params: &Value,
        cancellation: &Cancellation,
    ) -> Result<Value, ErrorResponse> {
        check_meta(&params["_meta"])?;
        let mut result = match method {
            "server/discover" => json!({
                "supportedVersions": NAMED,
                "capabilities": abilities(),
                "instructions": self.tools.instructions(),
            }),
            "tools/list" => self.list(),
            "tools/call" => self.call(params, cancellation)?,
            _ => return Err(not_found(method)),
        };
        result["resultType"] = "complete".into();
        result["_meta"] = json!({ SERVER_INFO: self.info() });
        if method != "tools/call" {
            // The tools of a server do not change while it runs.
            result["ttlMs"] = 3_600_000.into();
            result["cacheScope"] = "private".into();
        }
        Ok(result)
    }

    fn info(&self) -> Value {
        json!({ "name": self.name, "version": self.version })
    }

    fn list(&self) -> Value {
        let listed = self.tools.list().into_iter().map(|tool| {
            let Tool { name, description, schema, only_reads } = tool;
            let hints = json!({ "readOnlyHint": only_reads, "destructiveHint": false, "openWorldHint": false });
            json!({ "name": name, "description": description, "inputSchema": schema, "annotations": hints })
        });
        json!({ "tools": listed.collect::<Vec<Value>>() })
    }

    fn call(&self, params: &Value, cancellation: &Cancellation) -> Result<Value, ErrorResponse> {
        let Some(name) = params["name"].as_str() else {
            return Err(ErrorResponse::new(INVALID_PARAMS, "`name` must be the name of a tool"));
        };
        let arguments = match &params["arguments"] {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments.clone(),
            _ => return Err(ErrorResponse::new(INVALID_PARAMS, "`arguments` must be an object")),
        };
        let called = self.tools.call(name, arguments, cancellation);
        let Some(ToolResult { text, is_error }) = called else {
            return Err(ErrorResponse::new(INVALID_PARAMS, format!("unknown tool `{name}`")));
        };
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
    }
}

fn abilities() -> Value {
    json!({ "tools": {} })
}

fn not_found(method: &str) -> ErrorResponse {
    ErrorResponse::new(METHOD_NOT_FOUND, format!("unknown method `{method}`"))
}

/// Checks the client's data in each request.
fn check_meta(meta: &Value) -> Result<(), ErrorResponse> {
    let Some(version) = meta[VERSION].as_str() else {
        return Err(ErrorResponse::new(
            INVALID_PARAMS,
            format!("`_meta` lacks the text `{VERSION}`"),
        ));
    };
    if !meta[CAPABILITIES].is_object() {
        let message = format!("`_meta` lacks the object `{CAPABILITIES}`");
        return Err(ErrorResponse::new(INVALID_PARAMS, message));
    }
    if !NAMED.contains(&version) {
        let mut refusal = ErrorResponse::new(UNSUPPORTED_VERSION, "the version is not supported");
        refusal.data = Some(json!({ "supported": NAMED, "requested": version }));
        return Err(refusal);
    }
    Ok(())
}
