//! Routing: turns messages into queued turns. No I/O, no clock.

pub mod conversation;
pub mod queue;

use std::collections::HashMap;

use convoke_core::figures::count;
use convoke_core::marker::{Intent, Route, Scan, scan};
use convoke_core::name::NameKey;
use convoke_core::{Diagnostic, cut_team_task};
use convoke_protocol::id::MemberName;
use convoke_team::Team;

use crate::diagnostics;

/// The routing of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The speaker. A person can speak for another person with `[FROM: …]`.
    pub speaker: MemberName,
    /// The text, without markers.
    pub text: String,
    /// The queued turns to drop before new ones are queued.
    pub drop: DropTurns,
    /// The members to call, in the order of the text, each once.
    pub calls: Vec<CalledMember>,
    /// Whether the text has a `[NEXT: …]` with a name, known or not.
    pub has_recipients: bool,
    /// The team task that the message sets, cut to its limit.
    pub task: Option<String>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A selection of queued turns to drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropTurns {
    /// The turns of these members.
    Members(Vec<MemberName>),
    /// All turns.
    All,
}

impl DropTurns {
    /// Returns whether a member's queued turns are dropped.
    pub fn concerns(&self, member: &MemberName) -> bool {
        match self {
            Self::All => true,
            Self::Members(members) => members.contains(member),
        }
    }
}

/// A member to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledMember {
    pub member: MemberName,
    /// The priority.
    pub intent: Intent,
}

/// Routes a message. The caller determines the speaker; only a person can speak for another member, and only
/// for a person. Linear in the text.
pub fn route(team: &Team, speaker: &MemberName, text: &str) -> Routed {
    let Scan { text, next, from, task, drop, mut diagnostics } = scan(text, team.context.text);
    let text = text.into_owned();
    let speaker = match from {
        None => speaker.clone(),
        Some(from) => speaks_for(team, speaker, &from, &mut diagnostics),
    };
    let mut names = NameResolver::new(team);
    let drop = dropped(&mut names, &drop);
    let has_recipients = !next.is_empty();
    let mut calls: Vec<CalledMember> = Vec::new();
    let mut positions: HashMap<MemberName, usize> = HashMap::new();
    let mut seen: HashMap<NameKey, Intent> = HashMap::new();
    for Route { name, intent } in next {
        let key = NameKey::new(&name);
        if seen.get(&key).is_some_and(|known| *known <= intent) {
            continue;
        }
        for member in called(&mut names, &speaker, &name) {
            // A member named twice gets one turn, at the first position, with the highest priority.
            if let Some(&at) = positions.get(&member) {
                calls[at].intent = calls[at].intent.min(intent);
            } else {
                positions.insert(member.clone(), calls.len());
                calls.push(CalledMember { member, intent });
            }
        }
        seen.insert(key, intent);
    }
    diagnostics.extend(names.into_diagnostics());
    let task = task.map(|task| {
        let (kept, cut) = cut_team_task(&task);
        diagnostics.extend(cut);
        kept.to_owned()
    });
    Routed { speaker, text, drop, calls, has_recipients, task, diagnostics }
}

