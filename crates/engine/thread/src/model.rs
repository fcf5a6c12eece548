//! Settings of models, looked up by name.

use std::borrow::Cow;

use serde::Deserialize;

use crate::personality::Personality;

const PLACEHOLDER: &str = "{{ personality }}";

/// The facts about a model.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// The names that the settings apply to.
    pub matches: ModelMatch,
    /// The source of the facts.
    pub source: ModelSource,
    /// The instructions of a thread with the model.
    pub base_instructions: String,
    /// The texts that personality-specific instructions are built from.
    pub model_messages: Option<ModelMessages>,
    /// The other settings.
    pub settings: ModelSettings,
}

/// The names that facts apply to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelMatch {
    /// This name.
    Slug(String),
    /// Names with one of these prefixes.
    Prefix(Vec<String>),
    /// Every name.
    Any(bool),
}

/// The source of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelSource {
    /// From a list of models, used only while the feature `remote_models` is on.
    RemoteModels,
    /// Built in.
    #[serde(rename = "built-in")]
    BuiltIn,
}

/// The texts that personality-specific instructions are built from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelMessages {
    /// Instructions with a placeholder for the personality.
    pub instructions_template: Option<String>,
    /// The default text of the placeholder.
    pub personality_default: Option<String>,
    /// The text for `friendly`.
    pub personality_friendly: Option<String>,
    /// The text for `pragmatic`.
    pub personality_pragmatic: Option<String>,
}

/// The settings of a model that are not texts.
#[derive(Debug, Clone, Deserialize)]
pub struct ModelSettings {
    /// The default reasoning effort.
    pub default_reasoning_level: Option<String>,
    /// Whether the model summarises its reasoning.
    pub supports_reasoning_summaries: bool,
    /// Whether the verbosity can be set.
    pub support_verbosity: bool,
    pub default_verbosity: Option<String>,
    /// The patch tool: `freeform`, `function` or none.
    pub apply_patch_tool_type: Option<String>,
    /// The limit on tool outputs.
    pub truncation_policy: TruncationPolicy,
    /// Whether the model may call several tools at once.
    pub supports_parallel_tool_calls: bool,
    /// The size of the context window, in tokens.
    pub context_window: Option<u64>,
    /// The number of tokens at which a thread is compacted.
    pub auto_compact_token_limit: Option<u64>,
    /// The usable part of the context window, in percent.
    pub effective_context_window_percent: Option<u64>,
}

/// The limit on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "mode", content = "limit", rename_all = "lowercase")]
#[non_exhaustive]
pub enum TruncationPolicy {
    /// A number of bytes.
    Bytes(u64),
    /// A number of tokens, of four bytes each.
    Tokens(u64),
}

/// A model in a thread: its settings with the overrides of the configuration.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// The name.
    pub slug: String,
    /// The instructions of a thread with the model.
    pub base_instructions: String,
    /// The texts that personality-specific instructions are built from.
    pub model_messages: Option<ModelMessages>,
    /// The other settings.
    pub settings: ModelSettings,
    /// Whether the name is unknown, so that the settings are the default ones.
    pub is_unknown: bool,
}

/// Overrides of a model's settings.
#[derive(Debug, Clone, Default)]
pub struct ModelOverrides {
    /// Replaces the model's instructions, and removes the personality.
    pub base_instructions: Option<String>,
    /// `features.personality`.
    pub personality: bool,
    /// `features.remote_models`.
    pub remote_models: bool,
    /// `model_supports_reasoning_summaries`.
    pub supports_reasoning_summaries: Option<bool>,
    /// `model_context_window`.
    pub context_window: Option<u64>,
    /// `model_auto_compact_token_limit`.
    pub auto_compact_token_limit: Option<u64>,
    pub tool_output_token_limit: Option<u64>,
}

