//! Points each CLI to a model server, in a private home: environment, configuration file, and arguments for one
//! turn without a terminal. For rehearsals and captures; [`crate::relayed`] is for real runs.
//!
//! The server takes the place of the vendor's own, so that the CLI behaves as usual: Codex, for example, sends
//! 12 KiB less to a server that is configured as a custom provider.

pub mod measured;
pub mod offline;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files};
use convoke_redact::is_secret_name;
use serde_json::json;

use crate::adapter::is_nested;
use crate::config::Definition;
use crate::vendor::Vendor;

/// A placeholder key, which no vendor accepts.
const NO_KEY: &str = "rehearsal";

/// The variables that a program with a private home inherits; all others may contain a secret or change its
/// behaviour.
const KEPT: [&str; 9] =
    ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"];

/// A model server that takes the place of a vendor's own.
#[derive(Debug, Clone, Copy)]
pub struct ModelServer<'a> {
    /// Its address, without a slash at the end.
    pub base_url: &'a str,
    /// Its address as a proxy.
    pub proxy_url: &'a str,
}

/// Returns whether a variable of the user's environment is inherited.
pub fn is_kept(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| name == *kept)
}

/// Returns whether a variable of the user's environment is a setting of a CLI, and neither a key nor an
/// address. A measured program inherits these too.
pub fn is_setting(vendor: Vendor, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let (prefixes, names, others): (&[&str], &[&str], &[&str]) = match vendor {
        Vendor::Claude => (
            &["CLAUDE_", "ANTHROPIC_DEFAULT_", "DISABLE_", "ENABLE_", "MCP_", "BASH_"],
            &[
                "ANTHROPIC_MODEL",
                "ANTHROPIC_SMALL_FAST_MODEL",
                "MAX_THINKING_TOKENS",
                "SLASH_COMMAND_TOOL_CHAR_BUDGET",
            ],
            // Directories, sign-in and endpoints.
            &["CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_CLIENT_"],
        ),
        Vendor::Codex => (&[], &[], &[]),
        Vendor::Gemini => (
            &["GEMINI_CLI_"],
            &["GEMINI_MODEL", "GEMINI_SYSTEM_MD"],
            &["GEMINI_CLI_HOME", "GEMINI_CLI_IDE"],
        ),
    };
    // Some settings have names that look like those of secrets.
    let is_count = name.ends_with("_TOKENS");
    let is_own = names.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_other = others.iter().any(|other| name.starts_with(other));
    is_own && !is_other && !is_nested(name) && (is_count || !is_secret_name(name))
}

