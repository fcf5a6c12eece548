//! The personality of the model.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::ModelInfo;

/// The personality of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Personality {
    /// No personality.
    None,
    /// Warm and encouraging.
    Friendly,
    /// Brief and to the point.
    Pragmatic,
}

/// An unknown personality.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown personality `{0}`: use none, friendly or pragmatic")]
pub struct UnknownPersonality(pub String);

impl FromStr for Personality {
    type Err = UnknownPersonality;

    fn from_str(name: &str) -> Result<Self, UnknownPersonality> {
        match name {
            "none" => Ok(Self::None),
            "friendly" => Ok(Self::Friendly),
            "pragmatic" => Ok(Self::Pragmatic),
            _ => Err(UnknownPersonality(name.to_owned())),
        }
    }
}

/// Returns the text to inject if the base instructions do not already contain it.
pub fn injected<'a>(
    model: &'a ModelInfo,
    base_instructions: &str,
    personality: Option<Personality>,
) -> Option<&'a str> {
    let personality = personality?;
    let is_included =
        model.supports_personality() && base_instructions == model.instructions(Some(personality));
    let text = model.personality_text(Some(personality))?;
    (!is_included && !text.is_empty()).then_some(text)
}

/// Returns the text to inject after a change of personality.
pub fn changed(
    model: &ModelInfo,
    before: Option<Personality>,
    now: Option<Personality>,
) -> Option<&str> {
    if before == now {
        return None;
    }
    let text = model.personality_text(Some(now?))?;
    (!text.is_empty()).then_some(text)
}
