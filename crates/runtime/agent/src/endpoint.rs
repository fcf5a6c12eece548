//! Points each CLI to a model server, in a private home: environment, configuration file, and arguments for one
//! turn without a terminal. For rehearsals and captures; [`crate::relayed`] is for real runs.
//!
//! The server takes the place of the vendor's own, so that the CLI behaves as usual.

pub mod measured;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use convoke_redact::is_secret_name;

use self::measured::{Commands, Conditions};
use crate::cli::Cli;
use crate::config::Definition;
use crate::launch::UntrustedFile;

/// A placeholder key, which no vendor accepts.
pub const NO_KEY: &str = "rehearsal";

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

/// The surroundings of a CLI that reaches one model server only, whatever the files of the user, the project and the
/// machine say, and that sees its user's own directory once although its home is private.
#[derive(Debug, Clone, Copy)]
pub struct OfflinePlace<'a> {
    pub server: ModelServer<'a>,
    /// The private home.
    pub home: &'a Path,
    /// The CLI's own directory of the user, which the private home replaces.
    pub users_directory: &'a Path,
    /// The working directory.
    pub cwd: &'a Path,
}

/// Returns whether a variable of the user's environment is inherited.
pub fn is_kept(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| name == *kept)
}

/// How a CLI is pointed to a model server in a private home.
pub trait Endpoint {
    /// Returns the variables that point the CLI to a server, beside those of a private home.
    fn server_variables(
        &self,
        server: ModelServer<'_>,
        home: &Path,
    ) -> Vec<(&'static str, OsString)>;

    /// Writes settings that have no variable into the CLI's directory of a private home. Other settings stay.
    fn write_settings(&self, base_url: &str, directory: &Path) -> Result<(), EndpointError>;

    /// Returns the arguments with additions that make the CLI run one turn and exit.
    fn headless(&self, arguments: &[OsString]) -> Vec<OsString>;

    /// Returns the arguments with which it starts no servers of settings, beside those of
    /// [`Endpoint::pointed_arguments`].
    fn withholding(&self, _commands: Commands) -> Option<String> {
        None
    }

    /// Returns a user's arguments with those that lead to the model server, in place of any that lead elsewhere.
    fn pointed_arguments(
        &self,
        _commands: Commands,
        _place: &OfflinePlace<'_>,
        users: &[String],
    ) -> Result<Vec<String>, EndpointError> {
        Ok(users.to_vec())
    }

    /// Returns the arguments of one measured turn with the prompt on standard input: Convoke's, then the user's.
    fn measured_arguments(&self, commands: Commands, users: Vec<String>) -> Vec<String>;

    /// Returns the variables of a measured turn; one without a value is removed.
    fn measured_variables(
        &self,
        conditions: Conditions,
        users: &BTreeMap<OsString, OsString>,
    ) -> Vec<(&'static str, Option<OsString>)>;

    /// Returns the services of the vendor that the CLI waits for at its start when it takes the server for its vendor's.
    fn vendor_services(&self) -> Option<VendorServices> {
        None
    }

    /// Hides the user's own directory from a program with a private home and no arguments of ours.
    fn hide_users_directory(
        &self,
        _users_directory: &Path,
        _home: &Path,
    ) -> Result<(), EndpointError> {
        Ok(())
    }

    /// Keeps the settings of a project that is not trusted from replacing variables, with which they could run a
    /// command. `private` is the directory of the files that Convoke has written for the program.
    fn keep_variables(
        &self,
        _arguments: &[OsString],
        _private: &Path,
        _project: UntrustedProject<'_>,
        _variables: &BTreeMap<OsString, OsString>,
    ) -> Result<(), WithholdError> {
        Ok(())
    }

    /// Keeps the program from running hooks, by the settings that Convoke has written into a private directory.
    fn withhold_hooks(
        &self,
        _arguments: &[OsString],
        _private: &Path,
        _cwd: &Path,
    ) -> io::Result<()> {
        Ok(())
    }
}

/// Services of a vendor beside its models, which another server can answer for.
#[derive(Debug, Clone, Copy)]
pub struct VendorServices {
    /// The hosts, which are asked over TLS.
    pub hosts: &'static [&'static str],
    /// The variable that names a file of certificates that the CLI trusts beside the machine's.
    pub certificates: &'static str,
}

/// A project that is not trusted.
#[derive(Debug, Clone, Copy)]
pub struct UntrustedProject<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The user's home, whose files are the user's own.
    pub home: &'a Path,
}

/// An error of withholding the settings of a project that is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum WithholdError {
    /// A file of the project keeps the program from being started.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file of Convoke's cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Returns whether a variable of the user's environment is a setting of a CLI, and neither a key nor an
/// address. A measured program inherits these too.
pub fn is_setting(cli: &dyn Cli, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let facts = cli.facts();
    let settings = &facts.settings;
    // Some settings have names that look like those of secrets.
    let is_count = name.ends_with("_TOKENS");
    let has_prefix = settings.prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_own = settings.names.contains(&name) || has_prefix;
    let is_other = settings.except.iter().any(|other| name.starts_with(other));
    let is_nested = facts.nested.contains(&name);
    is_own && !is_other && !is_nested && (is_count || !is_secret_name(name))
}

/// Returns the variables that point a CLI to the server and to a private home.
///
/// The server is also the CLI's proxy: it refuses and records requests to all other hosts.
pub fn environment(
    cli: &dyn Cli,
    server: ModelServer<'_>,
    home: &Path,
) -> Vec<(&'static str, OsString)> {
    private_home(server, home).into_iter().chain(cli.server_variables(server, home)).collect()
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

/// Returns the variables with which a program has the server as its proxy.
pub fn proxies(server: ModelServer<'_>) -> [(&'static str, &str); 6] {
    [
        ("HTTP_PROXY", server.proxy_url),
        ("HTTPS_PROXY", server.proxy_url),
        ("http_proxy", server.proxy_url),
        ("https_proxy", server.proxy_url),
        ("NO_PROXY", "127.0.0.1,localhost"),
        ("no_proxy", "127.0.0.1,localhost"),
    ]
}

/// Writes settings that have no variable into the configuration file of the home. Other settings stay.
pub fn configure(cli: &dyn Cli, base_url: &str, home: &Path) -> Result<(), EndpointError> {
    std::fs::create_dir_all(home.join("tmp")).map_err(at(&home.join("tmp")))?;
    let directory = home.join(cli.facts().directory);
    std::fs::create_dir_all(&directory).map_err(at(&directory))?;
    cli.write_settings(base_url, &directory)
}

/// Edits a configuration file; one that is missing is empty.
pub fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), EndpointError> {
    let text = match Disk.read_text(path, FileKind::Configuration) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(at(path)(error)),
    };
    let text =
        change(&text).map_err(|reason| EndpointError::Invalid { path: path.to_owned(), reason })?;
    std::fs::write(path, text).map_err(at(path))
}

/// Returns the error of a file.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> EndpointError {
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
        source: io::Error,
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
