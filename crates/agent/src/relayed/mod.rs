//! Determines the endpoint that a CLI would use, and points the CLI to a relay without changing its requests. For real runs,
//! in the user's own home; [`crate::endpoint`] is for rehearsals and captures.

pub(crate) mod claude;
pub(crate) mod codex;
mod gemini;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::adapter::write_private;
use crate::claude_settings::SettingsError;
use crate::launch::AskError;
use crate::turn_input::Trust;
use crate::vendor::Vendor;

/// A CLI as it would be started.
#[derive(Debug, Clone, Copy)]
pub struct CliStart<'a> {
    /// The CLI.
    pub vendor: Vendor,
    /// Whether it is an adapter that runs the CLI and speaks the Agent Client Protocol.
    pub is_adapter: bool,
    /// The arguments that the user configured.
    pub arguments: &'a [String],
    /// The environment.
    pub env: &'a [(OsString, OsString)],
    /// The working directory.
    pub cwd: &'a Path,
    /// Whether the CLI reads the settings of that directory.
    pub trust: Trust,
    /// The version of the CLI, where it is known.
    pub version: Option<&'a str>,
    /// The directory with the settings of the machine, `/etc`.
    pub etc: &'a Path,
}

/// The endpoint of a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The base URL.
    pub base_url: String,
    /// Whether a `ChatGPT` workspace may be bound to a region, which a relay would ignore. This must be checked
    /// first.
    pub may_be_bound: bool,
    /// Whether Gemini CLI has a key that its settings do not select. It rejects such a key together with a base
    /// URL.
    pub key_is_unselected: bool,
    /// The hosts that the CLI contacts itself, to sign in, to renew its sign-in, and to read an organisation's
    /// policy.
    pub sign_in_hosts: &'static [&'static str],
    pointer: EndpointSetting,
}

/// The addresses of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelayAddress<'a> {
    /// The base URL that replaces the endpoint's own.
    pub base_url: &'a str,
    /// The proxy to the sign-in hosts, for a CLI that can reach only the relay.
    pub proxy: Option<&'a str>,
}

/// The variables that name a proxy.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
/// The variables that list hosts without a proxy.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The settings that point a CLI to another endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EndpointSetting {
    /// Variables in a settings file of Claude Code, which override its environment.
    ClaudeSettings { variable: &'static str, is_first_party: bool },
    /// Settings of Codex, and the variable that its early versions read.
    CodexSettings { names: Vec<String>, without_sockets: Option<String> },
    /// A variable.
    Variable(&'static str),
}

/// A CLI that is pointed to another base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectedStart {
    /// The arguments that replace the configured ones.
    pub arguments: Vec<String>,
    /// The additional variables.
    pub env: Vec<(OsString, OsString)>,
}

/// The reason why a CLI cannot be pointed to a relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotRelay {
    /// The requests are signed for their host.
    #[error("{0} signs its requests for their host, which a relay cannot forward")]
    Signed(&'static str),
    /// The protocol cannot be relayed.
    #[error("{0}")]
    Unsupported(String),
    /// A file that counts more than any argument names another address.
    #[error("{} sets `{key}`, which takes precedence over the address of a relay", path.display())]
    Managed {
        /// The file.
        path: PathBuf,
        /// The setting.
        key: String,
    },
    /// A settings file cannot be read as the program reads it.
    #[error("cannot tell from {} which endpoint it uses: {reason}", path.display())]
    Unclear {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Its way of signing in is unknown.
    #[error("cannot determine how {0} is signed in, and so which endpoint it uses")]
    SignIn(&'static str),
    /// It could not be asked how it is signed in.
    #[error("cannot ask {program} how it is signed in, and so which endpoint it uses: {source}")]
    Asked {
        /// The program.
        program: &'static str,
        /// The reason.
        source: AskError,
    },
    /// A file cannot be read or written.
    #[error("cannot read or write {path}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl From<SettingsError> for CannotRelay {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::File { path, source } => Self::File { path, source },
            SettingsError::NoObject => Self::Unsupported(error.to_string()),
        }
    }
}

/// The sign-in of Codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodexSignIn {
    /// With an API key.
    Key,
    /// With a `ChatGPT` account.
    ChatGpt,
}

impl CodexSignIn {
    /// Parses the output of `codex login status`.
    pub fn parse(answer: &str) -> Option<Self> {
        if answer.contains("ChatGPT") {
            Some(Self::ChatGpt)
        } else {
            answer.contains("API key").then_some(Self::Key)
        }
    }
}