/// Returns the variables that point a CLI to the server and to a private home.
///
/// The server is also the CLI's proxy: it refuses and records requests to all other hosts.
pub fn environment(
    vendor: Vendor,
    server: ModelServer<'_>,
    home: &Path,
) -> Vec<(&'static str, OsString)> {
    let base_url = server.base_url;
    let vendors: Vec<(&'static str, OsString)> = match vendor {
        Vendor::Claude => vec![
            ("ANTHROPIC_BASE_URL", base_url.into()),
            ("ANTHROPIC_API_KEY", NO_KEY.into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("CLAUDE_CODE_MAX_RETRIES", "2".into()),
        ],
        // 0.98 reads the variable, later versions the configuration file.
        Vendor::Codex => vec![
            ("CODEX_HOME", home.join(".codex").into()),
            ("OPENAI_BASE_URL", format!("{base_url}/v1").into()),
            ("CODEX_API_KEY", NO_KEY.into()),
        ],
        Vendor::Gemini => vec![
            ("GOOGLE_GEMINI_BASE_URL", base_url.into()),
            ("GEMINI_API_KEY", NO_KEY.into()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
            ("GEMINI_CLI_NO_RELAUNCH", "1".into()),
        ],
    };
    private_home(server, home).into_iter().chain(vendors).collect()
}

/// Returns the variables that point an agent to the server and to a private home; `None` if this is not
/// supported.
pub fn agent_environment(
    agent: &Definition,
    server: ModelServer<'_>,
    home: &Path,
) -> Option<Vec<(&'static str, OsString)>> {
    let endpoint = agent.preset.and_then(|preset| preset.endpoint);
    let mut variables = match agent.vendor() {
        Some(vendor) => environment(vendor, server, home),
        None => private_home(server, home),
    };
    if agent.vendor().is_none() && endpoint.is_none() {
        return None;
    }
    let own = endpoint.map_or(&[][..], |endpoint| endpoint.variables).iter();
    variables
        .extend(own.map(|(name, value)| (*name, value.replace("{base}", server.base_url).into())));
    Some(variables)
}

/// Writes the settings of an agent that have no variable into its home.
pub fn configure_agent(
    agent: &Definition,
    base_url: &str,
    home: &Path,
) -> Result<(), EndpointError> {
    std::fs::create_dir_all(home.join("tmp")).map_err(at(&home.join("tmp")))?;
    if let Some(vendor) = agent.vendor() {
        configure(vendor, base_url, home)?;
    }
    let endpoint = agent.preset.and_then(|preset| preset.endpoint);
    for (name, text) in endpoint.map_or(&[][..], |endpoint| endpoint.files) {
        let path = home.join(name);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(at(directory))?;
        }
        std::fs::write(&path, text.replace("{base}", base_url)).map_err(at(&path))?;
    }
    Ok(())
}

/// Returns the variables of a private home, and of a server that is also the proxy.
fn private_home(server: ModelServer<'_>, home: &Path) -> Vec<(&'static str, OsString)> {
    let directories = vec![
        ("HOME", home.into()),
        ("TMPDIR", home.join("tmp").into()),
        ("XDG_CONFIG_HOME", home.join(".config").into()),
        ("XDG_CACHE_HOME", home.join(".cache").into()),
        ("XDG_DATA_HOME", home.join(".local/share").into()),
        ("XDG_STATE_HOME", home.join(".local/state").into()),
    ];
    let proxies = proxies(server).map(|(name, value)| (name, value.into()));
    directories.into_iter().chain(proxies).collect()
}

fn proxies(server: ModelServer<'_>) -> [(&'static str, &str); 6] {
    [
        ("HTTP_PROXY", server.proxy_url),
        ("HTTPS_PROXY", server.proxy_url),
        ("http_proxy", server.proxy_url),
        ("https_proxy", server.proxy_url),
        ("NO_PROXY", "127.0.0.1,localhost"),
        ("no_proxy", "127.0.0.1,localhost"),
    ]
}

/// Hides the user's own directory of Claude Code from a program with a private home and no arguments of ours; see
/// [`offline`].
pub fn hide_users_directory(users_directory: &Path, home: &Path) -> Result<(), EndpointError> {
    let directory = home.join(Vendor::Claude.facts().directory);
    std::fs::create_dir_all(&directory).map_err(at(&directory))?;
    edit(&directory.join("settings.json"), |text| {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let mut settings: serde_json::Value =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        settings["claudeMdExcludes"] = offline::hidden_patterns(users_directory).into();
        Ok(settings.to_string())
    })
}

/// Writes settings that have no variable into the configuration file of the home. Other settings stay.
pub fn configure(vendor: Vendor, base_url: &str, home: &Path) -> Result<(), EndpointError> {
    std::fs::create_dir_all(home.join("tmp")).map_err(at(&home.join("tmp")))?;
    let directory = home.join(vendor.facts().directory);
    std::fs::create_dir_all(&directory).map_err(at(&directory))?;
    match vendor {
        Vendor::Claude => match directory.join("settings.json") {
            settings if settings.exists() => edit(&settings, |text| Ok(claude_settings(text))),
            _ => Ok(()),
        },
        Vendor::Codex => {
            let redirected = |text: &str| {
                let mut file: toml::Table =
                    toml::from_str(text).map_err(|error| error.to_string())?;
                redirect_codex(&mut file, &format!("{base_url}/v1"));
                toml::to_string(&file).map_err(|error| error.to_string())
            };
            // A profile may be a file of its own.
            let names = Disk.names(&directory).unwrap_or_default();
            let profiles = names.iter().map(Path::new);
            let profiles = profiles.filter(|it| it.to_string_lossy().ends_with(".config.toml"));
            for profile in profiles {
                // One that is not TOML is an error of the program, if it is used.
                let _ = edit(&directory.join(profile), redirected);
            }
            edit(&directory.join("config.toml"), redirected)
        }
        // With a base address alone, the program requires a gateway's sign-in.
        Vendor::Gemini => edit(&directory.join("settings.json"), |text| {
            let text = without_comments(text);
            let text = if text.trim().is_empty() { "{}" } else { &text };
            let mut file: serde_json::Value =
                serde_json::from_str(text).map_err(|error| error.to_string())?;
            if !file.is_object() {
                return Err("not a JSON object".into());
            }
            for key in ["security", "auth"] {
                let place = if key == "auth" { &mut file["security"][key] } else { &mut file[key] };
                if !place.is_object() {
                    *place = json!({});
                }
            }
            file["security"]["auth"]["selectedType"] = json!("gemini-api-key");
            Ok(file.to_string())
        }),
    }
}

