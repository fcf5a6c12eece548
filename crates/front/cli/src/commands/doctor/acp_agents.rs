//! The ACP agents that `doctor` looks for: those that are known by name, those of the user's `agents.toml`, and those of
//! the team here; and the members whose agents are no programs that it looks for.

use convoke_agent::adapter::Preset;
use convoke_agent::config::{AgentKind, Catalog, Definition};
use convoke_inspect::HostEnvironment;
use convoke_inspect::doctor::AcpAgent;
use convoke_team::Member;

use crate::conversation::home::Home;
use crate::conversation::project::{Project, UserConfiguration, find_team_file};
use crate::conversation::resolved_agent::resolve_agent;

/// Returns the agents of every kind. A configuration or team file with errors, which is reported apart, has none.
pub(super) fn all(host_environment: &HostEnvironment) -> Vec<AcpAgent> {
    let user = UserConfiguration::load(&Home::new(host_environment)).ok();
    let mut agents: Vec<AcpAgent> = convoke_vendors::programs()
        .presets
        .iter()
        .filter(|it| is_apart(it))
        .map(|it| known(it))
        .collect();
    let Some(user) = user else { return agents };
    agents.extend(of_user(&user.catalog));
    let project = find_team_file(host_environment).and_then(|it| Project::read(&it, &user).ok());
    let Some(project) = project else { return agents };
    for member in &project.team.members {
        let Some(found) = of_member(member, &project, &user.catalog) else { continue };
        match agents.iter_mut().find(|it| it.name == found.name) {
            Some(known) => known.is_configured = true,
            None => agents.push(found),
        }
    }
    agents
}

/// Returns an agent that is known by name, which is reported where it is installed.
pub(super) fn known(preset: &'static Preset) -> AcpAgent {
    AcpAgent {
        name: preset.name.to_owned(),
        program: Some(preset.command.to_owned()),
        preset: Some(preset),
        is_configured: false,
    }
}

/// A program that is a CLI too is reported as such.
fn is_apart(preset: &Preset) -> bool {
    convoke_vendors::programs().cli(preset.command).is_err()
}

fn of_user(catalog: &Catalog) -> impl Iterator<Item = AcpAgent> {
    let built_in = Catalog::built_in(convoke_vendors::programs());
    catalog.iter().filter_map(move |(name, definition)| {
        let is_own = built_in.get(name).is_none_or(|it| it.command != definition.command);
        let is_acp = definition.kind == AgentKind::Acp;
        (is_own && is_acp).then(|| configured(name.to_owned(), definition))
    })
}

/// Returns the members of the team here that need no program of a vendor, and can run a turn: those with a command of their
/// own that is there, models, and stand-ins.
pub(super) fn other_members(host_environment: &HostEnvironment) -> Vec<String> {
    let user = UserConfiguration::load(&Home::new(host_environment)).ok();
    let read = |user: &UserConfiguration| {
        find_team_file(host_environment).and_then(|it| Project::read(&it, user).ok())
    };
    let Some((project, user)) = user.and_then(|user| Some((read(&user)?, user))) else {
        return Vec::new();
    };
    let can_run = |member: &&Member| {
        let Some(settings) = member.agent() else { return false };
        let name = member.name.as_str();
        let resolved = resolve_agent(&project, &user.catalog, name, settings, &mut Vec::new());
        resolved.is_ok_and(|resolved| match resolved.definition.kind {
            AgentKind::Plain => {
                let program = resolved.definition.program();
                if program.contains('/') {
                    project.directory.join(program).is_file()
                } else {
                    host_environment.agent_program(program).is_some()
                }
            }
            AgentKind::Api | AgentKind::StandIn => true,
            _ => false,
        })
    };
    project.team.members.iter().filter(can_run).map(|member| member.name.to_string()).collect()
}

/// Returns the agent of a member: by its name, or by the member's where the team file names its program.
fn of_member(member: &Member, project: &Project, catalog: &Catalog) -> Option<AcpAgent> {
    let settings = member.agent()?;
    let resolved =
        resolve_agent(project, catalog, member.name.as_str(), settings, &mut Vec::new()).ok()?;
    let mut definition = resolved.definition;
    // A path of the team file is one of its directory.
    if let Some(command) = definition.command.as_mut().filter(|it| it.contains('/')) {
        *command = project.directory.join(&*command).display().to_string();
    }
    if definition.kind != AgentKind::Acp || definition.preset.is_some_and(|it| !is_apart(it)) {
        return None;
    }
    let has_own = settings.command.is_some() || settings.agent == AgentKind::Acp.name();
    let name = if has_own { member.name.to_string() } else { settings.agent.clone() };
    Some(configured(name, &definition))
}

fn configured(name: String, definition: &Definition) -> AcpAgent {
    let program = (!definition.needs_command()).then(|| definition.program().to_owned());
    AcpAgent { name, program, preset: definition.preset, is_configured: true }
}
