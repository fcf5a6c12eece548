//! Completion of the word at the cursor.

use convoke_core::name::NameKey;
use convoke_protocol::id::MemberName;
use convoke_team::Team;

use crate::command::{ArgumentKind, COMMANDS};

/// The completions of the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The start of the word.
    pub(crate) from: usize,
    /// The candidates, best first.
    pub(crate) candidates: Vec<Candidate>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The replacement of the word.
    pub(crate) text: String,
    /// The label in the list.
    pub(crate) label: String,
    /// The description in the list.
    pub(crate) meaning: &'static str,
}

/// Returns the completions at the end of a text; `None` if there are none or the word is complete.
pub(crate) fn complete(before: &str, team: &Team) -> Option<Completion> {
    let (from, candidates) =
        command(before, team).or_else(|| marker(before, team)).or_else(|| mention(before, team))?;
    let word = &before[from..];
    let is_whole = candidates.iter().any(|candidate| candidate.text.trim_end() == word);
    (!candidates.is_empty() && !is_whole).then_some(Completion { from, candidates })
}

type Found = (usize, Vec<Candidate>);

/// Completes a command or its argument.
fn command(before: &str, team: &Team) -> Option<Found> {
    let line = before.strip_prefix('/')?;
    let Some((name, rest)) = line.split_once(' ') else {
        let fitting = COMMANDS.iter().filter(|entry| entry.name.starts_with(line));
        let candidates = fitting.map(|entry| {
            let space = if matches!(entry.takes, ArgumentKind::Nothing | ArgumentKind::Optional) {
                ""
            } else {
                " "
            };
            let text = format!("/{}{space}", entry.name);
            let label = format!("/{} {}", entry.name, entry.usage).trim_end().to_owned();
            Candidate { text, label, meaning: entry.meaning }
        });
        return Some((0, candidates.collect()));
    };
    let entry = COMMANDS.iter().find(|entry| entry.name == name)?;
    let from = before.len() - rest.len();
    let last = rest.rfind([' ', ',']).map_or(from, |at| from + at + 1);
    let word = &before[last..];
    Some(match entry.takes {
        ArgumentKind::Nothing | ArgumentKind::Optional | ArgumentKind::Text => return None,
        ArgumentKind::Person => (from, names(team.people(), rest, "", team)),
        ArgumentKind::Agent => (from, names(team.agents(), rest, "", team)),
        ArgumentKind::Members => (last, with_all(names(team.names(), word, "", team), word)),
    })
}

/// Completes a name in an unclosed marker.
fn marker(before: &str, team: &Team) -> Option<Found> {
    let open = before.rfind('[')?;
    let inside = &before[open + 1..];
    let (keyword, list) = inside.split_once(':')?;
    if list.contains([']', '\n']) {
        return None;
    }
    let last = list
        .rfind([',', '，'])
        .map_or(0, |at| at + list[at..].chars().next().map_or(1, char::len_utf8));
    let word = list[last..].trim_start();
    let from = before.len() - word.len();
    match keyword.to_ascii_uppercase().as_str() {
        "NEXT" | "DROP" => Some((from, with_all(names(team.names(), word, "", team), word))),
        "FROM" => Some((from, names(team.people(), word, "", team))),
        _ => None,
    }
}

/// Completes a name after an `@`.
fn mention(before: &str, team: &Team) -> Option<Found> {
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = before[from..].strip_prefix('@')?;
    Some((from, names(team.names(), word, "@", team)))
}

fn names<'a>(
    names: impl Iterator<Item = &'a MemberName>,
    word: &str,
    sign: &str,
    team: &Team,
) -> Vec<Candidate> {
    let key = NameKey::new(word);
    let fitting =
        names.filter(|name| NameKey::new(name.as_str()).as_str().starts_with(key.as_str()));
    let candidate = |name: &MemberName| {
        let text = format!("{sign}{name}");
        let meaning = if team.is_person(name) { "a person" } else { "an agent" };
        Candidate { label: text.clone(), text, meaning }
    };
    fitting.map(candidate).collect()
}

fn with_all(mut candidates: Vec<Candidate>, word: &str) -> Vec<Candidate> {
    if "all".starts_with(NameKey::new(word).as_str()) {
        let text = "all".to_owned();
        candidates.push(Candidate { label: text.clone(), text, meaning: "everyone else" });
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::team;

    #[test]
    fn names_and_commands_are_completed_where_they_belong() {
        let offered = |before: &str| match complete(before, &team()) {
            None => "-".to_owned(),
            Some(completion) => {
                let texts = completion.candidates.iter().map(|candidate| &*candidate.text);
                format!("{}: {}", completion.from, texts.collect::<Vec<_>>().join("|"))
            }
        };
        for (before, expected) in [
            ("", "-"),
            ("hello", "-"),
            ("/l", "0: /ledger "),
            ("/he", "0: /help"),
            ("/help", "-"),
            ("/to ", "4: you|ada|lin|sam|all"),
            ("/to l", "4: lin"),
            ("/to lin, s", "9: sam"),
            ("/ledger a", "8: ada"),
            ("/task a", "-"),
            ("see [NEXT: ", "11: you|ada|lin|sam|all"),
            ("see [next:ada, L", "15: lin"),
            ("see [NEXT: ada] l", "-"),
            ("[FROM: ", "7: you"),
            ("@", "0: @you|@ada|@lin|@sam"),
            ("hello @S", "6: @sam"),
            ("mail@s", "-"),
            ("@sam", "-"),
        ] {
            assert_eq!(offered(before), expected, "{before}");
        }
    }
}
