//! Adapters: how each kind of agent is called, fed and cancelled.
//!
//! An adapter is a function from a [`TurnInput`] to a program with arguments, environment and a dialogue. Only
//! [`crate::process`] starts processes.

pub mod acp;
mod diff;
mod live;
mod one_shot;
mod plain;
mod program;
mod stand_in;
mod trial;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_core::{AgentType, Diagnostic, Escaping};
use convoke_protocol::id::ThreadId;
use convoke_protocol::image::Image;
use convoke_protocol::memory::Branch;
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::{Redactor, is_secret_name};

pub use self::acp::{Preset, PresetEndpoint};
pub use self::diff::unified;
use self::live::LivePrograms;
pub use self::one_shot::OneShot;
pub use self::stand_in::{Script, StandIn, Step};
pub use self::trial::{Trial, trial};
use crate::cli::{Cli, Programs, RenewedSignIn, TurnProgram};
use crate::config::{AgentKind, Definition, is_option};
use crate::diagnostics;
use crate::launch::{self, Confined, ConfinedEnvironment, Program, Project, UntrustedFile};
use crate::process::guardian::Guardian;
use crate::process::{
    self, Dialogue, HostAccess, Launch, NextTurn, Opening, PrivateDir, RunningProgram, Supervised,
    Terms,
};
use crate::sandbox::variables::OwnVariables;
use crate::sandbox::{
    AddedPaths, Enforcer, ProgramState, Reach, Sandbox, SandboxSettings, secrets,
};
use crate::stream::{is_signed_out, is_unconnected};
use crate::team_tools::McpServer;
use crate::team_tools::socket::TeamSocket;
use crate::turn::{Agent, AgentTurn, Continuity, TurnResult, TurnSide};
use crate::turn_input::{Permissions, TurnInput};
use crate::working_directory::WorkingDirectory;

/// The variables of cloud providers, for a program that signs in with one.
const CLOUD_VARIABLES: &[&str] = &["AWS_*", "AZURE_*", "GOOGLE_*"];

/// The facts about the machine that adapters need.
#[derive(Debug, Clone)]
pub struct Host {
    /// The guardian program.
    pub guardian: Guardian,
    /// The environment that agents inherit.
    pub env: Vec<(OsString, OsString)>,
    /// The parent of each turn's private directory.
    pub temp_root: PathBuf,
    /// The directory of agents' sessions that cannot be stored in their own home.
    pub state_dir: PathBuf,
    /// The sandbox settings of all agents.
    pub sandbox: SandboxSettings,
    /// The programs that are known.
    pub programs: Programs,
}

/// Returns the escaping that keeps the program of an agent type from interpreting its prompts.
pub fn escaping(agent_type: &str) -> Escaping {
    match AgentType::normalize(agent_type) {
        AgentType::GoogleGemini => Escaping::AtSigns,
        _ if agent_type == AgentKind::Acp.name() => acp::ESCAPING,
        _ => Escaping::AsWritten,
    }
}

/// Creates the agent of a definition. Agents of the kind `api` are created by `convoke-model`; an agent created
/// for one here fails every turn.
pub fn agent(definition: Definition, host: Host) -> Box<dyn Agent> {
    if definition.kind == AgentKind::StandIn {
        return Box::new(StandIn::new(Script::replies(definition.replies)));
    }
    Box::new(CliAgent::new(definition, host))
}

/// An agent that is a program.
#[derive(Debug, Clone)]
struct CliAgent {
    definition: Arc<Definition>,
    host: Arc<Host>,
    /// The paths of the user's configuration, looked up before any turn.
    added: Arc<AddedPaths>,
    /// The programs that wait for the next turn of their member.
    live: LivePrograms,
}

impl CliAgent {
    fn new(definition: Definition, host: Host) -> Self {
        let homes = host.env.iter().rev().filter(|(name, _)| name == "HOME");
        let homes = homes.map(|(_, home)| Path::new(home));
        // A relative home is in the working directory of a turn, which is not known yet: `~` is the user's own then.
        let mut homes = definition.env.get("HOME").map(Path::new).into_iter().chain(homes);
        let home = homes.find(|home| home.is_absolute());
        let added = Arc::new(AddedPaths::find(&definition.sandbox, home));
        let live = LivePrograms::default();
        Self { definition: Arc::new(definition), host: Arc::new(host), added, live }
    }
}

