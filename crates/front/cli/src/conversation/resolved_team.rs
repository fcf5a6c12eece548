//! Resolves an agent for every member of a team, real or rehearsed.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoke_agent::adapter::{Host, Script, StandIn, Step, agent};
use convoke_agent::approvals::{Approvals, SessionAnswers};
use convoke_agent::config::{AgentKind, Catalog, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::temp_root;
use convoke_agent::sandbox::{Enforcer, Gap, Route, SandboxSettings};
use convoke_agent::turn_input::Permissions;
use convoke_agent::{Agent, Cli};
use convoke_core::Diagnostic;
use convoke_inspect::HostEnvironment;
use convoke_inspect::diagnostics::RECORD_UNAVAILABLE;
use convoke_inspect::explained::TurnInstructions;
use convoke_inspect::installed::version_on_disk;
use convoke_inspect::record::{ProgramHome, Recording, RecordingAgent, RelayingAgent};
use convoke_model::{ModelAgent, Settings};
use convoke_protocol::id::{MemberName, SessionId, ThreadId};
use convoke_redact::Redactor;
use convoke_session::file_changes::OwnWorkspace;
use convoke_session::prompt::InstructionFile;
use convoke_session::sharing::TurnRequirements;
use convoke_session::{AnyStore, MemberAgent, TeamAgents};
use convoke_team::{AgentSettings, PermissionRules, Record, Team, Trust, WorkspaceChoice};

use super::change_recorder::{Recorder, changes_of};
use super::home::Home;
use super::project::{Origin, Project, place_in};
use super::rehearsal_servers::RehearsalServers;
use super::resolved_agent::{ResolvedAgent, resolve_agent};
use super::script::{self, RehearsalScript};
use super::{AgentBackend, sample, store};
use crate::diagnostics::own;
use crate::machine;
use crate::outcome::UsageError;
use crate::terminal::stdout;

/// The time per word of the sample's replies, slow enough to read.
const PACE: Duration = Duration::from_millis(10);
/// The variable that keeps this pace where the output is no terminal.
const PACED: &str = "CONVOKE_REHEARSAL_PACE";

/// A team with its agents.
pub(super) struct ResolvedTeam {
    pub(super) team_agents: TeamAgents,
    pub(super) rehearsal_servers: RehearsalServers,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Resolves the agents of a team.
pub(super) struct AgentResolver<'a> {
    pub(super) project: &'a Project,
    pub(super) catalog: &'a Catalog,
    /// The rules of the project's directory for agents that ask.
    pub(super) rules: PermissionRules,
    /// The answers that people gave for the session.
    pub(super) answers: SessionAnswers,
    pub(super) backend: AgentBackend,
    /// The number of turns that each member has done: a script continues after them.
    pub(super) done: HashMap<MemberName, usize>,
    /// What stand-ins say, if the user wrote it.
    pub(super) script: Option<RehearsalScript>,
    /// Whether stand-ins without a script hand over from one to the next.
    pub(super) has_round: bool,
    /// The session that the threads of models belong to, and their store.
    pub(super) session: SessionId,
    pub(super) store: &'a AnyStore,
    pub(super) home: &'a Home,
    pub(super) host_environment: &'a HostEnvironment,
    /// The user's own choice of recording, above the team file's.
    pub(super) record: Option<Record>,
    /// The members whose turns other machines run. Nothing is resolved for them.
    pub(super) elsewhere: BTreeSet<MemberName>,
}

impl AgentResolver<'_> {
    /// Resolves every member that is an agent. O(members).
    pub(super) async fn fill(&self) -> anyhow::Result<ResolvedTeam> {
        let team = self.project.team_with_formats(self.catalog);
        let mut rehearsal_servers = RehearsalServers::default();
        let mut diagnostics = Vec::new();
        let mut seats = HashMap::new();
        let mut secrets: Vec<_> = self.environment();
        secrets.extend(convoke_vendors::programs().stored_secrets(&secrets));
        let mut keys = Vec::new();
        // A rehearsal has the same errors as a real run.
        let resolved = self.resolve_agents(&mut diagnostics)?;
        let model_keys = self.model_keys(&resolved);
        for (name, resolved) in resolved {
            let own = resolved.definition.env.iter();
            secrets.extend(own.map(|(name, value)| (name.into(), value.into())));
            let kind = resolved.definition.kind;
            if self.backend != AgentBackend::StandIns {
                diagnostics.extend(self.withheld_instructions(&name, &resolved));
            }
            let agent: Arc<dyn Agent> = match self.backend {
                AgentBackend::Agents if kind == AgentKind::Api => {
                    let model = self.model(&name, &resolved, &mut diagnostics)?;
                    keys.extend(model.key());
                    Arc::new(model)
                }
                AgentBackend::Agents => {
                    let host = self.host(&resolved.definition, &model_keys)?;
                    match self.recording(&name, &resolved, &mut diagnostics) {
                        Some((program, recording)) => {
                            let definition = resolved.definition.clone();
                            Arc::new(RelayingAgent { definition, host, program, recording })
                        }
                        None => agent(resolved.definition.clone(), host).into(),
                    }
                }
                AgentBackend::Clis => {
                    self.rehearse(&name, &resolved, &mut rehearsal_servers, &mut diagnostics)
                        .await?
                }
                AgentBackend::StandIns => self.stand_in(&name),
            };
            let member_agent = self.member_agent(&name, agent, &resolved)?;
            seats.insert(name, member_agent);
        }
        let mut team_agents = TeamAgents::new(team, seats);
        team_agents.elsewhere.clone_from(&self.elsewhere);
        team_agents.requirements = requirements(&self.project.team);
        team_agents.is_rehearsal = self.backend.rehearsal().is_some();
        let redactor = Redactor::for_env(&secrets);
        team_agents.redactor = keys.iter().fold(redactor, |redactor, key| key.known_to(&redactor));
        if self.backend != AgentBackend::StandIns {
            let changes = changes_of(self.host_environment);
            team_agents.recorder = Some(Arc::new(Recorder::new(changes)));
        }
        Ok(ResolvedTeam { team_agents, rehearsal_servers, diagnostics })
    }

    fn resolve_agents(
        &self,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Vec<(MemberName, ResolvedAgent)>, UsageError> {
        let members = self.project.team.members.iter();
        let agents = members.filter_map(|member| Some((&member.name, member.agent()?)));
        agents
            .filter(|(name, _)| !self.elsewhere.contains(*name))
            .map(|(name, settings)| {
                let agent = resolve_agent(
                    self.project,
                    self.catalog,
                    name.as_str(),
                    settings,
                    diagnostics,
                )?;
                Ok((name.clone(), agent))
            })
            .collect()
    }

    /// Leaves members to other machines if their agents have no command here, because the team file names it and is not
    /// trusted. Returns the reason.
    pub(super) fn leave_unstartable(&mut self) -> Result<Option<String>, UsageError> {
        if self.backend != AgentBackend::Agents {
            return Ok(None);
        }
        let resolved = self.resolve_agents(&mut Vec::new())?;
        let lacking: Vec<MemberName> = resolved
            .into_iter()
            .filter(|(_, resolved)| resolved.definition.needs_command())
            .map(|(name, _)| name)
            .collect();
        if lacking.is_empty() {
            return Ok(None);
        }
        let directory = self.project.directory.display();
        let why = match self.project.trust() {
            Trust::Trusted => "",
            Trust::Untrusted => &format!(
                " without trust in {directory}: run `convoke trust {directory}` on that machine, with the same team file"
            ),
        };
        let names: Vec<&str> = lacking.iter().map(MemberName::as_str).collect();
        let why = format!("the agent of {} has no command{why}", names.join(", "));
        self.elsewhere.extend(lacking);
        Ok(Some(why))
    }

    /// Returns a diagnostic about instruction files that the member's CLI does not get, because the directory
    /// is not trusted.
    fn withheld_instructions(
        &self,
        name: &MemberName,
        resolved: &ResolvedAgent,
    ) -> Option<Diagnostic> {
        let vendor = convoke_vendors::measured(resolved.definition.kind.vendor()?)?;
        let program = self.host_environment.agent_program(resolved.definition.program())?;
        let version = version_of(&program, vendor);
        let cwd = self.project.working_directory(&resolved.settings).to_owned();
        let host_environment = HostEnvironment { cwd, ..self.host_environment.clone() };
        let trust = self.project.trust();
        let turn = TurnInstructions::new(vendor, version.as_deref(), trust, &host_environment)?;
        let mut diagnostic = turn.diagnostic()?;
        diagnostic.message = format!("{name}: {}", diagnostic.message);
        Some(diagnostic)
    }

    /// Returns the variables that hold keys of models: those of the user's agents and of this team's.
    fn model_keys(&self, resolved: &[(MemberName, ResolvedAgent)]) -> BTreeSet<OsString> {
        let users = self.catalog.iter().filter_map(|(_, agent)| agent.api.key_env.as_ref());
        let teams = resolved.iter().filter_map(|(_, agent)| agent.settings.key_env.as_ref());
        users.chain(teams).map(OsString::from).collect()
    }

    fn member_agent(
        &self,
        name: &MemberName,
        agent: Arc<dyn Agent>,
        resolved: &ResolvedAgent,
    ) -> Result<MemberAgent, UsageError> {
        let settings = &resolved.settings;
        let text = self.project.read_instructions(settings)?;
        let file = settings.instructions_file.clone().zip(text);
        // The directory that the trust is for. A link that a turn puts there later is not followed.
        let cwd = self.project.working_directory(settings);
        let mut member_agent = MemberAgent::new(agent, cwd);
        member_agent.instruction_file = file.map(|(path, text)| InstructionFile { path, text });
        member_agent.model.clone_from(&settings.model);
        member_agent.trust = self.project.trust();
        member_agent.permissions = resolved.permissions;
        let approvals = Approvals::new(self.rules.clone());
        member_agent.approvals = approvals.remembered_in(&self.answers, name.as_str());
        member_agent.may_write = self.may_write(resolved);
        member_agent.has_team_tools =
            settings.team_tools.unwrap_or(false) && resolved.definition.kind.takes_tools();
        member_agent.idle_timeout = settings.idle_timeout.unwrap_or(AgentSettings::IDLE_TIMEOUT);
        let has_program =
            resolved.definition.kind != AgentKind::Api && self.backend != AgentBackend::StandIns;
        member_agent.trusted_commands =
            has_program.then(|| self.project.trusted_commands(&member_agent.cwd));
        let has_own = match settings.workspace {
            Some(choice) => choice == WorkspaceChoice::Own,
            None => member_agent.may_write && self.has_workspaces(),
        };
        member_agent.workspace =
            has_own.then(|| own_workspace(&self.project.directory, &member_agent.cwd, settings));
        Ok(member_agent)
    }

    /// Returns whether members that may write work in copies of the directory, so that they do not overwrite each
    /// other's files.
    fn has_workspaces(&self) -> bool {
        let team = &self.project.team;
        team.workspace.map_or(team.limits.parallel, |choice| choice == WorkspaceChoice::Own)
    }

    /// Returns whether a member may change files of the working directory.
    fn may_write(&self, resolved: &ResolvedAgent) -> bool {
        let newest_abi = self.host_environment.newest_landlock();
        let enforcer = Enforcer::on_this_machine(resolved.definition.vendor(), newest_abi);
        let gaps = enforcer.gaps(resolved.permissions, Route::Direct, &resolved.definition.sandbox);
        resolved.permissions != Permissions::ReadOnly
            // The user's own configuration allows it to change some paths.
            || !resolved.definition.sandbox.writable.is_empty()
            // An old kernel allows read-only files to be truncated.
            || gaps.contains(&Gap::Truncate)
    }

    /// Points a member's CLI to a rehearsal server; a stand-in replaces a member without a known CLI.
    async fn rehearse(
        &self,
        name: &MemberName,
        resolved: &ResolvedAgent,
        rehearsal_servers: &mut RehearsalServers,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<Arc<dyn Agent>> {
        let definition = &resolved.definition;
        let program = self.host_environment.agent_program(definition.program());
        let can_be_pointed = definition.vendor().is_some() || definition.preset.is_some();
        let Some(program) = program.filter(|_| can_be_pointed) else {
            let message = if can_be_pointed {
                format!("`{}` is not installed", definition.program())
            } else {
                format!("`{}` cannot use a rehearsal server", definition.program())
            };
            let message = format!("the built-in stand-in replaces {name}: {message}");
            diagnostics.push(Diagnostic::new(own::REHEARSAL_STAND_IN, message));
            return Ok(self.stand_in(name));
        };
        let state = self.home.data.join("rehearsal");
        let mut lines = match &self.script {
            Some(script) => script.of(name),
            None if self.project.origin == Origin::Sample => sample::replies(name.as_str()),
            None => Vec::new(),
        };
        lines.drain(..self.done(name, lines.len()));
        let thread = self.thread_of(name);
        let (member, host) = (name.clone(), self.host_environment);
        let entered = rehearsal_servers.enter(member, &thread, definition, lines, host, state);
        let (mut host, feed) = entered.await?;
        let home = host.env.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| PathBuf::from(home)).unwrap_or_default();
        host.sandbox = self.sandbox(host.sandbox.route);
        let mut definition = definition.clone();
        definition.command = Some(program.display().to_string());
        let mut secrets = self.environment();
        secrets.extend(definition.env.iter().map(|(name, value)| (name.into(), value.into())));
        // The variables of the private home point to the rehearsal server; the user's own might not.
        definition.env.clear();
        let Some(vendor) = definition.vendor().and_then(convoke_vendors::measured) else {
            return Ok(agent(definition, host).into());
        };
        let recording = Recording {
            vendor,
            version: version_of(&program, vendor),
            store: Arc::new(self.store.clone()),
            thread: self.thread_of(name),
            redactor: Redactor::for_env(&secrets),
            home: ProgramHome::Private(home),
        };
        Ok(Arc::new(RecordingAgent::new(agent(definition, host).into(), feed, recording)))
    }

    /// Returns the program of a member whose requests are recorded, and its recording.
    fn recording(
        &self,
        name: &MemberName,
        resolved: &ResolvedAgent,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<(PathBuf, Recording)> {
        self.record.or(resolved.settings.record)?;
        let definition = &resolved.definition;
        let Some(vendor) = definition.vendor().and_then(convoke_vendors::measured) else {
            if matches!(definition.kind, AgentKind::Acp | AgentKind::Plain) {
                let program = definition.program();
                let message = format!(
                    "the requests of {name} are not recorded: `{program}` cannot be pointed to a relay"
                );
                diagnostics.push(Diagnostic::new(RECORD_UNAVAILABLE, message));
            }
            return None;
        };
        let mut secrets = self.environment();
        secrets.extend(definition.env.iter().map(|(name, value)| (name.into(), value.into())));
        let program = self.host_environment.agent_program(definition.program());
        let recording = Recording {
            vendor,
            version: program.as_deref().and_then(|program| version_of(program, vendor)),
            store: Arc::new(self.store.clone()),
            thread: self.thread_of(name),
            redactor: Redactor::for_env(&secrets),
            home: ProgramHome::Users(self.host_environment.user_home(vendor)),
        };
        // The turn of a missing program fails with its own reason.
        Some((program.unwrap_or_else(|| definition.program().into()), recording))
    }

    /// Creates the agent of a model member, with the member's thread in this session.
    fn model(
        &self,
        name: &MemberName,
        resolved: &ResolvedAgent,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<ModelAgent> {
        let thread = Some(self.thread_of(name));
        let ResolvedAgent { settings, definition, .. } = resolved;
        let (settings, withheld) = Settings::for_member(settings, definition, self.catalog, thread);
        diagnostics.extend(withheld.map(|it| it.at_path(self.project.file.clone())));
        let host = convoke_model::Host {
            env: self.environment(),
            machine: machine::of_process(self.home.configuration.clone(), None)?,
            pack: Arc::new(convoke_packs::convoke()?),
            store: Arc::new(self.store.clone()),
            private: vec![self.home.data.clone(), self.home.configuration.clone()],
            programs: convoke_vendors::programs(),
        };
        Ok(ModelAgent::new(settings, host))
    }

    /// Returns the thread of a member in this session.
    pub(super) fn thread_of(&self, name: &MemberName) -> ThreadId {
        ThreadId::of_member(self.session, name.as_str())
    }

    /// Finds a model member by name.
    pub(super) fn model_called(
        &self,
        name: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<(ModelAgent, MemberName)> {
        let member = self.project.team.member(name);
        let found = member.and_then(|member| Some((member, member.agent()?)));
        let Some((member, settings)) = found else {
            return Err(UsageError(format!("no agent of the team has the name `{name}`")).into());
        };
        let name = member.name.clone();
        let resolved =
            resolve_agent(self.project, self.catalog, name.as_str(), settings, diagnostics)?;
        if resolved.definition.kind != AgentKind::Api {
            let program = resolved.definition.program();
            let why = format!(
                "{name} is `{program}`, which keeps its own history; only threads of models can be compacted"
            );
            return Err(UsageError(why).into());
        }
        Ok((self.model(&name, &resolved, diagnostics)?, name))
    }

    fn stand_in(&self, name: &MemberName) -> Arc<dyn Agent> {
        let mut turns = match &self.script {
            Some(script) => Script::replies(script.of(name)).turns,
            None if self.project.origin == Origin::Sample => sample::turns(name.as_str()),
            None if self.has_round => script::round(&self.project.team, name),
            None => Vec::new(),
        };
        turns.drain(..self.done(name, turns.len()));
        // Nobody reads along elsewhere, unless the user says so.
        let is_watched = self.host_environment.variable(PACED).is_some();
        if !is_watched && !stdout().is_terminal() {
            for turn in &mut turns {
                turn.retain(|step| !matches!(step, Step::Wait(_)));
            }
            return Arc::new(StandIn::new(Script { turns }));
        }
        Arc::new(StandIn::new(Script { turns }).with_pace(PACE))
    }

    fn done(&self, name: &MemberName, most: usize) -> usize {
        self.done.get(name).copied().unwrap_or(0).min(most)
    }

    /// Returns the machine as a CLI sees it.
    fn host(
        &self,
        definition: &Definition,
        model_keys: &BTreeSet<OsString>,
    ) -> anyhow::Result<Host> {
        let mut env = self.environment();
        env.retain(|(name, _)| is_inherited(name, definition.vendor(), model_keys));
        Ok(Host {
            guardian: Guardian::this_program()
                .context("cannot determine the path of this program")?,
            env,
            temp_root: temp_root(),
            state_dir: self.home.data.join("agents"),
            sandbox: self.sandbox(Route::Direct),
            programs: convoke_vendors::programs(),
        })
    }

    /// Returns the sandbox settings of the team.
    fn sandbox(&self, route: Route) -> SandboxSettings {
        SandboxSettings {
            private: vec![self.home.data.clone(), self.home.configuration.clone()],
            route,
            required: self.project.team.require_sandbox,
            newest_abi: self.host_environment.newest_landlock(),
            started_in: Some(match self.project.origin {
                // It is in a directory of Convoke, and contains nothing else.
                Origin::Sample => self.project.directory.clone(),
                Origin::File | Origin::Session => self.host_environment.cwd.clone(),
            }),
            places: self.project.places(),
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        self.host_environment.environment.clone().into_iter().collect()
    }
}

/// Returns the workspace of a member: a copy of the project, or of a working directory elsewhere.
fn own_workspace(project: &Path, cwd: &Path, settings: &AgentSettings) -> OwnWorkspace {
    let (project, below) = place_in(project, cwd);
    let (copy, link) = (settings.workspace_copy.clone(), settings.workspace_link.clone());
    OwnWorkspace { project, below, copy, link }
}

/// Returns whether a CLI inherits a variable: not if it holds the password of the store, or the key of a model with
/// which the CLI itself does not sign in.
fn is_inherited(name: &OsStr, vendor: Option<&dyn Cli>, model_keys: &BTreeSet<OsString>) -> bool {
    let signs_in_with = vendor.map_or(&[][..], |vendor| vendor.facts().sign_in.keys);
    let is_key = model_keys.contains(name) && !signs_in_with.iter().any(|own| name == *own);
    !is_key && name != store::PASSWORD
}

/// Returns the version of a program, if its files name it.
fn version_of(program: &Path, vendor: &'static dyn Cli) -> Option<String> {
    let real = program.canonicalize();
    version_on_disk(real.as_deref().unwrap_or(program), vendor)
}

/// Returns the requirements of each member's turns.
pub(super) fn requirements(team: &Team) -> HashMap<MemberName, TurnRequirements> {
    let agents = team.members.iter().filter_map(|member| Some((member, member.agent()?)));
    let required = agents.map(|(member, settings)| {
        let AgentSettings { agent, node, .. } = settings;
        let requirements = TurnRequirements { agent: agent.clone(), node: node.clone() };
        (member.name.clone(), requirements)
    });
    required.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cli_inherits_only_the_model_key_that_it_signs_in_with() {
        let keys: BTreeSet<OsString> =
            ["ANTHROPIC_API_KEY", "CODEX_API_KEY", "MODEL_KEY"].map(OsString::from).into();
        let inherited = |name: &str| {
            let vendor = convoke_vendors::programs().cli(name).ok();
            let all = [
                "ANTHROPIC_API_KEY",
                "CODEX_API_KEY",
                "CONVOKE_STORE_PASSWORD",
                "MODEL_KEY",
                "PATH",
            ];
            all.into_iter()
                .filter(|it| is_inherited(OsStr::new(it), vendor, &keys))
                .collect::<Vec<_>>()
        };
        assert_eq!(inherited("claude"), ["ANTHROPIC_API_KEY", "PATH"]);
        assert_eq!(inherited("codex"), ["CODEX_API_KEY", "PATH"]);
        assert_eq!(inherited("none"), ["PATH"]);
    }
}
