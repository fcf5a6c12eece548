//! How a member is engaged: the agent that its team file names, with what the file adds as far as it
//! may.

use convoke_agent::config::{Catalog, Definition};
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_core::Diagnostic;
use convoke_core::name::nearest;
use convoke_team::AgentSettings;

use super::project::Project;
use crate::outcome::UsageError;

/// A member's agent and what it may do.
#[derive(Debug)]
pub(super) struct ResolvedAgent {
    pub(super) definition: Definition,
    pub(super) permissions: Permissions,
    /// The directory to work in, below the project's.
    pub(super) cwd: Option<String>,
}

/// Engages an agent. Settings that need trust and have none are left out, with a diagnostic for each.
pub(super) fn resolve_agent(
    project: &Project,
    catalog: &Catalog,
    member: &str,
    settings: &AgentSettings,
    refused: &mut Vec<Diagnostic>,
) -> Result<ResolvedAgent, UsageError> {
    let field = |name: &str| format!("{}: `member.{member}.{name}`", project.file);
    let Some(known) = catalog.get(&settings.agent) else {
        let names: Vec<&str> = catalog.iter().map(|(name, _)| name).collect();
        let hint = match nearest(&settings.agent, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        let agent = &settings.agent;
        return Err(UsageError(format!(
            "{}: no agent is called `{agent}`; {hint}",
            field("agent")
        )));
    };
    let asked = match &settings.sandbox {
        None => None,
        Some(word) => Some(permissions(word).ok_or_else(|| {
            let words = "read-only, edit, edit-and-network or full";
            UsageError(format!("{}: must be {words}, not `{word}`", field("sandbox")))
        })?),
    };
    let mut definition = known.clone();
    let mut may = |name: &str, is_set: bool| {
        if is_set && project.trust == Trust::Untrusted {
            refused.push(project.left_out(member, name));
            return false;
        }
        is_set
    };
    if may("command", settings.command.is_some()) {
        definition.command.clone_from(&settings.command);
    }
    if may("args", !settings.args.is_empty()) {
        definition.args.extend(settings.args.iter().cloned());
    }
    if may("env", !settings.env.is_empty()) {
        definition.env.extend(settings.env.clone());
    }
    let cwd = settings.cwd.clone().filter(|_| may("cwd", settings.cwd.is_some()));
    let wide = asked.filter(|&asked| asked > Permissions::default());
    let narrow = asked.filter(|&asked| asked <= Permissions::default());
    let wide = wide.filter(|_| may("sandbox", true));
    let permissions = wide.or(narrow).or(definition.permissions).unwrap_or_default();
    Ok(ResolvedAgent { definition, permissions, cwd })
}

fn permissions(word: &str) -> Option<Permissions> {
    match word {
        "read-only" => Some(Permissions::ReadOnly),
        "edit" => Some(Permissions::Edit),
        "edit-and-network" => Some(Permissions::EditAndNetwork),
        "full" => Some(Permissions::Full),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn engaged(trust: Trust) -> (ResolvedAgent, Vec<String>) {
        let project =
            Project::of("convoke.toml".to_owned(), TEAM.to_owned(), "/p".into(), trust).unwrap();
        let settings = project.team.members[0].agent().unwrap();
        let mut refused = Vec::new();
        let catalog = Catalog::built_in();
        let engagement = resolve_agent(&project, &catalog, "max", settings, &mut refused).unwrap();
        (engagement, refused.into_iter().map(|diagnostic| diagnostic.message).collect())
    }

    #[test]
    fn a_project_chooses_nothing_that_runs_before_it_is_trusted() {
        let (engagement, refused) = engaged(Trust::Untrusted);
        assert_eq!(engagement.definition.program(), "claude");
        assert!(engagement.definition.args.is_empty() && engagement.definition.env.is_empty());
        assert_eq!((engagement.permissions, engagement.cwd), (Permissions::ReadOnly, None));
        let names = ["command", "args", "env", "cwd", "sandbox"];
        let expected = names.map(|name| {
            format!("`member.max.{name}` needs trust and was left out: `convoke trust /p` gives it")
        });
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_trusted_project_chooses() {
        let (engagement, refused) = engaged(Trust::Trusted);
        assert_eq!(engagement.definition.program(), "/bin/evil");
        assert_eq!(engagement.permissions, Permissions::Full);
        assert_eq!((engagement.cwd.as_deref(), refused.len()), (Some("/"), 0));
    }
}
