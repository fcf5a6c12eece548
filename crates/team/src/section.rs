//! A table of the team file, read key by key. What was asked for is what there is: a key that nobody
//! asked for is refused, with the nearest of those that were.

use std::collections::BTreeMap;

use convoke_core::name::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::TeamFileError;

/// A table that is being read.
pub(crate) struct Section<'t> {
    text: &'t str,
    /// How the table is called in errors; empty for the top.
    path: String,
    table: DeTable<'t>,
    asked: Vec<&'static str>,
}

/// A value and where it stands.
pub(crate) struct Found<'t> {
    pub(crate) value: DeValue<'t>,
    pub(crate) offset: usize,
}

impl<'t> Section<'t> {
    pub(crate) fn new(text: &'t str, path: impl Into<String>, table: DeTable<'t>) -> Self {
        Self { text, path: path.into(), table, asked: Vec::new() }
    }

    /// Renames the table in errors, once it is known what it is about.
    pub(crate) fn call(&mut self, path: String) {
        self.path = path;
    }

    /// Takes a value out of the table.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Found<'t>> {
        self.asked.push(key);
        let (_, value) = self.table.remove_entry(key)?;
        let offset = value.span().start;
        Some(Found { value: value.into_inner(), offset })
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Result<Option<String>, TeamFileError> {
        self.read(key, "a string", |value| match value {
            DeValue::String(text) => Some(text.into_owned()),
            _ => None,
        })
    }

    /// Reads one of some words.
    pub(crate) fn one_of(
        &mut self,
        key: &'static str,
        words: &[&str],
    ) -> Result<Option<String>, TeamFileError> {
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        self.read(key, &quoted.join(" or "), |value| {
            let found = value.as_str().filter(|given| words.contains(given));
            found.map(str::to_owned)
        })
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, TeamFileError> {
        self.read(key, "true or false", |value| value.as_bool())
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<u64>, TeamFileError> {
        self.read(key, "a whole number, 0 or more", |value| whole_number(&value))
    }

    pub(crate) fn strings(&mut self, key: &'static str) -> Result<Vec<String>, TeamFileError> {
        let list = self.read(key, "a list of strings", |value| match value {
            DeValue::Array(list) => list.into_iter().map(into_string).collect(),
            _ => None,
        })?;
        Ok(list.unwrap_or_default())
    }

    pub(crate) fn string_table(
        &mut self,
        key: &'static str,
    ) -> Result<BTreeMap<String, String>, TeamFileError> {
        let table = self.read(key, "a table of strings", |value| match value {
            DeValue::Table(table) => table
                .into_iter()
                .map(|(name, value)| Some((name.into_inner().into_owned(), into_string(value)?)))
                .collect(),
            _ => None,
        })?;
        Ok(table.unwrap_or_default())
    }

    /// Takes a table out of this one; an absent one is empty.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Section<'t>, TeamFileError> {
        let table = self.read(key, &format!("a table: write `[{key}]`"), |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        })?;
        Ok(Self::new(self.text, key, table.unwrap_or_default()))
    }

    /// Reads a value, or says what it must be.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        must_be: &str,
        read: impl FnOnce(DeValue<'t>) -> Option<T>,
    ) -> Result<Option<T>, TeamFileError> {
        let Some(Found { value, offset }) = self.take(key) else { return Ok(None) };
        let value = read(value);
        value.map(Some).ok_or_else(|| self.error(offset, key, &format!("must be {must_be}")))
    }

    /// Creates an error about a key of this table.
    pub(crate) fn error(&self, offset: usize, key: &str, problem: &str) -> TeamFileError {
        let field = match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        TeamFileError::at(self.text, offset, format!("`{field}` {problem}"))
    }

    /// Refuses what nobody asked for.
    pub(crate) fn finish(self) -> Result<(), TeamFileError> {
        let Some(key) = self.table.keys().min_by_key(|key| key.span().start) else { return Ok(()) };
        let problem = match nearest(key.get_ref(), self.asked.iter().copied()) {
            Some(near) => format!("is not a setting; did you mean `{near}`?"),
            None => format!("is not a setting; there are {}", self.asked.join(", ")),
        };
        Err(self.error(key.span().start, key.get_ref(), &problem))
    }
}

/// Reads a whole number that is not negative.
pub(crate) fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn into_string(value: Spanned<DeValue<'_>>) -> Option<String> {
    match value.into_inner() {
        DeValue::String(text) => Some(text.into_owned()),
        _ => None,
    }
}
