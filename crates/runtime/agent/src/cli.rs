//! An agent CLI that Convoke knows: its facts as data, and how it is started, pointed to another server and relayed.
//!
//! Each CLI is one implementation of [`Cli`]. The code of this crate never asks which one it has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::verdict::Failure;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::adapter::{Context, Preset, ProgramCall};
use crate::config::Definition;
use crate::endpoint::Endpoint;
use crate::launch::{Project, UntrustedFile, WithheldVariables};
use crate::loading::LoadingArguments;
use crate::relayed::Relayable;
use crate::turn::Continuity;
use crate::turn_input::Trust;

/// An agent CLI that Convoke knows.
pub trait Cli: TurnProgram + Endpoint + Relayable + fmt::Debug + Send + Sync {
    /// Returns the facts.
    fn facts(&self) -> &'static Facts;

    /// Parses the output of [`SignIn::status`] exactly: a search for words would match "not logged in" as
    /// "logged in". Returns `None` if the output was not understood.
    fn is_signed_in(&self, code: Option<i32>, said: &str) -> Option<bool>;

    /// Returns the variable with the key of the provider that the configuration in the CLI's directory selects.
    fn key_variable(&self, _directory: &Path) -> Option<String> {
        None
    }
}

/// How turns of a CLI are run.
pub trait TurnProgram {
    /// Prepares a call.
    fn call(&self, context: &Context<'_>) -> Result<ProgramCall, Failure>;

    /// Returns whether the program can ask before it acts.
    fn can_ask(&self, _definition: &Definition) -> bool {
        true
    }

    /// Returns how a later turn can continue the program's session.
    fn continuity(&self, _definition: &Definition) -> Continuity {
        Continuity::None
    }

    /// Returns how a later turn can continue a session of its ACP adapter.
    fn adapter_continuity(&self) -> Continuity {
        Continuity::Resumed
    }

    /// Returns the arguments and variables that determine which files of a directory with this trust it loads.
    fn loading(&self, _trust: Trust) -> LoadingArguments {
        LoadingArguments::default()
    }

    /// Prepares the call of a CLI that speaks the Agent Client Protocol itself; `None` if an adapter does for it.
    fn acp_call(&self, _context: &Context<'_>) -> Option<Result<ProgramCall, Failure>> {
        None
    }

    /// Splits the user's arguments for an ACP adapter of the CLI: into its arguments, and the extension fields of
    /// its session.
    fn adapter_arguments(
        &self,
        arguments: &[String],
        _trust: Trust,
    ) -> (Vec<String>, Option<Value>) {
        (arguments.to_vec(), None)
    }

    /// Returns the variables that an ACP adapter of the CLI is started with.
    fn adapter_environment(&self, _context: &Context<'_>) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Returns texts of the user's configuration, which may name variables that the program needs.
    fn configuration_texts(&self, _context: &Context<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether such texts select a provider that signs in with its cloud's variables.
    fn selects_cloud(&self, _texts: &[String]) -> bool {
        false
    }

    /// Returns the directories that a session may write in the CLI's own directory, beside those of all sessions.
    fn session_directories(
        &self,
        _directory: &Path,
        _cwd: &Path,
        _session: Option<&str>,
    ) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the sign-in in the CLI's directory that the program renews in the middle of a turn.
    fn renewed_sign_in(&self, _directory: &Path) -> Option<Box<dyn RenewedSignIn>> {
        None
    }

    /// Withholds the variables of a project that is not trusted and that the program would load itself. Refuses a
    /// file whose variables cannot be withheld.
    fn withhold(
        &self,
        _project: Project<'_>,
        _given: &BTreeMap<OsString, OsString>,
    ) -> Result<WithheldVariables, UntrustedFile> {
        Ok(WithheldVariables::default())
    }

    /// Prepares the home of a program that uses the user's sign-in, in a private directory. Returns the program's own
    /// directory, and the variables that name the home: the user's own is used as it is, unless the program replaces
    /// files in it, which the sandbox could only allow for all of them.
    fn users_own_home(
        &self,
        _users_home: &Path,
        users_directory: &Path,
        _private: &Path,
    ) -> io::Result<(PathBuf, Vec<(OsString, OsString)>)> {
        Ok((users_directory.to_owned(), Vec::new()))
    }
}

/// A sign-in that the program renews in the middle of a turn, where it may not write beside it.
pub trait RenewedSignIn: Send {
    /// Creates the place of a renewed sign-in, and returns it.
    fn prepare(&self) -> io::Result<PathBuf>;

    /// Keeps a renewed sign-in for the user. Returns whether there was one.
    fn keep(&self) -> io::Result<bool>;
}

/// Facts about one CLI.
#[derive(Debug)]
pub struct Facts {
    /// The command, which is also the name of the agent.
    pub command: &'static str,
    /// What people may write instead of the command.
    pub other_names: &'static [&'static str],
    /// The npm package.
    pub package: &'static str,
    /// The measured versions, oldest first.
    pub versions: &'static [&'static str],
    /// The CLI's directory in the user's home.
    pub directory: &'static str,
    /// The variable that replaces that directory.
    pub directory_variable: Option<&'static str>,
    /// The variable that replaces the user's home.
    pub home_variable: Option<&'static str>,
    /// Files beside that directory, with the content that they are created with: the program waits at every start if
    /// they are missing.
    pub beside: &'static [(&'static str, &'static str)],
    /// The configuration files in that directory, as opposed to credentials, logs and caches.
    pub configuration: &'static [&'static str],
    /// Configuration files elsewhere in the user's home.
    pub shared_configuration: &'static [&'static str],
    /// What the program must write to work, to resume and to stay signed in.
    pub state: State,
    /// The files and directories of a project that it applies and that cannot be withheld.
    pub followed: &'static [&'static str],
    /// The hosts that the CLI sends its requests to, by its sign-in.
    pub hosts: &'static [&'static str],
    /// The variable that sets another model address.
    pub address_variable: &'static str,
    /// The prefixes of the user agents of its own requests, if it passes the address on to its tools; otherwise empty.
    pub own_user_agents: &'static [&'static str],
    /// The variables of the user that are settings.
    pub settings: SettingVariables,
    /// The variables that it sets for the programs it starts. They are not inherited.
    pub nested: &'static [&'static str],
    /// The events that the CLI writes in every turn.
    pub events: &'static [&'static str],
    /// The option that names a model.
    pub model_option: &'static str,
    /// A model that every account has, for a CLI that refuses others.
    pub trial_model: Option<&'static str>,
    /// Whether the user can choose between protocols.
    pub has_protocols: bool,
    /// The text that follows every prompt.
    pub tail: Option<&'static str>,
    /// Whether it takes an error for a missing file, so that one is read as empty.
    pub missing_is_empty: bool,
    /// Whether its ACP adapter is pointed to a server by settings in its arguments, which count more than variables.
    pub adapter_settings: bool,
    /// The arguments with which its ACP adapter runs the CLI itself.
    pub adapter_cli: &'static [&'static str],
    /// The ways to sign in.
    pub sign_in: SignIn,
}

