//! What was found in the files of a session, beside its entries.

use std::collections::BTreeMap;
use std::fmt;

use convoke_protocol::window::Place;

/// The maximum number of unknown kinds that are told apart.
const MAX_KINDS: usize = 100;
/// The maximum number of characters of a kind's name.
const MAX_NAME: usize = 60;

/// What was found in the files of a session, beside its entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of records.
    pub records: u64,
    /// Unknown kinds of records, with their numbers.
    pub unknown: BTreeMap<String, u64>,
    /// The number of records that are not JSON or not of the form that their kind has, and the first.
    pub broken: u64,
    pub first_broken: Option<(Place, String)>,
    /// The number of records that are too long or have too many values to be read.
    pub too_large: u64,
    /// The number of records that stand twice in a file, and count once.
    pub repeated: u64,
    /// Whether the last line is not complete: the program may be writing it.
    pub is_torn: bool,
    /// Anything else that a person should know.
    pub notes: Vec<String>,
}

impl Report {
    /// Counts a record of an unknown kind.
    pub fn unknown(&mut self, kind: &str) {
        let mut name: String = kind.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        if self.unknown.len() >= MAX_KINDS && !self.unknown.contains_key(&name) {
            "other kinds".clone_into(&mut name);
        }
        *self.unknown.entry(name).or_default() += 1;
    }

    /// Counts a record that cannot be read.
    pub fn broken(&mut self, place: Place, problem: &dyn fmt::Display) {
        self.broken += 1;
        self.first_broken.get_or_insert_with(|| (place, problem.to_string()));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found = Vec::new();
        let unknown: u64 = self.unknown.values().sum();
        if unknown > 0 {
            let kinds = self.unknown.len();
            found.push(format!("{} of {}", counted(unknown, "record"), counted_kinds(kinds)));
        }
        if let Some((place, problem)) = &self.first_broken {
            let broken = counted(self.broken, "unreadable record");
            found.push(format!("{broken} (the first at {place}: {problem})"));
        }
        if self.too_large > 0 {
            found.push(format!("{} too large to be read", counted(self.too_large, "record")));
        }
        if self.is_torn {
            found.push("the last line is not complete".to_owned());
        }
        found.extend(self.notes.iter().cloned());
        f.write_str(&found.join("; "))
    }
}

fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

fn counted_kinds(number: usize) -> String {
    match number {
        1 => "1 unknown kind".to_owned(),
        many => format!("{many} unknown kinds"),
    }
}
