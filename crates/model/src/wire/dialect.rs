//! Recognises streams in another wire format than the one that was asked for.

use convoke_thread::config::Wire;
use serde_json::Value;

use crate::client::CallError;

/// The formats of streams that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Responses,
    Chat,
    Messages,
    Gemini,
}

impl Dialect {
    /// Recognises the format of an event; most servers are named by their first one.
    pub fn of(event: &str) -> Option<Self> {
        let event: Value = serde_json::from_str(event).ok()?;
        let kind = event["type"].as_str().unwrap_or_default();
        if kind.starts_with("response.") {
            Some(Self::Responses)
        } else if event["choices"].is_array() || event["object"] == "chat.completion.chunk" {
            Some(Self::Chat)
        } else if kind.starts_with("message_") || kind.starts_with("content_block_") {
            Some(Self::Messages)
        } else if event["candidates"].is_array() {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    /// Returns the error of a stream with these events, if the wire has others.
    pub fn mismatch(self, wire: Wire) -> Option<CallError> {
        let use_wire = |name: &str, flag: &str| {
            format!(
                "it answers with events of {name}; say --wire {flag}, or wire = \"{flag}\" in a file"
            )
        };
        let unknown = |name: &str| {
            format!("it answers with events of {name}; an OpenAI-compatible address is needed")
        };
        Some(CallError::Shape(match (self, wire) {
            (Self::Responses, Wire::Responses) | (Self::Chat, Wire::Chat) => return None,
            (Self::Responses, Wire::Chat) => use_wire("the Responses API", "responses"),
            (Self::Chat, Wire::Responses) => use_wire("Chat Completions", SPEAKS_CHAT),
            (Self::Messages, _) => unknown("Anthropic's Messages API"),
            (Self::Gemini, _) => unknown("the Gemini API"),
        }))
    }
}

/// The name of the Chat wire in messages.
pub(crate) const SPEAKS_CHAT: &str = "chat";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_an_event_is_recognised_and_another_wire_is_named() {
        for (event, dialect) in [
            (r#"{"type":"response.created","response":{}}"#, Some(Dialect::Responses)),
            (r#"{"object":"chat.completion.chunk","choices":[]}"#, Some(Dialect::Chat)),
            (r#"{"type":"message_start","message":{}}"#, Some(Dialect::Messages)),
            (r#"{"candidates":[{"content":{}}]}"#, Some(Dialect::Gemini)),
            (r#"{"error":{"message":"x"}}"#, None),
            ("[DONE]", None),
        ] {
            assert_eq!(Dialect::of(event), dialect, "{event}");
        }
        assert_eq!(Dialect::Chat.mismatch(Wire::Chat), None);
        let named = Dialect::Chat.mismatch(Wire::Responses).unwrap();
        assert!(!named.is_passing() && named.to_string().contains("--wire chat"), "{named}");
        assert!(Dialect::Gemini.mismatch(Wire::Chat).is_some());
    }
}
