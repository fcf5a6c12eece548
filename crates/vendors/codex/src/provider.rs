//! The model provider of a Codex call, and its limits on retries.
//!
//! Codex retries a failed request silently and then restarts the whole stream, so the two counts multiply. Both are
//! settings of a provider; those of the built-in providers cannot be changed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use convoke_files::FileKind;
use convoke_files::limit::read_named_text;
use toml::Table;

use convoke_agent::adapter::Context;

/// Codex's built-in providers.
const BUILT_IN: &[&str] = &["openai", "amazon-bedrock", "ollama", "ollama-chat", "lmstudio", "oss"];

/// The number of requests before a built-in provider reports a failure.
const BUILT_IN_REQUESTS: u64 = 5;

/// The limit on retries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RetryLimit {
    /// The settings that limit the provider's retries; empty for a built-in one.
    pub settings: Vec<String>,
    /// The number of requests per reported failure.
    pub requests: u64,
}

/// Returns the settings for `limits.retries` retries.
pub(super) fn retry_limit(context: &Context<'_>, args: &[OsString]) -> RetryLimit {
    let provider = provider(args, &config(context));
    let name = provider.as_deref().unwrap_or("openai");
    // In the path of a setting, dots and quotation marks have a special meaning.
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if BUILT_IN.contains(&name) || !is_plain {
        return RetryLimit { settings: Vec::new(), requests: BUILT_IN_REQUESTS };
    }
    let retries = context.turn_input.limits.retries;
    RetryLimit {
        settings: vec![
            format!("model_providers.{name}.request_max_retries=0"),
            format!("model_providers.{name}.stream_max_retries={retries}"),
        ],
        requests: 1,
    }
}

/// Returns the variable that holds the key of the configured provider.
pub(super) fn key_variable(config: &str) -> Option<String> {
    let config: Table = toml::from_str(config).ok()?;
    let name = provider(&[], &config)?;
    let key = config.get("model_providers")?.get(name)?.get("env_key")?;
    key.as_str().map(str::to_owned)
}

/// Returns Codex's own directory.
pub(super) fn home(context: &Context<'_>) -> Option<PathBuf> {
    let moved = context.variable("CODEX_HOME").map(PathBuf::from);
    moved.or_else(|| Some(PathBuf::from(context.variable("HOME")?).join(".codex")))
}

/// Reads the user's configuration; an unreadable one counts as empty.
pub(super) fn config_text(context: &Context<'_>) -> String {
    read_config(context).unwrap_or_default()
}

/// Returns whether the user's configuration may contain a word: Codex may read what Convoke cannot.
pub(super) fn may_contain(context: &Context<'_>, word: &str) -> bool {
    match read_config(context) {
        Ok(text) => text.contains(word),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn read_config(context: &Context<'_>) -> io::Result<String> {
    let home = home(context).ok_or(io::ErrorKind::NotFound)?;
    read_named_text(&home.join("config.toml"), FileKind::Configuration)
}

/// Returns the user's configuration; an invalid one counts as empty.
pub(super) fn config(context: &Context<'_>) -> Table {
    toml::from_str(&config_text(context)).unwrap_or_default()
}

/// Returns the provider that the arguments, a profile or the configuration selects.
pub(super) fn provider(args: &[OsString], config: &Table) -> Option<String> {
    let setting = |name: &str| args_setting(args, name);
    let of = |table: &Table, name: &str| Some(table.get(name)?.as_str()?.to_owned());
    let profile = option(args, &["-p", "--profile"])
        .or_else(|| setting("profile"))
        .or_else(|| of(config, "profile"));
    let profile = profile.and_then(|name| config.get("profiles")?.get(name)?.as_table());
    setting("model_provider")
        .or_else(|| of(profile?, "model_provider"))
        .or_else(|| of(config, "model_provider"))
}

/// Returns the last value that `-c NAME=VALUE` sets.
pub(super) fn args_setting(args: &[OsString], name: &str) -> Option<String> {
    let args: Vec<&str> = args.iter().filter_map(|argument| argument.to_str()).collect();
    let found = settings(&args).into_iter().rev().find(|(set, _)| *set == name);
    found.map(|(_, value)| match parsed(value) {
        Some(toml::Value::String(text)) => text,
        _ => value.trim().to_owned(),
    })
}

/// Returns the settings of addresses that arguments change.
pub(super) fn addresses(args: &[String]) -> Vec<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut names = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    let of_provider = |provider: &str| format!("model_providers.{provider}.base_url");
    for (name, value) in settings(&args) {
        if name == "openai_base_url" {
            add(name.to_owned());
        }
        let Some(rest) = name.strip_prefix("model_providers") else { continue };
        if let Some(rest) = rest.strip_prefix('.') {
            add(of_provider(rest.split('.').next().unwrap_or_default()));
        } else if let Some(toml::Value::Table(providers)) = parsed(value) {
            providers.keys().for_each(|it| add(of_provider(it)));
        }
    }
    names
}

/// Returns the names and values that `-c NAME=VALUE` sets, in order.
fn settings<'a>(args: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut rest = args.iter();
    while let Some(argument) = rest.next() {
        let setting = match *argument {
            "-c" | "--config" => rest.next().copied(),
            other => other.strip_prefix("--config=").or_else(|| other.strip_prefix("-c")),
        };
        found.extend(setting.and_then(|setting| setting.split_once('=')));
    }
    found
}

fn parsed(value: &str) -> Option<toml::Value> {
    let table = toml::from_str::<Table>(&format!("value = {}", value.trim())).ok();
    table.and_then(|mut table| table.remove("value"))
}

/// Returns the value of an option.
fn option(args: &[OsString], names: &[&str]) -> Option<String> {
    let at = args.iter().position(|argument| names.iter().any(|name| argument == name))?;
    args.get(at + 1).and_then(|value| OsStr::to_str(value)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_of_the_users_own_names_the_variable_of_its_key() {
        let file = "model_provider = \"mine\"\n[model_providers.mine]\nenv_key = \"MY_KEY\"\n";
        assert_eq!(key_variable(file).as_deref(), Some("MY_KEY"));
        assert_eq!(key_variable("model = \"gpt-5\""), None);
    }

    #[test]
    fn every_address_of_the_arguments_is_found() {
        let args = [
            "-copenai_base_url=x",
            "-c",
            "model_providers.a.base_url=\"x\"",
            "-c",
            "model_providers={b={}}",
        ];
        assert_eq!(
            addresses(&args.map(str::to_owned)),
            ["openai_base_url", "model_providers.a.base_url", "model_providers.b.base_url"]
        );
    }

    #[test]
    fn the_provider_is_that_of_the_arguments_the_profile_or_the_file() {
        let file = "model_provider = \"file\"\n[profiles.work]\nmodel_provider = \"work\"\n";
        for (args, config, expected) in [
            (&[][..], "", None),
            (&[], file, Some("file")),
            (&["-p", "work"], file, Some("work")),
            (&["-c", "profile=work"], file, Some("work")),
            (&["-c", "model_provider=\"a\"", "-c", "model_provider='b'"], file, Some("b")),
            (&["--config=model_provider=a"], file, Some("a")),
            (&["-c", "model_providers.x.name=\"a\""], "", None),
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            let config: Table = toml::from_str(config).unwrap();
            assert_eq!(provider(&args, &config).as_deref(), expected, "{args:?}");
        }
    }
}
