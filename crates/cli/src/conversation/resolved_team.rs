//! The cast: an agent for every place in a team, real or rehearsed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoke_agent::Agent;
use convoke_agent::adapter::{Host, Script, StandIn, agent};
use convoke_agent::config::Kind;
use convoke_agent::id::ThreadId;
use convoke_agent::process::guardian::Guardian;
use convoke_core::Diagnostic;
use convoke_inspect::HostEnvironment;
use convoke_model::{ModelAgent, Settings};
use convoke_redact::Redactor;
use convoke_session::prompt::InstructionFile;
use convoke_session::{MemberAgent, MemberName, SessionId, SqliteStore, TeamAgents};
use convoke_team::{AgentSettings, MemberKind, Team};

use super::home::Home;
use super::project::{Origin, Project};
use super::rehearsal_servers::{RehearsalServers, vendor_of};
use super::resolved_agent::{ResolvedAgent, resolve_agent};
use super::{AgentBackend, sample};
use crate::diagnostics::own;
use crate::machine;
use crate::outcome::UsageError;

/// The time that a stand-in takes for a word of the sample, so that it can be followed.
const PACE: Duration = Duration::from_millis(10);

/// A team with its agents.
pub(super) struct ResolvedTeam {
    pub(super) team_agents: TeamAgents,
    pub(super) stage: RehearsalServers,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// What agents are found with.
pub(super) struct AgentResolver<'a> {
    pub(super) project: &'a Project,
    pub(super) players: AgentBackend,
    /// How many turns each member has done already: a script goes on after them.
    pub(super) done: HashMap<MemberName, usize>,
    /// Which session the threads of models belong to, and where they are kept.
    pub(super) session: SessionId,
    pub(super) store: &'a SqliteStore,
    pub(super) home: &'a Home,
    pub(super) host_environment: &'a HostEnvironment,
}

