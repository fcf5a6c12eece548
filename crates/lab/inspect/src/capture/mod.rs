//! Captures the requests that a CLI sends to its model.
//!
//! The CLI runs unchanged, in the real working directory, but with a private home and against a rehearsal server: it needs
//! no account, nothing leaves the machine, and the user's configuration is not written.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::adapter::Preset;
use convoke_agent::endpoint::measured::Conditions;
use convoke_agent::endpoint::{self, EndpointError, ModelServer, OfflinePlace, WithholdError};
use convoke_agent::launch::{ConfinedEnvironment, ObservedState, Project, UntrustedFile};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{PrivateDir, temp_root};
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_rehearsal::{Answered, CertificateError, Recorded, Script, StartError, start};
use convoke_vendor::MeasuredCli;
use convoke_wire::RequestKind;

use self::call::{Call, Caller};
use crate::host_environment::HostEnvironment;
use crate::installed::{Installed, version_in};
use crate::{diagnostics, explained};

pub(crate) mod account;
mod agent;
mod call;
mod child;
mod diff;
mod git;
mod live;
mod measured;
mod notes;
pub(crate) mod ownership;
mod saved;

pub use account::{Account, Share};
pub use agent::{CapturedAgent, UnknownAgent};
pub use child::ChildEnd;
use convoke_vendor::ConfigurationCopy;
pub use convoke_vendor::{HomeError, UserHome};
pub use diff::{Change, Difference, Side, compare};
pub use live::capture_live;
pub use measured::{MeasureOptions, MeasurePurpose, Measured, measure};
pub use ownership::{Origin, UserText};
pub use saved::{Existing, SavedError, is_saved, load, save};

/// The options of a capture.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    pub command: Vec<OsString>,
    /// The agent, if it cannot be recognised by the name of the command.
    pub agent: Option<CapturedAgent>,
    /// The standard input; the prompt of an ACP agent. Without one, its last argument is the prompt.
    pub stdin: String,
    /// Additional variables.
    pub environment: Vec<(OsString, OsString)>,
    /// The home directory from which the CLI's configuration is copied.
    pub configuration_from: Option<PathBuf>,
    /// The CLI's own directory, where it is not the usual one of that home.
    pub directory: Option<PathBuf>,
    /// The script of the model's replies.
    pub script: Script,
    pub time_limit: Duration,
    /// Its start, and its time limit.
    pub start: Start,
    pub guardian: Guardian,
}

/// The program of a command.
struct FoundProgram<'o> {
    name: &'o OsString,
    arguments: &'o [OsString],
    path: PathBuf,
    agent: CapturedAgent,
}

impl<'o> FoundProgram<'o> {
    fn find(
        command: &'o [OsString],
        agent: Option<CapturedAgent>,
        host_environment: &HostEnvironment,
    ) -> Result<Self, CaptureError> {
        let (name, arguments) = command.split_first().ok_or(CaptureError::NoCommand)?;
        // An ACP agent has a name that its program may not have.
        if let (Some(preset), None) =
            (name.to_str().and_then(|name| convoke_vendors::programs().preset(name)), agent)
        {
            let not_found = || CaptureError::NoProgram(preset);
            let path = program(preset.command.as_ref(), host_environment, not_found)?;
            return Ok(Self { name, arguments, path, agent: CapturedAgent::Acp(preset) });
        }
        let not_found = || CaptureError::NotFound(name.to_string_lossy().into_owned());
        let path = program(name, host_environment, not_found)?;
        let agent = agent.or_else(|| CapturedAgent::of(&path));
        let agent = agent.ok_or_else(|| CaptureError::Unknown(path.clone()))?;
        Ok(Self { name, arguments, path, agent })
    }

    /// Returns the arguments as text.
    fn words(&self) -> Result<Vec<String>, CaptureError> {
        self.arguments.iter().map(as_text).collect()
    }
}

/// Returns a program by its path, or by its name outside of the project.
fn program(
    name: &OsStr,
    host_environment: &HostEnvironment,
    not_found: impl FnOnce() -> CaptureError,
) -> Result<PathBuf, CaptureError> {
    let outside = name.to_str().and_then(|name| host_environment.agent_program(name));
    outside.ok_or_else(|| {
        let inside = host_environment.program(name);
        inside.map_or_else(not_found, CaptureError::InProject)
    })
}

