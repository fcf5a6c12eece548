//! The lines of a thread besides its record.

use convoke_thread::thread::LastSituation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A line besides the thread's record.
#[derive(Debug)]
pub(super) enum OwnLine {
    /// The context that the model was last sent.
    LastSituation(LastSituation),
    /// A line of earlier versions about the last request; ignored.
    Sent,
    /// The compaction on this line is undone.
    Undone(usize),
    /// The start of an attempt at a turn.
    Attempt(Attempt),
    /// The lines from this one on are withdrawn.
    Withdrawn(usize),
}

/// An attempt at a turn of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The turn's name.
    pub(super) turn: String,
    /// The number of lines of the attempt after this one.
    pub(super) lines: usize,
}

impl OwnLine {
    const STARTS: [&str; 5] =
        ["{\"told\":", "{\"sent\":", "{\"undone\":", "{\"attempt\":", "{\"takenBack\":"];

    /// Returns whether a line is of these kinds, without parsing it: each is an object with one key.
    pub(super) fn is_one(line: &str) -> bool {
        Self::STARTS.iter().any(|start| line.starts_with(start))
    }

    /// Parses a line; `None` if it belongs to the record.
    pub(super) fn read(line: &str) -> Result<Option<Self>, String> {
        if !Self::is_one(line) {
            return Ok(None);
        }
        let why = |error: serde_json::Error| error.to_string();
        let mut value: Value = serde_json::from_str(line).map_err(why)?;
        let mut field = |key: &str| value.get_mut(key).map(Value::take);
        Ok(Some(if let Some(situation) = field("told") {
            Self::LastSituation(serde_json::from_value(situation).map_err(why)?)
        } else if field("sent").is_some() {
            Self::Sent
        } else if let Some(line) = field("undone") {
            Self::Undone(serde_json::from_value(line).map_err(why)?)
        } else if let Some(attempt) = field("attempt") {
            Self::Attempt(serde_json::from_value(attempt).map_err(why)?)
        } else {
            let line = field("takenBack").unwrap_or_default();
            Self::Withdrawn(serde_json::from_value(line).map_err(why)?)
        }))
    }
}

/// Returns for each line whether it belongs to a withdrawn attempt.
pub(super) fn withdrawn<L: AsRef<str>>(lines: &[L]) -> Result<Vec<bool>, String> {
    let mut withdrawn = vec![false; lines.len()];
    for (index, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        if line.starts_with("{\"takenBack\":")
            && let Some(OwnLine::Withdrawn(from)) = OwnLine::read(line)?
        {
            withdrawn[from.min(index)..index].fill(true);
        }
    }
    Ok(withdrawn)
}

/// Writes the line of the context that the model was last sent.
pub(crate) fn situation_line(situation: &LastSituation) -> String {
    json!({"told": situation}).to_string()
}
