//! Checks whether Codex starts. Codex rejects values of the wrong type under every key that it knows, even keys
//! that do not affect a prompt, and ignores unknown keys.

use toml::{Table, Value};

use super::setting::Setting;
use super::{ConfigError, DocumentSettings, EFFORTS, SUMMARIES, VERBOSITIES, named_text};
use crate::project_doc::Rules;
use convoke_files::Files;

/// The built-in providers, which Codex 0.166 does not let a configuration replace.
const BUILT_IN: [&str; 3] = ["openai", "ollama", "lmstudio"];
/// A provider that became built in later, and that a configuration may change.
const BEDROCK: &str = "amazon-bedrock";

/// The required type of a value.
#[derive(Debug, Clone, Copy)]
enum ValueType {
    Text,
    FilledText,
    Bool,
    Unsigned,
    /// A whole number, 0 or more.
    Natural,
    Number,
    Texts,
    Table,
    /// A table or a switch.
    TableOrTruth,
    /// A list of texts or a switch.
    TextsOrTruth,
    /// One of several strings.
    OneOf(&'static [&'static str]),
    /// One of several strings, or a table with details.
    OneOfOrTable(&'static [&'static str]),
}

use ValueType::{
    Bool, FilledText, Natural, Number, OneOf, OneOfOrTable, TableOrTruth, Text, Texts,
    TextsOrTruth, Unsigned,
};

const APPROVALS: [&str; 4] = ["untrusted", "on-failure", "on-request", "never"];
const SANDBOXES: [&str; 3] = ["read-only", "workspace-write", "danger-full-access"];
const PERSONALITIES: [&str; 3] = ["none", "friendly", "pragmatic"];

/// Keys that both versions check at the top level and in every profile.
const ANYWHERE: &[(&str, ValueType)] = &[
    ("model", Text),
    ("model_provider", Text),
    ("sandbox_mode", OneOf(&SANDBOXES)),
    ("model_reasoning_summary", OneOf(&SUMMARIES)),
    ("model_verbosity", OneOf(&VERBOSITIES)),
    ("personality", OneOf(&PERSONALITIES)),
    ("model_instructions_file", Text),
    ("experimental_compact_prompt_file", Text),
    ("chatgpt_base_url", Text),
    ("oss_provider", Text),
    ("features.*", Bool),
];

/// The same for Codex 0.98 only.
const ANYWHERE_0_98: &[(&str, ValueType)] = &[
    ("approval_policy", OneOf(&APPROVALS)),
    ("model_reasoning_effort", OneOf(&EFFORTS)),
    ("web_search", OneOf(&["disabled", "cached", "live"])),
];

/// The same for Codex 0.166 only.
const ANYWHERE_0_166: &[(&str, ValueType)] = &[
    ("approval_policy", OneOfOrTable(&APPROVALS)),
    ("model_reasoning_effort", FilledText),
    ("web_search", OneOf(&["disabled", "cached", "indexed", "live"])),
];