impl ModelInfo {
    /// Finds the first settings that match a name, and applies the overrides.
    ///
    /// `listed` are the models that a server listed, which take precedence over the pack's. `None` if nothing
    /// matches, which a loaded pack rules out.
    pub fn find<'a>(
        slug: &str,
        listed: &'a [ModelFacts],
        known: &'a [ModelFacts],
        overrides: &ModelOverrides,
    ) -> Option<Self> {
        let counts = |facts: &&ModelFacts| {
            facts.matches.applies_to(slug)
                && (overrides.remote_models || facts.source == ModelSource::BuiltIn)
        };
        let facts = listed.iter().chain(known).find(counts)?;
        let mut model = Self {
            slug: slug.to_owned(),
            base_instructions: facts.base_instructions.clone(),
            model_messages: facts.model_messages.clone(),
            settings: facts.settings.clone(),
            is_unknown: matches!(facts.matches, ModelMatch::Any(_)),
        };
        model.apply(overrides);
        Some(model)
    }

    fn apply(&mut self, overrides: &ModelOverrides) {
        let settings = &mut self.settings;
        if let Some(supports) = overrides.supports_reasoning_summaries {
            settings.supports_reasoning_summaries = supports;
        }
        if overrides.context_window.is_some() {
            settings.context_window = overrides.context_window;
        }
        if overrides.auto_compact_token_limit.is_some() {
            settings.auto_compact_token_limit = overrides.auto_compact_token_limit;
        }
        if let Some(tokens) = overrides.tool_output_token_limit {
            settings.truncation_policy = match settings.truncation_policy {
                TruncationPolicy::Bytes(_) => TruncationPolicy::Bytes(tokens.saturating_mul(4)),
                TruncationPolicy::Tokens(_) => TruncationPolicy::Tokens(tokens),
            };
        }
        if let Some(instructions) = &overrides.base_instructions {
            self.base_instructions.clone_from(instructions);
            self.model_messages = None;
        } else if !overrides.personality {
            self.model_messages = None;
        }
    }

    /// Returns the instructions of a thread with this model and personality.
    pub fn instructions(&self, personality: Option<Personality>) -> Cow<'_, str> {
        let template = self
            .model_messages
            .as_ref()
            .and_then(|messages| messages.instructions_template.as_ref());
        match template {
            Some(template) => {
                let text = self.personality_text(personality).unwrap_or("");
                Cow::Owned(template.replace(PLACEHOLDER, text))
            }
            None => Cow::Borrowed(&self.base_instructions),
        }
    }

    /// Returns the text of a personality, if the model has it.
    pub fn personality_text(&self, personality: Option<Personality>) -> Option<&str> {
        let messages = self.model_messages.as_ref()?;
        match personality {
            None => messages.personality_default.as_deref(),
            Some(Personality::None) => Some(""),
            Some(Personality::Friendly) => messages.personality_friendly.as_deref(),
            Some(Personality::Pragmatic) => messages.personality_pragmatic.as_deref(),
        }
    }

    /// Returns whether the instructions can contain a personality.
    pub fn supports_personality(&self) -> bool {
        self.model_messages.as_ref().is_some_and(|messages| {
            let template = messages.instructions_template.as_ref();
            template.is_some_and(|template| template.contains(PLACEHOLDER))
                && messages.personality_default.is_some()
                && messages.personality_friendly.is_some()
                && messages.personality_pragmatic.is_some()
        })
    }

    /// Returns the number of tokens at which a thread is compacted: nine tenths of the window, unless it is
    /// configured.
    pub fn auto_compact_limit(&self) -> Option<u64> {
        let of_window = || Some(self.settings.context_window?.saturating_mul(9) / 10);
        self.settings.auto_compact_token_limit.or_else(of_window)
    }

    /// Returns whether the model writes patches as free text.
    pub fn patches_are_freeform(&self) -> bool {
        self.settings.apply_patch_tool_type.as_deref() == Some("freeform")
    }
}

impl ModelMatch {
    /// Returns the names, or prefixes of names, that match.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Slug(name) => std::slice::from_ref(name),
            Self::Prefix(prefixes) => prefixes,
            Self::Any(_) => &[],
        }
    }

    fn applies_to(&self, slug: &str) -> bool {
        match self {
            Self::Slug(name) => name == slug,
            Self::Prefix(prefixes) => prefixes.iter().any(|prefix| slug.starts_with(prefix)),
            Self::Any(any) => *any,
        }
    }
}

/// Parses a server's list of models (`{"models": […]}`).
pub fn read_listed(answer: &serde_json::Value) -> Result<Vec<ModelFacts>, serde_json::Error> {
    let listed = ServerList::deserialize(answer)?;
    let facts = listed.models.into_iter().map(|model| ModelFacts {
        matches: ModelMatch::Slug(model.slug),
        source: ModelSource::RemoteModels,
        base_instructions: model.base_instructions,
        model_messages: model.model_messages.map(|messages| {
            let variables = messages.instructions_variables.unwrap_or_default();
            ModelMessages {
                instructions_template: messages.instructions_template,
                personality_default: variables.default,
                personality_friendly: variables.friendly,
                personality_pragmatic: variables.pragmatic,
            }
        }),
        settings: model.settings,
    });
    Ok(facts.collect())
}

#[derive(Deserialize)]
struct ServerList {
    models: Vec<ServerModel>,
}

#[derive(Deserialize)]
struct ServerModel {
    slug: String,
    #[serde(default)]
    base_instructions: String,
    model_messages: Option<ServerMessages>,
    #[serde(flatten)]
    settings: ModelSettings,
}

#[derive(Deserialize)]
struct ServerMessages {
    instructions_template: Option<String>,
    instructions_variables: Option<ServerVariables>,
}

#[derive(Default, Deserialize)]
struct ServerVariables {
    #[serde(rename = "personality_default")]
    default: Option<String>,
    #[serde(rename = "personality_friendly")]
    friendly: Option<String>,
    #[serde(rename = "personality_pragmatic")]
    pragmatic: Option<String>,
}
