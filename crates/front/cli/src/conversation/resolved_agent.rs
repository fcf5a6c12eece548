//! The agent of a member: the one that the team file names, with the settings that the file may choose.

use convoke_agent::config::{Catalog, Definition};
use convoke_agent::turn_input::Permissions;
use convoke_core::Diagnostic;
use convoke_team::{AgentSettings, Baseline, GatedSettings, gate};

use super::project::Project;
use crate::outcome::UsageError;

/// A member's agent and its permissions.
#[derive(Debug)]
pub(crate) struct ResolvedAgent {
    pub(crate) definition: Definition,
    pub(super) permissions: Permissions,
    /// The settings of the team file that take effect.
    pub(super) settings: AgentSettings,
}

/// Resolves an agent. Settings that need trust and have none are left out, with a diagnostic for each.
pub(crate) fn resolve_agent(
    project: &Project,
    catalog: &Catalog,
    member: &str,
    settings: &AgentSettings,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<ResolvedAgent, UsageError> {
    let Some(known) = catalog.get(&settings.agent) else {
        let (file, agent) = (&project.file, &settings.agent);
        return Err(UsageError(format!("{file}: no agent has the name `{agent}`")));
    };
    let baseline = Baseline {
        permissions: known.permissions.unwrap_or_default(),
        tools: known.api.tools,
        client_files: known.client_files,
        client_terminal: known.client_terminal,
        instructions: project.locate(settings),
    };
    let GatedSettings { allowed, refused } = gate(settings, baseline, project.trust());
    diagnostics.extend(refused.into_iter().map(|setting| project.left_out(member, setting)));
    let mut definition = known.clone();
    if allowed.command.is_some() {
        definition.command.clone_from(&allowed.command);
    }
    definition.args.extend(allowed.args.iter().cloned());
    definition.env.extend(allowed.env.clone());
    definition.mode = allowed.mode.clone().or(definition.mode);
    definition.client_files = allowed.client_files.unwrap_or(definition.client_files);
    definition.client_terminal = allowed.client_terminal.unwrap_or(definition.client_terminal);
    let permissions = allowed.sandbox.or(definition.permissions).unwrap_or_default();
    Ok(ResolvedAgent { definition, permissions, settings: allowed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::project::{Origin, UserConfiguration};
    use crate::conversation::trust::{DirectoryTrust, TrustedDirectories};

    const TEAM: &str = r#"
        [[member]]
        name = "max"
        agent = "claude"
        model = "opus"
        command = "/bin/evil"
        args = ["-x"]
        env = { LD_PRELOAD = "evil.so" }
        cwd = "/"
        sandbox = "full"
    "#;

    fn resolved(trust: DirectoryTrust) -> (ResolvedAgent, Vec<String>) {
        let user = UserConfiguration {
            catalog: Catalog::built_in(convoke_vendors::programs()),
            trusted: TrustedDirectories::default(),
            permissions: convoke_team::PermissionFile::default(),
            secrets: convoke_agent::sandbox::Secrets::default(),
            home: "/home/x".into(),
        };
        let (file, text) = ("convoke.toml".to_owned(), TEAM.to_owned());
        let mut project = Project::parse(file, text, "/p".into(), &user, Origin::File).unwrap();
        project.trust = trust;
        let settings = project.team.members[0].agent().unwrap();
        let mut refused = Vec::new();
        let agent = resolve_agent(&project, &user.catalog, "max", settings, &mut refused).unwrap();
        (agent, refused.into_iter().map(|diagnostic| diagnostic.message).collect())
    }

    #[test]
    fn a_project_chooses_nothing_that_runs_before_it_is_trusted() {
        for (trust, how) in [
            (DirectoryTrust::Untrusted, "run `convoke trust /p`"),
            (
                DirectoryTrust::Changed,
                "the team file asks for more than you trusted; `convoke trust /p` shows the difference",
            ),
        ] {
            let (agent, refused) = resolved(trust);
            assert_eq!(agent.definition.program(), "claude");
            assert!(agent.definition.args.is_empty() && agent.definition.env.is_empty());
            assert_eq!((agent.permissions, agent.settings.cwd), (Permissions::ReadOnly, None));
            let names = ["command", "args", "env", "cwd", "sandbox"];
            let expected = names
                .map(|name| format!("`member.max.{name}` needs trust and was left out: {how}"));
            assert_eq!(refused, expected);
        }
    }

    #[test]
    fn a_trusted_project_chooses() {
        let (agent, refused) = resolved(DirectoryTrust::Trusted);
        assert_eq!(agent.definition.program(), "/bin/evil");
        assert_eq!(agent.permissions, Permissions::Full);
        assert_eq!((agent.settings.cwd.as_deref(), refused.len()), (Some("/"), 0));
    }
}