/// The call of a program, prepared by an adapter.
pub struct ProgramCall {
    /// The arguments.
    pub args: Vec<OsString>,
    /// The variables, beside those that the program inherits.
    pub env: Vec<(OsString, OsString)>,
    /// The dialogue with the program.
    pub dialogue: Box<dyn Dialogue>,
    /// Diagnostics of the preparation.
    pub diagnostics: Vec<Diagnostic>,
    /// The program's session, if it is known before the turn.
    pub session: Option<String>,
    /// Whether the program counts tokens over the whole session.
    pub counts_sessions: bool,
    /// The program's own directory, if it is not the default.
    pub directory: Option<PathBuf>,
    /// The program's private home, which is removed with the call.
    pub home: Option<PrivateDir>,
    /// Texts of the program's configuration that may hold addresses of its model.
    pub addresses: Vec<String>,
    /// The ports on which the program's own processes communicate.
    pub ports: Vec<u16>,
}

impl ProgramCall {
    /// Creates a call with arguments and a dialogue.
    pub fn new(args: Vec<OsString>, dialogue: impl Dialogue + 'static) -> Self {
        Self {
            args,
            env: Vec::new(),
            dialogue: Box::new(dialogue),
            diagnostics: Vec::new(),
            session: None,
            counts_sessions: false,
            directory: None,
            home: None,
            addresses: Vec::new(),
            ports: Vec::new(),
        }
    }
}

/// The input of an adapter.
pub struct Context<'a> {
    pub turn_input: &'a TurnInput,
    /// The agent.
    pub definition: &'a Definition,
    /// The machine.
    pub host: &'a Host,
    /// The turn's private directory.
    pub private_dir: &'a Path,
    /// The CLI, if the program is a known one.
    pub vendor: Option<&'static dyn Cli>,
    /// The enforcer of the permissions.
    pub enforcer: Enforcer,
    /// The MCP server of the team tools, if the turn has them.
    pub team_server: Option<McpServer>,
}

impl<'a> Context<'a> {
    /// Creates the input of a turn without team tools.
    pub fn new(
        turn_input: &'a TurnInput,
        definition: &'a Definition,
        host: &'a Host,
        private_dir: &'a Path,
    ) -> Self {
        let vendor = definition.vendor();
        let enforcer = Enforcer::on_this_machine(vendor, host.sandbox.newest_abi);
        let team_server = None;
        Self { turn_input, definition, host, private_dir, vendor, enforcer, team_server }
    }
}

