//! One scenario: a tree, how the agents were started, and the lists that they sent.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

pub struct Scenario {
    pub files: Vec<(String, Content)>,
    pub repositories: Vec<(String, String)>,
    pub home: String,
    pub cwd: String,
    /// The start of each agent.
    pub settings: BTreeMap<String, Start>,
    pub results: Vec<(String, Expected)>,
}

/// The arguments and the variables of a start; a variable without a value is removed.
pub type Start = (Vec<String>, Vec<(String, Option<String>)>);

pub enum Content {
    /// The text of a `SKILL.md`.
    Skill(Vec<u8>),
    File(Vec<u8>),
    Link(String),
    Directory,
}

#[derive(Clone)]
pub struct Expected {
    /// Nothing if no list was sent.
    pub skills: Vec<ExpectedSkill>,
    pub omitted: Vec<(String, String)>,
    pub limit: Option<u64>,
}

#[derive(Clone)]
pub struct ExpectedSkill {
    pub name: String,
    pub path: Option<String>,
    pub is_builtin: bool,
    pub bytes: u64,
    pub bytes_seen: u64,
    pub is_whole: bool,
    /// Whether white space or escapes make the figures those of another text.
    pub is_changed: bool,
}

impl Scenario {
    /// Reads a scenario, or says what about it is not understood.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let files = list(&value, "files").iter().map(entry).collect::<Result<_, _>>()?;
        let repositories = list(&value, "gitRepos").iter();
        let repositories = repositories.map(|it| (text_of(it, "path"), text_of(it, "kind")));
        let settings = value.get("settings").and_then(Value::as_object);
        let results = value.get("results").and_then(Value::as_object).ok_or("it has no results")?;
        Ok(Self {
            files,
            repositories: repositories.collect(),
            home: text_of(&value, "home"),
            cwd: text_of(&value, "cwd"),
            settings: settings
                .into_iter()
                .flatten()
                .map(|(agent, start)| (agent.clone(), started(start)))
                .collect(),
            results: results.iter().map(|(agent, it)| (agent.clone(), expected(it))).collect(),
        })
    }
}

fn entry(value: &Value) -> Result<(String, Content), String> {
    let path = text_of(value, "path");
    let bytes = || content(value.get("content")).ok_or(format!("{path}: unknown content"));
    let content = match text_of(value, "kind").as_str() {
        "symlink" => Content::Link(text_of(value, "target")),
        "dir" => Content::Directory,
        "skill" => Content::Skill(bytes()?),
        // Settings, commands, manifests …
        _ => Content::File(bytes()?),
    };
    Ok((path, content))
}

/// A text, or a text with a part that is filled up to a number of characters.
fn content(value: Option<&Value>) -> Option<Vec<u8>> {
    match value? {
        Value::String(text) => Some(text.clone().into_bytes()),
        value => {
            let part = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let text = format!("{}{}{}", part("before"), fill(value.get("fill")?)?, part("after"));
            Some(text.into_bytes())
        }
    }
}

fn fill(value: &Value) -> Option<String> {
    let part = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let count = usize::try_from(value.get("chars")?.as_u64()?).ok()?;
    let (head, tail) = (part("head"), part("tail"));
    let middle = count.checked_sub(head.chars().count() + tail.chars().count())?;
    let middle: String = part("repeat").chars().cycle().take(middle).collect();
    Some(format!("{head}{middle}{tail}"))
}

fn started(value: &Value) -> Start {
    let arguments = list(value, "argv").iter().filter_map(Value::as_str).map(str::to_owned);
    let variables = value.get("env").and_then(Value::as_object).into_iter().flatten();
    let variables =
        variables.map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)));
    (arguments.collect(), variables.collect())
}

fn expected(value: &Value) -> Expected {
    let number = |it: &Value, key| it.get(key).and_then(Value::as_u64).unwrap_or_default();
    let truth = |it: &Value, key| it.get(key).and_then(Value::as_bool).unwrap_or_default();
    let skills = list(value, "skills").iter().map(|it| ExpectedSkill {
        name: text_of(it, "name"),
        path: it.get("path").and_then(Value::as_str).map(str::to_owned),
        is_builtin: it.get("source").and_then(Value::as_str) == Some("builtin"),
        bytes: number(it, "description_bytes"),
        bytes_seen: number(it, "description_bytes_seen"),
        is_whole: truth(it, "whole"),
        is_changed: truth(it, "white_space_changed") || truth(it, "escaped"),
    });
    let omitted = list(value, "omitted").iter();
    let omitted = omitted.map(|it| (text_of(it, "path"), text_of(it, "reason")));
    let limit = value.get("budget").and_then(|it| it.get("limit")?.as_u64());
    Expected { skills: skills.collect(), omitted: omitted.collect(), limit }
}

impl Expected {
    /// Returns changed copies, each with what was changed.
    pub fn mutations(&self) -> Vec<(&'static str, Self)> {
        let mut mutations = Vec::new();
        let mut change = |what, change: &dyn Fn(&mut Self)| {
            let mut changed = self.clone();
            change(&mut changed);
            mutations.push((what, changed));
        };
        if !self.skills.is_empty() {
            change("a skill is missing", &|it| {
                it.skills.pop();
            });
            change("a skill is listed twice", &|it| it.skills.extend(it.skills.last().cloned()));
            change("a name changed", &|it| it.skills[0].name.push('x'));
            change("two skills changed places", &|it| {
                let last = it.skills.len() - 1;
                it.skills.swap(0, last);
            });
        }
        if self.skills.iter().any(|it| !it.is_changed && it.bytes > 0) {
            let at = self.skills.iter().position(|it| !it.is_changed && it.bytes > 0);
            let at = at.unwrap_or_default();
            change("a byte more arrived", &|it| it.skills[at].bytes_seen += 1);
            change("whole changed", &|it| it.skills[at].is_whole = !it.skills[at].is_whole);
        }
        if self.limit.is_some() {
            change("the limit changed", &|it| it.limit = it.limit.map(|limit| limit + 1));
        }
        if self.skills.len() < 2 {
            mutations.retain(|(what, _)| *what != "two skills changed places");
        }
        mutations
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
