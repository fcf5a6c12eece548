//! A CLI that reaches one model server only, whatever the files of the user, the project and the machine say, and that sees
//! its user's own directory once although its home is private.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::measured::Commands;
use super::{EndpointError, ModelServer, NO_KEY, at};
use crate::adapter::codex_provider;
use crate::claude_settings::{self, ProjectSettings, SettingsError};
use crate::relayed::claude::CLOUDS;
use crate::vendor::Vendor;

/// The surroundings of a CLI with a private home.
#[derive(Debug, Clone, Copy)]
pub struct OfflinePlace<'a> {
    /// The model server.
    pub server: ModelServer<'a>,
    /// The private home.
    pub home: &'a Path,
    /// The CLI's own directory of the user, which the private home replaces.
    pub users_directory: &'a Path,
    /// The working directory.
    pub cwd: &'a Path,
}

/// Returns the patterns that hide the instructions in a user's own directory of Claude Code from its search upwards.
///
/// With another home that directory is one of the directories above a project, and its instructions would be loaded
/// again, as the project's (2.1.197, 2.1.325), and 2.1.325 would then ignore every `AGENTS.md`.
pub(super) fn hidden_patterns(users_directory: &Path) -> Vec<String> {
    let mut directories = vec![users_directory.to_owned()];
    directories.extend(users_directory.canonicalize().ok().filter(|it| it != users_directory));
    let literal = |path: &PathBuf| {
        let path = path.to_string_lossy();
        // A backslash escapes nothing in these patterns.
        path.replace(|c: char| "*?[]{}()!+@|\\".contains(c), "?")
    };
    let patterns = directories.iter().map(literal);
    patterns.flat_map(|it| [format!("{it}/CLAUDE.md"), format!("{it}/rules/**")]).collect()
}

/// Returns the arguments with which Claude Code starts no servers of settings, beside the settings of
/// [`pointed_arguments`].
pub fn withholding(commands: Commands) -> Option<String> {
    (commands == Commands::Withheld).then(|| "--strict-mcp-config".to_owned())
}

/// Returns a user's arguments with those that lead to the model server, in place of any that lead elsewhere.
pub fn pointed_arguments(
    vendor: Vendor,
    commands: Commands,
    place: &OfflinePlace<'_>,
    users: &[String],
) -> Result<Vec<String>, EndpointError> {
    match vendor {
        Vendor::Claude => claude(commands, place, users),
        Vendor::Codex => Ok(codex(place.server, users)),
        Vendor::Gemini => Ok(users.to_vec()),
    }
}

/// Settings in the arguments override those of the user and of the project.
fn claude(
    commands: Commands,
    place: &OfflinePlace<'_>,
    users: &[String],
) -> Result<Vec<String>, EndpointError> {
    let (others, given) = claude_settings::split(users);
    let path = place.home.join("offline.json");
    let given = given.map(|given| claude_settings::read(&given, place.cwd)).transpose();
    let given = given.map_err(|error| match error {
        SettingsError::File { path, source } => EndpointError::File { path, source },
        error @ SettingsError::NoObject => {
            EndpointError::Invalid { path: "--settings".into(), reason: error.to_string() }
        }
    })?;
    let mut settings = given.unwrap_or_else(|| json!({}));
    if !settings["env"].is_object() {
        settings["env"] = json!({});
    }
    for (name, value) in claude_variables(place.server) {
        settings["env"][name] = json!(value);
    }
    let hidden = hidden_patterns(place.users_directory).into_iter().map(Value::from);
    let own = settings["claudeMdExcludes"].as_array().cloned().unwrap_or_default();
    settings["claudeMdExcludes"] = own.into_iter().chain(hidden).collect();
    if commands == Commands::Withheld {
        settings["disableAllHooks"] = json!(true);
        // A command of a project's settings that the program runs without a question.
        if names_key_helper(place.cwd) {
            settings["apiKeyHelper"] = json!(format!("echo {NO_KEY}"));
        }
    }
    std::fs::write(&path, settings.to_string()).map_err(at(&path))?;
    let mut arguments = vec![claude_settings::FLAG.to_owned(), path.display().to_string()];
    arguments.extend(others);
    Ok(arguments)
}

/// Returns the variables that settings files may set, with the values that lead to the server alone.
fn claude_variables(server: ModelServer<'_>) -> Vec<(&'static str, &str)> {
    let mut variables =
        vec![("ANTHROPIC_BASE_URL", server.base_url), ("ANTHROPIC_UNIX_SOCKET", "")];
    variables.extend(CLOUDS.map(|name| (name, "0")));
    variables.extend(super::proxies(server));
    variables
}

/// Returns whether settings of a project may name a command that prints a key.
fn names_key_helper(cwd: &Path) -> bool {
    let settings = ProjectSettings::read(cwd, None);
    settings.map_or(true, |settings| settings.file_with(&["apiKeyHelper"]).is_some())
}

/// Settings at the end of the command line override all others of it.
fn codex(server: ModelServer<'_>, users: &[String]) -> Vec<String> {
    let mut arguments = users.to_vec();
    let end = users.iter().position(|word| word == "--").unwrap_or(users.len());
    let own = codex_provider::addresses(users).into_iter();
    let own = own.flat_map(|name| ["-c".to_owned(), format!("{name}=\"{}/v1\"", server.base_url)]);
    arguments.splice(end..end, own);
    arguments
}
