//! Mentions of skills in messages: `$name` or `[$name](path)`.

use std::collections::BTreeSet;

use convoke_core::diagnostic::Diagnostic;

use super::Skill;
use crate::diagnostics;

/// Names of shell variables, which never mean a skill.
const VARIABLES: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "PWD",
    "TMPDIR",
    "TEMP",
    "TMP",
    "LANG",
    "TERM",
    "XDG_CONFIG_HOME",
];

/// Returns the skills that texts mention: for each text, those linked by path, then those named by a unique
/// name, each once and in the order of the list.
pub fn mentioned<'a>(
    skills: &'a [Skill],
    texts: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<&'a Skill> {
    let mut chosen: Vec<&Skill> = Vec::new();
    for text in texts {
        let mentions = Mentions::scan(text);
        for skill in skills {
            let linked = mentions.paths.contains(&*skill.path.to_string_lossy());
            if linked && !chosen.contains(&skill) {
                chosen.push(skill);
            }
        }
        for name in &mentions.names {
            let count = skills.iter().filter(|skill| skill.name == **name).count();
            if count > 1 && !chosen.iter().any(|skill| skill.name == **name) {
                let message = format!("${name} is the name of {count} skills, so none is sent");
                let ambiguous = Diagnostic::new(diagnostics::SKILL_AMBIGUOUS, message);
                diagnostics.push(ambiguous.with_count(count as u64));
            }
        }
        for skill in skills {
            let unique = || skills.iter().filter(|it| it.name == skill.name).count() == 1;
            let taken = chosen.iter().any(|it| it.name == skill.name);
            if mentions.names.contains(&*skill.name) && !taken && unique() {
                chosen.push(skill);
            }
        }
    }
    chosen
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Mentions<'a> {
    names: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
}

impl<'a> Mentions<'a> {
    fn scan(text: &'a str) -> Self {
        let mut mentions = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['[', '$']) {
            rest = &rest[at..];
            if let Some((name, path, after)) = linked(rest) {
                if !is_variable(name) {
                    mentions.paths.insert(path.strip_prefix("skill://").unwrap_or(path));
                }
                rest = after;
            } else if let Some((name, after)) = named(rest) {
                if !is_variable(name) {
                    mentions.names.insert(name);
                }
                rest = after;
            } else {
                rest = &rest[1..];
            }
        }
        mentions
    }
}

/// Parses `$name`, the longest run of name characters.
fn named(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('$')?;
    let ends = |it: char| !(it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
    let (name, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    (!name.is_empty()).then_some((name, rest))
}

/// Parses `[$name](path)`.
fn linked(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = named(text.strip_prefix('[')?)?;
    let rest = rest.strip_prefix(']')?.trim_ascii_start();
    let (path, rest) = rest.strip_prefix('(')?.split_once(')')?;
    let path = path.trim();
    (!path.is_empty()).then_some((name, path, rest))
}

fn is_variable(name: &str) -> bool {
    VARIABLES.iter().any(|it| it.eq_ignore_ascii_case(name))
}
