//! Compares the records of threads with the session files that the program wrote.
//!
//! Differences are reported but are not failures: a session file may contain what a request never shows.

use std::fmt;

use convoke_thread::item::ResponseItem;
use convoke_thread::record::{Event, Record, read_rollout};

use crate::scenario::Scenario;

/// The number of session files that agree with the records.
#[derive(Default)]
pub(crate) struct SessionFileCounts {
    agree: usize,
    differ: Vec<String>,
}

impl SessionFileCounts {
    pub(crate) fn check(&mut self, scenario: &Scenario, records: &[Record]) {
        let name = scenario.text("name").unwrap_or("?");
        for (rollout, record) in scenario.rollouts().iter().zip(records) {
            let lines: Vec<_> = rollout.iter().map(ToString::to_string).collect();
            let read = read_rollout(&lines.join("\n"), &mut Vec::new());
            let difference = match read {
                Ok(theirs) => difference(&theirs, record),
                Err(wrong) => Some(wrong.to_string()),
            };
            match difference {
                None => self.agree += 1,
                Some(difference) => self.differ.push(format!("{name}: {difference}")),
            }
        }
    }
}

impl fmt::Display for SessionFileCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for differing in &self.differ {
            writeln!(f, "session file of {differing}")?;
        }
        let all = self.agree + self.differ.len();
        write!(f, "{} of {all} session files agree with our records", self.agree)
    }
}

fn difference(theirs: &Record, ours: &Record) -> Option<String> {
    if theirs.base_instructions != ours.base_instructions {
        return Some("other base instructions".to_owned());
    }
    let (theirs, ours) = (comparable_lines(theirs), comparable_lines(ours));
    let at = theirs.iter().zip(&ours).position(|(a, b)| a != b);
    match at {
        Some(at) => Some(format!("event {at} is {}, and ours {}", theirs[at], ours[at])),
        None if theirs.len() != ours.len() => {
            Some(format!("{} events, and ours {}", theirs.len(), ours.len()))
        }
        None => None,
    }
}

/// Returns what both sides have in common: items without ids, compactions, and the counts of servers.
///
/// The estimate before a compaction or a roll-back is left out: it depends on the real paths of the run, which
/// the captures no longer show.
fn comparable_lines(record: &Record) -> Vec<String> {
    let mut told = Vec::new();
    let mut counted = None;
    for event in &record.events {
        match event {
            Event::Item(entry) => match &entry.item {
                ResponseItem::GhostSnapshot(_) | ResponseItem::Other(_) => {}
                item => told.push(item.to_json()),
            },
            Event::Usage(usage) if counted != Some(usage.last) => {
                counted = Some(usage.last);
                told.push(format!("{} tokens", usage.last));
            }
            Event::Compacted { message, history } => {
                told.pop();
                let history = history.iter().flatten().map(|entry| entry.item.to_json());
                let history: Vec<_> = history.collect();
                told.push(format!("compacted: {message} {history:?}"));
            }
            Event::RolledBack { turns } => {
                told.pop();
                told.push(format!("{turns} turns back"));
            }
            _ => {}
        }
    }
    told
}
