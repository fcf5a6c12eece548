//! The lines of a thread that are not of its record.

use convoke_thread::thread::LastSituation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A line that is not of the thread's record.
#[derive(Debug)]
pub(super) enum OwnLine {
    /// What the model was last told of its situation.
    LastSituation(LastSituation),
    /// What earlier versions kept of the last request, which says nothing any more.
    Sent,
    /// The compaction on this line does not hold any more.
    Undone(usize),
    /// An attempt at a turn begins.
    Attempt(Attempt),
    /// The lines from this one on do not hold any more.
    TakenBack(usize),
}

/// An attempt at a turn of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The turn's name.
    pub(super) turn: String,
    /// How many lines after this one are the attempt's.
    pub(super) lines: usize,
}

impl OwnLine {
    const STARTS: [&str; 5] =
        ["{\"told\":", "{\"sent\":", "{\"undone\":", "{\"attempt\":", "{\"takenBack\":"];

    /// Tells our lines from the record's without reading them: each line is an object of one key.
    pub(super) fn is_one(line: &str) -> bool {
        Self::STARTS.iter().any(|start| line.starts_with(start))
    }

    /// Reads a line; `None` when it is the record's.
    pub(super) fn read(line: &str) -> Result<Option<Self>, String> {
        if !Self::is_one(line) {
            return Ok(None);
        }
        let why = |error: serde_json::Error| error.to_string();
        let mut value: Value = serde_json::from_str(line).map_err(why)?;
        let mut field = |key: &str| value.get_mut(key).map(Value::take);
        Ok(Some(if let Some(told) = field("told") {
            Self::LastSituation(serde_json::from_value(told).map_err(why)?)
        } else if field("sent").is_some() {
            Self::Sent
        } else if let Some(line) = field("undone") {
            Self::Undone(serde_json::from_value(line).map_err(why)?)
        } else if let Some(attempt) = field("attempt") {
            Self::Attempt(serde_json::from_value(attempt).map_err(why)?)
        } else {
            let line = field("takenBack").unwrap_or_default();
            Self::TakenBack(serde_json::from_value(line).map_err(why)?)
        }))
    }
}

/// Returns for each line whether it belongs to an attempt that was taken back.
pub(super) fn taken_back<L: AsRef<str>>(lines: &[L]) -> Result<Vec<bool>, String> {
    let mut taken_back = vec![false; lines.len()];
    for (index, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        if line.starts_with("{\"takenBack\":")
            && let Some(OwnLine::TakenBack(from)) = OwnLine::read(line)?
        {
            taken_back[from.min(index)..index].fill(true);
        }
    }
    Ok(taken_back)
}

pub(crate) fn told_line(told: &LastSituation) -> String {
    json!({"told": told}).to_string()
}
