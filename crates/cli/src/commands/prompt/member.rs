//! The member that a prompt is for.

use convoke_core::name::{MemberName, nearest};
use convoke_team::{AgentSettings, Member, Team};

use crate::outcome::UsageError;

/// Finds the agent that a name means.
pub(super) fn find_agent<'t>(
    team: &'t Team,
    name: &str,
) -> Result<(&'t Member, &'t AgentSettings), UsageError> {
    let Some(member) = team.member(name) else {
        let names: Vec<&str> = team.names().map(MemberName::as_str).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        return Err(UsageError(format!("--for: nobody in the team is called `{name}`; {hint}")));
    };
    let settings = member.agent().ok_or_else(|| {
        UsageError(format!("--for: {} is a person, and people get no prompt", member.name))
    })?;
    Ok((member, settings))
}
