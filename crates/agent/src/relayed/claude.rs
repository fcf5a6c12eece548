//! Claude Code: a settings file sets the base URL and marks it as the vendor's own endpoint.
//!
//! The `env` of settings files overrides the environment, so the endpoint is looked up in both, and the new
//! address goes into a settings file. Without the mark, the program would send different requests to an address
//! that is not the vendor's: other betas, other cache marks, and in some versions all tools at once.

use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use serde_json::{Value, json};

use super::gemini::GOOGLE_SIGN_IN;
use super::{CannotRelay, CliStart, EndpointSetting, ModelEndpoint, RedirectedStart, is_on, write};
use crate::claude_settings;
use crate::turn_input::Trust;

const FIRST_PARTY: &str = "https://api.anthropic.com";
/// The hosts for renewing a sign-in, and for the settings of an organisation.
const SIGN_IN_HOSTS: &[&str] = &["platform.claude.com", "api.anthropic.com"];
pub(super) const ASSUME: &str = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL";

pub(super) fn endpoint(started: &CliStart<'_>) -> Result<ModelEndpoint, CannotRelay> {
    let settings = Settings::read(started)?;
    let is_on = |name: &str| settings.variable(name).is_some_and(|value| is_on(&value));
    if is_on("CLAUDE_CODE_USE_BEDROCK") || is_on("CLAUDE_CODE_USE_MANTLE") {
        return Err(CannotRelay::Signed("Claude Code on Amazon Bedrock"));
    }
    if is_on("CLAUDE_CODE_USE_FOUNDRY") {
        let why = "Claude Code on Microsoft Foundry is not relayed".to_owned();
        return Err(CannotRelay::Unsupported(why));
    }
    if settings.variable("ANTHROPIC_UNIX_SOCKET").is_some() {
        let why = "ANTHROPIC_UNIX_SOCKET overrides every base URL".to_owned();
        return Err(CannotRelay::Unsupported(why));
    }
    let endpoint = |base_url: String, variable, is_first_party, sign_in_hosts| ModelEndpoint {
        base_url,
        may_be_bound: false,
        key_is_unselected: false,
        sign_in_hosts,
        pointer: EndpointSetting::ClaudeSettings { variable, is_first_party },
    };
    if is_on("CLAUDE_CODE_USE_VERTEX") {
        let region = settings.variable("CLOUD_ML_REGION").unwrap_or_else(|| "us-east5".to_owned());
        let host = match &*region {
            "global" => "aiplatform.googleapis.com".to_owned(),
            region => format!("{region}-aiplatform.googleapis.com"),
        };
        let own = settings.variable("ANTHROPIC_VERTEX_BASE_URL");
        let base_url = own.unwrap_or_else(|| format!("https://{host}/v1"));
        return Ok(endpoint(base_url, "ANTHROPIC_VERTEX_BASE_URL", false, GOOGLE_SIGN_IN));
    }
    let base_url = settings.variable("ANTHROPIC_BASE_URL");
    let base_url = base_url.unwrap_or_else(|| FIRST_PARTY.to_owned());
    let is_first_party = base_url.trim_end_matches('/') == FIRST_PARTY || is_on(ASSUME);
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];
    let has_key = keys.into_iter().any(|name| settings.variable(name).is_some());
    // A key for a private server needs no sign-in.
    let needs_no_sign_in = has_key && !is_first_party;
    let hosts = if needs_no_sign_in { &[] } else { SIGN_IN_HOSTS };
    Ok(endpoint(base_url, "ANTHROPIC_BASE_URL", is_first_party, hosts))
}

pub(super) fn point(
    started: &CliStart<'_>,
    variables: &[(&str, &str)],
    private_dir: &Path,
) -> Result<RedirectedStart, CannotRelay> {
    let (mut arguments, given) = claude_settings::split(started.arguments);
    let mut settings = match given {
        Some(given) => claude_settings::read(&given, started.cwd)?,
        None => json!({}),
    };
    if !settings["env"].is_object() {
        settings["env"] = json!({});
    }
    for (name, value) in variables {
        settings["env"][*name] = json!(value);
    }
    let path = write(private_dir.join("relay-settings.json"), &settings.to_string())?;
    arguments.extend([claude_settings::FLAG.to_owned(), path.display().to_string()]);
    Ok(RedirectedStart { arguments, env: Vec::new() })
}

/// The variables that settings files set, in order of precedence, and the environment below them.
struct Settings<'a> {
    started: &'a CliStart<'a>,
    files: Vec<Value>,
}

impl<'a> Settings<'a> {
    fn read(started: &'a CliStart<'a>) -> Result<Self, CannotRelay> {
        let mut files = Vec::new();
        if let (_, Some(given)) = claude_settings::split(started.arguments) {
            files.push(claude_settings::read(&given, started.cwd)?);
        }
        let directory = started.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
        let users = directory.unwrap_or_else(|| started.home().join(".claude"));
        let project = started.cwd.join(".claude");
        let mut paths = Vec::new();
        if started.trust == Trust::Trusted {
            paths.extend([project.join("settings.local.json"), project.join("settings.json")]);
        }
        paths.push(users.join("settings.json"));
        for path in paths {
            let text = Disk.read_text(&path, FileKind::Configuration).unwrap_or_default();
            files.push(serde_json::from_str(&text).unwrap_or_default());
        }
        Ok(Self { started, files })
    }

    fn variable(&self, name: &str) -> Option<String> {
        let mut values = self.files.iter().map(|file| &file["env"][name]);
        let set = values.find_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        });
        set.filter(|value| !value.is_empty()).or_else(|| self.started.text(name))
    }
}
