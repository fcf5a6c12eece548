//! Validates the lines of an imported thread.

use convoke_protocol::id::ThreadId;
use convoke_thread::record::{self, Event};

use super::Log;
use super::own::OwnLine;

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// The line, from 0.
    pub line: usize,
    pub reason: String,
}

/// Rejects invalid lines. Normal reading skips unknown lines, so that later versions can add kinds. An imported
/// thread must be valid to the last line, including lines that are no longer in effect.
pub fn check<L: AsRef<str>>(lines: &[L]) -> Result<(), BadLine> {
    let mut compactions = Vec::new();
    let mut attempts = Vec::new();
    for (index, line) in lines.iter().map(AsRef::as_ref).enumerate() {
        let bad = |reason: String| BadLine { line: index, reason };
        let own = OwnLine::read(line).map_err(|why| bad(format!("cannot be parsed: {why}")))?;
        match own {
            Some(OwnLine::Undone(at)) if compactions.binary_search(&at).is_err() => {
                let what = format!("undoes line {at} of the thread, which is not a compaction");
                return Err(bad(what));
            }
            Some(OwnLine::Withdrawn(at)) if attempts.binary_search(&at).is_err() => {
                let what =
                    format!("withdraws line {at} of the thread, which does not start an attempt");
                return Err(bad(what));
            }
            Some(OwnLine::Attempt(attempt)) if attempt.lines >= lines.len() - index => {
                return Err(bad("announces more lines than follow".to_owned()));
            }
            Some(OwnLine::Attempt(_)) => attempts.push(index),
            Some(_) => {}
            None if line.starts_with("{\"thread\":") => {}
            None => match record::read_event(line) {
                Ok(Event::Compacted { .. }) => compactions.push(index),
                Ok(_) => {}
                Err(why) => return Err(bad(format!("not a line of a thread: {why}"))),
            },
        }
    }
    let whole = |reason: String| BadLine { line: 0, reason };
    let log = Log::read(lines).map_err(whole)?;
    let log = log.ok_or_else(|| whole("no line is in effect".to_owned()))?;
    if let Some(diagnostic) = log.diagnostics.first() {
        return Err(whole(format!("not a thread: {}", diagnostic.message)));
    }
    if ThreadId::parse(&log.record.id).is_none() {
        return Err(whole(format!("invalid thread id: {:?}", log.record.id)));
    }
    Ok(())
}