/// Separates the prompt of an ACP agent from its arguments.
fn split_prompt(mut words: Vec<String>, stdin: &str) -> (Vec<String>, String) {
    let prompt = if stdin.is_empty() { words.pop() } else { Some(stdin.to_owned()) };
    (words, prompt.unwrap_or_default())
}

/// The start of a captured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As the user would type it, and it runs to its end. The commands that a project's files name are run if the user
    /// trusts the project, here or in the program itself.
    Typed {
        /// Whether the user trusts the project here.
        is_trusted: bool,
    },
    /// So that its first request is the one that it would send for its user; then it is stopped.
    Measured {
        /// The conditions of its start.
        conditions: Conditions,
        /// Whether the user trusts the project here.
        is_trusted: bool,
    },
}

impl Start {
    /// Returns whether the user trusts the project.
    fn trust(self) -> Trust {
        match self {
            Self::Typed { is_trusted: true } | Self::Measured { is_trusted: true, .. } => {
                Trust::Trusted
            }
            Self::Typed { .. } | Self::Measured { .. } => Trust::Untrusted,
        }
    }
}

/// A captured run.
#[derive(Debug, Clone)]
pub struct Capture {
    pub program: Installed<CapturedAgent>,
    /// The command that was run.
    pub command: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The path of the private home, which no longer exists.
    pub home: PathBuf,
    /// The end of the program.
    pub ended: ChildEnd,
    /// The requests, in order.
    pub requests: Vec<Recorded>,
    /// The texts that may be the user's.
    pub yours: Vec<UserText>,
    /// Notes on the settings that were supplied, and on missing parts of the user's configuration.
    pub notes: Vec<Diagnostic>,
}

/// Runs a CLI and captures what it sends.
pub async fn capture(
    options: CaptureOptions,
    host_environment: &HostEnvironment,
) -> Result<Capture, CaptureError> {
    let found = FoundProgram::find(&options.command, options.agent, host_environment)?;
    let users_words = found.words()?;
    let FoundProgram { name, arguments: users_arguments, path, agent } = found;
    let vendor = agent.vendor();
    let home = PrivateDir::create(&temp_root()).map_err(CaptureError::Home)?;
    let mut notes = Vec::new();
    let user = copied_configuration(&options, agent, home.path(), host_environment, &mut notes)?;
    let server = start(options.script).await?;
    agent.configure(&server.base_url(), home.path()).map_err(|error| {
        // Name the file by its original path.
        let from = user.as_ref().map_or(home.path(), |from| &from.home);
        CaptureError::Endpoint(error.seen_from(home.path(), from))
    })?;

    let model_server = ModelServer { base_url: &server.base_url(), proxy_url: &server.proxy_url() };
    let mut environment = environment(agent, model_server, home.path(), host_environment);
    let trust = options.start.trust();
    let users_directory = match (&user, vendor) {
        (Some(user), _) => user.directory.clone(),
        (None, Some(vendor)) => host_environment.user_home(vendor).directory,
        (None, None) => host_environment.home.clone(),
    };
    let place = OfflinePlace {
        server: model_server,
        home: home.path(),
        users_directory: &users_directory,
        cwd: &host_environment.cwd,
    };
    let caller = Caller {
        agent,
        trust,
        place,
        server: &server,
        home: home.path(),
        words: &users_words,
        stdin: &options.stdin,
        host_environment,
    };
    let Call { arguments, variables, dialogue, withheld } = caller.call(options.start)?;
    notes.extend(withheld);
    for (name, value) in variables {
        match value {
            Some(value) => environment.insert(name, value),
            None => environment.remove(&name),
        };
    }
    environment.extend(options.environment);
    let mut environment =
        confined(agent, trust, environment, &arguments, home.path(), host_environment)?;
    notes.extend(environment.take_diagnostics());
    let run = child::Child {
        program: path.clone(),
        vendor: vendor.map(|it| it as _),
        arguments: arguments.clone(),
        environment,
        cwd: &host_environment.cwd,
        host_environment,
        state: ObservedState::PrivateHome {
            home: home.path(),
            users_directory: &users_directory,
            port: Some(server.port()),
        },
        temporary: &home.path().join("tmp"),
        time_limit: options.time_limit,
    };
    let enough = async {
        match options.start {
            Start::Typed { .. } => std::future::pending().await,
            Start::Measured { .. } => {
                if !server.has_model_calls(1, options.time_limit).await {
                    std::future::pending::<()>().await;
                }
            }
        }
    };
    let child::ChildRun { end: ended, diagnostics: gaps } =
        child::run(&run, dialogue, &options.guardian, enough).await;
    notes.extend(gaps);
    let requests = server.requests();
    notes.extend(notes::stopped(&requests));

    // Asked in the same environment, before the server ends.
    let mut program = Installed::captured(&path, agent);
    let was_stopped = matches!(ended, ChildEnd::TimedOut | ChildEnd::Interrupted);
    if program.version.is_none() && !was_stopped {
        program.version = asked_version(run, home.path(), &options.guardian).await;
    }
    server.shutdown().await;
    let version = program.version.as_deref().filter(|_| matches!(agent, CapturedAgent::Cli(_)));
    if let CapturedAgent::Cli(vendor) = agent {
        let explained = explained::explained(vendor, version, host_environment);
        notes.extend(notes::trust_supplied(vendor, explained.as_ref(), host_environment));
    }
    let (words, given_words) = match agent {
        // The arguments that point it to the server are not the user's.
        CapturedAgent::Cli(vendor) => {
            let shown = vendor.headless(users_arguments);
            let given: Vec<String> = shown.iter().map(as_text).collect::<Result<_, _>>()?;
            (given.clone(), given)
        }
        CapturedAgent::Acp(_) => {
            let mut shown: Vec<String> = arguments.iter().map(as_text).collect::<Result<_, _>>()?;
            // The prompt of an ACP agent is not an argument.
            let prompt = users_words.last().filter(|_| options.stdin.is_empty());
            shown.extend(prompt.cloned());
            (shown, users_words)
        }
    };
    let command = std::iter::once(as_text(name)?).chain(words).collect();
    let given = ownership::Given {
        arguments: &given_words,
        stdin: &options.stdin,
        cwd: &host_environment.cwd,
        configuration_from: user.as_ref(),
    };
    let report = vendor.and_then(|vendor| {
        let own = UserHome::below(vendor, home.path());
        let user = user.as_ref().unwrap_or(&own);
        explained::explained_with(vendor, version, &host_environment.cwd, user, &given_words)
    });
    notes.extend(report.iter().flat_map(notes::cuts));
    let yours = ownership::candidates(&given, vendor, &requests, home.path(), report.as_ref());
    Ok(Capture {
        program,
        command,
        cwd: host_environment.cwd.clone(),
        home: home.path().to_owned(),
        ended,
        requests,
        yours,
        notes,
    })
}

