//! The member that a prompt is for, and its instruction file.

use std::path::Path;

use convoke_core::name::nearest;
use convoke_team::{AgentSettings, Member, Team};

use crate::outcome::UsageError;

/// Finds the agent that a name means.
pub(super) fn find_agent<'t>(
    team: &'t Team,
    name: &str,
) -> Result<(&'t Member, &'t AgentSettings), UsageError> {
    let Some(member) = team.member(name) else {
        let names: Vec<&str> = team.members.iter().map(|member| &*member.name).collect();
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

/// Reads a member's instruction file, which must lie in the project: the directory of the team file.
pub(super) fn read_instructions(
    settings: &AgentSettings,
    team_file: &Path,
) -> Result<Option<String>, UsageError> {
    let Some(file) = &settings.instructions_file else { return Ok(None) };
    let project = match team_file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let refuse = |why: String| {
        UsageError(format!("{}: instructions-file `{file}` {why}", team_file.display()))
    };
    let unreadable = |error: std::io::Error| refuse(format!("cannot be read: {error}"));
    let path = project.join(file).canonicalize().map_err(unreadable)?;
    let project = project.canonicalize().map_err(unreadable)?;
    if !path.starts_with(&project) {
        return Err(refuse("lies outside the project; move it below the team file".to_owned()));
    }
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        refuse(format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })?;
    Ok(Some(text))
}
