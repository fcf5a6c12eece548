//! The team of a stored session as a node runs it: with the agents and the trust of this machine.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use convoke_agent::approvals::SessionAnswers;
use convoke_core::Diagnostic;
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::MemberName;
use convoke_protocol::session::Session;
use convoke_session::{AnyStore, TeamAgents};
use convoke_team::{AgentSettings, Team};

use super::home::Home;
use super::project::{self, UserConfiguration};
use super::resolved_team::{AgentResolver, ResolvedTeam, requirements};
use super::{AgentBackend, project_of, sessions};

/// The team of a session on this machine.
pub struct NodeTeam {
    /// The agents that the node offers. Those of other members run elsewhere.
    pub team_agents: TeamAgents,
    /// The diagnostics of resolving them.
    pub diagnostics: Vec<Diagnostic>,
    /// The reasons why agents that the node offers cannot run in this session; their turns are left to other nodes.
    pub unstartable: Option<String>,
    /// The resources that the agents need while they run.
    pub keep: Box<dyn Any + Send>,
}

impl NodeTeam {
    /// Resolves the agents of a session in a directory of this machine. A team file from the store chooses nothing
    /// that the user of this machine has not allowed.
    pub async fn resolve(
        session: &Session,
        directory: &Path,
        store: &AnyStore,
        host_environment: &HostEnvironment,
        is_offered: &(dyn Fn(&AgentSettings) -> bool + Sync),
        answers: SessionAnswers,
    ) -> anyhow::Result<Self> {
        let home = Home::new(host_environment);
        let user = UserConfiguration::load(&home)?;
        let mut here = session.clone();
        here.began.directory = project::as_text(directory)?;
        let project = project_of(&here, &home, &user)?;
        let backend = AgentBackend::new(None, session.began.rehearsal);
        let done = match project.origin {
            super::Origin::Sample => sessions::turns_done(store, session.began.id).await?,
            _ => HashMap::new(),
        };
        let mut resolver = AgentResolver {
            elsewhere: elsewhere(&project.team, is_offered),
            project: &project,
            catalog: &user.catalog,
            rules: user.permissions.rules_for(&project.directory),
            answers,
            backend,
            done,
            session: session.began.id,
            store,
            home: &home,
            host_environment,
            record: None,
            script: None,
            has_round: false,
        };
        let unstartable = resolver.leave_unstartable()?;
        let ResolvedTeam { team_agents, rehearsal_servers, diagnostics } = resolver.fill().await?;
        Ok(Self { team_agents, diagnostics, unstartable, keep: Box::new(rehearsal_servers) })
    }

    /// Returns the team without agents: it stores and routes messages, and offers all turns.
    pub fn without_agents(session: &Session) -> anyhow::Result<Self> {
        let team = Team::parse(&session.began.team)?;
        let (requirements, elsewhere) = (requirements(&team), elsewhere(&team, &|_| false));
        let mut team_agents = TeamAgents::new(team, HashMap::new());
        (team_agents.requirements, team_agents.elsewhere) = (requirements, elsewhere);
        Ok(Self { team_agents, diagnostics: Vec::new(), unstartable: None, keep: Box::new(()) })
    }
}

/// Returns the members that other machines run.
fn elsewhere(
    team: &Team,
    is_offered: &(dyn Fn(&AgentSettings) -> bool + Sync),
) -> BTreeSet<MemberName> {
    let agents = team.members.iter().filter_map(|member| Some((member, member.agent()?)));
    let others = agents.filter(|(_, settings)| !is_offered(settings));
    others.map(|(member, _)| member.name.clone()).collect()
}
