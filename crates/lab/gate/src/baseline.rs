//! The file of a baseline: sorted, with one fact a line, so that the changes of several branches merge.
//!
//! A directory has what differs from the nearest one above it: a change of the root's instructions is one line, however many
//! directories load them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use convoke_explain::{Edition, UnknownEdition};
use convoke_files::{Disk, FileKind, Files as _, draft};
use serde::Deserialize;
use toml::{Table, Value};

use crate::budget::{Budget, Budgets};
use crate::measurement::Measurement;
use crate::record::Record;

/// The version of the format.
const VERSION: u32 = 1;
/// The value of a file, a skill or a loss that a directory does not have, though one above it does.
const NONE: &str = "none";

/// What programs loaded when a person last accepted it.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    pub editions: Vec<Edition>,
    pub budgets: Budgets,
    places: BTreeMap<String, BTreeMap<String, Differences>>,
}

/// What a directory has otherwise than the nearest one above it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Differences {
    files: BTreeMap<String, Fact>,
    losses: BTreeMap<String, Fact>,
    skills: BTreeMap<String, Fact>,
}

/// The number of tokens or cases; `None` if there is none here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
struct Fact(Option<u64>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    editions: BTreeMap<String, String>,
    #[serde(default)]
    budget: Table,
    #[serde(default)]
    directory: BTreeMap<String, BTreeMap<String, Differences>>,
}

/// A baseline cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("{} does not exist; --update writes it", .0.display())]
    Missing(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {message}", path.display())]
    Malformed { path: PathBuf, line: usize, message: String },
    #[error("{}: version {version} of the format is not known; update convoke", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("{}: {source}", path.display())]
    Edition { path: PathBuf, source: UnknownEdition },
}

