//! A table of the team file, read key by key. Rejects unknown keys and suggests the nearest known one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use convoke_core::name::nearest;
use toml::de::{DeTable, DeValue};

use crate::error::{Problem, TeamFileCode};
use crate::words::Word;

/// A table that is being read.
pub(crate) struct Section<'t> {
    /// The name of the table in errors; empty for the top.
    path: String,
    table: DeTable<'t>,
    asked: Vec<&'static str>,
    /// The places of the settings that were found.
    pub(crate) places: BTreeMap<&'static str, Place>,
    problems: Vec<Problem>,
}

/// The place of a setting in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The form of a setting's value: its TOML types, a description, and an example.
pub(crate) struct Form<'a> {
    pub(crate) types: &'a [&'a str],
    /// Completes "must be …".
    pub(crate) must_be: &'a str,
    /// A right line.
    pub(crate) example: &'a str,
}

impl<'t> Section<'t> {
    pub(crate) fn new(path: impl Into<String>, table: DeTable<'t>) -> Self {
        Self {
            path: path.into(),
            table,
            asked: Vec::new(),
            places: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Renames the table in errors, once the name of what it describes is known.
    pub(crate) fn rename(&mut self, path: String) {
        self.path = path;
    }

    /// Takes a value out of the table and notes its place.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<DeValue<'t>> {
        self.asked.push(key);
        let (name, value) = self.table.remove_entry(key)?;
        self.places.insert(key, Place { key: name.span(), value: value.span() });
        Some(value.into_inner())
    }

    /// Returns whether the table has a setting, valid or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Reads a value of some form. A wrong one is a problem, and read as if it were absent.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        form: &Form<'_>,
        read: impl FnOnce(DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let found = type_name(&value);
        let has_type = form.types.contains(&value.type_str());
        let read = if has_type { read(value) } else { None };
        if read.is_none() {
            let (code, not) = if has_type {
                (TeamFileCode::InvalidValue, String::new())
            } else {
                (TeamFileCode::WrongType, format!(", not {found}"))
            };
            let message = format!("`{}` must be {}{not}", self.field(key), form.must_be);
            let place = self.places[key].value.clone();
            self.problem(place, code, message, format!("write `{}`", form.example));
        }
        read
    }

    /// Reads a text.
    pub(crate) fn string(&mut self, key: &'static str, example: &str) -> Option<String> {
        let form = Form { types: &["string"], must_be: "a string", example };
        self.read(key, &form, into_string)
    }

    /// Reads a text for the operating system: not empty and without NUL.
    pub(crate) fn argument(&mut self, key: &'static str, example: &str) -> Option<String> {
        let must_be = "a string that is not empty and has no NUL character";
        let form = Form { types: &["string"], must_be, example };
        self.read(key, &form, |value| {
            into_string(value).filter(|text| !text.is_empty() && is_argument(text))
        })
    }

    /// Reads one of a few words.
    pub(crate) fn word<W: Word>(&mut self, key: &'static str) -> Option<W> {
        let example = format!("{key} = \"{}\"", W::WORDS.first().map_or("", |(word, _)| word));
        let form = Form { types: &["string"], must_be: &W::list(), example: &example };
        let mut written = None;
        let word = self.read(key, &form, |value| {
            let word = W::parse(value.as_str()?);
            written = into_string(value);
            word
        });
        let words = W::WORDS.iter().map(|(word, _)| *word);
        if let (None, Some(near)) = (word, written.and_then(|written| nearest(&written, words)))
            && let Some(problem) = self.problems.last_mut()
        {
            problem.fix = format!("write `{key} = \"{near}\"`");
        }
        word
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let example = format!("{key} = true");
        let form = Form { types: &["boolean"], must_be: "true or false", example: &example };
        self.read(key, &form, |value| value.as_bool())
    }

    pub(crate) fn number(&mut self, key: &'static str, example: &str) -> Option<u64> {
        let form = Form { types: &["integer"], must_be: "a whole number, 0 or more", example };
        self.read(key, &form, |value| whole_number(&value))
    }

    pub(crate) fn arguments(&mut self, key: &'static str, example: &str) -> Vec<String> {
        let must_be = "a list of strings without NUL characters";
        let form = Form { types: &["array"], must_be, example };
        let list = self.read(key, &form, |value| match value {
            DeValue::Array(list) => list
                .into_iter()
                .map(|item| into_string(item.into_inner()).filter(|text| is_argument(text)))
                .collect(),
            _ => None,
        });
        list.unwrap_or_default()
    }

    pub(crate) fn variables(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> BTreeMap<String, String> {
        let must_be = "a table of strings, each under the name of a variable";
        let form = Form { types: &["table"], must_be, example };
        let is_name = |name: &str| !name.is_empty() && !name.contains('=') && is_argument(name);
        let table = self.read(key, &form, |value| match value {
            DeValue::Table(table) => table
                .into_iter()
                .map(|(name, value)| {
                    let name = name.into_inner().into_owned();
                    let value = into_string(value.into_inner())?;
                    (is_name(&name) && is_argument(&value)).then_some((name, value))
                })
                .collect(),
            _ => None,
        });
        table.unwrap_or_default()
    }

    /// Takes a table out of this one; an absent one is empty.
    pub(crate) fn table(&mut self, key: &'static str) -> Section<'t> {
        let example = format!("[{key}]");
        let form = Form { types: &["table"], must_be: "a table", example: &example };
        let table = self.read(key, &form, |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        Self::new(key, table.unwrap_or_default())
    }

    /// Returns the full name of a setting of this table.
    pub(crate) fn field(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Notes a problem.
    pub(crate) fn problem(
        &mut self,
        span: Range<usize>,
        code: TeamFileCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.problems.push(Problem { span, code, message: message.into(), fix: fix.into() });
    }

    /// Notes a problem with the value of a setting that was found.
    pub(crate) fn invalid(&mut self, key: &str, problem: &str, fix: impl Into<String>) {
        let span = self.places.get(key).map_or(0..0, |place| place.value.clone());
        let message = format!("`{}` {problem}", self.field(key));
        self.problem(span, TeamFileCode::InvalidValue, message, fix);
    }

    /// Rejects unknown keys, and adds the problems of this table to `problems`. `order` is that of the documentation;
    /// `elsewhere` explains settings of other tables.
    pub(crate) fn finish(
        mut self,
        order: &[&str],
        elsewhere: impl Fn(&str) -> Option<(String, String)>,
        problems: &mut Vec<Problem>,
    ) {
        debug_assert!(self.asked.iter().all(|key| order.contains(key)), "{:?}", self.asked);
        self.asked.sort_by_key(|key| order.iter().position(|it| it == key));
        let mut misspelt = BTreeSet::new();
        for key in std::mem::take(&mut self.table).keys() {
            let name = key.get_ref().as_ref();
            let field = self.field(&shortened(name));
            let known = || self.asked.iter().copied();
            let near = nearest(name, known()).or_else(|| meant(name, &self.asked));
            let (message, fix) = match (elsewhere(name), near) {
                (Some((message, fix)), _) => (format!("`{field}` {message}"), fix),
                (None, Some(near)) => (
                    format!("`{field}` is not a setting; did you mean `{near}`?"),
                    match near {
                        "member" if self.path.is_empty() => "write `[[member]]`".to_owned(),
                        "context" | "limits" => format!("write `[{near}]`"),
                        _ => format!("write `{near}`"),
                    },
                ),
                (None, None) => (
                    format!("`{field}` is not a setting"),
                    format!("remove it; the settings here are {}", self.asked.join(", ")),
                ),
            };
            misspelt.extend(near);
            self.problem(key.span(), TeamFileCode::UnknownSetting, message, fix);
        }
        // A setting under a wrong name is not missing as well.
        let missing: Vec<String> =
            misspelt.into_iter().map(|key| format!("`{}` is missing", self.field(key))).collect();
        self.problems.retain(|problem| {
            problem.code != TeamFileCode::Missing || !missing.contains(&problem.message)
        });
        problems.append(&mut self.problems);
    }
}

/// Other words for settings, which are too different to be found by spelling.
const MEANT: &[(&str, &[&str])] = &[
    ("agent", &["type", "kind", "provider", "cli"]),
    ("args", &["arguments", "flags", "options"]),
    ("base-url", &["url", "endpoint", "host", "address", "api-base"]),
    ("briefing", &["preamble"]),
    ("command", &["cmd", "program", "exec", "binary", "path"]),
    ("context-window", &["context-length", "max-tokens", "tokens"]),
    ("cwd", &["directory", "dir", "workdir", "working-directory"]),
    ("display-name", &["title", "label", "nickname"]),
    ("env", &["environment", "variables"]),
    ("human", &["person", "user"]),
    ("instructions", &["prompt", "system", "system-prompt", "persona", "message"]),
    ("instructions-file", &["file", "prompt-file", "system-prompt-file"]),
    ("key-env", &["key", "api-key", "apikey", "token", "api-key-env", "secret"]),
    ("max-bytes", &["budget", "bytes", "limit", "size", "max-size"]),
    ("member", &["agent", "agents", "participant", "participants", "person", "people", "team"]),
    ("name", &["id", "role-id", "role-name"]),
    ("role-summary", &["role", "description", "summary", "about"]),
    ("sandbox", &["permission", "permissions", "approval", "access", "mode"]),
    ("task", &["goal", "objective", "team-task"]),
    ("turn-timeout", &["timeout", "time-limit"]),
    ("turns", &["max-turns", "rounds"]),
    ("window", &["context-window", "messages", "history"]),
];

/// Returns the setting that another word probably means.
fn meant(written: &str, known: &[&'static str]) -> Option<&'static str> {
    let written = written.to_ascii_lowercase().replace('_', "-");
    let mut found = MEANT.iter().filter(|(setting, _)| known.contains(setting));
    found.find(|(_, words)| words.contains(&&*written)).map(|(setting, _)| *setting)
}

/// Shortens a name for a message.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Parses a whole number that is not negative.
pub(crate) fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

pub(crate) fn into_string(value: DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.into_owned()),
        _ => None,
    }
}

/// Returns whether the operating system takes a text as an argument.
fn is_argument(text: &str) -> bool {
    !text.contains('\0')
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
