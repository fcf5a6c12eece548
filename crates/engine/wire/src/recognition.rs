//! Recognition of requests: what each asks for.

use convoke_protocol::wire::Wire;
use http::Method;
use http::header::UPGRADE;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of a request.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum RequestKind {
    /// An answer of a model.
    ModelCall(ModelCall),
    /// The number of tokens of a text.
    TokenCount,
    /// The list of models, or one model of it.
    ModelList,
    /// A health check.
    Probe,
    /// A web socket.
    WebSocket,
    /// Telemetry.
    Telemetry,
    /// A request to another host, with this server as a proxy.
    Elsewhere {
        /// The host, with its port.
        host: String,
    },
    /// Something unknown.
    Unknown,
}

/// A call of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// Its wire format.
    pub wire: Wire,
    /// The model that is called.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub streamed: bool,
    /// Whether it is a side request: a small question of the program's own, for JSON of a given schema and without
    /// tools.
    pub aside: bool,
}

/// The framing of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON object.
    Whole,
    /// Server-sent events.
    Events,
    /// The elements of one JSON array (Gemini without `alt=sse`).
    Array,
}

/// A call of a model, with the facts that its answer depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Recognised {
    pub call: ModelCall,
    /// The framing of its answer.
    pub framing: Framing,
    /// Whether a stream is to report its usage (Chat leaves it to the client).
    pub stream_usage: bool,
    /// The schema of the JSON that the model is asked for, if it is asked for nothing else.
    pub schema: Option<Value>,
}

impl RequestKind {
    /// Recognises a request that calls no model, by its head.
    pub fn beside_calls(parts: &Parts) -> Self {
        let (method, path) = (&parts.method, parts.uri.path());
        if method == Method::HEAD || (method == Method::GET && path == "/") {
            Self::Probe
        } else if COUNTS.iter().any(|ending| path.ends_with(ending)) {
            Self::TokenCount
        } else if method == Method::GET && (path.ends_with("/models") || one_model(path).is_some())
        {
            Self::ModelList
        } else if parts.headers.contains_key(UPGRADE) {
            Self::WebSocket
        } else if TELEMETRY.iter().any(|word| path.contains(word)) {
            Self::Telemetry
        } else {
            Self::Unknown
        }
    }
}

const COUNTS: [&str; 3] = ["/count_tokens", ":countTokens", "/responses/input_tokens"];

const TELEMETRY: [&str; 6] =
    ["telemetry", "event_logging", "metrics", "analytics", "/traces", "/logs"];

/// Returns the model that a path of the model list names.
pub fn one_model(path: &str) -> Option<&str> {
    let (_, name) = path.rsplit_once("/models/")?;
    (!name.is_empty() && !name.contains(['/', ':'])).then_some(name)
}

impl RequestKind {
    /// Recognises a request by its head and its decoded body.
    pub fn parse(parts: &Parts, body: &[u8]) -> Self {
        let path = parts.uri.path();
        let called = Wire::at(path).filter(|_| parts.method == Method::POST);
        let Some(wire) = called else { return Self::beside_calls(parts) };
        let query = parts.uri.query().unwrap_or_default();
        Recognised::parse(wire, path, query, body)
            .map_or(Self::Unknown, |recognised| Self::ModelCall(recognised.call))
    }
}

impl Recognised {
    /// Recognises a call of a model; the error is what is wrong with its body.
    pub fn parse(wire: Wire, path: &str, query: &str, body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| format!("the body is not JSON: {error}"))?;
        let (model, streamed) = match wire {
            Wire::Gemini => {
                // Code Assist names the model in the body, and not in the path.
                let model = body["model"].as_str().unwrap_or_else(|| path_model(path));
                (model, path.ends_with(":streamGenerateContent"))
            }
            Wire::Messages if path.ends_with("awPredict") => {
                (path_model(path), path.ends_with(":streamRawPredict"))
            }
            Wire::Responses | Wire::Chat | Wire::Messages => {
                (body["model"].as_str().unwrap_or_default(), body["stream"] == true)
            }
        };
        let framing = match (streamed, wire) {
            (false, _) => Framing::Whole,
            (true, Wire::Gemini) if !query.split('&').any(|field| field == "alt=sse") => {
                Framing::Array
            }
            (true, _) => Framing::Events,
        };
        let body = if body["request"].is_object() { &body["request"] } else { &body };
        let tools = body["tools"].as_array().map_or(0, Vec::len);
        let schema = schema(wire, body).filter(|_| tools == 0);
        Ok(Self {
            call: ModelCall { wire, model: model.to_owned(), streamed, aside: schema.is_some() },
            framing,
            stream_usage: wire != Wire::Chat || body["stream_options"]["include_usage"] == true,
            schema: schema.cloned(),
        })
    }
}

/// Returns the schema that the answer must follow, if there is one.
fn schema(wire: Wire, body: &Value) -> Option<&Value> {
    let schema = match wire {
        Wire::Responses => &body["text"]["format"]["schema"],
        Wire::Chat => &body["response_format"]["json_schema"]["schema"],
        Wire::Messages => match &body["output_config"]["format"]["schema"] {
            Value::Null => &body["output_format"]["schema"],
            schema => schema,
        },
        Wire::Gemini => match &body["generationConfig"]["responseJsonSchema"] {
            Value::Null => &body["generationConfig"]["responseSchema"],
            schema => schema,
        },
    };
    schema.is_object().then_some(schema)
}

fn path_model(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}
/// Returns the wire format of a client, recognised by the head of a request.
pub fn spoken_by(parts: &Parts) -> Wire {
    let path = parts.uri.path();
    let has = |name: &str| parts.headers.contains_key(name);
    Wire::at(path).unwrap_or_else(|| {
        if has("anthropic-version") || path.contains("/messages") {
            Wire::Messages
        } else if has("x-goog-api-key") || path.contains("/v1beta") {
            Wire::Gemini
        } else {
            Wire::Responses
        }
    })
}