impl Baseline {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BaselineError> {
        match Disk.read_text(path, FileKind::State) {
            Ok(text) => Self::parse(path, &text),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(BaselineError::Missing(path.to_owned()))
            }
            Err(source) => Err(BaselineError::Io { path: path.to_owned(), source }),
        }
    }

    /// Parses the text of a file.
    pub fn parse(path: &Path, text: &str) -> Result<Self, BaselineError> {
        let malformed = |at: usize, message: String| {
            let line = text.as_bytes()[..at.min(text.len())].iter().filter(|it| **it == b'\n');
            BaselineError::Malformed { path: path.to_owned(), line: line.count() + 1, message }
        };
        let document: Document = toml::from_str(text).map_err(|error| {
            malformed(error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        if document.version != VERSION {
            let (path, version) = (path.to_owned(), document.version);
            return Err(BaselineError::Version { path, version });
        }
        let budgets = budgets(document.budget)
            .map_err(|message| malformed(text.find("[budget").unwrap_or_default(), message))?;
        let named = document.editions.iter().map(|(agent, version)| format!("{agent}@{version}"));
        let editions: Result<Vec<Edition>, UnknownEdition> =
            named.map(|name| convoke_vendors::edition(&name)).collect();
        let mut editions =
            editions.map_err(|source| BaselineError::Edition { path: path.to_owned(), source })?;
        editions.sort();
        Ok(Self { editions, budgets, places: document.directory })
    }

    /// Takes a baseline from a measurement.
    pub fn of(measurement: &Measurement, budgets: Budgets) -> Self {
        let mut baseline =
            Self { editions: measurement.editions.clone(), budgets, ..Self::default() };
        // A directory comes before those below it.
        for (place, measured) in &measurement.places {
            let mut of_place = BTreeMap::new();
            for (agent, record) in &measured.records {
                let above = baseline.inherited(place, agent).unwrap_or_default();
                let differences = Differences::between(&above, record);
                if differences != Differences::default() {
                    of_place.insert(agent.clone(), differences);
                }
            }
            baseline.places.insert(place.clone(), of_place);
        }
        baseline
    }

    /// Returns whether the baseline has a place.
    pub fn has(&self, place: &str) -> bool {
        self.places.contains_key(place)
    }

    /// Returns the places.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Returns what an agent loaded in a place, or in the nearest one above it; `None` if there is neither.
    pub fn record(&self, place: &str, agent: &str) -> Option<Record> {
        let mut found = None;
        for above in ancestors(place) {
            self.apply(above, agent, &mut found);
        }
        found
    }

    /// Returns what an agent loaded in the nearest place above one.
    fn inherited(&self, place: &str, agent: &str) -> Option<Record> {
        let mut found = None;
        for above in ancestors(place).filter(|above| *above != place) {
            self.apply(above, agent, &mut found);
        }
        found
    }

    fn apply(&self, place: &str, agent: &str, found: &mut Option<Record>) {
        if let Some(of_place) = self.places.get(place) {
            let record = found.get_or_insert_default();
            if let Some(differences) = of_place.get(agent) {
                differences.apply(record);
            }
        }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut out = String::from(
            "# What coding agents load in this repository: `convoke explain --baseline` compares, with --update it writes this file.\n\
             # A directory has what differs from the one above it. Budgets and editions may be edited.\n",
        );
        let _ = writeln!(out, "version = {VERSION}\n\n[editions]");
        for edition in &self.editions {
            let _ = writeln!(out, "{} = {}", key(edition.agent()), quoted(edition.version()));
        }
        self.budgets.write(&mut out);
        for (place, agents) in &self.places {
            let _ = writeln!(out, "\n[directory.{}]", quoted(place));
            for (agent, Differences { files, losses, skills }) in agents {
                for (what, facts) in [("files", files), ("losses", losses), ("skills", skills)] {
                    for (name, Fact(value)) in facts {
                        let value = value.map_or_else(|| quoted(NONE), |value| value.to_string());
                        let _ = writeln!(out, "{}.{what}.{} = {value}", key(agent), quoted(name));
                    }
                }
            }
        }
        out
    }

    /// Writes the file. Returns whether it has changed.
    pub fn write(&self, path: &Path) -> Result<bool, BaselineError> {
        let text = self.text();
        if Disk.read_text(path, FileKind::State).is_ok_and(|before| before == text) {
            return Ok(false);
        }
        let failed = |source| BaselineError::Io { path: path.to_owned(), source };
        if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        draft::replace(path, text.as_bytes(), 0o644).map_err(failed)?;
        Ok(true)
    }
}

impl Differences {
    fn between(above: &Record, record: &Record) -> Self {
        Self {
            files: differing(&above.files, &record.files),
            losses: differing(&above.losses, &record.losses),
            skills: differing(&above.skills, &record.skills),
        }
    }

    fn apply(&self, record: &mut Record) {
        overlay(&mut record.files, &self.files);
        overlay(&mut record.losses, &self.losses);
        overlay(&mut record.skills, &self.skills);
    }
}

fn differing(above: &BTreeMap<String, u64>, own: &BTreeMap<String, u64>) -> BTreeMap<String, Fact> {
    let changed = own.iter().filter(|(name, value)| above.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), Fact(Some(*value))));
    let gone = above.keys().filter(|name| !own.contains_key(*name));
    changed.chain(gone.map(|name| (name.clone(), Fact(None)))).collect()
}

fn overlay(values: &mut BTreeMap<String, u64>, facts: &BTreeMap<String, Fact>) {
    for (name, Fact(value)) in facts {
        match value {
            Some(value) => values.insert(name.clone(), *value),
            None => values.remove(name),
        };
    }
}

impl TryFrom<Value> for Fact {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let known = match value {
            Value::Integer(number) => u64::try_from(number).ok().map(|number| Self(Some(number))),
            Value::String(text) if text == NONE => Some(Self(None)),
            _ => None,
        };
        known.ok_or("a number of tokens or cases is expected, or \"none\"")
    }
}

