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

use super::Codex;
use super::provider::{args_setting, provider};
use super::residency::Conversation;
use convoke_agent::launch::AskError;
use convoke_agent::relayed::{
    CannotRelay, CliStart, ModelEndpoint, RedirectedStart, RegionQuestion, Relayable, is_missing,
    with_options,
};

const API: &str = "https://api.openai.com/v1";
const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";

/// The hosts for renewing a sign-in, and for the settings of a workspace.
const SIGN_IN_HOSTS: &[&str] = &["auth.openai.com", "chatgpt.com"];

impl Relayable for Codex {
    fn relayed_endpoint(
        &self,
        started: &CliStart<'_>,
        status: &mut dyn FnMut() -> Result<Option<String>, AskError>,
    ) -> Result<ModelEndpoint, CannotRelay> {
        let arguments: Vec<OsString> = started.arguments.iter().map(OsString::from).collect();
        self.check_managed(started.etc)?;
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
                let of_file =
                    || config.get("model_providers")?.get(name)?.get("base_url")?.as_str();
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
                        is_first_party: true,
                        settings: vec![setting, format!("model_providers.{name}.{SOCKETS}")],
                    }),
                    _ => unsupported(format!(
                        "the provider `{name}` of Codex has no base URL in its configuration"
                    )),
                };
            }
        }
        let settings = vec!["openai_base_url".to_owned()];
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
                is_first_party: true,
                settings,
            });
        }
        let signed_in = if has_key {
            Some(SignedIn::WithKey)
        } else {
            let asked = status();
            let said = asked.map_err(|source| CannotRelay::Asked { program: "Codex", source })?;
            said.as_deref().and_then(SignedIn::parse)
        };
        let (base_url, may_be_bound) = match signed_in.ok_or(CannotRelay::SignIn("Codex"))? {
            SignedIn::WithKey => (API, false),
            SignedIn::WithChatGpt => (CHATGPT, true),
        };
        Ok(ModelEndpoint {
            base_url: base_url.to_owned(),
            may_be_bound,
            key_is_unselected: false,
            sign_in_hosts: if may_be_bound { SIGN_IN_HOSTS } else { &[] },
            is_first_party: true,
            settings,
        })
    }

    fn pointed(
        &self,
        started: &CliStart<'_>,
        settings: &[String],
        base_url: &str,
        _proxies: &[(&'static str, OsString)],
        _private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        let value =
            |name: &str| if name.ends_with(SOCKETS) { Value::from(false) } else { base_url.into() };
        let arguments = started.arguments.to_vec();
        if started.is_adapter {
            let mut config = adapter_config(started);
            config.extend(settings.iter().map(|name| (name.clone(), value(name))));
            let config = Value::Object(config).to_string();
            return Ok(RedirectedStart {
                arguments,
                env: vec![(ADAPTER_CONFIG.into(), config.into())],
            });
        }
        // A JSON value is a valid TOML value.
        let options = settings.iter().map(|name| format!("{name}={}", value(name)));
        let arguments = with_options(arguments, options.flat_map(|it| ["-c".to_owned(), it]));
        // 0.98 reads the variable, later versions the setting.
        let env = vec![("OPENAI_BASE_URL".into(), base_url.into())];
        Ok(RedirectedStart { arguments, env })
    }

    fn check_managed(&self, etc: &Path) -> Result<(), CannotRelay> {
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

    fn region_question(&self) -> Option<Box<dyn RegionQuestion>> {
        Some(Box::new(Conversation::default()))
    }
}

/// The way of signing in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignedIn {
    WithKey,
    WithChatGpt,
}

impl SignedIn {
    /// Parses the output of `codex login status`.
    fn parse(answer: &str) -> Option<Self> {
        if answer.contains("ChatGPT") {
            Some(Self::WithChatGpt)
        } else {
            answer.contains("API key").then_some(Self::WithKey)
        }
    }
}

/// The setting of a provider that is turned off: a relay forwards no sockets.
const SOCKETS: &str = "supports_websockets";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_signing_in_is_read_from_its_status() {
        let parse = SignedIn::parse;
        assert_eq!(parse("Logged in using ChatGPT\n"), Some(SignedIn::WithChatGpt));
        assert_eq!(parse("Logged in using an API key - sk"), Some(SignedIn::WithKey));
        assert_eq!(parse("Not logged in"), None);
    }
}
