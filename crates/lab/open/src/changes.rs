//! What a session changed in files, as its program recorded it, and what is left of it today.

use std::collections::HashMap;
use std::ops::ControlFlow;

use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_source::{Entry, EntryKind, Sink};
use serde_json::{Value, json};

use crate::handover::FileToday;
use crate::handover::edits::{Edit, diff, states};

/// The maximum number of changes of a session, and the bytes of their texts, that are kept.
const MAX_CHANGES: usize = 20_000;
const MAX_BYTES: usize = 24 << 20;

/// The changes of a session.
#[derive(Debug, Default)]
pub struct Changes {
    found: Vec<RecordedChange>,
    bytes: usize,
    /// The number of changes whose texts were left out, because there are too many.
    pub without_texts: u64,
}

/// A change of a file that a program recorded.
#[derive(Debug)]
struct RecordedChange {
    edit: Edit,
    place: Place,
    at: Option<Millis>,
    agent: Option<String>,
}

/// A change, and the state of the file today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeToday {
    pub path: String,
    /// `add`, `update`, `delete` or the program's own word.
    pub change: String,
    /// `as it left it`, `changed since`, `gone`, or that it was not compared.
    pub state: &'static str,
    pub diff: String,
    pub place: Place,
    pub at: Option<Millis>,
    /// The sub-agent that made it.
    pub agent: Option<String>,
}

impl Sink for Changes {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        let EntryKind::Changed(changes) = &entry.kind else { return ControlFlow::Continue(()) };
        for change in changes {
            if self.found.len() >= MAX_CHANGES {
                self.without_texts += 1;
                continue;
            }
            let mut edit = Edit::of(change);
            self.bytes += edit.bytes();
            if self.bytes > MAX_BYTES {
                self.without_texts += 1;
                self.bytes -= edit.bytes();
                edit.texts = None;
            }
            self.found.push(RecordedChange {
                edit,
                place: entry.place.clone(),
                at: entry.at,
                agent: entry.agent.map(str::to_owned),
            });
        }
        ControlFlow::Continue(())
    }
}

impl Changes {
    /// Compares the changes with the files of today.
    pub fn compare(&self, today: &dyn Fn(&str) -> FileToday) -> Vec<ChangeToday> {
        let mut of_file: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, found) in self.found.iter().enumerate() {
            of_file.entry(&found.edit.path).or_default().push(index);
        }
        let mut known = vec![None; self.found.len()];
        for (path, indices) in of_file {
            let edits: Vec<&Edit> = indices.iter().map(|&it| &self.found[it].edit).collect();
            for (&index, state) in indices.iter().zip(states(&edits, &today(path))) {
                known[index] = Some(state);
            }
        }
        let compared = self.found.iter().zip(known);
        let compared = compared.filter_map(|(found, state)| {
            Some(ChangeToday {
                path: found.edit.path.clone(),
                change: found.edit.change.clone(),
                state: state?.as_str(),
                diff: diff(&found.edit),
                place: found.place.clone(),
                at: found.at,
                agent: found.agent.clone(),
            })
        });
        compared.collect()
    }
}

impl ChangeToday {
    /// Returns the JSON form.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.path, "change": self.change, "today": self.state, "diff": self.diff,
            "source": self.place, "at": self.at, "agent": self.agent,
        })
    }
}
