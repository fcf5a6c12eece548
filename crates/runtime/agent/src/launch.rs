//! The one way to start an agent's program.
//!
//! Turns, captures, measurements, trials and questions all start a program *confined*: in an environment without the project's
//! commands unless the user trusts the project ([`ConfinedEnvironment`]), and under a `Sandbox`. Only this module creates
//! a [`Launch`], so that a program cannot be started without either.
//!
//! A program that a person starts to work with it in their terminal, and only watches, is started as their [`own`]: without
//! a sandbox, and with nothing changed but the address of its model.

pub(crate) mod git;
mod own;
mod question;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;

pub use self::own::{OwnEnd, OwnProgram, own};
pub use self::question::{Answer, AskError, Question, ask};
use crate::adapter::names_address;
use crate::cli::{Cli, Programs};
use crate::diagnostics;
use crate::process::Launch;
use crate::sandbox::stopped::StoppedTools;
use crate::sandbox::{
    AddedPaths, Enforcer, ProgramState, Reach, Route, Sandbox, SandboxAdditions, SandboxSettings,
    secrets,
};
use crate::search_path::SearchPath;
use crate::turn_input::{Permissions, Trust};
use crate::working_directory::WorkingDirectory;

/// The project that a program is started in.
#[derive(Debug, Clone, Copy)]
pub struct Project<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// Whether the user trusts the project.
    pub trust: Trust,
}

/// The variables that are withheld from a program.
#[derive(Debug, Default)]
pub struct WithheldVariables {
    /// Variables to set, so that the program does not load them from the project.
    pub variables: Vec<(OsString, OsString)>,
    /// Diagnostics about them.
    pub diagnostics: Vec<Diagnostic>,
}

/// The whole environment of a confined program.
#[derive(Debug, Clone)]
pub struct ConfinedEnvironment {
    variables: BTreeMap<OsString, OsString>,
    diagnostics: Vec<Diagnostic>,
}

impl ConfinedEnvironment {
    /// Creates the environment of a program from the variables that it is given. In a project that is not trusted, git runs
    /// no command of the project, the program loads no variable of it, and the `PATH` has no directory of it.
    pub fn new(
        mut variables: BTreeMap<OsString, OsString>,
        project: Project<'_>,
        vendor: Option<&'static dyn Cli>,
        programs: Programs,
    ) -> Result<Self, UntrustedFile> {
        variables.retain(|name, _| !name.to_str().is_some_and(|it| programs.is_nested(it)));
        let mut diagnostics = Vec::new();
        if project.trust == Trust::Untrusted {
            if let Some(vendor) = vendor {
                let withheld = vendor.withhold(project, &variables)?;
                variables.extend(withheld.variables);
                diagnostics.extend(withheld.diagnostics);
            }
            diagnostics.extend(git::disarm(project.cwd, &mut variables)?);
            if let Some(path) = variables.get_mut(OsStr::new("PATH")) {
                *path = SearchPath::outside_project(path, project.cwd, project.home).to_variable();
            }
        }
        Ok(Self { variables, diagnostics })
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Returns the variables.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// Removes and returns the diagnostics about what was withheld.
    pub fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.diagnostics)
    }
}

/// A file of a project that is not trusted, because of which a program is not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntrustedFile {
    /// The program would apply it, and no option turns that off.
    #[error("{program} would apply `{}`; review it, then trust the directory with `convoke trust`", path.display())]
    Applied {
        program: String,
        /// The file.
        path: PathBuf,
    },
    /// The program may find commands in it that Convoke does not find.
    #[error("{program} may run commands of `{}`, and Convoke cannot read it as {program} does: {reason}; correct or remove it, or review it and trust the directory with `convoke trust`", path.display())]
    Unclear {
        program: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        reason: String,
    },
}

/// A program to start.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// The arguments. They never contain text of a conversation.
    pub args: Vec<OsString>,
    pub environment: ConfinedEnvironment,
}

/// A program that can be started, and what it may do.
#[derive(Debug)]
pub struct Confined {
    /// The start.
    pub launch: Launch,
    /// The paths that it may read and change.
    pub(crate) reach: Reach,
    /// The restrictions that are not enforced.
    pub diagnostics: Vec<Diagnostic>,
}

/// An error that keeps a program from being confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The permissions cannot be enforced as far as is required.
    #[error("{0}")]
    Refused(String),
    /// The sandbox could not be prepared.
    #[error("cannot prepare the sandbox: {0}")]
    Prepare(#[from] io::Error),
}