/// Removes credentials and endpoints from Claude Code's settings, which override the environment. A file that
/// is not JSON is unchanged, because the program ignores it.
fn claude_settings(text: &str) -> String {
    const SIGN_IN: [&str; 7] = [
        "apiKeyHelper",
        "proxyAuthHelper",
        "awsAuthRefresh",
        "awsCredentialExport",
        "gcpAuthRefresh",
        "otelHeadersHelper",
        "forceLoginMethod",
    ];
    let Ok(serde_json::Value::Object(mut settings)) = serde_json::from_str(text) else {
        return text.to_owned();
    };
    settings.retain(|name, _| !SIGN_IN.contains(&name.as_str()));
    if let Some(serde_json::Value::Object(variables)) = settings.get_mut("env") {
        variables.retain(|name, _| is_setting(Vendor::Claude, OsStr::new(name)));
    }
    serde_json::Value::Object(settings).to_string()
}

/// Points every provider of a Codex configuration to the server, without keys. The active provider stays
/// active, because the request depends on it. A provider that the file does not define cannot be redirected.
fn redirect_codex(file: &mut toml::Table, base_url: &str) {
    const KEYS: [&str; 8] = [
        "env_key",
        "env_key_instructions",
        "experimental_bearer_token",
        "http_headers",
        "env_http_headers",
        "query_params",
        "auth",
        "aws",
    ];
    file.insert("openai_base_url".into(), base_url.into());
    // A command that runs after each turn, outside the model's requests.
    file.remove("notify");
    let mut described = Vec::new();
    if let Some(toml::Value::Table(providers)) = file.get_mut("model_providers") {
        for (name, provider) in providers.iter_mut() {
            let Some(provider) = provider.as_table_mut() else { continue };
            provider.retain(|key, _| !KEYS.contains(&key));
            provider.insert("base_url".into(), base_url.into());
            provider.insert("supports_websockets".into(), false.into());
            described.push(name.clone());
        }
    }
    let keep_described = |table: &mut toml::Table| {
        let named = table.get("model_provider").and_then(toml::Value::as_str);
        if named.is_some_and(|named| !described.iter().any(|known| known == named)) {
            table.remove("model_provider");
        }
    };
    keep_described(file);
    if let Some(toml::Value::Table(profiles)) = file.get_mut("profiles") {
        profiles.iter_mut().filter_map(|(_, it)| it.as_table_mut()).for_each(keep_described);
    }
}

/// Returns the arguments with additions that make a CLI run one turn and exit.
pub fn headless(vendor: Vendor, arguments: &[OsString]) -> Vec<OsString> {
    let has =
        |wanted: &[&str]| arguments.iter().any(|given| wanted.iter().any(|one| given == *one));
    let mut all = arguments.to_vec();
    match vendor {
        Vendor::Claude if !has(&["-p", "--print", "--version", "--help"]) => {
            all.insert(0, "-p".into());
        }
        Vendor::Codex => {
            if !has(&["exec", "e", "review", "app-server", "--version", "--help"]) {
                all.insert(0, "exec".into());
            }
            let exec = all.iter().position(|given| given == "exec" || given == "e");
            if let Some(exec) = exec.filter(|_| !has(&["--skip-git-repo-check"])) {
                all.insert(exec + 1, "--skip-git-repo-check".into());
            }
        }
        // Gemini runs one turn whenever its standard input is not a terminal.
        Vendor::Claude | Vendor::Gemini => {}
    }
    all
}

fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), EndpointError> {
    let text = match Disk.read_text(path, FileKind::Configuration) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(at(path)(error)),
    };
    let text =
        change(&text).map_err(|reason| EndpointError::Invalid { path: path.to_owned(), reason })?;
    std::fs::write(path, text).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> EndpointError {
    let path = path.to_owned();
    move |source| EndpointError::File { path, source }
}

