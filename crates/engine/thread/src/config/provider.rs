//! Model providers.

use super::{ConfigError, Machine, Setting};
use crate::pack::Shape;

/// Codex's name of the provider that compacts threads itself.
const OPENAI: &str = "OpenAI";

/// Substrings that occur only in Azure addresses.
const AZURE_ADDRESSES: [&str; 6] = [
    "openai.azure.",
    "cognitiveservices.azure.",
    "aoai.azure.",
    "azure-api.",
    "azurefd.",
    "windows.net/openai",
];

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// The Responses API.
    Responses,
    /// Chat Completions.
    Chat,
}

/// The role of developer messages on the Chat wire; not every server supports `developer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeveloperRole {
    /// The role `developer`, as in Codex.
    #[default]
    Developer,
    /// The role `system`, which every server supports.
    System,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    pub base_url: Option<String>,
    /// The wire format.
    pub wire: Wire,
    /// The role of developer messages on the Chat wire.
    pub developer_role: DeveloperRole,
    /// The maximum number of retries after a failed stream.
    pub stream_max_retries: u64,
    /// The maximum number of retries after a server error.
    pub request_max_retries: u64,
}

impl Provider {
    pub(super) fn find(
        setting: &Setting<'_>,
        id: &str,
        machine: &Machine,
        shape: Shape,
    ) -> Result<Self, ConfigError> {
        let built_in = |name: &str, base_url: Option<String>| Self {
            name: name.to_owned(),
            base_url,
            wire: Wire::Responses,
            developer_role: DeveloperRole::Developer,
            stream_max_retries: DEFAULT_STREAM_RETRIES,
            request_max_retries: DEFAULT_REQUEST_RETRIES,
        };
        // A configuration cannot replace a built-in provider.
        match id {
            "openai" => return Ok(built_in(OPENAI, machine.openai_base_url.clone())),
            "ollama" | "lmstudio" => return Ok(built_in("gpt-oss", None)),
            _ => {}
        }
        let providers = setting.within("model_providers")?;
        if !providers.has(id) {
            return Err(ConfigError::UnknownProvider(id.to_owned()));
        }
        let table = providers.within(id)?;
        let wire = match (table.text("wire_api")?, shape) {
            (Some("chat"), _) | (None, Shape::Codex0_94) => Wire::Chat,
            (Some("responses"), _) | (None, Shape::Codex0_98) => Wire::Responses,
            (Some(other), _) => {
                let key = format!("model_providers.{id}.wire_api");
                return Err(ConfigError::value(key, format!("`{other}`"), "responses or chat"));
            }
        };
        Ok(Self {
            name: table.text("name")?.unwrap_or(id).to_owned(),
            base_url: table.text("base_url")?.map(str::to_owned),
            wire,
            developer_role: DeveloperRole::Developer,
            stream_max_retries: table
                .number("stream_max_retries")?
                .unwrap_or(DEFAULT_STREAM_RETRIES),
            request_max_retries: table
                .number("request_max_retries")?
                .unwrap_or(DEFAULT_REQUEST_RETRIES),
        })
    }

    /// Returns whether the provider compacts threads itself.
    pub fn compacts(&self) -> bool {
        self.name == OPENAI
    }

    /// Returns whether the provider is Azure, which must store responses and needs the ids of items.
    pub fn is_azure(&self) -> bool {
        let address = self.base_url.as_deref().unwrap_or("").to_ascii_lowercase();
        self.name.eq_ignore_ascii_case("azure")
            || AZURE_ADDRESSES.iter().any(|part| address.contains(part))
    }
}

const DEFAULT_STREAM_RETRIES: u64 = 5;
const DEFAULT_REQUEST_RETRIES: u64 = 4;