/// Copies the configuration of the user whose home is named, if one is. Returns that home.
fn copied_configuration(
    options: &CaptureOptions,
    agent: CapturedAgent,
    home: &Path,
    host_environment: &HostEnvironment,
    notes: &mut Vec<Diagnostic>,
) -> Result<Option<UserHome>, CaptureError> {
    let vendor = agent.vendor();
    let user = match (options.configuration_from.as_deref(), vendor) {
        (Some(home), Some(vendor)) => {
            let directory = options.directory.clone();
            let directory = directory.unwrap_or_else(|| home.join(vendor.facts().directory));
            Some(UserHome { directory, home: home.to_owned() })
        }
        (Some(_), None) => return Err(CaptureError::NoConfiguration(agent)),
        (None, _) => None,
    };
    if let (Some(from), Some(vendor)) = (&user, vendor) {
        let left = ConfigurationCopy::make(vendor, from, home, &host_environment.cwd)?;
        git::copy_configuration(&from.home, home, host_environment, &options.guardian)
            .map_err(CaptureError::Home)?;
        notes.extend(left.iter().map(|path| notes::left_out(path)));
    }
    if let Some(vendor) = vendor {
        let checked = vendor.check_managed(Path::new("/etc"));
        checked.map_err(|error| CaptureError::Managed(error.to_string()))?;
    }
    Ok(user)
}

/// Asks a program for its version, as it was run.
async fn asked_version(run: child::Child<'_>, home: &Path, guardian: &Guardian) -> Option<String> {
    let question = child::Child { arguments: vec!["--version".into()], cwd: home, ..run };
    let pending = std::future::pending();
    match child::run(&question, child::one_shot(""), guardian, pending).await.end {
        ChildEnd::Done { output } => version_in(&output),
        _ => None,
    }
}

