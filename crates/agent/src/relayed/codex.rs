//! Codex: a setting on the command line sets the base URL of its provider. Its ACP adapter takes settings from
//! a variable.
//!
//! A custom provider would change the requests: the built-in one gets other items, tools and headers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_files::FileKind;
use convoke_files::limit::read_named_text;
use serde_json::{Map, Value};
use toml::Table;

use super::{
    CannotRelay, CliStart, CodexSignIn, EndpointSetting, ModelEndpoint, RedirectedStart, is_missing,
};
use crate::adapter::codex_provider::{args_setting, provider};
use crate::launch::AskError;

const API: &str = "https://api.openai.com/v1";
const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";

/// The hosts for renewing a sign-in, and for the settings of a workspace.
const SIGN_IN_HOSTS: &[&str] = &["auth.openai.com", "chatgpt.com"];

pub(super) fn endpoint(
    started: &CliStart<'_>,
    sign_in: impl FnOnce() -> Result<Option<CodexSignIn>, AskError>,
) -> Result<ModelEndpoint, CannotRelay> {
    let arguments: Vec<OsString> = started.arguments.iter().map(OsString::from).collect();
    check_managed(started.etc)?;
    let config = config(started)?;
    let adapter = adapter_config(started);
    let of_adapter = |name: &str| Some(adapter.get(name)?.as_str()?.to_owned());
    let chosen = started
        .text("MODEL_PROVIDER")
        .filter(|_| started.is_adapter)
        .or_else(|| of_adapter("model_provider"))
        .or_else(|| provider(&arguments, &config));
    let unsupported = |why: String| Err(CannotRelay::Unsupported(why));
    match chosen.as_deref() {
        None | Some("openai") => {}
        Some("amazon-bedrock") => return Err(CannotRelay::Signed("Codex on Amazon Bedrock")),
        Some(name @ ("ollama" | "ollama-chat" | "lmstudio" | "oss")) => {
            return unsupported(format!("the local provider `{name}` of Codex is not relayed"));
        }
        Some(name) => {
            let is_plain =
                name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            let setting = format!("model_providers.{name}.base_url");
            let of_file = || config.get("model_providers")?.get(name)?.get("base_url")?.as_str();
            let signs_in = config
                .get("model_providers")
                .and_then(|it| it.get(name)?.get("requires_openai_auth")?.as_bool())
                .unwrap_or(false);
            let base_url =
                args_setting(&arguments, &setting).or_else(|| of_file().map(str::to_owned));
            return match base_url {
                Some(base_url) if is_plain => Ok(ModelEndpoint {
                    base_url,
                    may_be_bound: false,
                    key_is_unselected: false,
                    sign_in_hosts: if signs_in { SIGN_IN_HOSTS } else { &[] },
                    pointer: EndpointSetting::CodexSettings {
                        names: vec![setting],
                        without_sockets: Some(format!(
                            "model_providers.{name}.supports_websockets"
                        )),
                    },
                }),
                _ => unsupported(format!(
                    "the provider `{name}` of Codex has no base URL in its configuration"
                )),
            };
        }
    }
    let pointer = EndpointSetting::CodexSettings {
        names: vec!["openai_base_url".to_owned()],
        without_sockets: None,
    };
    let setting = of_adapter("openai_base_url")
        .or_else(|| args_setting(&arguments, "openai_base_url"))
        .or_else(|| Some(config.get("openai_base_url")?.as_str()?.to_owned()));
    let variable = started.text("OPENAI_BASE_URL");
    let own = match Obeys::by(started) {
        Some(Obeys::Setting) => setting,
        Some(Obeys::Variable) => variable,
        None if setting == variable => setting,
        None => {
            let why = "it is not known whether this version of Codex obeys `openai_base_url` or \
                       OPENAI_BASE_URL; remove them, or set both to the same address";
            return unsupported(why.to_owned());
        }
    };
    let has_key = started.variable("CODEX_API_KEY").is_some();
    if let Some(base_url) = own {
        return Ok(ModelEndpoint {
            base_url,
            may_be_bound: false,
            key_is_unselected: false,
            sign_in_hosts: if has_key { &[] } else { SIGN_IN_HOSTS },
            pointer,
        });
    }
    let asked = if has_key { Ok(Some(CodexSignIn::Key)) } else { sign_in() };
    let signed_in = asked.map_err(|source| CannotRelay::Asked { program: "Codex", source })?;
    let (base_url, may_be_bound) = match signed_in.ok_or(CannotRelay::SignIn("Codex"))? {
        CodexSignIn::Key => (API, false),
        CodexSignIn::ChatGpt => (CHATGPT, true),
    };
    Ok(ModelEndpoint {
        base_url: base_url.to_owned(),
        may_be_bound,
        key_is_unselected: false,
        sign_in_hosts: if may_be_bound { SIGN_IN_HOSTS } else { &[] },
        pointer,
    })
}

