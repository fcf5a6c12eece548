//! What stand-ins say in a rehearsal of one's own team: the lines of a script, or a round in which each member hands over to the
//! next.

use std::path::Path;

use convoke_agent::adapter::Step;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::id::MemberName;
use convoke_team::{Member, Team};

use crate::outcome::UsageError;

/// A script: who says what, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsalScript {
    turns: Vec<(MemberName, String)>,
}

impl RehearsalScript {
    /// Reads a script.
    pub fn read(path: &Path, team: &Team) -> Result<Self, UsageError> {
        let text = Disk.read_text(path, FileKind::Input);
        let text = text.map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
        Self::parse(&text, team)
            .map_err(|(line, why)| UsageError(format!("{}:{line}: {why}", path.display())))
    }

    /// Parses a script: `NAME: TEXT` begins a turn, and the lines up to the next one belong to it. Fails with the number of a line.
    fn parse(text: &str, team: &Team) -> Result<Self, (usize, String)> {
        let mut turns: Vec<(MemberName, String)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let said = line.split_once(':').and_then(|(name, said)| {
                let member = team.member(name.trim()).filter(|_| !line.starts_with(' '))?;
                Some((member, said))
            });
            match (said, turns.last_mut()) {
                (Some((member, _)), _) if member.agent().is_none() => {
                    return Err((number, format!("{} is a person, who has no lines", member.name)));
                }
                (Some((member, said)), _) => {
                    turns.push((member.name.clone(), said.trim_start().to_owned()));
                }
                (None, Some((_, text))) => {
                    text.push('\n');
                    text.push_str(line);
                }
                (None, None) if line.trim().is_empty() || line.starts_with('#') => {}
                (None, None) => {
                    let names: Vec<&str> = team.agents().map(MemberName::as_str).collect();
                    let names = names.join("`, `");
                    return Err((
                        number,
                        format!("a turn begins with the name of an agent and a colon: `{names}`"),
                    ));
                }
            }
        }
        Ok(Self { turns })
    }

    /// Returns what a member says, turn by turn.
    pub fn of(&self, member: &MemberName) -> Vec<String> {
        let own = self.turns.iter().filter(|(name, _)| name == member);
        own.map(|(_, text)| text.trim_end().to_owned()).collect()
    }
}

/// Returns the first turn of a member in a team without a script: it says its role and what it was sent, and hands over to the
/// agent after it in the team file.
pub fn round(team: &Team, member: &MemberName) -> Vec<Vec<Step>> {
    let next = team.agents().skip_while(|name| *name != member).nth(1);
    let Some(next) = next else { return Vec::new() };
    let settings = team.member(member.as_str()).and_then(Member::agent);
    let role = settings.and_then(|settings| settings.role_summary.as_ref());
    let before = role.map(|role| format!("{role}\n\n")).unwrap_or_default();
    vec![vec![Step::Account {
        before,
        after: format!("\n\n{next}, what do you say? [NEXT: {next}]"),
    }]]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEAM: &str = "[[member]]\nname = \"kim\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"claude\"\n[[member]]\nname = \"lin\"\nagent = \"codex\"\n";

    #[test]
    fn lines_belong_to_the_name_before_them() {
        let team = Team::parse(TEAM).unwrap();
        let script =
            "# a rehearsal\n\nmax: I read it.\n  note: fine\n[NEXT: lin]\nlin: Yes.\nmax: Done.\n";
        let script = RehearsalScript::parse(script, &team).unwrap();
        let said = |name| script.of(&MemberName::new(name));
        assert_eq!(said("max"), ["I read it.\n  note: fine\n[NEXT: lin]", "Done."]);
        assert_eq!(said("lin"), ["Yes."]);
        let (line, why) = RehearsalScript::parse("\nbob: hi", &team).unwrap_err();
        let expected = "a turn begins with the name of an agent and a colon: `max`, `lin`";
        assert_eq!((line, &*why), (2, expected));
        let (_, why) = RehearsalScript::parse("kim: hi", &team).unwrap_err();
        assert_eq!(why, "kim is a person, who has no lines");
    }

    #[test]
    fn the_last_agent_hands_over_to_nobody() {
        let team = Team::parse(TEAM).unwrap();
        let of = |name| round(&team, &MemberName::new(name)).len();
        assert_eq!((of("max"), of("lin")), (1, 0));
    }
}
