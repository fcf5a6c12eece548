//! Which turns and merges of a session are undone.

use crate::part::Part;
use crate::record::{Record, RecordId};

/// A turn with its attempts, or a merge, that changed files.
#[derive(Debug, Clone, Copy)]
pub struct Step<'r> {
    /// The record of its changes; of several attempts at a turn the last one.
    pub made: &'r Record,
    /// The latest undo or redo of it; `made` if there is none.
    pub last: &'r Record,
    /// Whether it is undone.
    pub is_undone: bool,
    /// Whether a later attempt at the turn is a step of its own, because the turn was undone before it.
    is_closed: bool,
}

/// Returns the turns and merges that changed files, in the order of their changes.
pub fn steps(records: &[Record]) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for record in records {
        let is_same_turn = |step: &Step<'_>| {
            step.made.applied.is_none() && step.made.turn.turn == record.turn.turn
        };
        if let Some(undone) = record.undoes {
            if let Some(step) = steps.iter_mut().rev().find(|step| step.last.id == undone) {
                step.last = record;
                step.is_undone = !step.is_undone;
            }
            if record.applied.is_none() {
                let of_turn = steps.iter_mut().filter(|step| is_same_turn(step));
                of_turn.for_each(|step| step.is_closed = true);
            }
            continue;
        }
        let is_made = record.is_of_agent() || record.applied.is_some();
        if !is_made || record.changes.is_empty() {
            continue;
        }
        if record.is_of_agent() {
            let is_attempt = |step: &Step<'_>| {
                !step.is_closed && is_same_turn(step) && step.made.directory == record.directory
            };
            steps.retain(|step| !is_attempt(step));
        }
        steps.push(Step { made: record, last: record, is_undone: false, is_closed: false });
    }
    steps
}