impl Context<'_> {
    /// Returns the model. By default, a resumed session keeps its model, because some agents lose the history
    /// when it changes.
    pub fn model(&self) -> Option<&str> {
        let own = self.turn_input.model.as_deref().or(self.definition.model.as_deref());
        own.or_else(|| self.turn_input.resume.as_ref()?.model.as_deref())
    }

    /// Returns the permissions of the turn. A program that cannot ask may only read.
    pub fn permissions(&self) -> Permissions {
        let asked = self.turn_input.permissions;
        let permissions = self.definition.permissions.map_or(asked, |widest| asked.min(widest));
        match permissions {
            Permissions::Ask if !self.can_ask() => Permissions::ReadOnly,
            other => other,
        }
    }

    fn can_ask(&self) -> bool {
        match self.definition.kind {
            AgentKind::Cli(cli) => cli.can_ask(self.definition),
            AgentKind::Acp => true,
            AgentKind::Plain | AgentKind::Api | AgentKind::StandIn => false,
        }
    }

    /// Returns the configured arguments.
    pub fn users_args(&self) -> Vec<OsString> {
        self.definition.args.iter().map(OsString::from).collect()
    }

    /// Returns the session to resume.
    pub fn resume(&self) -> Option<&str> {
        let handle = self.turn_input.resume.as_ref();
        handle.map(|handle| handle.session.as_str())
    }

    /// Returns whether the session to resume goes on in a new one.
    pub fn is_branch(&self) -> bool {
        self.turn_input.memory.is_some_and(|memory| memory.branch == Branch::New)
    }

    /// Returns the mark in the session to resume to which the program returns; only for a session that goes on.
    pub fn mark(&self) -> Option<&str> {
        let handle = self.turn_input.resume.as_ref().filter(|_| self.turn_input.memory.is_some());
        handle?.mark.as_deref()
    }

    /// Returns a variable of the agent's environment, before the adapter's additions.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let own = self.definition.env.get(name).map(OsStr::new);
        own.or_else(|| self.users_variable(name))
    }

    /// Returns a variable of the user's environment.
    fn users_variable(&self, name: &str) -> Option<&OsStr> {
        let mut inherited = self.host.env.iter().rev();
        inherited.find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
    }

    /// Returns the sandbox of the turn.
    fn sandbox<'s>(
        &'s self,
        call: &ProgramCall,
        cwd: &'s WorkingDirectory,
        added: &AddedPaths,
    ) -> Sandbox<'s> {
        // The program takes a relative home for one in its working directory.
        let home = self.variable("HOME").map(|home| self.turn_input.cwd.join(home));
        let users_homes = secrets::users_homes(self.users_variable("HOME").map(Path::new));
        let directory = self.vendor.and_then(|vendor| {
            let facts = vendor.facts();
            let moved = facts.directory_variable.and_then(|name| self.variable(name));
            let named = call.directory.clone().or_else(|| moved.map(PathBuf::from));
            named.or_else(|| Some(home.as_ref()?.join(facts.directory)))
        });
        let env = self.host.env.iter().filter(|(name, _)| names_address(name));
        let env = env.map(|(_, value)| value.as_os_str());
        let own = self.definition.env.values().map(OsStr::new);
        let texts = env.chain(own).chain(call.args.iter().map(OsString::as_os_str));
        let addresses = texts.filter_map(OsStr::to_str).map(str::to_owned);
        let in_home = |names: &[&str]| -> Vec<PathBuf> {
            let home = home.as_ref();
            names.iter().filter_map(|name| Some(home?.join(name))).collect()
        };
        let preset = self.definition.preset;
        let state = preset.map_or_else(ProgramState::default, |preset| ProgramState {
            readable: in_home(preset.directory),
            directories: in_home(preset.state),
            files: (preset.files.iter())
                .filter_map(|(name, content)| Some((home.as_ref()?.join(name), *content)))
                .collect(),
        });
        let mut added = added.clone();
        added.show(&self.turn_input.readable);
        let mut additions = self.definition.sandbox.clone();
        additions.ports.extend(&call.ports);
        additions.ports.extend(self.team_server.iter().map(|server| server.port));
        // What the agent's variables name is hidden in addition: they move none of the user's secrets away.
        let cwd_path = self.turn_input.cwd.as_path();
        let named = |variable: &dyn Fn(&str) -> Option<&'s OsStr>, base: &Path| {
            let (vendor, programs) = (self.vendor, self.host.programs);
            let places = (&users_homes, cwd_path);
            secrets::secret_paths_from_env(variable, base, vendor, programs, places)
        };
        let mut secrets = named(&|name| self.users_variable(name), Path::new(""));
        secrets.extend(named(&|name| self.definition.env.get(name).map(OsStr::new), cwd_path));
        Sandbox {
            enforcer: self.enforcer,
            permissions: self.permissions(),
            vendor: self.vendor,
            programs: self.host.programs,
            directory,
            session: call.session.clone(),
            state,
            home,
            users_homes: users_homes.into_iter().collect(),
            cwd,
            workspace: self.turn_input.workspace.as_deref(),
            private_dir: self.private_dir,
            private_home: call.home.as_ref().map(|home| home.path().to_owned()),
            temp_root: &self.host.temp_root,
            settings: &self.host.sandbox,
            additions,
            added,
            secrets,
            addresses: addresses.chain(call.addresses.iter().cloned()).collect(),
        }
    }

    /// Returns the variables with secrets that the program gets: those it signs in with, those its own
    /// configuration names, and those the user's configuration names.
    fn own_variables(&self, call: &ProgramCall) -> OwnVariables {
        let mut names = self.definition.sandbox.variables.clone();
        let mut add = |more: &[&str]| names.extend(more.iter().map(|name| (*name).to_owned()));
        if let Some(vendor) = self.vendor {
            let sign_in = &vendor.facts().sign_in;
            add(sign_in.keys);
            add(sign_in.variables);
            if sign_in.clouds.iter().any(|name| self.variable(name).is_some()) {
                add(CLOUD_VARIABLES);
            }
        }
        if let Some(preset) = self.definition.preset {
            add(preset.variables);
        }
        let args = call.args.iter().filter_map(|argument| argument.to_str()).map(str::to_owned);
        // Also for an ACP agent that runs a CLI, whose call has no such fields.
        let config = self.vendor.iter().flat_map(|vendor| vendor.configuration_texts(self));
        let texts: Vec<String> = args.chain(call.addresses.iter().cloned()).chain(config).collect();
        if self.vendor.is_some_and(|vendor| vendor.selects_cloud(&texts)) {
            add(CLOUD_VARIABLES);
        }
        OwnVariables { names, texts }
    }

    /// Writes a file that only this user can read.
    pub fn write_private(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        let path = self.private_dir.join(name);
        write_private(&path, content.as_ref()).map_err(|error| {
            start_failure(format!("cannot write `{}`: {error}", path.display()))
        })?;
        Ok(path)
    }
}

