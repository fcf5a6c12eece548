//! The wire formats, and the paths that they are served at.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A wire format.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
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

impl Wire {
    /// Every wire format.
    pub const ALL: [Self; 4] = [Self::Responses, Self::Chat, Self::Messages, Self::Gemini];

    /// Returns the wire format of a path at which a model is called.
    pub fn at(path: &str) -> Option<Self> {
        const ENDINGS: [(&str, Wire); 7] = [
            ("/responses", Wire::Responses),
            ("/chat/completions", Wire::Chat),
            ("/messages", Wire::Messages),
            // Claude on Vertex.
            (":rawPredict", Wire::Messages),
            (":streamRawPredict", Wire::Messages),
            (":generateContent", Wire::Gemini),
            (":streamGenerateContent", Wire::Gemini),
        ];
        let found = ENDINGS.iter().find(|(ending, _)| path.ends_with(ending));
        found.map(|(_, wire)| *wire)
    }
}