/// What to undo or redo.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// The latest turn or merge.
    Latest,
    /// The latest attempts at a turn.
    Turn(u64),
    /// The latest merge of a member's workspace.
    MergeOf(&'a str),
    /// The latest turn that changed some paths, or a part of one turn.
    Part { turn: Option<u64>, part: &'a Part },
}

impl Selection<'_> {
    fn includes(self, step: &Step<'_>) -> bool {
        let Record { turn, applied, .. } = step.made;
        match self {
            Self::Latest => true,
            Self::Turn(number) => applied.is_none() && turn.turn == number,
            Self::MergeOf(member) => applied.as_ref().is_some_and(|it| it.member == member),
            Self::Part { turn: number, part } => {
                let is_meant = number.is_none_or(|it| applied.is_none() && turn.turn == it);
                is_meant && part.touches(step.made)
            }
        }
    }

    fn steps(self, records: &[Record]) -> Vec<Step<'_>> {
        let mut steps = steps(records);
        steps.retain(|step| self.includes(step));
        steps
    }

    /// Returns the step to undo: the latest that is not undone. Fails with the reason why there is none.
    pub(crate) fn to_undo(self, records: &[Record]) -> Result<Step<'_>, String> {
        let steps = self.steps(records);
        let found = steps.iter().rev().find(|step| !step.is_undone).copied();
        found.ok_or_else(|| match self {
            Self::Latest if !steps.is_empty() => {
                "every turn that changed a file is undone; `redo` redoes the one that was undone last"
                    .to_owned()
            }
            Self::Turn(turn) if !steps.is_empty() => {
                format!("turn {turn} is undone already; `redo` with its number redoes it")
            }
            Self::MergeOf(member) if !steps.is_empty() => {
                format!("the merge of the workspace of {member} is undone already; `redo` redoes it")
            }
            Self::Part { .. } if !steps.is_empty() => {
                "every turn that changed this is undone; `redo` makes its changes again".to_owned()
            }
            _ => self.nothing(records),
        })
    }

    /// Returns the step to redo: the one that was undone last. Fails with the reason why there is none.
    ///
    /// Without a turn or member, a turn or merge that changed files of the directory after the undo ends the series of
    /// undos: what it worked with is the state without them.
    pub(crate) fn to_redo(self, records: &[Record]) -> Result<Step<'_>, String> {
        let steps = self.steps(records);
        if let Self::Part { part, .. } = self {
            let is_undone = |step: &&Step<'_>| step.is_undone || has_part(records, step, part);
            let found = steps.iter().rev().find(is_undone).copied();
            return found.ok_or_else(|| {
                if steps.is_empty() {
                    self.nothing(records)
                } else {
                    "nothing of this is undone".to_owned()
                }
            });
        }
        let undone = steps.iter().filter(|step| step.is_undone);
        let found = undone.max_by_key(|step| step.last.id).copied();
        let found = found.ok_or_else(|| match self {
            Self::Latest => "no turn of this session is undone".to_owned(),
            Self::Turn(turn) if !steps.is_empty() => format!("turn {turn} is not undone"),
            Self::MergeOf(member) if !steps.is_empty() => {
                format!("the merge of the workspace of {member} is not undone")
            }
            _ => self.nothing(records),
        })?;
        let is_newer = |step: &&Step<'_>| {
            step.made.id > found.last.id && step.made.directory == found.made.directory
        };
        match (self, steps.iter().find(is_newer)) {
            (Self::Latest, Some(newer)) => Err(format!(
                "{} has changed files since {} was undone; `redo` with its {} redoes it, unless that changed the same files",
                name(newer.made),
                name(found.made),
                if found.made.applied.is_some() { "member" } else { "number" },
            )),
            _ => Ok(found),
        }
    }

    /// Returns the reason why there is no step.
    fn nothing(self, records: &[Record]) -> String {
        let lost = records.iter().rev().find_map(|record| {
            let is_meant = match self {
                Self::Latest => true,
                Self::Turn(turn) => record.turn.turn == turn,
                Self::MergeOf(_) | Self::Part { .. } => false,
            };
            let why = record.not_recorded.as_ref().filter(|_| is_meant)?;
            Some(format!("{} was not recorded and cannot be undone: {why}", name(record)))
        });
        lost.unwrap_or_else(|| match self {
            Self::Latest => {
                let mut notes = records.iter().rev();
                let note = notes.find_map(|it| Some((it.turn.turn, it.repository.as_ref()?)));
                let note = note.map(|(turn, what)| {
                    format!("; the repository, which turn {turn} changed, stays as it is: {what}")
                });
                format!("no turn of this session changed a file{}", note.unwrap_or_default())
            }
            Self::Turn(turn) => without_changes(records, turn),
            Self::MergeOf(member) => {
                format!("no workspace of {member} was merged in this session")
            }
            Self::Part { turn, part } => {
                let paths: Vec<String> = part.paths.iter().map(ToString::to_string).collect();
                match turn {
                    Some(turn) => format!("turn {turn} changed nothing at {}", paths.join(", ")),
                    None => {
                        format!("no turn of this session changed anything at {}", paths.join(", "))
                    }
                }
            }
        })
    }
}

/// Returns whether a part of a step was taken back at some of the paths.
fn has_part(records: &[Record], step: &Step<'_>, part: &Part) -> bool {
    let is_of_step = |record: &Record| record.part_of.is_some_and(|it| it.record == step.last.id);
    records.iter().any(|record| is_of_step(record) && part.touches(record))
}

/// Returns whether a merge or the last attempt at a turn is undone.
pub(crate) fn is_undone(records: &[Record], made: RecordId) -> bool {
    steps(records).iter().any(|step| step.made.id == made && step.is_undone)
}

/// Returns the reason why no change of a turn is recorded.
pub fn without_changes(records: &[Record], turn: u64) -> String {
    if records.iter().any(|record| record.turn.turn == turn && record.is_of_agent()) {
        return format!("turn {turn} changed no file");
    }
    format!("turn {turn} is not recorded: there is no such turn, or it may only read")
}

fn name(record: &Record) -> String {
    match &record.applied {
        Some(applied) => format!("the merge of the workspace of {}", applied.member),
        None => format!("turn {} ({})", record.turn.turn, record.turn.member),
    }
}