impl AgentResolver<'_> {
    /// Finds an agent for every member that is one.
    pub(super) async fn fill(&self) -> anyhow::Result<ResolvedTeam> {
        let catalog = self.home.read_catalog()?;
        let mut team = self.project.team.clone();
        let mut stage = RehearsalServers::default();
        let mut diagnostics = Vec::new();
        let mut seats = HashMap::new();
        let mut secrets: Vec<_> = self.environment();
        let mut keys = Vec::new();
        for member in &self.project.team.members {
            let Some(settings) = member.agent() else { continue };
            let name = MemberName::new(&*member.name);
            let engaged =
                resolve_agent(self.project, &catalog, &member.name, settings, &mut diagnostics);
            // A rehearsal refuses what the real run would.
            let engaged = engaged?;
            let own = engaged.definition.env.iter();
            secrets.extend(own.map(|(name, value)| (name.into(), value.into())));
            set_format(&mut team, &member.name, &engaged);
            let agent: Arc<dyn Agent> = match self.players {
                AgentBackend::Agents if engaged.definition.kind == Kind::Api => {
                    let model = self.model(&name, settings, &engaged, &mut diagnostics)?;
                    keys.extend(model.key());
                    Arc::new(model)
                }
                AgentBackend::Agents => agent(engaged.definition.clone(), self.host()?).into(),
                AgentBackend::Clis => {
                    self.rehearse(&name, &engaged, &mut stage, &mut diagnostics).await?
                }
                AgentBackend::StandIns => self.stand_in(&name),
            };
            seats.insert(name, self.member_agent(agent, settings, engaged)?);
        }
        let mut team_agents = TeamAgents::new(team, seats);
        let redactor = Redactor::for_env(&secrets);
        team_agents.redactor = keys.iter().fold(redactor, |redactor, key| key.known_to(&redactor));
        Ok(ResolvedTeam { team_agents, stage, diagnostics })
    }

    fn member_agent(
        &self,
        agent: Arc<dyn Agent>,
        settings: &AgentSettings,
        engaged: ResolvedAgent,
    ) -> Result<MemberAgent, UsageError> {
        let text = self.project.read_instructions(settings)?;
        let file = settings.instructions_file.clone().zip(text);
        let mut member_agent = MemberAgent::new(agent, &self.project.directory);
        member_agent.instruction_file = file.map(|(path, text)| InstructionFile { path, text });
        member_agent.model.clone_from(&settings.model);
        member_agent.trust = self.project.trust;
        member_agent.permissions = engaged.permissions;
        if let Some(cwd) = engaged.cwd {
            member_agent.cwd = self.project.directory.join(cwd);
        }
        Ok(member_agent)
    }

    /// Lets a member's own program talk to a server of ours, where it can be made to.
    async fn rehearse(
        &self,
        name: &MemberName,
        engaged: &ResolvedAgent,
        stage: &mut RehearsalServers,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<Arc<dyn Agent>> {
        let definition = &engaged.definition;
        let program = self.host_environment.program(OsStr::new(definition.program()));
        let (Some(vendor), Some(program)) = (vendor_of(definition.kind), program) else {
            let message = match vendor_of(definition.kind) {
                Some(_) => format!("`{}` is not installed", definition.program()),
                None => format!("`{}` has no model that could be rehearsed", definition.program()),
            };
            let message = format!("the built-in stand-in speaks for {name}: {message}");
            diagnostics.push(Diagnostic::new(own::REHEARSAL_STAND_IN, message));
            return Ok(self.stand_in(name));
        };
        let state = self.home.data.join("rehearsal");
        let mut lines = Vec::new();
        if self.project.origin == Origin::Sample {
            let all = sample::lines(name.as_str());
            lines = all[self.done(name, all.len())..].to_vec();
        }
        let host = stage.enter(name.clone(), vendor, lines, self.host_environment, state).await?;
        let mut definition = definition.clone();
        definition.command = Some(program.display().to_string());
        // The private home's variables lead to our server; the user's own could lead past it.
        definition.env.clear();
        Ok(agent(definition, host).into())
    }

    /// Makes a model a member: its thread is that of its name in this session.
    fn model(
        &self,
        name: &MemberName,
        settings: &AgentSettings,
        engaged: &ResolvedAgent,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<ModelAgent> {
        let thread = self.thread_of(name);
        let (settings, refused) =
            Settings::for_member(settings, &engaged.definition, self.project.trust, Some(thread));
        let refused = refused.into_iter().map(|it| self.project.left_out(name.as_str(), it));
        diagnostics.extend(refused);
        let host = convoke_model::Host {
            env: self.environment(),
            machine: machine::of_process(self.home.configuration.clone(), None)?,
            pack: Arc::new(convoke_packs::convoke()?),
            store: Arc::new(self.store.clone()),
        };
        Ok(ModelAgent::new(settings, host))
    }

    /// Returns the thread of a model in this session.
    pub(super) fn thread_of(&self, name: &MemberName) -> ThreadId {
        ThreadId::of_member(self.session, name.as_str())
    }

    /// Returns the model that a name of the team means.
    pub(super) fn model_called(
        &self,
        name: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<(ModelAgent, MemberName)> {
        let member = self.project.team.member(name);
        let found = member.and_then(|member| Some((member, member.agent()?)));
        let Some((member, settings)) = found else {
            return Err(UsageError(format!("no agent of the team is called `{name}`")).into());
        };
        let name = MemberName::new(&*member.name);
        let catalog = self.home.read_catalog()?;
        let engaged = resolve_agent(self.project, &catalog, &member.name, settings, diagnostics)?;
        if engaged.definition.kind != Kind::Api {
            let program = engaged.definition.program();
            let why = format!(
                "{name} is `{program}`, which keeps its own history; only a model's is ours"
            );
            return Err(UsageError(why).into());
        }
        Ok((self.model(&name, settings, &engaged, diagnostics)?, name))
    }

    fn stand_in(&self, name: &MemberName) -> Arc<dyn Agent> {
        if self.project.origin != Origin::Sample {
            return Arc::new(StandIn::new(Script::default()));
        }
        let mut turns = sample::turns(name.as_str());
        let turns = turns.split_off(self.done(name, turns.len()));
        Arc::new(StandIn::new(Script { turns }).with_pace(PACE))
    }

    fn done(&self, name: &MemberName, most: usize) -> usize {
        self.done.get(name).copied().unwrap_or(0).min(most)
    }

    fn host(&self) -> anyhow::Result<Host> {
        Ok(Host {
            guardian: Guardian::this_program().context("cannot find this program")?,
            env: self.environment(),
            temp_root: std::env::temp_dir(),
            state_dir: self.home.data.join("agents"),
        })
    }

    fn environment(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        self.host_environment.environment.clone().into_iter().collect()
    }
}

/// A member's prompts are in the format of what it really is, whatever the user calls it.
fn set_format(team: &mut Team, member: &str, engaged: &ResolvedAgent) {
    let found = team.members.iter_mut().find(|other| other.name == member);
    if let Some(MemberKind::Agent(settings)) = found.map(|member| &mut member.kind) {
        let format = match engaged.definition.kind {
            Kind::StandIn => Kind::Plain,
            kind => kind,
        };
        format.name().clone_into(&mut settings.agent);
    }
}
