//! Points each CLI to a model server, with a private home: environment, configuration file, and arguments for one
//! turn without a terminal.
//!
//! The server replaces the vendor's own, so that the CLI behaves as usual: Codex, for example, sends 12 KiB less to
//! a server that is configured as a custom provider.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use serde_json::json;

use crate::adapter::without_comments;
use crate::vendor::Vendor;

/// The placeholder of a key, which no vendor accepts.
const NO_KEY: &str = "rehearsal";

/// The variables that a program with a private home inherits; all others may contain a secret or change its
/// behaviour.
const KEPT: [&str; 9] =
    ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"];

/// A model server that replaces a vendor's own.
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

/// Returns the variables that point a CLI to the server and to a private home.
///
/// The server is also the CLI's proxy: it refuses and records requests to all other hosts.
pub fn environment(
    vendor: Vendor,
    server: ModelServer<'_>,
    home: &Path,
) -> Vec<(&'static str, OsString)> {
    let ModelServer { base_url, proxy_url } = server;
    let own = [
        ("HOME", home.into()),
        ("TMPDIR", home.join("tmp").into()),
        ("XDG_CONFIG_HOME", home.join(".config").into()),
        ("XDG_CACHE_HOME", home.join(".cache").into()),
        ("XDG_DATA_HOME", home.join(".local/share").into()),
        ("XDG_STATE_HOME", home.join(".local/state").into()),
        ("HTTP_PROXY", proxy_url.into()),
        ("HTTPS_PROXY", proxy_url.into()),
        ("http_proxy", proxy_url.into()),
        ("https_proxy", proxy_url.into()),
        ("NO_PROXY", "127.0.0.1,localhost".into()),
        ("no_proxy", "127.0.0.1,localhost".into()),
    ];
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
    own.into_iter().chain(vendors).collect()
}

/// Writes settings that have no variable into the configuration file of the home. Other settings stay.
pub fn configure(vendor: Vendor, base_url: &str, home: &Path) -> Result<(), EndpointError> {
    std::fs::create_dir_all(home.join("tmp")).map_err(at(&home.join("tmp")))?;
    let directory = home.join(vendor.facts().directory);
    std::fs::create_dir_all(&directory).map_err(at(&directory))?;
    match vendor {
        Vendor::Claude => Ok(()),
        Vendor::Codex => edit(&directory.join("config.toml"), |text| {
            let mut file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
            file.insert("openai_base_url".into(), format!("{base_url}/v1").into());
            // A provider that the user configured has another address.
            file.remove("model_provider");
            toml::to_string(&file).map_err(|error| error.to_string())
        }),
        // With a base address alone, the program asks for a gateway's sign-in.
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

/// Returns the arguments with those added that make a CLI run one turn and exit.
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
pub enum EndpointError {
    /// A file cannot be read or written.
    #[error("cannot prepare {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
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
    fn what_stands_in_a_configuration_file_is_kept() {
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