/// Keys that both versions check at the top level; `*` matches every name.
const AT_THE_TOP: &[(&str, ValueType)] = &[
    ("profile", Text),
    ("profiles.*", ValueType::Table),
    ("projects.*", ValueType::Table),
    ("review_model", Text),
    ("model_context_window", Unsigned),
    ("model_auto_compact_token_limit", Unsigned),
    ("tool_output_token_limit", Natural),
    ("instructions", Text),
    ("developer_instructions", Text),
    ("compact_prompt", Text),
    ("notify", Texts),
    ("hide_agent_reasoning", Bool),
    ("show_raw_agent_reasoning", Bool),
    ("check_for_update_on_startup", Bool),
    ("disable_paste_burst", Bool),
    ("suppress_unstable_features_warning", Bool),
    ("log_dir", Text),
    ("file_opener", OneOf(&["vscode", "vscode-insiders", "windsurf", "cursor", "none"])),
    ("forced_login_method", OneOf(&["chatgpt", "api"])),
    ("sandbox_workspace_write.writable_roots", Texts),
    ("sandbox_workspace_write.network_access", Bool),
    ("sandbox_workspace_write.exclude_tmpdir_env_var", Bool),
    ("sandbox_workspace_write.exclude_slash_tmp", Bool),
    ("shell_environment_policy.inherit", OneOf(&["core", "all", "none"])),
    ("shell_environment_policy.ignore_default_excludes", Bool),
    ("shell_environment_policy.exclude", Texts),
    ("shell_environment_policy.set.*", Text),
    ("history.persistence", OneOf(&["save-all", "none"])),
    ("history.max_bytes", Natural),
    ("tui.notifications", TextsOrTruth),
    ("tui.animations", Bool),
    ("notice.hide_full_access_warning", Bool),
    ("tools", ValueType::Table),
    ("skills", ValueType::Table),
    ("agents", ValueType::Table),
    ("analytics", ValueType::Table),
    ("feedback", ValueType::Table),
    ("otel", ValueType::Table),
    ("ghost_snapshot", ValueType::Table),
    ("mcp_servers.*.command", Text),
    ("mcp_servers.*.args", Texts),
    ("mcp_servers.*.env.*", Text),
    ("mcp_servers.*.cwd", Text),
    ("mcp_servers.*.url", Text),
    ("mcp_servers.*.bearer_token_env_var", Text),
    ("mcp_servers.*.enabled", Bool),
    ("mcp_servers.*.enabled_tools", Texts),
    ("mcp_servers.*.startup_timeout_sec", Number),
    ("model_providers.*.name", Text),
    ("model_providers.*.base_url", Text),
    ("model_providers.*.env_key", Text),
    ("model_providers.*.wire_api", OneOf(&["responses"])),
    ("model_providers.*.http_headers.*", Text),
    ("model_providers.*.request_max_retries", Natural),
    ("model_providers.*.stream_max_retries", Natural),
    ("model_providers.*.requires_openai_auth", Bool),
];

const AT_THE_TOP_0_98: &[(&str, ValueType)] = &[
    ("model_supports_reasoning_summaries", Bool),
    ("tools.web_search", Bool),
    ("tools.view_image", Bool),
];

const AT_THE_TOP_0_166: &[(&str, ValueType)] =
    &[("tools.web_search", TableOrTruth), ("tui.theme", Text)];

