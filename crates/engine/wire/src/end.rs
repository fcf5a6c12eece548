//! The end of an answer: why the model stopped, in the provider's word for it.

use convoke_protocol::wire::Wire;
use serde_json::Value;

/// The end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerEnd {
    /// Why the model stopped.
    pub kind: EndKind,
    /// The provider's word, for example `MAX_TOKENS`.
    pub word: String,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    /// It had said everything, or waits for its tools. Also for words that are not known.
    Complete,
    /// It reached its limit of output tokens.
    OutputFull,
    /// The conversation filled its context window.
    ContextFull,
    /// It refused, or a filter stopped it.
    Refused,
    /// It stopped before it was done, to be asked again.
    Unfinished,
}

/// The words that do not mean that an answer is complete. A word means the same wherever it is used.
const WORDS: &[(&str, EndKind)] = &[
    ("max_tokens", EndKind::OutputFull),
    ("max_output_tokens", EndKind::OutputFull),
    ("length", EndKind::OutputFull),
    ("MAX_TOKENS", EndKind::OutputFull),
    ("model_context_window_exceeded", EndKind::ContextFull),
    ("refusal", EndKind::Refused),
    ("content_filter", EndKind::Refused),
    ("SAFETY", EndKind::Refused),
    ("RECITATION", EndKind::Refused),
    ("BLOCKLIST", EndKind::Refused),
    ("PROHIBITED_CONTENT", EndKind::Refused),
    ("SPII", EndKind::Refused),
    ("IMAGE_SAFETY", EndKind::Refused),
    ("IMAGE_PROHIBITED_CONTENT", EndKind::Refused),
    ("IMAGE_RECITATION", EndKind::Refused),
    ("pause_turn", EndKind::Unfinished),
    ("MALFORMED_FUNCTION_CALL", EndKind::Unfinished),
    ("MALFORMED_RESPONSE", EndKind::Unfinished),
    ("UNEXPECTED_TOOL_CALL", EndKind::Unfinished),
    ("TOO_MANY_TOOL_CALLS", EndKind::Unfinished),
    ("LANGUAGE", EndKind::Unfinished),
    ("OTHER", EndKind::Unfinished),
];

impl AnswerEnd {
    /// Creates the end that a provider's word stands for.
    pub fn from_word(word: &str) -> Self {
        let known = WORDS.iter().find(|(known, _)| *known == word);
        Self { kind: known.map_or(EndKind::Complete, |(_, kind)| *kind), word: word.to_owned() }
    }

    fn refused(word: &str) -> Self {
        Self { kind: EndKind::Refused, word: word.to_owned() }
    }

    /// Reads the end from one JSON value of an answer: the whole of it, or one event.
    pub(crate) fn read(wire: Wire, value: &Value) -> Option<Self> {
        let word = |value: &Value| value.as_str().map(Self::from_word);
        match wire {
            Wire::Messages => {
                word(&value["delta"]["stop_reason"]).or_else(|| word(&value["stop_reason"]))
            }
            Wire::Responses => {
                let response =
                    if value["response"].is_object() { &value["response"] } else { value };
                let items = response["output"].as_array().into_iter().flatten();
                let mut items = items.chain([&value["item"]]);
                if items.any(refuses) {
                    return Some(Self::refused(REFUSAL));
                }
                let incomplete = word(&response["incomplete_details"]["reason"]);
                // A reason that is not known does not make an incomplete response complete.
                incomplete.map(|end| match end.kind {
                    EndKind::Complete => Self { kind: EndKind::Unfinished, ..end },
                    _ => end,
                })
            }
            Wire::Chat => {
                let choice = &value["choices"][0];
                let texts = [&choice["delta"]["refusal"], &choice["message"]["refusal"]];
                if texts.iter().any(|text| text.as_str().is_some_and(|text| !text.is_empty())) {
                    return Some(Self::refused(REFUSAL));
                }
                word(&choice["finish_reason"])
            }
            Wire::Gemini => {
                if let Some(reason) = value["promptFeedback"]["blockReason"].as_str() {
                    return Some(Self::refused(reason));
                }
                word(&value["candidates"][0]["finishReason"])
            }
        }
    }

    /// Returns the end after another event of the same answer: a refusal stays one, although the answer is complete after
    /// it.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        if self.kind == EndKind::Refused { self } else { next }
    }
}

const REFUSAL: &str = "refusal";

/// Returns whether an item is a message with a refusal.
fn refuses(item: &Value) -> bool {
    let mut parts = item["content"].as_array().into_iter().flatten();
    parts.any(|part| part["type"] == REFUSAL)
}
