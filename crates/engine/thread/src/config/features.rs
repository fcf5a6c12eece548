//! The table `features`: values must be booleans, and unknown names are reported.

use convoke_core::diagnostic::Diagnostic;
use convoke_core::name::nearest;
use toml::{Table, Value};

use super::ConfigError;
use crate::diagnostics;

/// The features of Codex 0.98, with the older names that it still accepts.
const KNOWN: [&str; 31] = [
    "apply_patch_freeform",
    "apps",
    "child_agents_md",
    "collab",
    "collaboration_modes",
    "connectors",
    "elevated_windows_sandbox",
    "enable_experimental_windows_sandbox",
    "enable_request_compression",
    "exec_policy",
    "experimental_use_freeform_apply_patch",
    "experimental_use_unified_exec_tool",
    "experimental_windows_sandbox",
    "personality",
    "powershell_utf8",
    "remote_compaction",
    "remote_models",
    "request_rule",
    "responses_websockets",
    "runtime_metrics",
    "shell_snapshot",
    "shell_tool",
    "skill_env_var_dependency_prompt",
    "skill_mcp_dependency_install",
    "sqlite",
    "steer",
    "undo",
    "unified_exec",
    "use_linux_sandbox_bwrap",
    "web_search_cached",
    "web_search_request",
];

/// Checks the feature switches of a merged configuration and of its profile.
pub(super) fn check(tables: [Option<&Table>; 2]) -> Result<Vec<Diagnostic>, ConfigError> {
    let mut unknown = Vec::new();
    for features in tables.into_iter().flatten().filter_map(|table| table.get("features")) {
        let Value::Table(features) = features else {
            return Err(ConfigError::value("features", features.to_string(), "a table"));
        };
        for (name, value) in features {
            if !value.is_bool() {
                let key = format!("features.{name}");
                return Err(ConfigError::value(key, value.to_string(), "true or false"));
            }
            if !KNOWN.contains(&name.as_str()) {
                let meant = nearest(name, KNOWN);
                let meant = meant.map(|name| format!("; did you mean `{name}`?"));
                let message = format!(
                    "`features.{name}` has no effect: Codex 0.98 has no such feature{}",
                    meant.unwrap_or_default()
                );
                unknown.push(Diagnostic::new(diagnostics::CONFIG_IGNORED, message));
            }
        }
    }
    Ok(unknown)
}
