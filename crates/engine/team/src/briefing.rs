//! The briefing: the part of an agent's system text about its teammates and how to address them.

use std::fmt::Write as _;

use crate::{Member, MemberKind, Team};

/// The text about teammates in each agent's system text.
///
/// `briefing = "…"` in the team file replaces the standard text; `{name}` in it stands for the agent's own
/// name, and `{teammates}` for the list of the others. `briefing = false` turns it off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Briefing {
    /// The standard text.
    #[default]
    Standard,
    /// The team's own text.
    Own(String),
    /// No text.
    Off,
}

/// The standard text. It contains no dates and no counts, so that it is the same in every turn.
const STANDARD: &str = "\
You are {name}, a member of a team of people and agents. Your teammates are:
{teammates}

Your whole reply is one message to the team. To give a teammate the next turn, end your reply with a line such as
[NEXT: NAME]
Separate several names with commas; they take turns in that order. `all` means everyone else. NAME!P1 puts \
that member at the front of the queue, NAME!P3 at the back. Address only the teammates listed above, and \
only when you need something from them: without [NEXT: ...] the queued turns continue, and then control \
returns to the person who asked. [DROP: NAME] removes that member's queued turns; [TEAM_TASK: ...] \
replaces the team task. Markers inside code or quotations have no effect. Earlier messages are given as \
context; the message to answer comes last.";

impl Team {
    /// Returns the briefing for a member; people get none.
    pub fn briefing_for(&self, member: &Member) -> Option<String> {
        member.agent()?;
        let text = match &self.briefing {
            Briefing::Off => return None,
            Briefing::Standard => STANDARD,
            Briefing::Own(text) => text,
        };
        // One pass, so that a name that looks like a placeholder is not replaced itself.
        let mut briefing = String::with_capacity(text.len() + 256);
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            briefing.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{name}") {
                briefing.push_str(member.name.as_str());
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{teammates}") {
                briefing.push_str(&self.teammates_of(member));
                rest = after;
            } else {
                briefing.push('{');
                rest = &rest[1..];
            }
        }
        briefing.push_str(rest);
        Some(briefing)
    }

    fn teammates_of(&self, member: &Member) -> String {
        let mut list = String::new();
        for other in self.members.iter().filter(|other| other.name != member.name) {
            if !list.is_empty() {
                list.push('\n');
            }
            let _ = write!(list, "- {}", other.name);
            if let Some(display_name) = &other.display_name {
                let _ = write!(list, " ({display_name})");
            }
            match &other.kind {
                MemberKind::Human => list.push_str(", a person"),
                MemberKind::Agent(settings) => {
                    list.push_str(", an agent");
                    if let Some(role) = &settings.role_summary {
                        let _ = write!(list, ": {}", role.trim());
                    }
                }
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use crate::Team;

    const MEMBERS: &str = r#"
        [[member]]
        name = "kailai"
        human = true
        [[member]]
        name = "{name}"
        agent = "claude"
        role-summary = "Reviews."
        [[member]]
        name = "max"
        agent = "codex"
    "#;

    fn briefing(setting: &str) -> Option<String> {
        let team = Team::parse(&format!("{setting}\n{MEMBERS}")).unwrap();
        team.briefing_for(team.member("max").unwrap())
    }

    #[test]
    fn the_briefing_lists_the_teammates_and_how_to_address_them() {
        let text = briefing("").unwrap();
        assert!(text.starts_with("You are max, "), "{text}");
        assert!(text.contains("\n- kailai, a person\n- {name}, an agent: Reviews.\n"), "{text}");
        assert!(text.contains("[NEXT: NAME]"), "{text}");
    }

    #[test]
    fn a_team_replaces_the_text_or_turns_it_off() {
        let own = briefing("briefing = \"{name} {x} of: {teammates}\"").unwrap();
        assert_eq!(own, "max {x} of: - kailai, a person\n- {name}, an agent: Reviews.");
        assert_eq!(briefing("briefing = false"), None);
    }
}
