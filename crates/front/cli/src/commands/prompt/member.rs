//! The member that a prompt is for.

use convoke_core::name::{MemberName, nearest};
use convoke_team::{AgentSettings, Member, Team};

use crate::outcome::UsageError;

/// Finds an agent by name.
pub(super) fn find_agent<'t>(
    team: &'t Team,
    name: &str,
) -> Result<(&'t Member, &'t AgentSettings), UsageError> {
    let Some(member) = team.member(name) else {
        let names: Vec<&str> = team.names().map(MemberName::as_str).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("members: {}", names.join(", ")),
        };
        return Err(UsageError(format!("--for: no member has the name `{name}`; {hint}")));
    };
    let settings = member.agent().ok_or_else(|| {
        UsageError(format!("--for: {} is a person; only agents get prompts", member.name))
    })?;
    Ok((member, settings))
}