/// Returns whether a file cannot be read because there is none.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the endpoint that a CLI would use. `sign_in` is called only if the endpoint depends on it.
pub fn endpoint(
    started: &CliStart<'_>,
    sign_in: impl FnOnce() -> Result<Option<CodexSignIn>, AskError>,
) -> Result<ModelEndpoint, CannotRelay> {
    match started.vendor {
        Vendor::Claude => claude::endpoint(started),
        Vendor::Codex => codex::endpoint(started, sign_in),
        Vendor::Gemini => gemini::endpoint(started),
    }
}

/// Checks that no file of the machine, which counts more than any argument, leads a CLI to an address of its own.
pub fn check_managed(vendor: Vendor, etc: &Path) -> Result<(), CannotRelay> {
    match vendor {
        Vendor::Claude => claude::check_managed(etc),
        Vendor::Codex => codex::check_managed(etc),
        // Its variables count more than its files.
        Vendor::Gemini => Ok(()),
    }
}

impl ModelEndpoint {
    /// Points a CLI to a relay. Files are written into a directory that only this user can read.
    pub fn point(
        &self,
        started: &CliStart<'_>,
        relay: RelayAddress<'_>,
        private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        let base_url = relay.base_url;
        let proxies = proxies(started, relay);
        let mut pointed = match &self.pointer {
            EndpointSetting::ClaudeSettings { variable, is_first_party } => {
                let mut variables = vec![(*variable, base_url)];
                if *is_first_party {
                    variables.push((claude::ASSUME, "1"));
                }
                if relay.proxy.is_some() {
                    let texts = proxies.iter().filter_map(|(name, it)| Some((*name, it.to_str()?)));
                    variables.extend(texts);
                }
                claude::point(started, &variables, private_dir)?
            }
            EndpointSetting::CodexSettings { names, without_sockets } => {
                codex::point(started, names, without_sockets.as_deref(), base_url)
            }
            EndpointSetting::Variable(name) => RedirectedStart {
                arguments: started.arguments.to_vec(),
                env: vec![((*name).into(), base_url.into())],
            },
        };
        pointed.env.extend(proxies.into_iter().map(|(name, value)| (name.into(), value)));
        Ok(pointed)
    }

    /// Returns whether the CLI treats the endpoint as its vendor's own, to which it sends other requests than
    /// to a gateway.
    pub fn is_first_party(&self) -> bool {
        !matches!(self.pointer, EndpointSetting::ClaudeSettings { is_first_party: false, .. })
    }

    /// Returns the prefixes of the user agents of the CLI's own requests; empty if all requests are its own.
    ///
    /// Claude Code passes the address on to the shells of its tools.
    pub fn own_user_agents(&self) -> Vec<String> {
        match self.pointer {
            EndpointSetting::ClaudeSettings { .. } => vec!["claude-cli/".to_owned()],
            EndpointSetting::CodexSettings { .. } | EndpointSetting::Variable(_) => Vec::new(),
        }
    }
}

/// Returns the variables with which a CLI connects directly to a relay on this machine, and to all other hosts
/// through the relay's proxy, if there is one.
fn proxies(started: &CliStart<'_>, relay: RelayAddress<'_>) -> Vec<(&'static str, OsString)> {
    if let Some(proxy) = relay.proxy {
        // The relay itself uses the user's proxy and its exceptions.
        let to_relay = PROXIES.map(|name| (name, proxy.into()));
        return to_relay
            .into_iter()
            .chain(NO_PROXY.map(|name| (name, "127.0.0.1".into())))
            .collect();
    }
    let beside = NO_PROXY.map(|name| {
        let mut value = started.variable(name).map(OsStr::to_owned).unwrap_or_default();
        if !value.is_empty() {
            value.push(",");
        }
        value.push("127.0.0.1");
        (name, value)
    });
    beside.into()
}

impl CliStart<'_> {
    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.variable(name)?.to_str().map(str::to_owned)
    }

    /// Returns the numbers of the version.
    fn version(&self) -> Option<(u64, u64, u64)> {
        let mut numbers = self.version?.split(['.', '-', '+']).map(|it| it.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }

    fn home(&self) -> PathBuf {
        self.variable("HOME").map(PathBuf::from).unwrap_or_default()
    }
}

fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

fn write(path: PathBuf, text: &str) -> Result<PathBuf, CannotRelay> {
    match write_private(&path, text.as_bytes()) {
        Ok(()) => Ok(path),
        Err(source) => Err(CannotRelay::File { path, source }),
    }
}

#[cfg(test)]
mod tests;