impl Budgets {
    fn write(&self, out: &mut String) {
        for (name, budget) in [("budget".to_owned(), self.all)]
            .into_iter()
            .chain(self.of.iter().map(|(agent, it)| (format!("budget.{}", key(agent)), *it)))
        {
            if budget == Budget::default() {
                continue;
            }
            let _ = writeln!(out, "\n[{name}]");
            if let Some(growth) = budget.max_growth {
                let _ = writeln!(out, "max-growth = {growth}");
            }
            if let Some(tokens) = budget.max_tokens {
                let _ = writeln!(out, "max-tokens = {tokens}");
            }
        }
    }
}

/// Parses the table of limits: those of all programs, and a table for each program that has its own.
fn budgets(table: Table) -> Result<Budgets, String> {
    let (own, all): (Table, Table) = table.into_iter().partition(|(_, value)| value.is_table());
    let parse = |table: Value| {
        table.try_into().map_err(|error: toml::de::Error| format!("budget: {}", error.message()))
    };
    let mut budgets = Budgets { all: parse(Value::Table(all))?, of: BTreeMap::new() };
    for (agent, table) in own {
        convoke_vendors::edition(&agent).map_err(|unknown| format!("budget: {unknown}"))?;
        budgets.of.insert(agent, parse(table)?);
    }
    Ok(budgets)
}

/// Returns the root, the directories on the way to a place, and the place.
fn ancestors(place: &str) -> impl Iterator<Item = &str> {
    let below = if place == "." { "" } else { place };
    let slashes = below.match_indices('/').map(|(at, _)| &below[..at]);
    ["."].into_iter().chain(slashes).chain((!below.is_empty()).then_some(below))
}

fn quoted(text: &str) -> String {
    // A path may have any character; control characters are escaped in one line.
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            it if it.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(it));
            }
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

fn key(name: &str) -> String {
    let is_bare = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# What coding agents load in this repository: `convoke explain --baseline` compares, with --update it writes this file.
# A directory has what differs from the one above it. Budgets and editions may be edited.
version = 1

[editions]
claude = \"2.1.325\"
codex = \"0.166\"

[budget]
max-growth = \"10%\"
max-tokens = 9000

[budget.codex]
max-growth = 50

[directory.\".\"]
claude.files.\"AGENTS.md\" = 12
claude.losses.\"import.missing AGENTS.md\" = 2
claude.skills.\"a \\\"b\\\"\" = 3
codex.files.\"AGENTS.md\" = 12

[directory.\"web\"]

[directory.\"web/a\"]
claude.files.\"web/a/AGENTS.md\" = 4
claude.losses.\"import.missing AGENTS.md\" = \"none\"
";

    fn parsed(text: &str) -> Result<Baseline, BaselineError> {
        Baseline::parse("b.toml".as_ref(), text)
    }

    #[test]
    fn what_is_written_is_read() {
        let baseline = parsed(TEXT).unwrap();
        assert_eq!(baseline.text(), TEXT);
        let record = baseline.record("web/a", "claude").unwrap();
        assert_eq!((record.tokens(), record.losses.len()), (19, 0));
        // A place that is not there is as the nearest above it.
        assert_eq!(baseline.record("web/b/c", "claude"), baseline.record(".", "claude"));
        assert!(baseline.has("web") && !baseline.has("web/b"));
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let cases = [
            (TEXT.replace("= 9000", "= \"many\""), "b.toml:9: budget: invalid type"),
            (TEXT.replace("max-tokens", "max-token"), "b.toml:9: budget: unknown field"),
            (TEXT.replace("budget.codex", "budget.kodex"), "b.toml:9: budget: unknown agent"),
            (TEXT.replace("= 4", "= 4.5"), "b.toml:25: a number of tokens"),
            (TEXT.replace("version = 1", "version = 7"), "b.toml: version 7"),
            (TEXT.replace("0.166", "0.999"), "b.toml: unknown agent `codex@0.999`"),
            (format!("{TEXT}<<<<<<< HEAD\n"), "b.toml:27: "),
        ];
        for (text, expected) in cases {
            let error = parsed(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