/// Writes a file that only this user can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// Returns a diagnostic about a message that begins like a command, for an agent whose program acts on commands that a
/// person types. To the agent, it is text.
pub fn command_is_text(agent_type: &str, message: &str) -> Option<Diagnostic> {
    let acts_on_commands =
        matches!(AgentType::normalize(agent_type), AgentType::ClaudeCode | AgentType::GoogleGemini)
            || agent_type == AgentKind::Acp.name();
    let first = message.split_whitespace().next().unwrap_or_default();
    let name = first.strip_prefix('/')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':');
    let is_command = name.starts_with(char::is_alphabetic) && name.chars().all(is_name);
    let note = format!("`{first}` is text for the agent: no command of its program is run");
    let note = Diagnostic::new(diagnostics::AGENT_COMMAND_IS_TEXT, note);
    (acts_on_commands && is_command).then_some(note)
}

/// Returns a diagnostic about images that are not passed to an agent.
pub fn unseen_images(images: &[Image], why: &str) -> Option<Diagnostic> {
    let names: Vec<&str> = images.iter().map(|image| &*image.path).collect();
    let message = format!("{why}, so it does not see {}", names.join(", "));
    let diagnostic = Diagnostic::new(diagnostics::AGENT_IMAGE_UNSEEN, message);
    (!names.is_empty()).then(|| diagnostic.with_count(names.len() as u64))
}

/// Returns the failure of a program that would apply a file of an untrusted project.
pub fn untrusted(file: &UntrustedFile) -> Failure {
    Failure::new(FailureReason::Untrusted, file.to_string())
}

/// Returns the failure of a program that cannot be started.
pub fn start_failure(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::Start, message)
}

/// Returns whether a variable of the user's environment holds the address of a model or a proxy.
pub(crate) fn names_address(name: &OsStr) -> bool {
    const ENDS: &[&str] = &["_BASE_URL", "_API_BASE", "_ENDPOINT", "_PROXY"];
    let name = name.to_string_lossy().to_ascii_uppercase();
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns a diagnostic about the program's own rules, by which it acts without a question.
pub fn program_rules(program: &str, files: &[PathBuf]) -> Option<Diagnostic> {
    let named: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let message =
        format!("{program} acts without asking where its own rules allow it: {}", named.join(", "));
    (!named.is_empty()).then(|| Diagnostic::new(diagnostics::PERMISSION_PROGRAM_RULES, message))
}

/// Prepares the call of a program.
pub fn prepare(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let given = [("model", context.model()), ("session", context.resume())];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        if is_option(value) {
            return Err(Failure::new(
                FailureReason::Usage,
                format!("the {name} `{value}` begins with `-` and would be parsed as an option"),
            ));
        }
    }
    match context.definition.kind {
        AgentKind::Cli(cli) => cli.call(context),
        AgentKind::Acp => acp::call(context),
        AgentKind::Plain | AgentKind::StandIn => Ok(plain::call(context)),
        AgentKind::Api => {
            Err(start_failure("an api agent has no program; convoke-model creates it"))
        }
    }
}

/// Returns how a later turn can continue the session of an agent.
pub fn continuity(definition: &Definition) -> Continuity {
    match definition.kind {
        AgentKind::Cli(cli) => cli.continuity(definition),
        AgentKind::Acp => {
            let cli = definition.preset.and_then(|preset| preset.vendor);
            cli.map_or(Continuity::Resumed, TurnProgram::adapter_continuity)
        }
        AgentKind::Plain => Continuity::None,
        AgentKind::Api | AgentKind::StandIn => Continuity::Own,
    }
}

impl Agent for CliAgent {
    fn continuity(&self) -> Continuity {
        continuity(&self.definition)
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (agent, turn_input) = (self.clone(), Arc::new(turn_input));
        let (turn, mut side) = AgentTurn::open(Redactor::default());
        tokio::spawn(async move {
            let result = agent.run(turn_input, &mut side).await;
            side.finish(result.unwrap_or_else(TurnResult::failed)).await;
        });
        turn
    }

    fn holds(&self, thread: &ThreadId, handle: &ResumeHandle) -> bool {
        self.live.holds(thread, handle)
    }
}

