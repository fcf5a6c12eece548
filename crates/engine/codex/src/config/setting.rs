//! Looks up values in a merged configuration: in the profile first, then at the top level.

use std::fmt::Display;
use std::str::FromStr;

use toml::{Table, Value};

use super::ConfigError;

/// The keys that apply in a profile; Codex ignores others.
const PROFILE_KEYS: [&str; 21] = [
    "analytics",
    "approval_policy",
    "chatgpt_base_url",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "experimental_use_freeform_apply_patch",
    "experimental_use_unified_exec_tool",
    "features",
    "include_apply_patch_tool",
    "model",
    "model_instructions_file",
    "model_provider",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "oss_provider",
    "personality",
    "sandbox_mode",
    "tools",
    "tools_view_image",
    "web_search",
];

/// A merged configuration and the selected profile.
#[derive(Debug)]
pub struct Setting<'a> {
    root: Option<&'a Table>,
    profile: Option<&'a Table>,
    /// The prefix of a key in errors.
    path: String,
}

impl<'a> Setting<'a> {
    /// Selects the named profile, or the configured one.
    pub fn new(root: &'a Table, profile: Option<&str>) -> Result<Self, ConfigError> {
        let configured = Self::without_profile(root).text("profile")?;
        let profile = match profile.or(configured) {
            None => None,
            Some(name) => {
                let found = root.get("profiles").and_then(|it| it.get(name)?.as_table());
                Some(found.ok_or_else(|| ConfigError::UnknownProfile(name.to_owned()))?)
            }
        };
        Ok(Self { root: Some(root), profile, path: String::new() })
    }

    /// Creates a lookup in a table without a profile.
    pub fn without_profile(root: &'a Table) -> Self {
        Self { root: Some(root), profile: None, path: String::new() }
    }

    /// Returns the tables to search, the profile's first.
    pub fn tables(&self) -> [Option<&'a Table>; 2] {
        [self.profile, self.root]
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        let counts = PROFILE_KEYS.contains(&key);
        let in_profile = self.profile.filter(|_| counts).and_then(|profile| profile.get(key));
        in_profile.or_else(|| self.root?.get(key))
    }

    /// Returns a lookup in a table of the top level.
    pub fn within(&self, key: &str) -> Result<Self, ConfigError> {
        let root = self.typed(key, "a table", Value::as_table)?;
        Ok(Self { root, profile: None, path: format!("{}{key}.", self.path) })
    }

    /// Returns whether a key is set.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns a switch of `features`, from the profile first.
    pub fn feature(&self, name: &str) -> Option<bool> {
        let of = |table: Option<&'a Table>| table?.get("features")?.get(name)?.as_bool();
        of(self.profile).or_else(|| of(self.root))
    }

    /// Returns the text of a key.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.typed(key, "a text", Value::as_str)
    }

    /// Returns the switch of a key.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// Returns the number of a key.
    pub fn number(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        let read = |value: &Value| u64::try_from(value.as_integer()?).ok();
        self.typed(key, "a whole number, 0 or more", read)
    }

    /// Returns the list of texts of a key.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
        let read = |value: &Value| {
            let texts = value.as_array()?.iter();
            texts.map(|it| it.as_str().map(str::to_owned)).collect()
        };
        self.typed(key, "a list of texts", read)
    }

    /// Reads a text that must be one of several.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<Option<String>, ConfigError> {
        let read = |value: &'a Value| value.as_str().filter(|text| choices.contains(text));
        let found = self.typed(key, &format!("one of {}", choices.join(", ")), read)?;
        Ok(found.map(str::to_owned))
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(typed) => Ok(Some(typed)),
            None => {
                Err(ConfigError::value(format!("{}{key}", self.path), value.to_string(), expected))
            }
        }
    }
}

/// Parses a name as one of the names that a key accepts.
pub fn parse<T>(key: &str, name: &str) -> Result<T, ConfigError>
where
    T: FromStr,
    T::Err: Display,
{
    name.parse().map_err(|wrong: T::Err| {
        let expected = wrong.to_string();
        let choices = expected.split_once(": use ").map_or(&*expected, |(_, names)| names);
        ConfigError::value(key, format!("`{name}`"), choices)
    })
}

/// An invalid override, not `key=value`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an override: write key=value, for example model=\"gpt-5\"")]
pub struct InvalidOverride(pub String);

/// Parses `key=value` as given to `-c`: a TOML value, else a plain string.
pub fn parse_override(text: &str) -> Result<(String, Value), InvalidOverride> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.trim().is_empty())
        .ok_or_else(|| InvalidOverride(text.to_owned()))?;
    let value = value.trim();
    let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    let plain = || Value::String(value.trim_matches(['"', '\'']).to_owned());
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(plain)))
}
