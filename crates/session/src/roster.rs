//! The roster: who takes part, and whom a name means.

use convoke_core::name::{NameKey, nearest};
use convoke_core::{Speaker, SpeakerType};
use convoke_team::{Member, MemberKind, Team};

use crate::id::MemberName;

/// Who takes part in a conversation, in the order of the team file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    seats: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: MemberName,
    keys: Vec<NameKey>,
    is_person: bool,
}

/// The person of a team that names none.
const NOBODY_NAMED: &str = "user";

/// Gives a team that names no person one, called `user`: somebody has to ask and to be asked.
pub fn ensure_person(team: &mut Team) {
    if team.members.iter().any(|member| member.agent().is_none()) {
        return;
    }
    let mut name = NOBODY_NAMED.to_owned();
    while team.member(&name).is_some() {
        name.push('1');
    }
    let kind = MemberKind::Human;
    team.members.push(Member { name, display_name: None, kind, window: None, max_bytes: None });
}

impl Roster {
    /// Lists the members of a team.
    pub fn of(team: &Team) -> Self {
        Self { seats: team.members.iter().map(place).collect() }
    }

    /// Returns everybody's name.
    pub fn names(&self) -> impl Iterator<Item = &MemberName> {
        self.seats.iter().map(|member_agent| &member_agent.name)
    }

    /// Returns the names of the people.
    pub fn people(&self) -> impl Iterator<Item = &MemberName> {
        self.seats
            .iter()
            .filter(|member_agent| member_agent.is_person)
            .map(|member_agent| &member_agent.name)
    }

    /// Returns the names of the agents.
    pub fn agents(&self) -> impl Iterator<Item = &MemberName> {
        self.seats
            .iter()
            .filter(|member_agent| !member_agent.is_person)
            .map(|member_agent| &member_agent.name)
    }

    /// Returns the member that a name means.
    pub fn resolve(&self, written: &str) -> Option<&MemberName> {
        self.find(&NameKey::new(written)).map(|member_agent| &member_agent.name)
    }

    /// Returns the person that a name means.
    pub fn resolve_person(&self, written: &str) -> Option<&MemberName> {
        let member_agent = self.find(&NameKey::new(written))?;
        member_agent.is_person.then_some(&member_agent.name)
    }

    /// Tells whether a member is a person.
    pub fn is_person(&self, member: &MemberName) -> bool {
        self.seats.iter().any(|member_agent| member_agent.is_person && member_agent.name == *member)
    }

    /// Returns everyone but one: the agents, then the people, so that no person is waited for while an
    /// agent could still speak.
    pub fn everyone_but(&self, member: &MemberName) -> Vec<MemberName> {
        let others = self.agents().chain(self.people());
        others.filter(|other| *other != member).cloned().collect()
    }

    /// Says which names there are, and which one was probably meant.
    pub fn hint(&self, written: &str) -> String {
        let names: Vec<&str> = self.names().map(MemberName::as_str).collect();
        match nearest(written, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? there are {}", names.join(", ")),
            None => format!("there are {}", names.join(", ")),
        }
    }

    /// Returns a member as the speaker of a message.
    pub fn speaker(&self, member: &MemberName) -> Speaker {
        let kind = if self.is_person(member) { SpeakerType::Human } else { SpeakerType::Ai };
        Speaker::new(member.as_str(), member.as_str(), kind)
    }

    fn find(&self, key: &NameKey) -> Option<&Place> {
        self.seats.iter().find(|member_agent| member_agent.keys.contains(key))
    }
}

fn place(member: &Member) -> Place {
    let names = std::iter::once(&member.name).chain(&member.display_name);
    Place {
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
        let roster = Roster::of(&team);
        assert_eq!(roster.people().collect::<Vec<_>>(), [&MemberName::from("user1")]);
        assert_eq!(roster.resolve("USER"), Some(&MemberName::from("User")));
    }
}