/// Prepares the start of a program under a sandbox.
pub(crate) fn confined(program: Program, sandbox: &Sandbox<'_>) -> Result<Confined, ConfineError> {
    let partial = sandbox.report().map_err(ConfineError::Refused)?;
    let missing = sandbox.missing();
    let (policy, reach) = sandbox.prepare()?;
    let launch = Launch {
        program: program.path,
        args: program.args,
        env: program.environment.variables.into_iter().collect(),
        cwd: sandbox.cwd.clone(),
        private_dir: sandbox.private_dir.to_owned(),
        private_home: sandbox.private_home.clone(),
        stopped_by: policy.is_some().then_some(sandbox.permissions),
        policy,
    };
    Ok(Confined { launch, reach, diagnostics: partial.into_iter().chain(missing).collect() })
}

/// The place of a program that is started to see its requests or to be asked, and may change nothing of the user's.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPlace<'a> {
    /// The CLI, if the program is one.
    pub vendor: Option<&'static dyn Cli>,
    /// The programs that are known, whose secrets are hidden.
    pub programs: Programs,
    /// The working directory.
    pub cwd: &'a Path,
    /// The user's home, whose secrets are hidden.
    pub users_home: &'a Path,
    /// The user's variables, which may name further secrets.
    pub users_variables: &'a BTreeMap<OsString, OsString>,
    /// The directory of the run's temporary files.
    pub private_dir: &'a Path,
    /// The parent of private directories.
    pub temp_root: &'a Path,
    /// Where the program keeps its state.
    pub state: ObservedState<'a>,
    /// Convoke's own directories.
    pub private: &'a [PathBuf],
    /// The newest version of Landlock to use.
    pub newest_abi: Option<u8>,
}

/// Where an observed program keeps its state, and what it connects to.
#[derive(Debug, Clone, Copy)]
pub enum ObservedState<'a> {
    /// In a private home.
    PrivateHome {
        /// The private home.
        home: &'a Path,
        /// The CLI's own directory of the user, from which configuration is linked.
        users_directory: &'a Path,
        /// The port of the rehearsal server, which alone it reaches; nothing without one.
        port: Option<u16>,
    },
    /// In the user's own directory of the CLI, which it also signs in with.
    UsersOwn {
        /// The CLI's own directory: the user's, or one that links to it.
        directory: &'a Path,
        /// The network that it may use.
        network: OwnNetwork<'a>,
    },
}

/// The network of an observed program with its user's own state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnNetwork<'a> {
    /// Nothing.
    Nothing,
    /// The hosts that it would use.
    Direct,
    /// These, and its model through a relay.
    Relayed {
        /// The private directory of the files that point the CLI to the relay.
        files: &'a Path,
        /// The relay's port.
        port: u16,
    },
}

/// Prepares the start of an observed program: it can read, and change its own state alone.
pub fn observed(program: Program, place: ObservedPlace<'_>) -> Result<Confined, ConfineError> {
    let enforcer = match Enforcer::on_this_machine(place.vendor, place.newest_abi) {
        // Its user could start it in the same way; what is not enforced is reported.
        Enforcer::Nothing => Enforcer::Program,
        enforcer => enforcer,
    };
    let mut additions = SandboxAdditions::default();
    let mut settings = SandboxSettings {
        private: place.private.to_vec(),
        started_in: Some(place.cwd.to_owned()),
        newest_abi: place.newest_abi,
        ..SandboxSettings::default()
    };
    let mut addresses = Vec::new();
    let (vendor, directory, private_home) = match place.state {
        ObservedState::PrivateHome { home, users_directory, port } => {
            settings.route = port.map_or(Route::Nowhere, |port| Route::Through { port });
            additions.readable = linked_configuration(&program.path, users_directory, place);
            // Everything else of the CLI's own directory is a secret too: its sign-in and its sessions.
            (None, None, Some(home.to_owned()))
        }
        ObservedState::UsersOwn { directory, network } => {
            let mut files = None;
            match network {
                OwnNetwork::Nothing => settings.route = Route::Nowhere,
                OwnNetwork::Direct => addresses.extend(addresses_in(place.users_variables)),
                OwnNetwork::Relayed { files: relays, port } => {
                    additions.ports.push(port);
                    files = Some(relays.to_owned());
                }
            }
            (place.vendor, Some(directory.to_owned()), files)
        }
    };
    let variable =
        |name: &str| place.users_variables.get(OsStr::new(name)).map(OsString::as_os_str);
    let users_homes = secrets::users_homes(Some(place.users_home));
    let named = secrets::secret_paths_from_env(
        variable,
        Path::new(""),
        vendor,
        place.programs,
        (&users_homes, place.cwd),
    );
    let cwd = WorkingDirectory::open(place.cwd)?;
    let added = AddedPaths::find(&additions, Some(place.users_home));
    let sandbox = Sandbox {
        enforcer,
        permissions: Permissions::ReadOnly,
        vendor,
        programs: place.programs,
        directory,
        session: None,
        state: ProgramState::default(),
        home: Some(place.users_home.to_owned()),
        users_homes: users_homes.into_iter().collect(),
        cwd: &cwd,
        workspace: None,
        private_dir: place.private_dir,
        private_home,
        temp_root: place.temp_root,
        settings: &settings,
        additions,
        added,
        secrets: named,
        addresses,
    };
    let gaps = enforcer.gaps(sandbox.permissions, settings.route, &sandbox.additions);
    let mut confined = confined(program, &sandbox)?;
    if gaps.iter().all(|gap| gap.is_everywhere()) {
        // Nothing that this system lacks.
        confined.diagnostics.retain(|it| it.code != diagnostics::SANDBOX_PARTIAL);
    }
    Ok(confined)
}