/// An error while preparing a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// A file cannot be read or written.
    #[error("cannot prepare {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A configuration file is invalid.
    #[error("cannot add to {}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
}

impl EndpointError {
    /// Replaces the path of the home in the error.
    #[must_use]
    pub fn seen_from(mut self, home: &Path, other: &Path) -> Self {
        let (Self::File { path, .. } | Self::Invalid { path, .. }) = &mut self;
        if let Ok(rest) = path.strip_prefix(home) {
            *path = other.join(rest);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect()
    }

    #[test]
    fn a_command_is_made_to_run_one_turn() {
        for (vendor, given, made) in [
            (Vendor::Claude, "hello", "-p hello"),
            (Vendor::Claude, "hello --print", "hello --print"),
            (Vendor::Codex, "hello", "exec --skip-git-repo-check hello"),
            (Vendor::Codex, "exec --json hi", "exec --skip-git-repo-check --json hi"),
            (Vendor::Codex, "-m x e hi", "-m x e --skip-git-repo-check hi"),
            (Vendor::Codex, "exec --skip-git-repo-check hi", "exec --skip-git-repo-check hi"),
            (Vendor::Gemini, "-p hello", "-p hello"),
            (Vendor::Gemini, "", ""),
        ] {
            assert_eq!(headless(vendor, &words(given)), words(made), "{vendor} {given}");
        }
    }

    #[test]
    fn the_text_of_a_configuration_file_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".codex/config.toml", "model = \"x\"\nmodel_provider = \"mine\"\n[a]\nb = 1\n");
        let settings = "{\"ui\": {\"theme\": \"dark\"}, // at night\n/* none */ \"security\": 3}";
        write(".gemini/settings.json", settings);
        let read = |path: &str| std::fs::read_to_string(home.path().join(path)).unwrap();
        for vendor in Vendor::ALL {
            configure(vendor, "http://127.0.0.1:1", home.path()).unwrap();
        }
        assert_eq!(
            read(".codex/config.toml"),
            "model = \"x\"\nopenai_base_url = \"http://127.0.0.1:1/v1\"\n\n[a]\nb = 1\n"
        );
        assert_eq!(
            read(".gemini/settings.json"),
            r#"{"ui":{"theme":"dark"},"security":{"auth":{"selectedType":"gemini-api-key"}}}"#
        );
    }

    #[test]
    fn every_provider_leads_to_the_server_without_its_keys() {
        let mut file: toml::Table = toml::from_str(
            "model_provider = \"mine\"\nnotify = [\"bell\"]\n[profiles.a]\nmodel_provider = \"none\"\nmodel = \"m\"\n\
             [model_providers.mine]\nname = \"Mine\"\nbase_url = \"https://x\"\nwire_api = \"chat\"\nenv_key = \"K\"\n\
             http_headers = { authorization = \"secret\" }\n",
        )
        .unwrap();
        redirect_codex(&mut file, "http://s/v1");
        let expected: toml::Table = toml::from_str(
            "model_provider = \"mine\"\nopenai_base_url = \"http://s/v1\"\n[profiles.a]\nmodel = \"m\"\n\
             [model_providers.mine]\nname = \"Mine\"\nbase_url = \"http://s/v1\"\nwire_api = \"chat\"\nsupports_websockets = false\n",
        )
        .unwrap();
        assert_eq!(file, expected);
    }

    #[test]
    fn settings_of_claude_keep_what_is_no_sign_in() {
        let text = r#"{"apiKeyHelper": "key", "model": "opus", "env": {"ANTHROPIC_BASE_URL": "x", "CLAUDE_CODE_X": "1", "HTTPS_PROXY": "y"}}"#;
        let kept: serde_json::Value = serde_json::from_str(&claude_settings(text)).unwrap();
        assert_eq!(kept, serde_json::json!({"env": {"CLAUDE_CODE_X": "1"}, "model": "opus"}));
        assert_eq!(claude_settings("{ no JSON"), "{ no JSON");
    }

    #[test]
    fn a_configuration_file_that_is_none_is_refused_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        for (vendor, path, text) in [
            (Vendor::Codex, ".codex/config.toml", "model ="),
            (Vendor::Gemini, ".gemini/settings.json", "[1]"),
        ] {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let refused = configure(vendor, "http://127.0.0.1:1", home.path()).unwrap_err();
            assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        }
    }
}
