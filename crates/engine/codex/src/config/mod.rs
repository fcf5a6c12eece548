//! Codex's `config.toml`: its layers and profiles, and the values with which Codex does not start.
//!
//! [`Layers`] merges the files of the machine, the user and a trusted project with `-c` arguments; [`Setting`]
//! looks up values in the result; [`check_start`] checks whether Codex starts with it.

mod documents;
mod layers;
mod setting;
mod startup;

use std::io;
use std::path::PathBuf;

use convoke_files::{FileKind, Files};

pub use documents::DocumentSettings;
pub use layers::{ConfigPlaces, Layers, directories_between, project_root, resolved};
pub use setting::{InvalidOverride, Setting, parse, parse_override};
pub use startup::check_start;

/// An invalid configuration; the message names the file and the field.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}, which `{key}` names")]
    Unreadable {
        /// The file.
        path: PathBuf,
        key: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A file that must not be blank is blank.
    #[error("{path} is empty, and `{key}` names it")]
    Blank {
        /// The file.
        path: PathBuf,
        key: &'static str,
    },
    /// A file is not TOML.
    #[error("{path} is not valid TOML: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        reason: String,
    },
    /// A field has an invalid value.
    #[error("{place}: `{key}` is {found}: use {expected}")]
    Value {
        /// The source: a file, or `-c`.
        place: String,
        /// The field.
        key: String,
        /// The value found.
        found: String,
        /// The expected values.
        expected: String,
    },
    /// The profile is not configured.
    #[error("the profile `{0}` is not in config.toml: add [profiles.{0}] or name another")]
    UnknownProfile(String),
    /// The provider is not configured.
    #[error("the provider `{0}` is unknown: add [model_providers.{0}] or name another")]
    UnknownProvider(String),
}

impl ConfigError {
    /// Creates the error of an invalid value whose source is not known yet.
    pub fn value(
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let place = "config.toml".to_owned();
        Self::Value { place, key: key.into(), found: found.into(), expected: expected.into() }
    }

    /// Returns the key that the error is about; empty for a whole file.
    fn key(&self) -> &str {
        match self {
            Self::Value { key, .. } => key,
            Self::UnknownProfile(_) => "profile",
            Self::UnknownProvider(_) => "model_provider",
            Self::Unreadable { key, .. } | Self::Blank { key, .. } => key,
            Self::Syntax { .. } => "",
        }
    }

    /// Returns the error with the source of the value.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Self {
        match self {
            Self::Value { key, found, expected, .. } => {
                Self::Value { place: place.into(), key, found, expected }
            }
            other => other,
        }
    }
}

/// The reasoning efforts of Codex.
pub const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
/// The kinds of reasoning summary of Codex.
pub const SUMMARIES: [&str; 4] = ["auto", "concise", "detailed", "none"];
/// The verbosities of Codex.
pub const VERBOSITIES: [&str; 3] = ["low", "medium", "high"];

/// Reads the file that a key names, trimmed.
pub fn named_text(
    files: &dyn Files,
    setting: &Setting<'_>,
    key: &'static str,
) -> Result<Option<String>, ConfigError> {
    let Some(path) = setting.text(key)? else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    match files.read_text(&path, FileKind::Instructions) {
        Ok(text) if text.trim().is_empty() => Err(ConfigError::Blank { path, key }),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(source) => Err(ConfigError::Unreadable { path, key, source }),
    }
}