/// The state of a CLI, by names in its own directory.
///
/// Everything else there is protected: settings, rules, hooks, skills and commands affect later turns and the user's
/// own sessions. The same holds for scripts that a running program reads before each command, and for what it
/// remembers about other projects. Landlock rules apply only to existing files, so the entries are created before the
/// program starts.
#[derive(Debug)]
pub struct State {
    /// Directories, created if missing.
    pub directories: &'static [&'static str],
    /// Files created if missing, with their initial content.
    pub files: &'static [(&'static str, &'static str)],
    /// Files that may be written, but are not created.
    pub existing: &'static [&'static str],
}

/// The variables that are settings of a CLI, and neither keys nor addresses.
#[derive(Debug)]
pub struct SettingVariables {
    /// The beginnings of their names.
    pub prefixes: &'static [&'static str],
    /// Further names.
    pub names: &'static [&'static str],
    /// The beginnings of names that are no settings, although the others match.
    pub except: &'static [&'static str],
}

/// The ways to sign in to a CLI.
#[derive(Debug)]
pub struct SignIn {
    /// Variables with a key that the CLI uses.
    pub keys: &'static [&'static str],
    /// Other variables of the CLI that hold secrets; `*` at the end matches any characters.
    pub variables: &'static [&'static str],
    /// Variables with similar names that the CLI does not read.
    pub ignored_keys: &'static [&'static str],
    /// Variables that select a cloud provider with its own credentials.
    pub clouds: &'static [&'static str],
    /// Credential files in the CLI's directory.
    pub credentials: &'static [&'static str],
    /// Arguments that print the sign-in status. The command may write to the CLI's directory.
    pub status: Option<&'static [&'static str]>,
    /// Instructions to sign in.
    pub how: &'static str,
}

/// The sign-in status that a program reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SignInStatus {
    /// The program has credentials; whether they are valid is unknown.
    SignedIn,
    /// The program has no credentials.
    NotSignedIn,
    /// The output is missing or was not understood.
    Unclear,
}

impl dyn Cli {
    /// Returns the status that the output of [`SignIn::status`] reports.
    pub fn understand_status(&self, code: Option<i32>, said: &str) -> SignInStatus {
        match self.is_signed_in(code, said) {
            Some(true) => SignInStatus::SignedIn,
            Some(false) => SignInStatus::NotSignedIn,
            None => SignInStatus::Unclear,
        }
    }

