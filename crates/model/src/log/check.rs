//! Whether lines that somebody brings are those of a thread.

use convoke_agent::id::ThreadId;
use convoke_thread::record::{self, Event};

use super::Log;
use super::own::OwnLine;

/// A line that a thread cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The line, from 0.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Refuses lines that no thread of ours has. Reading one passes over a line that it does not know, so
/// that a later version can add kinds; what comes from a file of others has to be right to the last
/// line, also those that do not hold any more.
pub fn check<L: AsRef<str>>(lines: &[L]) -> Result<(), BadLine> {
    let mut compactions = Vec::new();
    let mut attempts = Vec::new();
    for (index, line) in lines.iter().map(AsRef::as_ref).enumerate() {
        let bad = |reason: String| BadLine { line: index, reason };
        let own = OwnLine::read(line).map_err(|why| bad(format!("it cannot be read: {why}")))?;
        match own {
            Some(OwnLine::Undone(at)) if compactions.binary_search(&at).is_err() => {
                let what = format!("it undoes line {at} of the thread, which is no compaction");
                return Err(bad(what));
            }
            Some(OwnLine::TakenBack(at)) if attempts.binary_search(&at).is_err() => {
                let what =
                    format!("it takes back line {at} of the thread, which begins no attempt");
                return Err(bad(what));
            }
            Some(OwnLine::Attempt(attempt)) if attempt.lines >= lines.len() - index => {
                return Err(bad("it announces more lines than there are".to_owned()));
            }
            Some(OwnLine::Attempt(_)) => attempts.push(index),
            Some(_) => {}
            None if line.starts_with("{\"thread\":") => {}
            None => match record::read_event(line) {
                Ok(Event::Compacted { .. }) => compactions.push(index),
                Ok(_) => {}
                Err(why) => return Err(bad(format!("it is no line of a thread: {why}"))),
            },
        }
    }
    let whole = |reason: String| BadLine { line: 0, reason };
    let log = Log::read(lines).map_err(whole)?;
    let log = log.ok_or_else(|| whole("nothing of it holds".to_owned()))?;
    if let Some(diagnostic) = log.diagnostics.first() {
        return Err(whole(format!("it is no thread: {}", diagnostic.message)));
    }
    if ThreadId::parse(&log.record.id).is_none() {
        return Err(whole(format!("its own name is none: {:?}", log.record.id)));
    }
    Ok(())
}
