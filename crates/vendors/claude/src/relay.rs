//! Claude Code: a settings file sets the base URL and marks it as the vendor's own endpoint.
//!
//! The `env` of settings files overrides the environment, so the endpoint is looked up in both, and the new
//! address goes into a settings file. Without the mark, the program would send different requests to an address
//! that is not the vendor's: other betas, other cache marks, and in some versions all tools at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use serde_json::{Value, json};

use super::ClaudeCode;
use super::settings::{self as given_settings, SettingsError};
use convoke_agent::launch::AskError;
use convoke_agent::relayed::{
    CannotRelay, CliStart, GOOGLE_SIGN_IN, ModelEndpoint, RedirectedStart, Relayable, is_missing,
    is_on, with_options, write,
};
use convoke_agent::turn_input::Trust;

const FIRST_PARTY: &str = "https://api.anthropic.com";
/// The hosts for renewing a sign-in, and for the settings of an organisation.
const SIGN_IN_HOSTS: &[&str] = &["platform.claude.com", "api.anthropic.com"];
pub(super) const ASSUME: &str = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL";

impl Relayable for ClaudeCode {
    fn relayed_endpoint(
        &self,
        started: &CliStart<'_>,
        _status: &mut dyn FnMut() -> Result<Option<String>, AskError>,
    ) -> Result<ModelEndpoint, CannotRelay> {
        let settings = Settings::read(started)?;
        let is_on = |name: &str| settings.variable(name).is_some_and(|value| is_on(&value));
        if is_on("CLAUDE_CODE_USE_BEDROCK") || is_on("CLAUDE_CODE_USE_MANTLE") {
            if settings.variable("AWS_BEARER_TOKEN_BEDROCK").is_none() {
                return Err(CannotRelay::Signed("Claude Code on Amazon Bedrock"));
            }
            // A token signs nothing, but the answers are a binary stream that is not read here.
            let why = "Claude Code on Amazon Bedrock with a token is not relayed".to_owned();
            return Err(CannotRelay::Unsupported(why));
        }
        if is_on("CLAUDE_CODE_USE_FOUNDRY") {
            let why = "Claude Code on Microsoft Foundry is not relayed".to_owned();
            return Err(CannotRelay::Unsupported(why));
        }
        if settings.variable("ANTHROPIC_UNIX_SOCKET").is_some() {
            let why = "ANTHROPIC_UNIX_SOCKET overrides every base URL".to_owned();
            return Err(CannotRelay::Unsupported(why));
        }
        let endpoint = |base_url: String, variable, is_first_party, sign_in_hosts| {
            settings.check_managed(&[variable])?;
            Ok(ModelEndpoint {
                base_url,
                may_be_bound: false,
                key_is_unselected: false,
                sign_in_hosts,
                is_first_party,
                settings: [variable]
                    .into_iter()
                    .chain(is_first_party.then_some(ASSUME))
                    .map(str::to_owned)
                    .collect(),
            })
        };
        if is_on("CLAUDE_CODE_USE_VERTEX") {
            let region =
                settings.variable("CLOUD_ML_REGION").unwrap_or_else(|| "us-east5".to_owned());
            let host = match &*region {
                "global" => "aiplatform.googleapis.com".to_owned(),
                region => format!("{region}-aiplatform.googleapis.com"),
            };
            let own = settings.variable("ANTHROPIC_VERTEX_BASE_URL");
            let base_url = own.unwrap_or_else(|| format!("https://{host}/v1"));
            return endpoint(base_url, "ANTHROPIC_VERTEX_BASE_URL", false, GOOGLE_SIGN_IN);
        }
        let base_url = settings.variable("ANTHROPIC_BASE_URL");
        let base_url = base_url.unwrap_or_else(|| FIRST_PARTY.to_owned());
        let is_first_party = base_url.trim_end_matches('/') == FIRST_PARTY || is_on(ASSUME);
        let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];
        let has_key = keys.into_iter().any(|name| settings.variable(name).is_some());
        // A key for a private server needs no sign-in.
        let needs_no_sign_in = has_key && !is_first_party;
        let hosts = if needs_no_sign_in { &[] } else { SIGN_IN_HOSTS };
        endpoint(base_url, "ANTHROPIC_BASE_URL", is_first_party, hosts)
    }

    fn pointed(
        &self,
        started: &CliStart<'_>,
        settings: &[String],
        base_url: &str,
        proxies: &[(&'static str, OsString)],
        private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        let (arguments, given) = given_settings::split(started.arguments);
        let mut file = match given {
            Some(given) => given_settings::read(&given, started.cwd)?,
            None => json!({}),
        };
        if !file["env"].is_object() {
            file["env"] = json!({});
        }
        for name in settings {
            // The mark of the vendor's own endpoint is a switch.
            file["env"][name] = if name == ASSUME { json!("1") } else { json!(base_url) };
        }
        for (name, proxy) in proxies.iter().filter_map(|(name, it)| Some((name, it.to_str()?))) {
            file["env"][*name] = json!(proxy);
        }
        let path = write(private_dir.join("relay-settings.json"), &file.to_string())?;
        let option = [given_settings::FLAG.to_owned(), path.display().to_string()];
        let arguments = with_options(arguments, option);
        Ok(RedirectedStart { arguments, env: Vec::new() })
    }

    /// With auto mode, 2.1.325 sends the directory of a settings file that an argument names.
    fn pointed_by_variables(
        &self,
        started: &CliStart<'_>,
        settings: &[String],
        base_url: &str,
    ) -> Result<Option<RedirectedStart>, CannotRelay> {
        let read = Settings::read(started)?;
        if settings.iter().any(|name| read.is_set_by_file(name)) {
            return Ok(None);
        }
        let value = |name: &String| if name == ASSUME { "1" } else { base_url };
        let env = settings.iter().map(|name| (name.into(), value(name).into())).collect();
        Ok(Some(RedirectedStart { arguments: started.arguments.to_vec(), env }))
    }

    fn check_managed(&self, etc: &Path) -> Result<(), CannotRelay> {
        let managed = ManagedFiles::read(etc)?;
        let mut variables = vec!["ANTHROPIC_BASE_URL", "ANTHROPIC_UNIX_SOCKET"];
        variables.extend(CLOUDS);
        managed.check(&variables)
    }
}

impl From<SettingsError> for CannotRelay {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::File { path, source } => Self::File { path, source },
            SettingsError::NoObject => Self::Unsupported(error.to_string()),
        }
    }
}