    /// Returns a CLI's message about a failed sign-in, with shell commands instead of those that only work
    /// inside the CLI.
    pub fn sign_in_failure(&self, said: &str) -> String {
        let only_inside = |part: &&str| {
            part.split_whitespace().any(|word| {
                word.strip_prefix('/')
                    .is_some_and(|rest| rest.starts_with("login") || rest.starts_with("auth"))
            })
        };
        let parts = said.split(" · ").filter(|part| !only_inside(part));
        let said = parts.collect::<Vec<_>>().join(" · ");
        let how = self.facts().sign_in.how;
        match said.trim().trim_end_matches('.') {
            "" => format!("not signed in. {how}"),
            said => format!("{said}. {how}"),
        }
    }
}

impl fmt::Display for dyn Cli + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().command)
    }
}

impl PartialEq for dyn Cli {
    fn eq(&self, other: &Self) -> bool {
        self.facts().command == other.facts().command
    }
}

impl Eq for dyn Cli {}

impl PartialOrd for dyn Cli {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Cli {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.facts().command.cmp(other.facts().command)
    }
}

impl Hash for dyn Cli {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.facts().command.hash(state);
    }
}

impl Serialize for dyn Cli {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.facts().command)
    }
}

/// The programs that are known, in display order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Programs {
    /// The CLIs.
    pub clis: &'static [&'static dyn Cli],
    /// The ACP agents that are known by name.
    pub presets: &'static [&'static Preset],
}

/// An unknown CLI name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{name}`; use {known}")]
pub struct UnknownCli {
    name: String,
    known: String,
}

impl Programs {
    /// Finds a CLI by its name.
    pub fn cli(self, name: &str) -> Result<&'static dyn Cli, UnknownCli> {
        let found = self.clis.iter().find(|cli| cli.facts().command == name);
        found.copied().ok_or_else(|| self.unknown(name))
    }

    /// Returns the error for a name that no CLI has.
    pub fn unknown(self, name: &str) -> UnknownCli {
        let names: Vec<&str> = self.clis.iter().map(|cli| cli.facts().command).collect();
        let (last, others) = names.split_last().unwrap_or((&"none", &[]));
        UnknownCli { name: name.to_owned(), known: format!("{} or {last}", others.join(", ")) }
    }

    /// Finds an ACP agent by its name.
    pub fn preset(self, name: &str) -> Option<&'static Preset> {
        self.presets.iter().find(|preset| preset.name == name).copied()
    }

    /// Returns the npm package of a CLI or an ACP agent.
    pub fn package(self, name: &str) -> Option<&'static str> {
        let of_cli = self.cli(name).map(|cli| cli.facts().package);
        of_cli.ok().or_else(|| Some(self.preset(name)?.package))
    }

    /// Recognises a CLI by the name of its program or by its package directory.
    pub fn cli_of(self, program: &Path) -> Option<&'static dyn Cli> {
        let name = program.file_stem()?.to_str()?;
        let by_name = self.clis.iter().find(|cli| cli.facts().command == name);
        let found = by_name.or_else(|| {
            let real = program.canonicalize().ok()?;
            let real = real.to_str()?;
            self.clis.iter().find(|cli| real.contains(cli.facts().package))
        });
        found.copied()
    }

    /// Returns whether a variable tells a CLI that it runs inside another.
    pub(crate) fn is_nested(self, name: &str) -> bool {
        self.clis.iter().any(|cli| cli.facts().nested.contains(&name))
    }

    /// Returns the secrets in the sign-in files of all CLIs of a user, each with its name, for a redactor.
    pub fn stored_secrets(self, environment: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let variable = |name: &str| {
            let found = environment.iter().rev().find(|(key, _)| key == name);
            found.map(|(_, value)| Path::new(value))
        };
        let mut secrets = Vec::new();
        for facts in self.clis.iter().map(|cli| cli.facts()) {
            let moved = facts.directory_variable.and_then(variable).map(Path::to_owned);
            let in_home = || Some(variable("HOME")?.join(facts.directory));
            let Some(directory) = moved.or_else(in_home) else { continue };
            for file in facts.sign_in.credentials {
                let text = Disk.read_text(&directory.join(file), FileKind::Configuration);
                let value = text.ok().and_then(|text| serde_json::from_str(&text).ok());
                collect_texts("", &value.unwrap_or_default(), &mut secrets);
            }
        }
        secrets
    }
}

/// Collects the texts of a value, each with its name.
fn collect_texts(name: &str, value: &Value, texts: &mut Vec<(OsString, OsString)>) {
    match value {
        Value::String(text) => texts.push((name.into(), text.into())),
        Value::Array(values) => {
            for it in values {
                collect_texts(name, it, texts);
            }
        }
        Value::Object(fields) => {
            for (name, it) in fields {
                collect_texts(name, it, texts);
            }
        }
        _ => {}
    }
}
