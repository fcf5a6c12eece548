//! The briefing: what each agent is told, in its system text, about its teammates and how to address
//! them.

use std::fmt::Write as _;

use crate::{Member, MemberKind, Team};

/// What each agent is told about the others.
///
/// `briefing = "…"` in the team file replaces the standard text; in it, `{name}` stands for the agent's
/// own name and `{teammates}` for the list of the others. `briefing = false` switches it off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Briefing {
    /// The standard text.
    #[default]
    Standard,
    /// A text of the team's own.
    Own(String),
    /// Nothing.
    Off,
}

/// The standard text. It has no dates and no counts, so that it stays the same from turn to turn.
const STANDARD: &str = "\
You are {name}, one of several members of a team that talk to each other. The others are:
{teammates}

Your whole reply is one message to the team. Say who is to speak next by ending it with a line such as
[NEXT: NAME]
Several names are separated by commas and speak in that order; `all` means everyone else. NAME!P1 lets \
somebody speak before everyone who waits, NAME!P3 after them. Address only those listed above, and only \
when you need something of them: without [NEXT: ...] those who wait go on, and then the person who asked \
gets the word. [DROP: NAME] cancels the turns of somebody who waits, [TEAM_TASK: ...] restates what the \
team works on. In code and quotations these marks are plain text. You see what others said as context; \
what you are to answer stands last.";

impl Team {
    /// Returns what a member is told about the others; people are told nothing.
    pub fn briefing_for(&self, member: &Member) -> Option<String> {
        member.agent()?;
        let text = match &self.briefing {
            Briefing::Off => return None,
            Briefing::Standard => STANDARD,
            Briefing::Own(text) => text,
        };
        // One pass, so that a name that looks like a placeholder is not replaced in turn.
        let mut briefing = String::with_capacity(text.len() + 256);
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            briefing.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{name}") {
                briefing.push_str(&member.name);
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
    fn an_agent_is_told_who_the_others_are_and_how_to_address_them() {
        let text = briefing("").unwrap();
        assert!(text.starts_with("You are max, "), "{text}");
        assert!(text.contains("\n- kailai, a person\n- {name}, an agent: Reviews.\n"), "{text}");
        assert!(text.contains("[NEXT: NAME]"), "{text}");
    }

    #[test]
    fn a_team_replaces_the_text_or_switches_it_off() {
        let own = briefing("briefing = \"{name} {x} of: {teammates}\"").unwrap();
        assert_eq!(own, "max {x} of: - kailai, a person\n- {name}, an agent: Reviews.");
        assert_eq!(briefing("briefing = false"), None);
    }
}
