//! The members of a team, and the lookup of members by name.

use convoke_core::name::{NameKey, nearest};
use convoke_core::{Speaker, SpeakerType};
use convoke_team::{Member, MemberKind, Team};

use crate::id::MemberName;

/// The members of a team, in the order of the team file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamMembers {
    entries: Vec<MemberEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberEntry {
    name: MemberName,
    keys: Vec<NameKey>,
    is_person: bool,
}

/// The name of the person who is added to a team without one.
const DEFAULT_PERSON: &str = "user";

/// Adds a person called `user` to a team without a person.
pub fn ensure_person(team: &mut Team) {
    if team.members.iter().any(|member| member.agent().is_none()) {
        return;
    }
    let mut name = DEFAULT_PERSON.to_owned();
    while team.member(&name).is_some() {
        name.push('1');
    }
    let kind = MemberKind::Human;
    team.members.push(Member { name, display_name: None, kind, window: None, max_bytes: None });
}

impl TeamMembers {
    /// Creates the list from a team.
    pub fn of(team: &Team) -> Self {
        Self { entries: team.members.iter().map(entry).collect() }
    }

    /// Returns the names of all members.
    pub fn names(&self) -> impl Iterator<Item = &MemberName> {
        self.entries.iter().map(|member| &member.name)
    }

    /// Returns the names of the people.
    pub fn people(&self) -> impl Iterator<Item = &MemberName> {
        self.entries.iter().filter(|member| member.is_person).map(|member| &member.name)
    }

    /// Returns the names of the agents.
    pub fn agents(&self) -> impl Iterator<Item = &MemberName> {
        self.entries.iter().filter(|member| !member.is_person).map(|member| &member.name)
    }

    /// Returns the member with this id, name or display name.
    pub fn resolve(&self, written: &str) -> Option<&MemberName> {
        self.find(&NameKey::new(written)).map(|member| &member.name)
    }

    /// Returns the person with this id, name or display name.
    pub fn resolve_person(&self, written: &str) -> Option<&MemberName> {
        let member = self.find(&NameKey::new(written))?;
        member.is_person.then_some(&member.name)
    }

    /// Returns whether a member is a person.
    pub fn is_person(&self, member: &MemberName) -> bool {
        self.entries.iter().any(|entry| entry.is_person && entry.name == *member)
    }

    /// Returns all other members: the agents, then the people, so that no person is waited for while an
    /// agent could still reply.
    pub fn everyone_but(&self, member: &MemberName) -> Vec<MemberName> {
        let others = self.agents().chain(self.people());
        others.filter(|other| *other != member).cloned().collect()
    }

    /// Returns a hint with the known names and the one nearest to `written`.
    pub fn hint(&self, written: &str) -> String {
        let names: Vec<&str> = self.names().map(MemberName::as_str).collect();
        match nearest(written, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? members: {}", names.join(", ")),
            None => format!("members: {}", names.join(", ")),
        }
    }

    /// Returns a member as the speaker of a message.
    pub fn speaker(&self, member: &MemberName) -> Speaker {
        let kind = if self.is_person(member) { SpeakerType::Human } else { SpeakerType::Ai };
        Speaker::new(member.as_str(), member.as_str(), kind)
    }

    fn find(&self, key: &NameKey) -> Option<&MemberEntry> {
        self.entries.iter().find(|member| member.keys.contains(key))
    }
}

fn entry(member: &Member) -> MemberEntry {
    let names = std::iter::once(&member.name).chain(&member.display_name);
    MemberEntry {
        name: MemberName::new(&*member.name),
        keys: names.map(|name| NameKey::new(name)).collect(),
        is_person: member.agent().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_without_people_has_a_user() {
        let mut team = Team::parse("[[member]]\nname = \"User\"\nagent = \"claude\"\n").unwrap();
        ensure_person(&mut team);
        let roster = TeamMembers::of(&team);
        assert_eq!(roster.people().collect::<Vec<_>>(), [&MemberName::from("user1")]);
        assert_eq!(roster.resolve("USER"), Some(&MemberName::from("User")));
    }
}