/// The variables that choose a cloud.
pub(super) const CLOUDS: [&str; 4] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
];

/// The administrator's settings, which count more than arguments; the strongest first.
struct ManagedFiles(Vec<(PathBuf, Value)>);

impl ManagedFiles {
    fn read(etc: &Path) -> Result<Self, CannotRelay> {
        let directory = etc.join("claude-code");
        let parts = directory.join("managed-settings.d");
        let names = match Disk.names(&parts) {
            Err(error) if is_missing(&error) => Vec::new(),
            names => names.map_err(|source| CannotRelay::File { path: parts.clone(), source })?,
        };
        let is_read = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
        let mut paths = vec![directory.join("managed-settings.json")];
        paths.extend(names.iter().map(|name| parts.join(name)).filter(is_read));
        let files = paths.into_iter().rev().map(|path| Ok((path.clone(), read_json(&path)?)));
        files.collect::<Result<_, _>>().map(Self)
    }

    fn check(&self, variables: &[&str]) -> Result<(), CannotRelay> {
        for (path, settings) in &self.0 {
            let named = variables.iter().find(|name| value(settings, name).is_some());
            if let Some(name) = named {
                let (path, key) = (path.clone(), format!("env.{name}"));
                return Err(CannotRelay::Managed { path, key });
            }
        }
        Ok(())
    }
}

/// Reads a settings file; without one, there are no settings.
fn read_json(path: &Path) -> Result<Value, CannotRelay> {
    let settings = given_settings::read_as_claude(path);
    let settings =
        settings.map_err(|reason| CannotRelay::Unclear { path: path.to_owned(), reason })?;
    Ok(settings.unwrap_or_default())
}

/// Returns the variable that a settings file sets.
fn value(settings: &Value, name: &str) -> Option<String> {
    let text = match &settings["env"][name] {
        Value::String(text) => text.clone(),
        value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// The variables that settings files set, the strongest first, and the environment below them.
struct Settings<'a> {
    started: &'a CliStart<'a>,
    managed: ManagedFiles,
    files: Vec<Value>,
}

/// The first version that reads the local settings of a repository's root in its sub directories too; those between are
/// not measured.
const READS_ROOT: (u64, u64, u64) = (2, 1, 325);
const READS_NO_ROOT: (u64, u64, u64) = (2, 1, 197);

impl<'a> Settings<'a> {
    fn read(started: &'a CliStart<'a>) -> Result<Self, CannotRelay> {
        let mut files = Vec::new();
        if let (_, Some(given)) = given_settings::split(started.arguments) {
            files.push(given_settings::read(&given, started.cwd)?);
        }
        let directory = started.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
        let users = directory.unwrap_or_else(|| started.home().join(".claude"));
        let local = |directory: &Path| directory.join(".claude/settings.local.json");
        if started.trust == Trust::Trusted {
            files.push(read_json(&local(started.cwd))?);
            if let Some(root) = repository(started.cwd).filter(|root| root != started.cwd) {
                let path = local(&root);
                let settings = read_json(&path)?;
                match started.version() {
                    Some(version) if version >= READS_ROOT => files.push(settings),
                    Some(version) if version <= READS_NO_ROOT => {}
                    _ if settings["env"].is_object() => {
                        let why = format!(
                            "{} sets variables, and it is not known whether this version reads them",
                            path.display()
                        );
                        return Err(CannotRelay::Unsupported(why));
                    }
                    _ => {}
                }
            }
            files.push(read_json(&started.cwd.join(".claude/settings.json"))?);
        }
        files.push(read_json(&users.join("settings.json"))?);
        Ok(Self { started, managed: ManagedFiles::read(started.etc)?, files })
    }

    fn check_managed(&self, variables: &[&str]) -> Result<(), CannotRelay> {
        self.managed.check(variables)
    }

    fn set_by_file(&self, name: &str) -> Option<String> {
        let managed = self.managed.0.iter().map(|(_, file)| file);
        managed.chain(&self.files).find_map(|file| value(file, name))
    }

    fn is_set_by_file(&self, name: &str) -> bool {
        self.set_by_file(name).is_some()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.set_by_file(name).or_else(|| self.started.text(name))
    }
}

/// Returns the root of the repository; of a linked worktree, that of the main one.
fn repository(cwd: &Path) -> Option<PathBuf> {
    let root = cwd.ancestors().find(|path| path.join(".git").exists())?;
    let text = Disk.read_text(&root.join(".git"), FileKind::Configuration).unwrap_or_default();
    let linked = text.trim().strip_prefix("gitdir: ").and_then(|git| {
        let git = root.join(git);
        let worktrees = git.parent().filter(|it| it.ends_with(".git/worktrees"))?;
        Some(worktrees.parent()?.parent()?.to_owned())
    });
    Some(linked.unwrap_or_else(|| root.to_owned()))
}
