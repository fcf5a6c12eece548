//! The vendors' wire formats: one module each, from a [`Reply`] to the bytes that its clients read.

use bytes::Bytes;
use convoke_protocol::wire::Wire;
use convoke_wire::Framing;
use serde_json::{Value, json};

use crate::body::SendStep;
use crate::script::{End, HttpError, Reply, Usage};

mod chat;
mod gemini;
mod messages;
mod moment;
mod responses;
mod schema;

pub(crate) use schema::instance as schema_instance;

/// The facts of a request that its answer needs.
pub(crate) struct Facts<'a> {
    pub model: &'a str,
    /// The number of the request, from which the ids of the answer are made.
    pub number: usize,
    pub usage: Usage,
    /// Whether a stream is to report its usage (Chat leaves it to the client).
    pub stream_usage: bool,
}

/// The error of a reply that fails.
pub(crate) const FAILURE: &str = "rehearsed failure";

/// Returns the bytes of a reply for its client. A reply that fails is reported in a stream; instead of a whole
/// one the client gets an error.
pub(crate) fn play(wire: Wire, framing: Framing, reply: &Reply, facts: &Facts) -> Vec<SendStep> {
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

/// Returns a whole answer, after all waits of its steps; one that is cut ends in the middle.
fn play_whole(wire: Wire, reply: &Reply, facts: &Facts) -> Vec<SendStep> {
    let value = match wire {
        Wire::Responses => responses::whole(reply, facts),
        Wire::Chat => chat::whole(reply, facts),
        Wire::Messages => messages::whole(reply, facts),
        Wire::Gemini => gemini::whole(reply, facts),
    };
    let bytes = Bytes::from(value.to_string());
    let waits = reply.steps.iter().filter_map(|step| match step {
        crate::ReplyStep::Wait(time) => Some(SendStep::Wait(*time)),
        _ => None,
    });
    let mut steps: Vec<SendStep> = waits.collect();
    match reply.end {
        End::Done | End::MaxTokens | End::Refused | End::Failed => {
            steps.push(SendStep::Send(bytes));
        }
        End::Cut => steps.extend([SendStep::Send(bytes.slice(..bytes.len() / 2)), SendStep::Cut]),
        End::Hang => steps.push(SendStep::Hang),
    }
    steps
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
fn event(name: Option<&str>, data: &Value) -> SendStep {
    let text = match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    SendStep::Send(text.into())
}