fn speaks_for(
    team: &Team,
    speaker: &MemberName,
    from: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> MemberName {
    if !team.is_person(speaker) {
        let message = format!("{speaker} is an agent and cannot speak as `{from}`");
        diagnostics.push(Diagnostic::new(diagnostics::MARKER_IGNORED, message).in_section("FROM"));
        return speaker.clone();
    }
    if let Some(person) = team.resolve_person(from) {
        return person.clone();
    }
    let message = match team.resolve(from) {
        Some(agent) => {
            format!("[FROM: {from}]: {agent} is an agent; only people can be named here")
        }
        None => format!("[FROM: {from}]: no member has that name; {}", team.hint(from)),
    };
    diagnostics.push(Diagnostic::new(diagnostics::MARKER_UNRESOLVED, message).in_section("FROM"));
    speaker.clone()
}

fn dropped(names: &mut NameResolver<'_>, written: &[String]) -> DropTurns {
    let mut members = Vec::new();
    for name in written {
        if NameKey::new(name).is_all() {
            return DropTurns::All;
        }
        members.extend(names.resolve(name, "DROP").cloned());
    }
    DropTurns::Members(members)
}

/// Returns the members that a name addresses.
fn called(names: &mut NameResolver<'_>, speaker: &MemberName, name: &str) -> Vec<MemberName> {
    if NameKey::new(name).is_all() {
        return names.team.everyone_but(speaker);
    }
    names.resolve(name, "NEXT").cloned().into_iter().collect()
}

/// The maximum number of unknown names in a message that are reported one by one.
const MAX_UNRESOLVED: usize = 20;

/// Resolves the names in a message, and collects unknown ones.
struct NameResolver<'t> {
    team: &'t Team,
    members: HashMap<NameKey, &'t MemberName>,
    /// The first unknown names, each with its marker.
    unresolved: Vec<(String, &'static str)>,
    others: u64,
}

impl<'t> NameResolver<'t> {
    fn new(team: &'t Team) -> Self {
        Self { team, members: team.by_key(), unresolved: Vec::new(), others: 0 }
    }

    fn resolve(&mut self, name: &str, marker: &'static str) -> Option<&'t MemberName> {
        let member = self.members.get(&NameKey::new(name)).copied();
        if member.is_none() {
            if self.unresolved.len() < MAX_UNRESOLVED {
                self.unresolved.push((name.to_owned(), marker));
            } else {
                self.others += 1;
            }
        }
        member
    }

    fn into_diagnostics(self) -> Vec<Diagnostic> {
        let Self { team, unresolved, others, .. } = self;
        let unresolved = unresolved.iter().map(|(name, marker)| {
            let hint = team.hint(name);
            let message = format!("[{marker}: {name}]: no member has that name; {hint}");
            Diagnostic::new(diagnostics::MARKER_UNRESOLVED, message).in_section(marker)
        });
        let more = (others > 0).then(|| {
            let message =
                format!("no member has any of {} of the message", count(others, "more name"));
            Diagnostic::new(diagnostics::MARKER_UNRESOLVED, message).with_count(others)
        });
        unresolved.chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team() -> Team {
        let team = r#"
            [[member]]
            name = "kailai"
            human = true
            [[member]]
            name = "lee"
            human = true
            [[member]]
            name = "max"
            display-name = "Max the Reviewer"
            agent = "claude"
            [[member]]
            name = "sarah"
            agent = "codex"
        "#;
        Team::parse(team).unwrap()
    }

    fn routed(speaker: &str, text: &str) -> Routed {
        route(&team(), &speaker.into(), text)
    }

    fn calls(speaker: &str, text: &str) -> String {
        let calls = routed(speaker, text).calls.into_iter();
        let calls: Vec<String> =
            calls.map(|call| format!("{}:{:?}", call.member, call.intent)).collect();
        calls.join(" ")
    }

    #[test]
    fn members_are_called_as_written_each_once_and_as_urgently_as_ever_said() {
        let cases = [
            ("[NEXT: sarah, max]", "sarah:P2 max:P2"),
            ("[NEXT: MAX_the-reviewer !p3]", "max:P3"),
            ("[NEXT: max!P3, sarah] then [NEXT: max!P1]", "max:P1 sarah:P2"),
            ("[NEXT: all]", "max:P2 sarah:P2 lee:P2"),
            ("[NEXT: sarah!P1, all]", "sarah:P1 max:P2 lee:P2"),
            ("`[NEXT: max]`\n> [NEXT: max]\n```\n[NEXT: max]\n```", ""),
            ("nobody", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(calls("kailai", text), expected, "{text}");
        }
        assert_eq!(calls("max", "[NEXT: all]"), "sarah:P2 kailai:P2 lee:P2");
        assert_eq!(calls("max", "[NEXT: max]"), "max:P2");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_existing_ones() {
        let routed = routed("kailai", "[NEXT: sara, max] [DROP: bob]");
        assert_eq!(routed.calls.len(), 1);
        let messages: Vec<_> = routed.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "[DROP: bob]: no member has that name; members: kailai, lee, max, sarah",
                "[NEXT: sara]: no member has that name; did you mean `sarah`? members: kailai, lee, max, sarah",
            ]
        );
        assert!(routed.diagnostics.iter().all(|d| d.code == diagnostics::MARKER_UNRESOLVED));
    }

    #[test]
    fn only_a_person_speaks_for_another_and_only_for_a_person() {
        let cases = [
            ("kailai", "lee", "lee", None),
            ("kailai", "max", "kailai", Some(diagnostics::MARKER_UNRESOLVED)),
            ("kailai", "bob", "kailai", Some(diagnostics::MARKER_UNRESOLVED)),
            ("max", "kailai", "max", Some(diagnostics::MARKER_IGNORED)),
        ];
        for (speaker, from, expected, code) in cases {
            let routed = routed(speaker, &format!("[FROM: {from}] hello"));
            assert_eq!(routed.speaker.as_str(), expected, "{speaker} as {from}");
            assert_eq!(
                routed.diagnostics.first().map(|d| d.code.clone()),
                code,
                "{speaker} as {from}"
            );
            assert_eq!(routed.text, "hello");
        }
    }

    #[test]
    fn anybody_states_the_task_and_it_is_kept_inside_its_limit() {
        assert_eq!(routed("max", "[TEAM_TASK: ship it]").task.as_deref(), Some("ship it"));
        let long = routed("max", &format!("[TEAM_TASK: {}]", "é".repeat(3000)));
        assert_eq!(long.task.map(|task| task.len()), Some(5120));
        assert_eq!(long.diagnostics[0].code, convoke_core::diagnostics::TEAM_TASK_TRUNCATED);
    }

    #[test]
    fn dropping_all_drops_everybody() {
        let drop = routed("max", "[DROP: bob, ALL]").drop;
        assert_eq!(drop, DropTurns::All);
        assert!(drop.concerns(&"sarah".into()));
        assert_eq!(routed("max", "none").drop, DropTurns::Members(Vec::new()));
    }

    #[test]
    fn many_unknown_names_are_counted_and_those_of_a_large_team_are_not_all_listed() {
        let member = |n: i32| format!("[[member]]\nname = \"m{n}\"\nagent = \"plain\"\n");
        let members = (0..200).map(member).collect::<Vec<_>>().concat();
        let team = Team::parse(&members).unwrap();
        let names: Vec<String> = (0..1000).map(|n| format!("nobody {n}")).collect();
        let text = format!("[NEXT: {}, m7, {}, m7]", names.join(", "), names.join(", "));
        let routed = route(&team, &"m0".into(), &text);
        assert_eq!(routed.calls.len(), 1);
        assert_eq!(routed.diagnostics.len(), MAX_UNRESOLVED + 1);
        let last = routed.diagnostics.last().unwrap();
        assert_eq!(last.message, "no member has any of 980 more names of the message");
        let bytes: usize = routed.diagnostics.iter().map(|it| it.message.len()).sum();
        assert!(bytes < 20_000, "{bytes}");
    }
}