/// Returns the environment of a program, which keeps nothing of an untrusted project.
fn confined(
    agent: CapturedAgent,
    trust: Trust,
    variables: BTreeMap<OsString, OsString>,
    arguments: &[OsString],
    home: &Path,
    host_environment: &HostEnvironment,
) -> Result<ConfinedEnvironment, CaptureError> {
    let vendor = agent.vendor();
    let project = Project { cwd: &host_environment.cwd, home: Some(&host_environment.home), trust };
    let programs = convoke_vendors::programs();
    let environment =
        ConfinedEnvironment::new(variables, project, vendor.map(|it| it as _), programs)
            .map_err(|file| CaptureError::untrusted(agent, file))?;
    if let Some(vendor) = vendor.filter(|_| trust == Trust::Untrusted) {
        let variables = environment.variables();
        let project = host_environment.untrusted_project();
        let kept = vendor.keep_variables(arguments, home, project, variables);
        kept.map_err(|error| CaptureError::withheld(agent, error))?;
    }
    Ok(environment)
}

fn as_text(word: &OsString) -> Result<String, CaptureError> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| CaptureError::NotText(word.to_string_lossy().into_owned()))
}

fn environment(
    agent: CapturedAgent,
    server: ModelServer<'_>,
    home: &Path,
    host_environment: &HostEnvironment,
) -> BTreeMap<OsString, OsString> {
    let kept = host_environment.environment.iter();
    let kept = kept.filter(|(name, _)| endpoint::is_kept(name));
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    kept.chain(agent.environment(server, home)).collect()
}

impl Capture {
    /// Returns the main request of the turn: the largest that is not a side request.
    pub fn turn(&self) -> Option<&Recorded> {
        let calls = self.requests.iter().filter(|request| request.is_turn());
        calls.max_by_key(|request| (request.body.len(), std::cmp::Reverse(request.number)))
    }

    /// Returns whether its requests were sent to the model's own endpoint.
    pub fn is_live(&self) -> bool {
        self.requests.iter().any(|request| request.answered == Answered::Endpoint)
    }

    /// Returns the blocked hosts, with the number of tries.
    pub fn elsewhere(&self) -> Vec<(&str, usize)> {
        let mut hosts: Vec<(&str, usize)> = Vec::new();
        for request in &self.requests {
            if let RequestKind::Elsewhere { host } = &request.kind {
                match hosts.iter_mut().find(|(known, _)| known == host) {
                    Some((_, tries)) => *tries += 1,
                    None => hosts.push((host, 1)),
                }
            }
        }
        hosts
    }

    /// Returns the diagnostics of the run.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut diagnostics = self.notes.clone();
        match &self.ended {
            ChildEnd::Done { .. } | ChildEnd::Stopped => {}
            ChildEnd::TimedOut => diagnostics.push(Diagnostic::new(
                diagnostics::CAPTURE_TIMED_OUT,
                "the program exceeded its time limit and was killed",
            )),
            ChildEnd::Failed { reason } => {
                let reason = reason.trim_end();
                let message = format!("the program ended with an error: {reason}");
                diagnostics.push(Diagnostic::new(diagnostics::CAPTURE_FAILED, message));
            }
            ChildEnd::Interrupted => diagnostics
                .push(Diagnostic::new(diagnostics::CAPTURE_FAILED, "the program was interrupted")),
        }
        let elsewhere = self.elsewhere();
        if !elsewhere.is_empty() {
            let tries = elsewhere.iter().map(|(_, tries)| *tries as u64).sum();
            let hosts: Vec<&str> = elsewhere.iter().map(|(host, _)| *host).collect();
            let message = format!("refused: {}", hosts.join(", "));
            diagnostics
                .push(Diagnostic::new(diagnostics::CAPTURE_ELSEWHERE, message).with_count(tries));
        }
        diagnostics
    }
}

impl CaptureError {
    /// The error of a file because of which a program is not started.
    fn untrusted(agent: CapturedAgent, file: UntrustedFile) -> Self {
        match file {
            UntrustedFile::Applied { path, .. } => Self::WouldApply { agent, path },
            file => Self::Unclear(file),
        }
    }

