//! A table of the team file, read key by key. Rejects unknown keys and suggests the nearest known one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use convoke_core::Code;
use convoke_core::variable::is_variable_name;
use toml::de::{DeTable, DeValue};

use crate::diagnostics;
use crate::error::Problem;
use crate::suggestion::{SuggestedSetting, absent, is_plain, meant};
use crate::values::{Word, Words};

/// A table that is being read.
pub struct Section<'t> {
    /// The name of the table in errors; empty for the top.
    path: String,
    table: DeTable<'t>,
    asked: Vec<&'static str>,
    /// The positions of the settings that were found.
    pub places: BTreeMap<&'static str, Place>,
    problems: Vec<Problem>,
    /// The end of the text, which is the position reported for missing settings.
    end: usize,
}

/// The maximum number of unknown keys in a table that get a suggestion.
const MAX_SUGGESTIONS: usize = 100;

/// The position of a setting in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The byte range of the name.
    pub key: Range<usize>,
    /// The byte range of the value.
    pub value: Range<usize>,
}

/// The expected value of a setting: TOML types, a description, and an example.
pub struct ExpectedValue<'a> {
    /// The TOML types.
    pub types: &'a [&'a str],
    /// The end of a sentence that begins with "must be".
    pub must_be: &'a str,
    /// A valid line.
    pub example: &'a str,
}

/// A setting that belongs to another table.
pub struct MisplacedSetting {
    /// The end of a sentence that begins with the name of the setting.
    pub message: String,
    pub fix: String,
    /// Whether the name is exactly that of the setting in the other table.
    pub is_exact: bool,
}

impl<'t> Section<'t> {
    /// Creates the section of a table.
    pub fn new(path: impl Into<String>, table: DeTable<'t>) -> Self {
        Self {
            path: path.into(),
            table,
            asked: Vec::new(),
            places: BTreeMap::new(),
            problems: Vec::new(),
            end: 0,
        }
    }

    /// Creates the section of a whole text.
    pub(crate) fn of_document(text: &str, table: DeTable<'t>) -> Self {
        Self { end: text.trim_end().len(), ..Self::new("", table) }
    }

    /// Returns the end of the text, without trailing white space.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Renames the table in errors, once its subject is known.
    pub fn rename(&mut self, path: String) {
        self.path = path;
    }