/// A turn whose program can be started.
struct PreparedTurn {
    call: ProgramCall,
    launch: Launch,
    reach: Reach,
    /// About variables that the program did not get, in case that it fails.
    withheld: Option<Diagnostic>,
    /// The sign-in that the program may renew.
    sign_in: Option<Box<dyn RenewedSignIn>>,
    /// The CLI that the program is, if it is one.
    vendor: Option<&'static dyn Cli>,
    /// Removed when the program has ended.
    private: Option<PrivateDir>,
    /// The path of the program's private home.
    home_path: Option<PathBuf>,
    /// Open until the turn is over.
    team_socket: Option<TeamSocket>,
}

impl PreparedTurn {
    async fn supervise(
        &mut self,
        turn_input: &TurnInput,
        program: RunningProgram,
        opening: Opening<'_>,
        side: &TurnSide,
    ) -> Supervised {
        let terms = Terms {
            limits: &turn_input.limits,
            approvals: &turn_input.approvals.clone().within(self.reach.clone()),
            held_until: turn_input.held_until.clone(),
            stopped_by: self.launch.stopped_by,
        };
        process::supervise_turn(program, opening, self.call.dialogue.as_mut(), terms, side).await
    }

    /// Keeps a sign-in that the program renewed. Returns whether it did.
    fn keep_sign_in(&self) -> io::Result<bool> {
        self.sign_in.as_ref().map_or(Ok(false), |it| it.keep())
    }

    /// Removes the files of a program that has ended, after its sign-in is kept.
    async fn remove(&mut self) -> Result<io::Result<bool>, Failure> {
        let (private, home) = (self.private.take(), self.call.home.take());
        let sign_in = self.sign_in.take();
        off_the_runtime(move || {
            drop((private, home));
            sign_in.map_or(Ok(false), |it| it.keep())
        })
        .await
    }
}

/// Runs work that waits for the disk on a thread of its own. A panic there is a failure of the turn.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let failed = |error| start_failure(format!("cannot prepare the turn: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

impl CliAgent {
    /// Runs a turn, in the program of the turn before if that waits for it.
    async fn run(
        &self,
        turn_input: Arc<TurnInput>,
        side: &mut TurnSide,
    ) -> Result<TurnResult, Failure> {
        if let Some((prepared, program)) = self.live.wake(&turn_input).await {
            let agent = self.clone();
            side.set_redactor(off_the_runtime(move || agent.redactor()).await?);
            return self.take_turn(&turn_input, prepared, Some(program), side).await;
        }
        let remembers = turn_input.memory.is_some() && turn_input.resume.is_some();
        if remembers && self.continuity() < Continuity::Resumed {
            let message = "its program has ended, and cannot be continued by another process";
            return Err(Failure::new(FailureReason::Session, message));
        }
        let (redactor, prepared) = self.clone().prepare(turn_input.clone()).await?;
        side.set_redactor(redactor);
        self.take_turn(&turn_input, prepared?, None, side).await
    }

    /// Returns a redactor of the secrets that are known now.
    fn redactor(&self) -> Redactor {
        let mut secrets = self.host.env.clone();
        secrets.extend(os_pairs(&self.definition.env));
        secrets.extend(self.host.programs.stored_secrets(&secrets));
        Redactor::for_env(&secrets)
    }

    /// Finds the secrets to redact, and prepares the turn.
    async fn prepare(
        self,
        turn_input: Arc<TurnInput>,
    ) -> Result<(Redactor, Result<PreparedTurn, Failure>), Failure> {
        off_the_runtime(move || (self.redactor(), self.prepared(&turn_input))).await
    }

