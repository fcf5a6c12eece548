//! Recognises a stream in a wire format other than the configured one.

use convoke_protocol::wire::Wire as Format;
use convoke_thread::config::Wire;
use serde_json::Value;

use crate::client::CallError;

/// The name of the Chat wire in messages.
pub(crate) const CHAT: &str = "chat";

/// Recognises the format of an event. With most servers, the first event is enough.
pub(crate) fn format_of(event: &str) -> Option<Format> {
    let event: Value = serde_json::from_str(event).ok()?;
    let kind = event["type"].as_str().unwrap_or_default();
    if kind.starts_with("response.") {
        Some(Format::Responses)
    } else if event["choices"].is_array() || event["object"] == "chat.completion.chunk" {
        Some(Format::Chat)
    } else if kind.starts_with("message_") || kind.starts_with("content_block_") {
        Some(Format::Messages)
    } else if event["candidates"].is_array() {
        Some(Format::Gemini)
    } else {
        None
    }
}

/// Returns the error of a stream in another format than the configured wire's.
pub(crate) fn mismatch(format: Format, wire: Wire) -> Option<CallError> {
    let use_wire = |name: &str, flag: &str| {
        format!("the events are those of {name}; use --wire {flag}, or wire = \"{flag}\" in a file")
    };
    let unknown = |name: &str| {
        format!("the events are those of {name}; an OpenAI-compatible address is needed")
    };
    Some(CallError::Shape(match (format, wire) {
        (Format::Responses, Wire::Responses) | (Format::Chat, Wire::Chat) => return None,
        (Format::Responses, Wire::Chat) => use_wire("the Responses API", "responses"),
        (Format::Chat, Wire::Responses) => use_wire("Chat Completions", CHAT),
        (Format::Messages, _) => unknown("Anthropic's Messages API"),
        (Format::Gemini, _) => unknown("the Gemini API"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_an_event_is_recognised_and_another_wire_is_named() {
        for (event, format) in [
            (r#"{"type":"response.created","response":{}}"#, Some(Format::Responses)),
            (r#"{"object":"chat.completion.chunk","choices":[]}"#, Some(Format::Chat)),
            (r#"{"type":"message_start","message":{}}"#, Some(Format::Messages)),
            (r#"{"candidates":[{"content":{}}]}"#, Some(Format::Gemini)),
            (r#"{"error":{"message":"x"}}"#, None),
            ("[DONE]", None),
        ] {
            assert_eq!(format_of(event), format, "{event}");
        }
        assert_eq!(mismatch(Format::Chat, Wire::Chat), None);
        let named = mismatch(Format::Chat, Wire::Responses).unwrap();
        assert!(!named.is_passing() && named.to_string().contains("--wire chat"), "{named}");
        assert!(mismatch(Format::Gemini, Wire::Chat).is_some());
    }
}
