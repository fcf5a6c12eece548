//! Determines the endpoint that a CLI would use, and points the CLI to a relay without changing its requests. For real runs,
//! in the user's own home; [`crate::endpoint`] is for rehearsals and captures.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::adapter::write_private;
use crate::cli::Cli;
use crate::launch::AskError;
use crate::process::Input;
use crate::turn_input::Trust;

/// How a CLI is pointed to a relay.
pub trait Relayable {
    /// Returns the endpoint that the CLI would use. `status` returns the output of
    /// [`SignIn::status`](crate::cli::SignIn::status), if the CLI has such a command, and is called only if the endpoint
    /// depends on it.
    fn relayed_endpoint(
        &self,
        started: &CliStart<'_>,
        status: &mut dyn FnMut() -> Result<Option<String>, AskError>,
    ) -> Result<ModelEndpoint, CannotRelay>;

    /// Points the CLI to a base URL by its settings, which also name the proxies if they are given. Files are written
    /// into a directory that only this user can read.
    fn pointed(
        &self,
        started: &CliStart<'_>,
        settings: &[String],
        base_url: &str,
        proxies: &[(&'static str, OsString)],
        private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay>;

    /// Points the CLI to a base URL by variables alone, for a CLI whose arguments appear in its requests; `None` if its
    /// settings would override them, or if it is pointed otherwise.
    fn pointed_by_variables(
        &self,
        _started: &CliStart<'_>,
        _settings: &[String],
        _base_url: &str,
    ) -> Result<Option<RedirectedStart>, CannotRelay> {
        Ok(None)
    }

    /// Checks that no file of the machine, which counts more than any argument, leads the CLI to an address of its own.
    fn check_managed(&self, _etc: &Path) -> Result<(), CannotRelay> {
        Ok(())
    }

    /// Returns the question whether its account is bound to a region, for an endpoint that
    /// [may be](ModelEndpoint::may_be_bound).
    fn region_question(&self) -> Option<Box<dyn RegionQuestion>> {
        None
    }
}

/// The question to a CLI whether its account is bound to a region.
pub trait RegionQuestion: Send {
    /// Returns the arguments with which the CLI is asked.
    fn arguments(&self) -> &'static [&'static str];

    /// Returns the first input.
    fn opening(&self) -> Input;

    /// Reads a line and returns the next input; `None` after the last answer.
    fn next(&mut self, line: &str) -> Option<Input>;

    /// Returns whether the requests can be relayed; the error is why not.
    fn result(&self) -> Result<(), String>;

    /// Returns the error if the CLI could not be asked.
    fn unknown(&self, why: &str) -> String;
}

/// A CLI as it would be started.
#[derive(Debug, Clone, Copy)]
pub struct CliStart<'a> {
    /// The CLI.
    pub vendor: &'static dyn Cli,
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
    /// Whether the account may be bound to a region, which a relay would ignore. This must be checked first.
    pub may_be_bound: bool,
    /// Whether the CLI has a key that its settings do not select, and that it rejects together with a base URL.
    pub key_is_unselected: bool,
    /// The hosts that the CLI contacts itself, to sign in, to renew its sign-in, and to read an organisation's
    /// policy.
    pub sign_in_hosts: &'static [&'static str],
    /// Whether the CLI treats the endpoint as its vendor's own, to which it sends other requests than to a gateway.
    pub is_first_party: bool,
    /// The names of the settings or variables that point the CLI elsewhere.
    pub settings: Vec<String>,
}

/// The addresses of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelayAddress<'a> {
    /// The base URL that replaces the endpoint's own.
    pub base_url: &'a str,
    /// The proxy to the sign-in hosts, for a CLI that can reach only the relay.
    pub proxy: Option<&'a str>,
}

/// The hosts that renew a Google sign-in, for the account of a person, a service or a workload.
pub const GOOGLE_SIGN_IN: &[&str] =
    &["oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"];

/// The variables that name a proxy.
pub const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
/// The variables that list hosts without a proxy.
pub const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

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
        reason: String,
    },
    /// Its way of signing in is unknown.
    #[error("cannot determine how {0} is signed in, and so which endpoint it uses")]
    SignIn(&'static str),
    /// It could not be asked how it is signed in.
    #[error("cannot ask {program} how it is signed in, and so which endpoint it uses: {source}")]
    Asked {
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

/// Returns whether a file cannot be read because there is none.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl ModelEndpoint {
    /// Points a CLI to a relay so that nothing of it appears in the CLI's requests, where that is possible; it reaches all
    /// other hosts itself.
    pub fn point_unseen(
        &self,
        started: &CliStart<'_>,
        base_url: &str,
        private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        let relay = RelayAddress { base_url, proxy: None };
        let by_variables =
            started.vendor.pointed_by_variables(started, &self.settings, base_url)?;
        let Some(mut pointed) = by_variables else {
            return self.point(started, relay, private_dir);
        };
        let proxies = proxies(started, relay).into_iter();
        pointed.env.extend(proxies.map(|(name, value)| (name.into(), value)));
        Ok(pointed)
    }

    /// Points a CLI to a relay. Files are written into a directory that only this user can read.
    pub fn point(
        &self,
        started: &CliStart<'_>,
        relay: RelayAddress<'_>,
        private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        let proxies = proxies(started, relay);
        let named = if relay.proxy.is_some() { &proxies[..] } else { &[] };
        let mut pointed =
            started.vendor.pointed(started, &self.settings, relay.base_url, named, private_dir)?;
        pointed.env.extend(proxies.into_iter().map(|(name, value)| (name.into(), value)));
        Ok(pointed)
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
    /// Returns a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    /// Returns such a variable as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.variable(name)?.to_str().map(str::to_owned)
    }

    /// Returns the numbers of the version.
    pub fn version(&self) -> Option<(u64, u64, u64)> {
        let mut numbers = self.version?.split(['.', '-', '+']).map(|it| it.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }

    /// Returns the home.
    pub fn home(&self) -> PathBuf {
        self.variable("HOME").map(PathBuf::from).unwrap_or_default()
    }
}

/// Returns arguments with options after them, before the mark that ends all options.
pub fn with_options(
    mut arguments: Vec<String>,
    options: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let end = arguments.iter().position(|it| it == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, options);
    arguments
}

/// Returns whether the value of a variable switches something on.
pub fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// Writes a file that only this user can read.
pub fn write(path: PathBuf, text: &str) -> Result<PathBuf, CannotRelay> {
    match write_private(&path, text.as_bytes()) {
        Ok(()) => Ok(path),
        Err(source) => Err(CannotRelay::File { path, source }),
    }
}