    fn prepared(&self, turn_input: &TurnInput) -> Result<PreparedTurn, Failure> {
        let cwd = WorkingDirectory::open(&turn_input.cwd)
            .map_err(|error| start_failure(error.to_string()))?;
        let private = PrivateDir::create(&self.host.temp_root).map_err(|error| {
            let root = self.host.temp_root.display();
            start_failure(format!("cannot create a directory in `{root}`: {error}"))
        })?;
        let mut context = Context::new(turn_input, &self.definition, &self.host, private.path());
        let program = program::find(&context)?;
        // A CLI that is configured as a plain program has its state too.
        context.vendor = context.vendor.or_else(|| self.host.programs.cli_of(&program));
        let team_socket = team_socket(&context)?;
        context.team_server = team_socket.as_ref().map(|(_, server)| server.clone());
        let mut call = prepare(&context)?;
        let sandbox = context.sandbox(&call, &cwd, &self.added);
        let mut environment = self.environment(&context, &call)?;
        let withheld = self.withheld_variables(&context, environment.variables());
        let refused = environment.take_diagnostics();
        let args = std::mem::take(&mut call.args);
        let started = launch::confined(Program { path: program, args, environment }, &sandbox);
        let Confined { launch, reach, diagnostics: gaps } =
            started.map_err(|error| start_failure(error.to_string()))?;
        let sign_in = sandbox.sign_in().filter(|_| launch.policy.is_some());
        drop(sandbox);
        call.diagnostics.splice(..0, gaps.into_iter().chain(refused));
        let access = HostAccess { launch: &launch, guardian: &self.host.guardian, reach: &reach };
        let equipped = call.dialogue.equip(access);
        equipped.map_err(|error| start_failure(format!("cannot prepare the turn: {error}")))?;
        let (vendor, team_socket) = (context.vendor, team_socket.map(|(socket, _)| socket));
        let home_path = call.home.as_ref().map(|home| home.path().to_owned());
        let private = Some(private);
        Ok(PreparedTurn {
            call,
            launch,
            reach,
            withheld,
            sign_in,
            vendor,
            private,
            home_path,
            team_socket,
        })
    }

    async fn take_turn(
        &self,
        turn_input: &TurnInput,
        mut prepared: PreparedTurn,
        running: Option<RunningProgram>,
        side: &TurnSide,
    ) -> Result<TurnResult, Failure> {
        for diagnostic in &prepared.call.diagnostics {
            side.warn(diagnostic.clone()).await;
        }
        let supervised = match running {
            Some(program) => {
                let next = NextTurn {
                    prompt: &turn_input.prompt,
                    images: &turn_input.images,
                    reply_bytes: turn_input.limits.reply_bytes,
                    used: turn_input.resume.as_ref().and_then(|handle| handle.used),
                };
                Ok(prepared.supervise(turn_input, program, Opening::Next(next), side).await)
            }
            None => self.start_program(turn_input, &mut prepared, side).await,
        };
        drop(prepared.team_socket.take());
        let Supervised { mut result, program } = match supervised {
            Ok(supervised) => supervised,
            Err(failure) => {
                if let Err(error) = prepared.remove().await? {
                    tracing::warn!(%error, "a renewed sign-in was not kept");
                }
                return Err(failure);
            }
        };
        let is_kept = program.is_some();
        // A program that stays needs its files.
        let kept = if is_kept { prepared.keep_sign_in() } else { prepared.remove().await? };
        match kept {
            Ok(false) => {}
            Ok(true) => {
                let message = "the program replaced its sign-in with a newer one in this turn";
                let diagnostic = Diagnostic::new(diagnostics::SANDBOX_SIGN_IN, message);
                side.warn(diagnostic.clone()).await;
                result.diagnostics.push(diagnostic);
            }
            Err(error) => tracing::warn!(%error, "a renewed sign-in was not kept"),
        }
        if matches!(result.verdict, Verdict::Failed(_)) {
            result.diagnostics.extend(prepared.withheld.clone());
        }
        tracing::debug!(agent = self.definition.kind.name(), verdict = %result.verdict, "turn ended");
        let private_dir = prepared.launch.private_dir.clone();
        let context = Context {
            vendor: prepared.vendor,
            ..Context::new(turn_input, &self.definition, &self.host, &private_dir)
        };
        let home = prepared.home_path.clone();
        let result = complete(&context, &mut prepared.call, home.as_deref(), result, side).await;
        if let (Some(program), Some(handle), Verdict::Done) =
            (program, &result.resume, &result.verdict)
        {
            self.live.keep(turn_input, handle, prepared, program);
        }
        Ok(result)
    }

    /// Starts the program of a turn and supervises the turn.
    async fn start_program(
        &self,
        turn_input: &TurnInput,
        prepared: &mut PreparedTurn,
        side: &TurnSide,
    ) -> Result<Supervised, Failure> {
        let launch = &prepared.launch;
        tracing::info!(
            program = %launch.program.display(), cwd = %launch.cwd.path().display(),
            "starting {}", self.definition.kind.name()
        );
        tracing::debug!(args = ?launch.args, private = %launch.private_dir.display(), "arguments");
        if side.is_cancelled() {
            let result = TurnResult::new(Verdict::Withdrawn);
            return Ok(Supervised { result, program: None });
        }
        let lines = process::lines_of(&*prepared.call.dialogue, &turn_input.limits);
        let started = RunningProgram::start(launch, &self.host.guardian, lines).await;
        let program = started.map_err(|error| start_failure(error.to_string()))?;
        Ok(prepared.supervise(turn_input, program, Opening::First, side).await)
    }