/// Returns the values of the variables that hold the address of a model or a proxy.
fn addresses_in(variables: &BTreeMap<OsString, OsString>) -> impl Iterator<Item = String> {
    let addresses = variables.iter().filter(|(name, _)| names_address(name));
    addresses.filter_map(|(_, value)| value.to_str().map(str::to_owned))
}

/// Returns the user's own files that a program with a private home reads: the configuration that is linked into it, and the
/// program itself, if it is installed there.
fn linked_configuration(
    program: &Path,
    users_directory: &Path,
    place: ObservedPlace<'_>,
) -> Vec<PathBuf> {
    let Some(facts) = place.vendor.map(Cli::facts) else { return Vec::new() };
    // Settings may hold keys; the private home has a copy without them.
    let is_settings = |name: &str| [".json", ".toml"].iter().any(|end| name.ends_with(end));
    let own = facts.configuration.iter().filter(|name| !is_settings(name));
    let own = own.map(|name| users_directory.join(name));
    let shared = facts.shared_configuration.iter().map(|name| place.users_home.join(name));
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let directory = users_directory.canonicalize().unwrap_or_else(|_| users_directory.to_owned());
    let installed = real.strip_prefix(&directory).ok().and_then(|below| below.iter().next());
    let installed = installed.map(|name| directory.join(name));
    own.chain(shared).chain(installed).collect()
}

/// Returns a diagnostic if the sandbox of an observed program stopped one of its tools, by their outputs.
pub fn stopped_tools<'o>(outputs: impl Iterator<Item = &'o str>) -> Option<Diagnostic> {
    let mut stopped = StoppedTools::default();
    outputs.for_each(|output| stopped.look_at(output));
    stopped.diagnostic(Permissions::ReadOnly)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PROGRAMS;

    #[test]
    fn only_a_trusted_project_is_on_the_path_and_configures_git() {
        let home = tempfile::tempdir().unwrap();
        let cwd = home.path().join("project");
        std::fs::create_dir_all(cwd.join(".venv/bin")).unwrap();
        let path = std::env::join_paths([cwd.join(".venv/bin"), "/usr/bin".into()]).unwrap();
        let given = BTreeMap::from([
            ("PATH".into(), path.clone()),
            ("ONE_NESTED".into(), OsString::from("1")),
        ]);
        let environment = |trust| {
            let project = Project { cwd: &cwd, home: Some(home.path()), trust };
            ConfinedEnvironment::new(given.clone(), project, None, PROGRAMS).unwrap().variables
        };
        let of = |variables: &BTreeMap<OsString, OsString>, name: &str| {
            variables.get(OsStr::new(name)).cloned()
        };
        let untrusted = environment(Trust::Untrusted);
        assert_eq!(of(&untrusted, "PATH"), Some("/usr/bin".into()));
        assert!(of(&untrusted, "GIT_CONFIG_COUNT").is_some());
        let trusted = environment(Trust::Trusted);
        assert_eq!(of(&trusted, "PATH"), Some(path.clone()));
        assert_eq!(of(&trusted, "GIT_CONFIG_COUNT"), None);
        for variables in [untrusted, trusted] {
            assert_eq!(of(&variables, "ONE_NESTED"), None, "it runs inside no other");
        }
    }
}
