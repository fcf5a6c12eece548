//! A thread of an archive, while its lines are read.

use convoke_protocol::id::{MessageNumber, SessionId, ThreadId};
use convoke_protocol::request::RequestTexts;
use convoke_protocol::thread::ThreadLine;

use super::super::ArchiveProblem;
use super::super::lines::ThreadLineLine;
use super::archive::LineProblem;

/// An invalid line of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadThread {
    /// The line of the thread, from 0.
    pub line: usize,
    /// The problem.
    pub reason: String,
}

/// Validates the lines of a thread, whose meaning this crate does not know.
pub type ThreadCheck<'c> = &'c (dyn Fn(&[&str]) -> Result<(), BadThread> + Sync);

/// A thread whose lines are being read.
pub(super) struct OpenThread {
    /// The part of its id after the session's.
    pub(super) name: String,
    pub(super) id: ThreadId,
    as_of: Option<MessageNumber>,
    lines: Vec<String>,
    /// The archive line of each thread line.
    places: Vec<usize>,
    /// The number of requests, and the texts of the last one.
    pub(super) requests: u64,
    pub(super) last: RequestTexts,
}

impl OpenThread {
    /// Creates a thread; `None` if the name cannot be a thread's.
    pub(super) fn new(session: SessionId, name: &str) -> Option<Self> {
        Some(Self {
            id: ThreadId::with_suffix(session, name)?,
            name: name.to_owned(),
            as_of: None,
            lines: Vec::new(),
            places: Vec::new(),
            requests: 0,
            last: RequestTexts::default(),
        })
    }

    pub(super) fn add_line(
        &mut self,
        line: ThreadLineLine,
        last_message: MessageNumber,
        place: usize,
    ) -> Result<(ThreadId, ThreadLine), ArchiveProblem> {
        let ThreadLineLine { as_of, line: text, .. } = line;
        let name = &self.name;
        if self.as_of > as_of {
            let what = format!("a line of the thread `{name}` is out of order");
            return Err(ArchiveProblem::Broken(what));
        }
        if as_of.is_some_and(|as_of| as_of > last_message) {
            let what = format!("the thread `{name}` refers to a missing message");
            return Err(ArchiveProblem::Broken(what));
        }
        self.as_of = as_of;
        self.lines.push(text.clone());
        self.places.push(place);
        Ok((self.id.clone(), ThreadLine { as_of, text }))
    }

    /// Checks the whole thread. A thread whose first turn failed has requests but no lines.
    pub(super) fn check(&self, check: ThreadCheck<'_>) -> Result<(), LineProblem> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        check(&texts).map_err(|BadThread { line, reason }| {
            let place = self.places.get(line).copied().unwrap_or_default();
            let what = format!("the thread `{}`: {reason}", self.name);
            (place, ArchiveProblem::Broken(what))
        })
    }
}