    /// Returns a diagnostic about variables with secrets that were withheld from a program of the user's
    /// choice. Convoke knows the variables only for known CLIs.
    fn withheld_variables(
        &self,
        context: &Context<'_>,
        env: &BTreeMap<OsString, OsString>,
    ) -> Option<Diagnostic> {
        let is_known = context.vendor.is_some() || self.definition.preset.is_some();
        let given = |name: &OsString| env.contains_key(name);
        let names = self.host.env.iter().map(|(name, _)| name).filter(|name| !given(name));
        let names: Vec<&str> =
            names.filter_map(|name| name.to_str()).filter(|name| is_secret_name(name)).collect();
        let message = format!(
            "the program was not given {}; name those that it signs in with as `variables` of its agent in agents.toml",
            names.join(", ")
        );
        let diagnostic = Diagnostic::new(diagnostics::SANDBOX_VARIABLES_WITHHELD, message);
        (!is_known && !names.is_empty()).then(|| diagnostic.with_count(names.len() as u64))
    }

    /// Returns the environment of a child: inherited variables, then configured ones, then the adapter's.
    fn environment(
        &self,
        context: &Context<'_>,
        call: &ProgramCall,
    ) -> Result<ConfinedEnvironment, Failure> {
        let mut env: BTreeMap<OsString, OsString> = self.host.env.iter().cloned().collect();
        env.retain(|name, _| !name.to_str().is_some_and(|it| self.host.programs.is_nested(it)));
        if context.permissions() < Permissions::Full {
            let own = context.own_variables(call);
            env.retain(|name, value| own.is_passed_on(name, value));
        }
        env.extend(os_pairs(&self.definition.env));
        env.extend(call.env.iter().cloned());
        let project = Project {
            cwd: &context.turn_input.cwd,
            home: context.variable("HOME").map(Path::new),
            trust: context.turn_input.trust,
        };
        let mut environment =
            ConfinedEnvironment::new(env, project, context.vendor, self.host.programs)
                .map_err(|file| untrusted(&file))?;
        environment.set("TMPDIR", context.private_dir);
        Ok(environment)
    }
}

/// Opens the socket of the team tools, if the turn has them and its program accepts an MCP server.
fn team_socket(context: &Context<'_>) -> Result<Option<(TeamSocket, McpServer)>, Failure> {
    let tools = context.turn_input.team_tools.clone();
    let Some(tools) = tools.filter(|_| context.definition.kind.takes_tools()) else {
        return Ok(None);
    };
    let opened = context.host.guardian.program().and_then(|program| {
        let socket = TeamSocket::open(tools)?;
        let server = McpServer::new(program, &socket);
        Ok((socket, server))
    });
    let failed =
        |error| start_failure(format!("cannot open the socket of the team tools: {error}"));
    opened.map(Some).map_err(failed)
}

fn os_pairs(env: &BTreeMap<String, String>) -> impl Iterator<Item = (OsString, OsString)> {
    env.iter().map(|(key, value)| (key.into(), value.into()))
}

