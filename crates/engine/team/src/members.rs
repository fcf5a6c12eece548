//! Looks up the members of a team.

use std::collections::HashMap;
use std::fmt::Write as _;

use convoke_core::name::{MemberName, NameKey, nearest};
use convoke_core::{Speaker, SpeakerType};

use crate::{Member, MemberKind, Team};

/// The name of the person who is added to a team without people.
const DEFAULT_PERSON: &str = "user";

impl Team {
    /// Returns the member with a name or display name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let key = NameKey::new(name);
        self.members.iter().find(|member| member.is_called(&key))
    }

    /// Returns the name of the member with a name or display name.
    pub fn resolve(&self, written: &str) -> Option<&MemberName> {
        self.member(written).map(|member| &member.name)
    }

    /// Returns the name of the person with a name or display name.
    pub fn resolve_person(&self, written: &str) -> Option<&MemberName> {
        let member = self.member(written)?;
        member.agent().is_none().then_some(&member.name)
    }

    /// Returns the names of all members, in the order of the team file.
    pub fn names(&self) -> impl Iterator<Item = &MemberName> {
        self.members.iter().map(|member| &member.name)
    }

    /// Returns the names of the people.
    pub fn people(&self) -> impl Iterator<Item = &MemberName> {
        self.members.iter().filter(|member| member.agent().is_none()).map(|member| &member.name)
    }

    /// Returns the names of the agents.
    pub fn agents(&self) -> impl Iterator<Item = &MemberName> {
        self.members.iter().filter(|member| member.agent().is_some()).map(|member| &member.name)
    }

    /// Returns whether a member is a person.
    pub fn is_person(&self, member: &MemberName) -> bool {
        self.people().any(|person| person == member)
    }

    /// Returns all other members: the agents, then the people, so that a person is not waited for while an
    /// agent can still reply.
    pub fn everyone_but(&self, member: &MemberName) -> Vec<MemberName> {
        let others = self.agents().chain(self.people());
        others.filter(|other| *other != member).cloned().collect()
    }

    /// Returns the names of the members by every key that addresses them.
    pub fn by_key(&self) -> HashMap<NameKey, &MemberName> {
        let mut names = HashMap::new();
        for member in &self.members {
            for written in member.names() {
                names.entry(NameKey::new(written)).or_insert(&member.name);
            }
        }
        names
    }

    /// Returns a hint with the known names, and the name nearest to `written`.
    pub fn hint(&self, written: &str) -> String {
        /// The maximum number of names that are listed.
        const LISTED: usize = 50;
        let names: Vec<&str> = self.names().take(LISTED).map(MemberName::as_str).collect();
        let mut members = format!("members: {}", names.join(", "));
        if let Some(others @ 1..) = self.names().count().checked_sub(LISTED) {
            let _ = write!(members, " and {others} others");
        }
        match nearest(written, self.names().map(MemberName::as_str)) {
            Some(near) => format!("did you mean `{near}`? {members}"),
            None => members,
        }
    }

    /// Returns a member as the speaker of a message.
    pub fn speaker(&self, member: &MemberName) -> Speaker {
        let kind = if self.is_person(member) { SpeakerType::Human } else { SpeakerType::Ai };
        Speaker::new(member.as_str(), member.as_str(), kind)
    }

    /// Adds a person called `user` if the team has no person.
    pub fn ensure_person(&mut self) {
        if self.people().next().is_some() {
            return;
        }
        let mut name = DEFAULT_PERSON.to_owned();
        while self.member(&name).is_some() {
            name.push('1');
        }
        let (name, kind) = (MemberName::new(name), MemberKind::Human);
        self.members.push(Member { name, display_name: None, kind, window: None, max_bytes: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_without_people_has_a_user() {
        let mut team = Team::parse("[[member]]\nname = \"User\"\nagent = \"claude\"\n").unwrap();
        team.ensure_person();
        assert_eq!(team.people().collect::<Vec<_>>(), [&MemberName::from("user1")]);
        assert_eq!(team.resolve("USER"), Some(&MemberName::from("User")));
    }
}
