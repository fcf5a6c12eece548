//! A team and the agents of its members.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_agent::Agent;
use convoke_agent::approvals::Approvals;
use convoke_agent::command_files::TrustedCommands;
use convoke_agent::diagnostics::{AGENT_COMMANDS_CHANGED, AGENT_COMMANDS_SHARED};
use convoke_agent::turn_input::{Limits, Permissions, Trust, TurnInput};
use convoke_core::Diagnostic;
use convoke_protocol::id::{MemberName, Millis};
use convoke_redact::Redactor;
use convoke_team::{AgentSettings, Member, Team};

use crate::file_changes::{ChangeRecorder, OwnWorkspace};
use crate::prompt::InstructionFile;
use crate::sharing::TurnRequirements;

/// A source of the current time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A team with its agents.
#[derive(Clone)]
pub struct TeamAgents {
    team: Team,
    agents: HashMap<MemberName, MemberAgent>,
    /// Removes secrets from events before they are shown or stored.
    pub redactor: Redactor,
    /// The source of the current time.
    pub clock: Clock,
    /// Whether the agents use no model, so that turns cost nothing.
    pub is_rehearsal: bool,
    /// Records what turns change; `None` records nothing.
    pub recorder: Option<Arc<dyn ChangeRecorder>>,
    /// The members whose turns other processes run, where sessions are shared.
    pub elsewhere: BTreeSet<MemberName>,
    /// The requirements of each member's turns on a node.
    pub requirements: HashMap<MemberName, TurnRequirements>,
}

/// The agent of a member, with the settings of its turns.
#[derive(Clone)]
pub struct MemberAgent {
    pub agent: Arc<dyn Agent>,
    /// The directory that the agent works in.
    pub cwd: PathBuf,
    pub permissions: Permissions,
    /// The model; `None` for the agent's default.
    pub model: Option<String>,
    /// Whether the user trusts the files in the directory.
    pub trust: Trust,
    /// The command files that were trusted; `None` if all files are trusted, whatever they become.
    pub trusted_commands: Option<TrustedCommands>,
    /// The member's instruction file.
    pub instruction_file: Option<InstructionFile>,
    /// The rules that answer the agent's questions without a person, for the whole session.
    pub approvals: Approvals,
    /// Whether the agent's turns may change files, so that changes are recorded.
    pub may_write: bool,
    /// The agent's own copy of the directory, used instead of `cwd`.
    pub workspace: Option<OwnWorkspace>,
    /// The directory of that copy, while a turn is prepared.
    pub(crate) workspace_root: Option<PathBuf>,
    /// Directories of Convoke that the agent can read.
    pub readable: Vec<PathBuf>,
    /// Whether the agent gets tools to reach its team.
    pub has_team_tools: bool,
    /// The time after which the program of a member that remembers ends between turns.
    pub idle_timeout: Duration,
}

impl MemberAgent {
    /// Creates a member agent with the most restrictive permissions.
    pub fn new(agent: Arc<dyn Agent>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent,
            cwd: cwd.into(),
            permissions: Permissions::default(),
            model: None,
            trust: Trust::default(),
            trusted_commands: None,
            instruction_file: None,
            approvals: Approvals::default(),
            may_write: false,
            workspace: None,
            workspace_root: None,
            readable: Vec::new(),
            has_team_tools: false,
            idle_timeout: AgentSettings::IDLE_TIMEOUT,
        }
    }

    /// Revokes trust if a trusted command file has changed, or could change while the turn runs, and returns
    /// the reason. `beside` are the agents that run at the same time.
    pub(crate) async fn check_trust<'a>(
        &mut self,
        beside: impl Iterator<Item = (&'a MemberName, &'a Self)>,
    ) -> Option<Diagnostic> {
        let trusted = self.trusted_commands.clone().filter(|_| self.trust == Trust::Trusted)?;
        let shares = |other: &Self| other.may_write && other.workspace.is_none();
        let writer = beside.filter(|_| self.workspace.is_none()).find(|(_, it)| shares(it));
        if let Some((name, _)) = writer {
            self.trust = Trust::Untrusted;
            let message = format!(
                "{name} may change files that name commands in the same directory at the same time; the agent is \
                 started as in a directory that is not trusted"
            );
            return Some(Diagnostic::new(AGENT_COMMANDS_SHARED, message));
        }
        let cwd = self.cwd.clone();
        let check = tokio::task::spawn_blocking(move || trusted.check(&cwd));
        let changed = match check.await {
            Ok(changed) => changed?,
            Err(error) => Diagnostic::new(AGENT_COMMANDS_CHANGED, error.to_string()),
        };
        self.trust = Trust::Untrusted;
        Some(changed)
    }

    /// Creates the input of a turn that starts a new session: see [`crate::prompt`].
    pub(crate) fn turn_input(
        &self,
        prompt: String,
        system: Option<String>,
        team: &Team,
    ) -> TurnInput {
        let limits = Limits {
            turn: team.limits.turn_timeout,
            ask: team.limits.ask_timeout,
            background: team.limits.background_timeout,
            ..Limits::default()
        };
        TurnInput {
            system,
            workspace: self.workspace_root.clone(),
            readable: self.readable.clone(),
            permissions: self.permissions,
            model: self.model.clone(),
            trust: self.trust,
            approvals: self.approvals.clone(),
            limits,
            ..TurnInput::new(prompt, &self.cwd)
        }
    }
}

impl TeamAgents {
    /// Assigns agents to the members of a team. A team without people gets one called `user`. The turns
    /// of a member without an agent fail.
    pub fn new(mut team: Team, agents: HashMap<MemberName, MemberAgent>) -> Self {
        team.ensure_person();
        Self {
            team,
            agents,
            redactor: Redactor::default(),
            clock: Arc::new(convoke_agent::clock::now),
            is_rehearsal: false,
            recorder: None,
            elsewhere: BTreeSet::new(),
            requirements: HashMap::new(),
        }
    }

    /// Returns the team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Returns whether an agent may ask a person before it acts.
    pub fn has_asking_agents(&self) -> bool {
        self.agents.values().any(|agent| agent.permissions == Permissions::Ask)
    }

    /// Returns whether a member works in a copy of the directory.
    pub fn has_workspaces(&self) -> bool {
        self.agents.values().any(|agent| agent.workspace.is_some())
    }

    /// Returns the approvals of each agent.
    pub(crate) fn approvals(&self) -> Vec<Approvals> {
        self.agents.values().map(|agent| agent.approvals.clone()).collect()
    }

    /// Returns whether other processes run the turns of a member.
    pub(crate) fn is_elsewhere(&self, member: &MemberName) -> bool {
        self.elsewhere.contains(member)
    }

    /// Returns the requirements of a member's turns.
    pub(crate) fn requirements_of(&self, member: &MemberName) -> TurnRequirements {
        self.requirements.get(member).cloned().unwrap_or_else(|| {
            let settings = self.team.member(member.as_str()).and_then(Member::agent);
            TurnRequirements {
                agent: settings.map_or_else(String::new, |settings| settings.agent.clone()),
                node: settings.and_then(|settings| settings.node.clone()),
            }
        })
    }

    pub(crate) fn member_agent(&self, member: &MemberName) -> Option<&MemberAgent> {
        self.agents.get(member)
    }

    pub(crate) fn now(&self) -> Millis {
        (self.clock)()
    }
}