/// Completes a result with the adapter's diagnostics, the tokens of this turn only, and the resume handle.
pub async fn complete(
    context: &Context<'_>,
    call: &mut ProgramCall,
    private_home: Option<&Path>,
    mut result: TurnResult,
    side: &TurnSide,
) -> TurnResult {
    let turn_input = context.turn_input;
    result.diagnostics.splice(..0, std::mem::take(&mut call.diagnostics));
    let has_answered = result.usage.is_some_and(|usage| usage.input > 0 || usage.output > 0)
        || !result.reply.is_empty();
    if let Verdict::Failed(failure) = &mut result.verdict {
        let is_sign_in = matches!(failure.reason, FailureReason::Auth | FailureReason::SignedOut);
        failure.reason = reason_by_what_was_sent(failure, has_answered);
        if let Some(home) = private_home {
            failure.message = in_the_users_home(&failure.message, home);
        }
        if let Some(vendor) = context.vendor.filter(|_| is_sign_in) {
            failure.message = vendor.sign_in_failure(&failure.message);
        }
    }
    let is_lost = matches!(&result.verdict, Verdict::Failed(failure) if failure.reason == FailureReason::Session);
    // A session that was not found cannot be resumed.
    let session = call.dialogue.reader().session().filter(|_| !is_lost);
    let is_branch = turn_input.memory.is_some_and(|memory| memory.branch == Branch::New);
    if let (Some(asked), Some(session)) = (context.resume(), session)
        && asked != session
        && !is_branch
    {
        let message =
            format!("session {asked} could not be resumed; session {session} was started");
        let anew = Diagnostic::new(diagnostics::AGENT_SESSION_ANEW, message);
        side.warn(anew.clone()).await;
        result.diagnostics.push(anew);
    }
    for diagnostic in &mut result.diagnostics {
        side.redactor().redact_in_place(&mut diagnostic.message);
    }
    // The count of a new session starts at zero.
    let resumed = turn_input
        .resume
        .as_ref()
        .filter(|handle| is_branch || session.is_none_or(|session| *session == handle.session));
    let earlier = resumed.and_then(|handle| handle.used);
    let counted = result.usage;
    if call.counts_sessions {
        result.usage = counted.map(|total| total.since(earlier.unwrap_or_default()));
    }
    if result.verdict != Verdict::Done {
        // A program whose answer was cut reports zero: the provider sends its count at the end.
        result.usage = result.usage.filter(|usage| usage.input > 0 || usage.output > 0);
    }
    let progress = call.dialogue.reader().progress();
    result.resume = session.map(|session| {
        let handle = ResumeHandle {
            model: context.model().map(str::to_owned),
            // A turn without counts leaves the session's count unchanged.
            used: counted.or(earlier).filter(|_| call.counts_sessions),
            ..ResumeHandle::new(session, &turn_input.cwd)
        };
        if turn_input.memory.is_none() {
            return handle;
        }
        ResumeHandle {
            mark: progress.mark.clone(),
            program: Some(context.definition.kind.name().to_owned()),
            version: progress.version.clone(),
            window: progress.window,
            ..handle
        }
    });
    result
}

/// Refines the reason of a failure by whether the program sent anything. A program that is not signed in or
/// cannot connect sends nothing, unless the model has already answered in this turn.
fn reason_by_what_was_sent(failure: &Failure, has_answered: bool) -> FailureReason {
    match failure.reason {
        FailureReason::Auth if !has_answered && is_signed_out(&failure.message) => {
            FailureReason::SignedOut
        }
        FailureReason::Network if !has_answered && is_unconnected(&failure.message) => {
            FailureReason::Unreachable
        }
        FailureReason::SignedOut if has_answered => FailureReason::Auth,
        FailureReason::Unreachable if has_answered => FailureReason::Network,
        reason => reason,
    }
}

/// Replaces the turn's private home in a message, which no longer exists, by the user's home.
fn in_the_users_home(message: &str, home: &Path) -> String {
    message.replace(&*home.to_string_lossy(), "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_begins_like_a_command_is_reported() {
        for (agent, message, expected) in [
            ("claude", "/compact", true),
            ("gemini", "\n /memory show", true),
            ("acp", "/plugin:run it", true),
            ("codex", "/compact", false),
            ("claude", "/etc/passwd is open", false),
            ("claude", "// a comment", false),
            ("claude", "see /compact", false),
            ("claude", "", false),
        ] {
            let note = command_is_text(agent, message);
            assert_eq!(note.is_some(), expected, "{agent} {message}");
        }
    }

    #[test]
    fn a_failure_says_whether_anything_was_sent() {
        use FailureReason::{Auth, Network, SignedOut, Unreachable};
        let cases = [
            (Auth, "Not logged in · Please run /login", false, SignedOut),
            (Auth, "Please set an Auth method in your settings.json", false, SignedOut),
            (Auth, "unexpected status 401 Unauthorized: Not logged in", false, Auth),
            (Auth, "Invalid API key", false, Auth),
            (Auth, "Not logged in", true, Auth),
            (Network, "Unable to connect to API (ConnectionRefused)", false, Unreachable),
            (
                Network,
                "failed to lookup address information: Name does not resolve",
                false,
                Unreachable,
            ),
            (Network, "stream disconnected before completion", false, Network),
            (Network, "connect ECONNREFUSED 127.0.0.1:1", true, Network),
            (Unreachable, "the agent exceeded the turn's retry limit", true, Network),
        ];
        for (reason, words, has_answered, expected) in cases {
            let failure = Failure::new(reason, words);
            assert_eq!(reason_by_what_was_sent(&failure, has_answered), expected, "{words}");
        }
        let message = "see /tmp/convoke-x/.gemini/settings.json";
        let shown = in_the_users_home(message, Path::new("/tmp/convoke-x"));
        assert_eq!(shown, "see ~/.gemini/settings.json");
    }
}