pub(super) fn point(
    started: &CliStart<'_>,
    names: &[String],
    without_sockets: Option<&str>,
    base_url: &str,
) -> RedirectedStart {
    let mut arguments = started.arguments.to_vec();
    if started.is_adapter {
        let mut config = adapter_config(started);
        config.extend(names.iter().map(|name| (name.clone(), base_url.into())));
        config.extend(without_sockets.map(|name| (name.to_owned(), false.into())));
        let config = Value::Object(config).to_string();
        return RedirectedStart { arguments, env: vec![(ADAPTER_CONFIG.into(), config.into())] };
    }
    for name in names {
        arguments.extend(["-c".to_owned(), format!("{name}=\"{base_url}\"")]);
    }
    if let Some(name) = without_sockets {
        arguments.extend(["-c".to_owned(), format!("{name}=false")]);
    }
    // 0.98 reads the variable, later versions the setting.
    let env = vec![("OPENAI_BASE_URL".into(), base_url.into())];
    RedirectedStart { arguments, env }
}

/// The variable with the settings of the adapter's sessions, as JSON.
const ADAPTER_CONFIG: &str = "CODEX_CONFIG";

fn adapter_config(started: &CliStart<'_>) -> Map<String, Value> {
    let text = started.text(ADAPTER_CONFIG).filter(|_| started.is_adapter);
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The address of the built-in provider that a version obeys.
enum Obeys {
    /// The variable `OPENAI_BASE_URL` (0.98).
    Variable,
    /// The setting `openai_base_url` (0.166).
    Setting,
}

impl Obeys {
    fn by(started: &CliStart<'_>) -> Option<Self> {
        match started.version() {
            // An adapter brings a Codex of its own, which obeys the setting.
            _ if started.is_adapter => Some(Self::Setting),
            Some((0, minor, _)) if minor <= 98 => Some(Self::Variable),
            Some((major, minor, _)) if major > 0 || minor >= 166 => Some(Self::Setting),
            // Versions between were not measured.
            _ => None,
        }
    }
}

/// Returns the settings of the machine, the user and the administrator, merged.
fn config(started: &CliStart<'_>) -> Result<Table, CannotRelay> {
    let home = started.variable("CODEX_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| started.home().join(".codex"));
    let machine = started.etc.join("codex");
    let mut merged = read(&machine.join("config.toml"))?;
    merge(&mut merged, read(&home.join("config.toml"))?);
    merge(&mut merged, read(&machine.join(MANAGED))?);
    Ok(merged)
}

/// The administrator's settings, which count more than arguments.
const MANAGED: &str = "managed_config.toml";

/// Checks that no setting of the machine leads past an address that arguments name.
pub(crate) fn check_managed(etc: &Path) -> Result<(), CannotRelay> {
    let path = etc.join("codex").join(MANAGED);
    let managed = read(&path)?;
    let providers = managed.get("model_providers").and_then(toml::Value::as_table);
    let mut providers = providers.into_iter().flatten();
    let of_provider = || {
        let (name, _) = providers.find(|(_, it)| it.get("base_url").is_some())?;
        Some(format!("model_providers.{name}.base_url"))
    };
    let own = managed.contains_key("openai_base_url").then(|| "openai_base_url".to_owned());
    match own.or_else(of_provider) {
        Some(key) => Err(CannotRelay::Managed { path, key }),
        None => Ok(()),
    }
}

/// Reads a configuration file; without one, there are no settings.
fn read(path: &Path) -> Result<Table, CannotRelay> {
    let unclear = |reason| CannotRelay::Unclear { path: path.to_owned(), reason };
    match read_named_text(path, FileKind::Configuration) {
        Ok(text) => toml::from_str(&text).map_err(|error| unclear(error.message().to_owned())),
        Err(error) if is_missing(&error) => Ok(Table::new()),
        Err(error) => Err(unclear(error.to_string())),
    }
}

fn merge(below: &mut Table, above: Table) {
    for (name, value) in above {
        match (below.get_mut(&name), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => {
                below.insert(name, value);
            }
        }
    }
}