    /// Returns the path of its settings.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Removes a value from the table and records its position.
    pub fn take(&mut self, key: &'static str) -> Option<DeValue<'t>> {
        self.asked.push(key);
        let (name, value) = self.table.remove_entry(key)?;
        self.places.insert(key, Place { key: name.span(), value: value.span() });
        Some(value.into_inner())
    }

    /// Returns whether the table has a setting, valid or not.
    pub fn has(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Reads a value of this form. An invalid value is recorded as a problem and counts as absent.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        form: &ExpectedValue<'_>,
        read: impl FnOnce(DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let found = type_name(&value);
        let has_type = form.types.contains(&value.type_str());
        let read = if has_type { read(value) } else { None };
        if read.is_none() {
            let (code, not) = if has_type {
                (diagnostics::TEAM_INVALID_VALUE, String::new())
            } else {
                (diagnostics::TEAM_WRONG_TYPE, format!(", not {found}"))
            };
            let must_be = match form.must_be.split_once(" that ") {
                // For another type, only the type is reported.
                Some((kind, _)) if !has_type => kind,
                _ => form.must_be,
            };
            let message = format!("`{}` must be {must_be}{not}", self.field(key));
            let place = self.places[key].value.clone();
            self.problem(place, code, message, format!("write `{}`", form.example));
        }
        read
    }

    /// Reads a text.
    pub fn string(&mut self, key: &'static str, example: &str) -> Option<String> {
        let form = ExpectedValue { types: &["string"], must_be: "a string", example };
        self.read(key, &form, into_string)
    }

    /// Reads a text for the operating system: not empty and without NUL.
    pub fn argument(&mut self, key: &'static str, example: &str) -> Option<String> {
        let must_be = "a string that is not empty and has no NUL character";
        let form = ExpectedValue { types: &["string"], must_be, example };
        self.read(key, &form, |value| {
            into_string(value).filter(|text| !text.is_empty() && is_argument(text))
        })
    }

    /// Reads one of several fixed words.
    pub fn word<W: Word>(&mut self, key: &'static str) -> Option<W> {
        self.choice(key, W::WORDS)
    }

    /// Reads one of the given words.
    pub fn choice<T: Copy>(&mut self, key: &'static str, words: Words<'_, T>) -> Option<T> {
        let first = words.words.first().map_or("", |(word, _)| word);
        let example = format!("{key} = \"{first}\"");
        let form = ExpectedValue { types: &["string"], must_be: &words.list(), example: &example };
        let mut written = None;
        let word = self.read(key, &form, |value| {
            let word = words.parse(value.as_str()?);
            written = into_string(value);
            word
        });
        if word.is_none()
            && self.has(key)
            && let Some(problem) = self.problems.last_mut()
        {
            let near = written.and_then(|written| words.nearest(&written));
            problem.fix = match near {
                Some(near) => format!("write `{key} = \"{near}\"`"),
                None if words.words.len() > 1 => format!("choose one, such as `{example}`"),
                None => format!("write `{example}`"),
            };
        }
        word
    }

    /// Reads a boolean.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let example = format!("{key} = true");
        let form =
            ExpectedValue { types: &["boolean"], must_be: "true or false", example: &example };
        self.read(key, &form, |value| value.as_bool())
    }

    /// Reads a whole number that is not zero.
    pub fn count(&mut self, key: &'static str, example: &str) -> Option<u64> {
        let form =
            ExpectedValue { types: &["integer"], must_be: "a whole number, 1 or more", example };
        self.read(key, &form, |value| whole_number(&value).filter(|&count| count > 0))
    }

    /// Reads a list of texts for the operating system.
    pub fn arguments(&mut self, key: &'static str, example: &str) -> Vec<String> {
        let must_be = "a list of strings without NUL characters";
        // If the command line is one string, the fix shows it as a list.
        let written = self.table.get(key).and_then(|value| value.get_ref().as_str());
        let words =
            written.filter(|text| text.len() <= 60 && text.split_whitespace().all(is_plain));
        let split = words.filter(|text| !text.trim().is_empty()).map(|text| {
            let words: Vec<String> =
                text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            format!("{key} = [{}]", words.join(", "))
        });
        let example = split.as_deref().unwrap_or(example);
        let form = ExpectedValue { types: &["array"], must_be, example };
        let list = self.read(key, &form, |value| match value {
            DeValue::Array(list) => list
                .into_iter()
                .map(|item| into_string(item.into_inner()).filter(|text| is_argument(text)))
                .collect(),
            _ => None,
        });
        list.unwrap_or_default()
    }

    /// Reads a table of environment variables. Values are not repeated in problems.
    pub fn variables(&mut self, key: &'static str, example: &str) -> BTreeMap<String, String> {
        let form = ExpectedValue { types: &["table"], must_be: "a table of strings", example };
        let mut wrong = None;
        let table = self.read(key, &form, |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        let mut variables = BTreeMap::new();
        for (name, value) in table.unwrap_or_default() {
            let (place, name) = (name.span(), name.into_inner().into_owned());
            let is_name = !name.is_empty()
                && !name.contains(['=', '\0'])
                && !name.contains(char::is_whitespace);
            let found = type_name(value.get_ref());
            let shown = shortened(&name);
            match into_string(value.into_inner()) {
                _ if !is_name => {
                    let problem = format!("`{shown}` is not the name of a variable");
                    wrong.get_or_insert((place, problem, format!("write `{example}`")));
                }
                None => {
                    let problem = format!("`{shown}` must be a string, not {found}");
                    wrong.get_or_insert((
                        place,
                        problem,
                        "put the value in double quotes".to_owned(),
                    ));
                }
                Some(value) if !is_argument(&value) => {
                    let problem = format!("`{shown}` has a NUL character");
                    wrong.get_or_insert((place, problem, "remove the NUL character".to_owned()));
                }
                Some(value) => drop(variables.insert(name, value)),
            }
        }
        if let Some((place, problem, fix)) = wrong {
            let message = format!("`{}`: {problem}", self.field(key));
            self.problem(place, diagnostics::TEAM_INVALID_VALUE, message, fix);
        }
        variables
    }

    /// Removes a table from this one; a missing table counts as empty.
    #[must_use]
    pub fn table(&mut self, key: &'static str) -> Section<'t> {
        let example = format!("[{key}]");
        let form = ExpectedValue { types: &["table"], must_be: "a table", example: &example };
        let table = self.read(key, &form, |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        Self::new(key, table.unwrap_or_default())
    }

    /// Removes the tables of a setting that has one per name, such as `[agent.max]`.
    pub fn tables(&mut self, key: &'static str) -> Vec<(String, Range<usize>, Section<'t>)> {
        let example = format!("[{key}.NAME]");
        let form =
            ExpectedValue { types: &["table"], must_be: "a table of tables", example: &example };
        let tables = self.read(key, &form, |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        let mut found = Vec::new();
        for (name, value) in tables.unwrap_or_default() {
            let (place, name) = (name.span(), name.into_inner().into_owned());
            let path = self.field(&format!("{key}.{}", shortened(&name)));
            if let DeValue::Table(table) = value.into_inner() {
                found.push((name, place, Self::new(path, table)));
            } else {
                let message = format!("`{path}` must be a table");
                let fix = format!("write its settings below `[{key}.NAME]`");
                self.problem(place, diagnostics::TEAM_WRONG_TYPE, message, fix);
            }
        }
        found
    }

    /// Removes the tables of a list, such as `[[directory]]`, each with the position of its header.
    pub fn list(&mut self, key: &'static str) -> Vec<(Range<usize>, Section<'t>)> {
        let example = format!("[[{key}]]");
        let form =
            ExpectedValue { types: &["array"], must_be: "a list of tables", example: &example };
        let list = self.read(key, &form, |value| match value {
            DeValue::Array(list) if list.iter().all(|item| item.get_ref().is_table()) => Some(list),
            _ => None,
        });
        let mut found = Vec::new();
        for item in list.into_iter().flatten() {
            let header = item.span();
            if let DeValue::Table(table) = item.into_inner() {
                found.push((header, Self::new(key, table)));
            }
        }
        found
    }

    /// Reads the name of a variable. A key entered by mistake is rejected and not printed.
    pub fn variable_name(&mut self, key: &'static str) -> Option<String> {
        let form = ExpectedValue {
            types: &["string"],
            must_be: "the name of a variable, not the key itself",
            example: &format!("{key} = \"MODEL_KEY\""),
        };
        self.read(key, &form, |value| into_string(value).filter(|name| is_variable_name(name)))
    }

    /// Reads a number of tokens.
    pub fn tokens(&mut self, key: &'static str) -> Option<u64> {
        let form = ExpectedValue {
            types: &["integer"],
            must_be: "a number of tokens, 1 or more",
            example: &format!("{key} = 8192"),
        };
        self.read(key, &form, |value| whole_number(&value).filter(|&count| count > 0))
    }

    /// Reads a list of TCP ports.
    pub fn ports(&mut self, key: &'static str) -> Vec<u16> {
        let form = ExpectedValue {
            types: &["array"],
            must_be: "a list of port numbers",
            example: &format!("{key} = [5432]"),
        };
        let port = |value: &DeValue<'_>| u16::try_from(whole_number(value)?).ok();
        let list = self.read(key, &form, |value| match value {
            DeValue::Array(list) => list.iter().map(|item| port(item.get_ref())).collect(),
            _ => None,
        });
        list.unwrap_or_default()
    }

    /// Reads the name of a model, which programs get as an argument.
    pub fn model(&mut self) -> Option<String> {
        let form = ExpectedValue {
            types: &["string"],
            must_be: "a name that does not begin with `-`, which programs parse as an option",
            example: "model = \"opus\"",
        };
        let is_name =
            |name: &String| !name.is_empty() && !name.starts_with('-') && is_argument(name);
        self.read("model", &form, |value| into_string(value).filter(is_name))
    }

    /// Returns the full name of a setting of this table.
    pub fn field(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Records a problem.
    pub fn problem(
        &mut self,
        span: Range<usize>,
        code: Code,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.problems.push(Problem { span, code, message: message.into(), fix: fix.into() });
    }

    /// Records a problem with the value of a setting.
    pub fn invalid(&mut self, key: &str, problem: &str, fix: impl Into<String>) {
        let span = self.places.get(key).map_or(0..0, |place| place.value.clone());
        let message = format!("`{}` {problem}", self.field(key));
        self.problem(span, diagnostics::TEAM_INVALID_VALUE, message, fix);
    }

    /// Rejects unknown keys, and adds the problems of this table to `problems`. `order` is the order of the
    /// documentation; `elsewhere` explains settings of other tables.
    pub fn finish(
        mut self,
        order: &[&str],
        elsewhere: impl Fn(&str, &DeValue<'_>) -> Option<MisplacedSetting>,
        problems: &mut Vec<Problem>,
    ) {
        debug_assert!(self.asked.iter().all(|key| order.contains(key)), "{:?}", self.asked);
        self.asked.sort_by_key(|key| order.iter().position(|it| it == key));
        let mut misspelt = BTreeSet::new();
        for (index, (key, value)) in std::mem::take(&mut self.table).iter().enumerate() {
            let (name, value) = (key.get_ref().as_ref(), value.get_ref());
            let field = self.field(&shortened(name));
            // Searching for a similar name is the expensive part.
            let suggestions = if index < MAX_SUGGESTIONS {
                (elsewhere(name, value), meant(name, value, &self.asked))
            } else {
                (None, None)
            };
            let (message, fix) = match suggestions {
                // A name that is valid in another table is not a misspelling.
                (Some(MisplacedSetting { message, fix, is_exact: true }), _)
                | (Some(MisplacedSetting { message, fix, .. }), None) => {
                    (format!("`{field}` {message}"), fix)
                }
                (_, Some(SuggestedSetting { setting: near, fix })) => {
                    misspelt.insert(near);
                    let fix = fix.unwrap_or_else(|| match near {
                        "member" if self.path.is_empty() => member_fix(value),
                        "context" | "limits" => format!("write `[{near}]`"),
                        _ if value.is_table() => format!("write `[{near}.…]`"),
                        _ if is_list_of_tables(value) => format!("write `[[{near}]]`"),
                        _ => format!("write `{near}`"),
                    });
                    (format!("`{field}` is not a setting; did you mean `{near}`?"), fix)
                }
                (None, None) => (format!("`{field}` is not a setting"), self.remove(name)),
            };
            self.problem(key.span(), diagnostics::TEAM_UNKNOWN_SETTING, message, fix);
        }
        // A misspelt setting is not also reported as missing.
        let missing: Vec<String> =
            misspelt.into_iter().map(|key| format!("`{}` is missing", self.field(key))).collect();
        self.problems.retain(|problem| {
            problem.code != diagnostics::TEAM_MISSING_SETTING || !missing.contains(&problem.message)
        });
        problems.append(&mut self.problems);
    }

    /// Returns the fix for a setting that resembles no other.
    fn remove(&self, name: &str) -> String {
        if let Some(why) = absent(name) {
            return format!("remove it; {why}");
        }
        match self.asked.len() {
            0..=16 => format!("remove it; the settings here are {}", self.asked.join(", ")),
            _ => "remove it; `convoke docs team-file` lists the settings".to_owned(),
        }
    }
}

fn is_list_of_tables(value: &DeValue<'_>) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(|item| item.get_ref().is_table()))
}

/// Returns the fix for members under a name other than `[[member]]`.
pub(crate) fn member_fix(value: &DeValue<'_>) -> String {
    let named = match value {
        DeValue::Table(table) => {
            let mut tables = table.iter().filter(|(_, value)| value.get_ref().is_table());
            tables.next().map(|(name, _)| shortened(name.get_ref()))
        }
        DeValue::Array(list) => list.iter().find_map(|item| item.get_ref().as_str()).map(shortened),
        _ => None,
    };
    match named {
        Some(name) => {
            format!("write `[[member]]`, with double brackets, and below it `name = \"{name}\"`")
        }
        None => "write `[[member]]`, with double brackets".to_owned(),
    }
}

/// Shortens a name for a message.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Parses a whole number that is not negative.
pub fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

pub fn into_string(value: DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.into_owned()),
        _ => None,
    }
}

/// Returns whether a text is a valid argument for the operating system.
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
