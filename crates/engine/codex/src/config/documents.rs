//! The keys that decide which project documents are loaded. With an invalid value, Codex does not start.

use toml::{Table, Value};

use super::ConfigError;
use super::setting::Setting;

/// The settings of project documents in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSettings {
    /// `project_doc_max_bytes`.
    pub max_bytes: Option<u64>,
    /// `project_doc_fallback_filenames`.
    pub fallback_names: Option<Vec<String>>,
    /// `project_root_markers`, or the default.
    pub root_markers: Vec<String>,
}

impl Default for DocumentSettings {
    fn default() -> Self {
        Self { max_bytes: None, fallback_names: None, root_markers: default_root_markers() }
    }
}

/// Returns the default of `project_root_markers`.
pub(super) fn default_root_markers() -> Vec<String> {
    vec![".git".to_owned()]
}

impl DocumentSettings {
    /// Reads the keys of a table, and checks its trust levels.
    pub fn read(table: &Table) -> Result<Self, ConfigError> {
        let setting = Setting::without_profile(table);
        check_trust(&setting, table)?;
        Ok(Self {
            max_bytes: setting.number("project_doc_max_bytes")?,
            fallback_names: setting.texts("project_doc_fallback_filenames")?,
            root_markers: setting
                .texts("project_root_markers")?
                .unwrap_or_else(default_root_markers),
        })
    }
}

fn check_trust(setting: &Setting<'_>, table: &Table) -> Result<(), ConfigError> {
    setting.within("projects")?;
    let projects = table.get("projects").and_then(Value::as_table);
    for (path, project) in projects.into_iter().flatten() {
        let level = project.get("trust_level");
        let is_known = |level: &Value| matches!(level.as_str(), Some("trusted" | "untrusted"));
        if let Some(level) = level.filter(|level| !is_known(level)) {
            let key = format!("projects.\"{path}\".trust_level");
            return Err(ConfigError::value(key, level.to_string(), "trusted or untrusted"));
        }
    }
    Ok(())
}