/// Checks a merged configuration, whose paths are absolute, like Codex at its start with a profile.
///
/// Linear in the keys of the configuration.
pub fn check_start(
    files: &dyn Files,
    merged: &Table,
    rules: Rules,
    profile: Option<&str>,
) -> Result<(), ConfigError> {
    let (anywhere, at_the_top) = match rules {
        Rules::V0_98 => (ANYWHERE_0_98, AT_THE_TOP_0_98),
        Rules::V0_166 => (ANYWHERE_0_166, AT_THE_TOP_0_166),
    };
    DocumentSettings::read(merged)?;
    for (key, kind) in AT_THE_TOP.iter().chain(at_the_top).chain(ANYWHERE).chain(anywhere) {
        check(merged, "", key, *kind)?;
    }
    for (name, profile) in tables(merged, "profiles") {
        for (key, kind) in ANYWHERE.iter().chain(anywhere) {
            check(profile, &format!("profiles.{name}."), key, *kind)?;
        }
    }
    let history = merged.get("history").and_then(Value::as_table);
    if rules == Rules::V0_98 && history.is_some_and(|table| !table.contains_key("persistence")) {
        return Err(ConfigError::value("history.persistence", "missing", "save-all or none"));
    }
    check_servers(merged)?;
    check_providers(merged, rules)?;
    if let (Rules::V0_166, Some(name)) = (rules, merged.get("profile").and_then(Value::as_str)) {
        let instead = format!("`--profile {name}` and {name}.config.toml instead");
        return Err(ConfigError::value("profile", format!("`{name}`"), instead));
    }
    let setting = match rules {
        Rules::V0_98 => Setting::new(merged, profile)?,
        Rules::V0_166 => {
            check_profile(merged, profile)?;
            Setting::without_profile(merged)
        }
    };
    named_text(files, &setting, "model_instructions_file")?;
    named_text(files, &setting, "experimental_compact_prompt_file")?;
    match setting.text("model_provider")? {
        Some(name) if !is_provider(merged, rules, name) => {
            Err(ConfigError::UnknownProvider(name.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Checks the name of a profile that is a file of its own.
fn check_profile(merged: &Table, profile: Option<&str>) -> Result<(), ConfigError> {
    let Some(name) = profile else { return Ok(()) };
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    if name.is_empty() || !name.chars().all(is_plain) {
        let expected = "a name of letters, digits, `-` and `_`";
        return Err(ConfigError::value("profile", format!("`{name}`"), expected));
    }
    if tables(merged, "profiles").any(|(found, _)| found == name) {
        let key = format!("profiles.{name}");
        return Err(ConfigError::value(key, "a table", format!("the file {name}.config.toml")));
    }
    Ok(())
}

fn is_provider(merged: &Table, rules: Rules, name: &str) -> bool {
    BUILT_IN.contains(&name)
        || is_bedrock(rules, name)
        || tables(merged, "model_providers").any(|(id, _)| id == name)
}

fn is_bedrock(rules: Rules, name: &str) -> bool {
    rules == Rules::V0_166 && name == BEDROCK
}

/// Returns the tables in a table.
fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = (&'a str, &'a Table)> {
    let inner = table.get(key).and_then(Value::as_table).into_iter().flatten();
    inner.filter_map(|(name, value)| Some((name.as_str(), value.as_table()?)))
}

/// Checks the values that a table has under a dotted key.
fn check(table: &Table, path: &str, key: &str, kind: ValueType) -> Result<(), ConfigError> {
    let (first, rest) = match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    };
    for (name, value) in table.iter().filter(|(name, _)| first == "*" || first == *name) {
        let here = format!("{path}{name}");
        match (rest, value) {
            (None, value) if kind.admits(value) => {}
            (None, value) => return Err(ConfigError::value(here, value.to_string(), kind.name())),
            (Some(rest), Value::Table(inner)) => check(inner, &format!("{here}."), rest, kind)?,
            (Some(_), value) => {
                return Err(ConfigError::value(here, value.to_string(), ValueType::Table.name()));
            }
        }
    }
    Ok(())
}

/// Checks that a server is either started or called; each way has its own keys.
fn check_servers(merged: &Table) -> Result<(), ConfigError> {
    for (name, server) in tables(merged, "mcp_servers") {
        let key = |key: &str| format!("mcp_servers.{name}.{key}");
        let (foreign, way) = match (server.contains_key("command"), server.contains_key("url")) {
            (true, _) => (&["url", "bearer_token_env_var"][..], "it only without `command`"),
            (false, true) => (&["args", "env", "cwd"][..], "it only with `command`"),
            (false, false) => {
                return Err(ConfigError::value(key("command"), "missing", "it, or `url`"));
            }
        };
        let found = foreign.iter().find_map(|it| Some((it, server.get(*it)?)));
        if let Some((found, value)) = found {
            return Err(ConfigError::value(key(found), value.to_string(), way));
        }
    }
    Ok(())
}

/// Checks that a provider has a name and, in Codex 0.166, does not replace a built-in one.
fn check_providers(merged: &Table, rules: Rules) -> Result<(), ConfigError> {
    for (id, provider) in tables(merged, "model_providers") {
        if rules == Rules::V0_166 && BUILT_IN.contains(&id) {
            let key = format!("model_providers.{id}");
            return Err(ConfigError::value(key, "built in", "another name"));
        }
        if !is_bedrock(rules, id) && !provider.contains_key("name") {
            let key = format!("model_providers.{id}.name");
            return Err(ConfigError::value(key, "missing", Text.name()));
        }
    }
    Ok(())
}

impl ValueType {
    fn admits(self, value: &Value) -> bool {
        let is_text = |choices: &[&str]| value.as_str().is_some_and(|it| choices.contains(&it));
        match self {
            Self::Text => value.is_str(),
            Self::FilledText => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Bool => value.is_bool(),
            Self::Unsigned => value.is_integer(),
            Self::Natural => value.as_integer().is_some_and(|number| number >= 0),
            Self::Number => value.is_integer() || value.is_float(),
            Self::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_str)),
            Self::Table => value.is_table(),
            Self::TableOrTruth => value.is_table() || value.is_bool(),
            Self::TextsOrTruth => value.is_bool() || Self::Texts.admits(value),
            Self::OneOf(choices) => is_text(choices),
            Self::OneOfOrTable(choices) => is_text(choices) || value.is_table(),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Text | Self::FilledText => "a text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Unsigned => "a whole number".to_owned(),
            Self::Natural => "a whole number, 0 or more".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Table => "a table".to_owned(),
            Self::TableOrTruth => "a table, true or false".to_owned(),
            Self::TextsOrTruth => "a list of texts, true or false".to_owned(),
            Self::OneOf(choices) | Self::OneOfOrTable(choices) => {
                format!("one of {}", choices.join(", "))
            }
        }
    }
}
