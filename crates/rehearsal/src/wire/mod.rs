//! The vendors' wire formats: one module each, from a [`Reply`] to the bytes that its clients read.

use std::fmt;

use bytes::Bytes;
use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body::Beat;
use crate::script::{End, HttpError, Reply, Usage};

mod chat;
mod gemini;
mod messages;
mod moment;
mod responses;
mod schema;

pub(crate) use schema::instance as schema_instance;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// Gemini `generateContent`.
    Gemini,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Responses => "OpenAI Responses",
            Wire::Chat => "OpenAI Chat Completions",
            Wire::Messages => "Anthropic Messages",
            Wire::Gemini => "Gemini generateContent",
        })
    }
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
    /// Whether it is an aside: a small question of the program's own, which wants JSON of a given
    /// schema and offers no tools.
    pub aside: bool,
}

/// How the parts of a streamed answer are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One JSON object.
    Whole,
    /// Server-sent events.
    Events,
    /// The elements of one JSON array (Gemini without `alt=sse`).
    Array,
}

/// What an answer needs to know of its request.
pub(crate) struct Facts<'a> {
    pub model: &'a str,
    /// The number of the request, from which the ids of the answer are made.
    pub number: usize,
    pub usage: Usage,
    /// Whether a stream is to report its usage (Chat leaves it to the client).
    pub stream_usage: bool,
}

/// A call of a model, with what its answer depends on.
pub(crate) struct Recognised {
    pub call: ModelCall,
    pub framing: Framing,
    pub stream_usage: bool,
    /// The schema of the JSON that the model is asked for, where it is asked for nothing else.
    pub schema: Option<Value>,
}

/// Returns the wire format that a path belongs to, if a model is called there.
pub(crate) fn at(path: &str) -> Option<Wire> {
    const ENDINGS: [(&str, Wire); 5] = [
        ("/responses", Wire::Responses),
        ("/chat/completions", Wire::Chat),
        ("/messages", Wire::Messages),
        (":generateContent", Wire::Gemini),
        (":streamGenerateContent", Wire::Gemini),
    ];
    let found = ENDINGS.iter().find(|(ending, _)| path.ends_with(ending));
    found.map(|(_, wire)| *wire)
}

/// Returns the wire format that a client speaks, by all that it sends beside the body.
pub(crate) fn spoken_by(parts: &Parts) -> Wire {
    let path = parts.uri.path();
    let has = |name: &str| parts.headers.contains_key(name);
    at(path).unwrap_or_else(|| {
        if has("anthropic-version") || path.contains("/messages") {
            Wire::Messages
        } else if has("x-goog-api-key") || path.contains("/v1beta") {
            Wire::Gemini
        } else {
            Wire::Responses
        }
    })
}

/// Says what a call asks for; the error is what is wrong with its body.
pub(crate) fn recognise(
    wire: Wire,
    path: &str,
    query: &str,
    body: &[u8],
) -> Result<Recognised, String> {
    let body: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let (model, streamed) = match wire {
        Wire::Gemini => (gemini::model(path), path.ends_with(":streamGenerateContent")),
        Wire::Responses | Wire::Chat | Wire::Messages => {
            (body["model"].as_str().unwrap_or_default(), body["stream"] == true)
        }
    };
    let framing = match (streamed, wire) {
        (false, _) => Framing::Whole,
        (true, Wire::Gemini) if !query.split('&').any(|field| field == "alt=sse") => Framing::Array,
        (true, _) => Framing::Events,
    };
    let tools = body["tools"].as_array().map_or(0, Vec::len);
    let schema = schema::asked_for(wire, &body).filter(|_| tools == 0);
    Ok(Recognised {
        call: ModelCall { wire, model: model.to_owned(), streamed, aside: schema.is_some() },
        framing,
        stream_usage: wire != Wire::Chat || body["stream_options"]["include_usage"] == true,
        schema: schema.cloned(),
    })
}

/// What a reply that fails says of it.
pub(crate) const FAILURE: &str = "rehearsed failure";

/// Returns the bytes of a reply, as its client reads them. A reply that fails can say so only in a
/// stream; instead of a whole one its client gets an error.
pub(crate) fn play(wire: Wire, framing: Framing, reply: &Reply, facts: &Facts) -> Vec<Beat> {
    match framing {
        Framing::Whole => play_whole(wire, reply, facts),
        Framing::Events => match wire {
            Wire::Responses => responses::stream(reply, facts),
            Wire::Chat => chat::stream(reply, facts),
            Wire::Messages => messages::stream(reply, facts),
            Wire::Gemini => gemini::stream(reply, facts),
        },
        Framing::Array => gemini::stream_array(reply, facts),
    }
}

/// A whole answer comes after all the waits of its steps; one that is cut breaks off in the middle.
fn play_whole(wire: Wire, reply: &Reply, facts: &Facts) -> Vec<Beat> {
    let value = match wire {
        Wire::Responses => responses::whole(reply, facts),
        Wire::Chat => chat::whole(reply, facts),
        Wire::Messages => messages::whole(reply, facts),
        Wire::Gemini => gemini::whole(reply, facts),
    };
    let bytes = Bytes::from(value.to_string());
    let waits = reply.steps.iter().filter_map(|step| match step {
        crate::Step::Wait(time) => Some(Beat::Wait(*time)),
        _ => None,
    });
    let mut beats: Vec<Beat> = waits.collect();
    match reply.end {
        End::Done | End::MaxTokens | End::Refused | End::Failed => beats.push(Beat::Send(bytes)),
        End::Cut => beats.extend([Beat::Send(bytes.slice(..bytes.len() / 2)), Beat::Cut]),
        End::Hang => beats.push(Beat::Hang),
    }
    beats
}

/// Returns the vendor's error object.
pub(crate) fn error(wire: Wire, error: &HttpError, number: usize) -> Value {
    match wire {
        Wire::Responses | Wire::Chat => openai_error(error.status, &error.message),
        Wire::Messages => messages::error(error, number),
        Wire::Gemini => gemini::error(error),
    }
}

fn openai_error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        404 => ("invalid_request_error", json!("model_not_found")),
        429 => ("rate_limit_error", json!("rate_limit_exceeded")),
        500.. => ("server_error", Value::Null),
        _ => ("invalid_request_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// One server-sent event, with its name if the wire names them.
fn event(name: Option<&str>, data: &Value) -> Beat {
    let text = match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    Beat::Send(text.into())
}