    /// The error of settings of a project that could not be withheld.
    fn withheld(agent: CapturedAgent, error: WithholdError) -> Self {
        match error {
            WithholdError::Untrusted(file) => Self::untrusted(agent, file),
            WithholdError::File(source) => Self::Home(source),
        }
    }
}

/// An error of a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no command.
    #[error("no command given; write for example `convoke capture -- claude \"hello\"`")]
    NoCommand,
    /// The program does not exist.
    #[error("program `{0}` not found, as a path or on `PATH`")]
    NotFound(String),
    /// The program of an ACP agent does not exist.
    #[error("program `{}` of {} not found on `PATH`; `npm install -g {}` installs it", .0.command, .0.name, .0.package)]
    NoProgram(&'static Preset),
    /// The configuration of an ACP agent is not copied.
    #[error("--home: the configuration of {0} cannot be copied")]
    NoConfiguration(CapturedAgent),
    /// The only program of the CLI's name lies in the project.
    #[error("{} lies in the project, where an agent could have put it, and is not run; install it elsewhere, or name it by its path where a command takes one", .0.display())]
    InProject(PathBuf),
    /// A CLI is not installed.
    #[error("{0} is not on the PATH; install it, or name another --agent")]
    NotInstalled(&'static dyn MeasuredCli),
    /// The program would follow a file of a project that its user has not trusted.
    #[error("{agent} would follow {}, and this directory is not trusted: read it, then trust the directory with `convoke trust`", path.display())]
    Untrusted {
        /// The program.
        agent: &'static dyn MeasuredCli,
        /// The file.
        path: PathBuf,
    },
    /// The program would apply a file of a project that is not trusted here.
    #[error("{agent} would apply {}, which could run commands or change its environment: read it, then trust the directory with `convoke trust`", path.display())]
    WouldApply {
        /// The program.
        agent: CapturedAgent,
        /// The file.
        path: PathBuf,
    },
    /// A file of a project that is not trusted here may name commands that are not found.
    #[error(transparent)]
    Unclear(UntrustedFile),
    /// A file changed while the program ran.
    #[error("a file that it reads was changed while it ran; run it again")]
    Changed,
    /// The program is not a known CLI.
    #[error("unknown agent `{}`; if it is a known one under another name, pass --as with one of {}", .0.display(), agent::names())]
    Unknown(PathBuf),
    /// The private home could not be created.
    #[error("cannot create a private home")]
    Home(#[source] std::io::Error),
    /// The certificate of the model server could not be made.
    #[error("the model server has no certificate to answer for the vendor's hosts")]
    Certificate(#[source] CertificateError),
    /// The configuration could not be copied into it.
    #[error(transparent)]
    Copy(#[from] HomeError),
    /// The CLI could not be pointed to the server.
    #[error(transparent)]
    Endpoint(EndpointError),
    /// Its requests to its real endpoint cannot be recorded.
    #[error("its requests cannot be recorded: {0}")]
    Relay(String),
    /// A setting of the machine would lead it to another address.
    #[error("its requests would leave this machine: {0}")]
    Managed(String),
    /// The server could not start.
    #[error(transparent)]
    Server(#[from] StartError),
    /// A word of the command is not UTF-8.
    #[error("`{0}` is not UTF-8")]
    NotText(String),
    /// The program sent no model request.
    #[error("the program called no model{}", because(sent, output))]
    NoCall {
        /// Its other requests.
        sent: Vec<String>,
        output: String,
    },
    /// The program ended without an error and without a model request here.
    #[error("no request reached Convoke: the program made none, or its settings lead past Convoke{}", because(&[], output))]
    WentPast { output: String },
    /// The program was interrupted before it called a model.
    #[error("interrupted before the program called a model")]
    Interrupted,
    /// A request is not JSON.
    #[error("request {number} is not JSON")]
    NotJson {
        /// The request's number.
        number: usize,
        /// The reason.
        source: serde_json::Error,
    },
}

/// The number of lines of the program's output in an error.
const LAST_LINES: usize = 8;

fn because(sent: &[String], output: &str) -> String {
    let sent =
        if sent.is_empty() { String::new() } else { format!("; it sent {}", sent.join(", ")) };
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    match &lines[lines.len().saturating_sub(LAST_LINES)..] {
        [] => sent,
        [line] => format!("{sent}; it said: {line}"),
        lines => format!("{sent}; it said:\n  {}", lines.join("\n  ")),
    }
}
