//! Checks the lines of an archive, one after another.

use std::collections::{HashMap, HashSet};

use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::event::Event;
use convoke_protocol::id::{Millis, SessionId, TurnId};
use convoke_protocol::session::{NewSession, State};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::ArchiveProblem;
use super::super::lines::{RequestLine, ThreadLineLine};
use super::log::LogReader;
use super::rows::RowReader;
use super::thread::{OpenThread, ThreadCheck};
use crate::store::Page;

/// The largest number of a message, its id or a turn. Other JSON parsers lose digits beyond it.
pub(super) const MAX_NUMBER: u64 = (1 << 53) - 1;
/// The last millisecond of the year 9999.
const MAX_TIME: Millis = Millis(253_402_300_799_999);
/// The number of rows or bytes at which a page is written.
const PAGE: (usize, usize) = (512, 4 << 20);

/// A problem with the number of its line.
pub(super) type LineProblem = (usize, ArchiveProblem);

/// The conversation of an archive: a log, or the rows of a version before it.
enum Conversation {
    Log(LogReader),
    Rows(Box<RowReader>),
}

/// Whether an archive has the texts that its events refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Included,
    /// It is a log alone.
    LeftOut,
}

/// Reads the lines of an archive after the first, and collects pages.
pub(super) struct ArchiveReader<'c> {
    session: SessionId,
    texts: Texts,
    check: ThreadCheck<'c>,
    conversation: Conversation,
    contents: HashSet<ContentHash>,
    /// The contents that have not been read yet, with the turn that refers to each.
    missing: HashMap<ContentHash, TurnId>,
    /// The threads that have ended.
    threads: HashSet<String>,
    thread: Option<OpenThread>,
    page: Page,
    rows: usize,
    bytes: usize,
    last_line: usize,
}

impl<'c> ArchiveReader<'c> {
    /// Begins to read an archive, whose session had the id `written` and gets another. With a state, the archive has rows.
    pub(super) fn new(
        session: &NewSession,
        written: SessionId,
        state: Option<State>,
        texts: Texts,
        check: ThreadCheck<'c>,
    ) -> Self {
        let conversation = match state {
            Some(state) => Conversation::Rows(Box::new(RowReader::new(session.clone(), state))),
            None => Conversation::Log(LogReader::new(session.id, written)),
        };
        Self {
            session: session.id,
            texts,
            check,
            conversation,
            contents: HashSet::new(),
            missing: HashMap::new(),
            threads: HashSet::new(),
            thread: None,
            page: Page::default(),
            rows: 0,
            bytes: 0,
            last_line: 1,
        }
    }

    /// Reads a line. Returns the size that it expands to beyond its own.
    pub(super) fn add(&mut self, line: &str, number: usize) -> Result<u64, LineProblem> {
        self.last_line = number;
        self.rows += 1;
        self.bytes += line.len();
        let at_line = |problem| (number, problem);
        let mut value: Value = serde_json::from_str(line).map_err(|error| at_line(error.into()))?;
        let mut field = |key: &str| value.get_mut(key).map(Value::take);
        if let Some(Value::String(text)) = field("content") {
            self.add_content(text);
        } else if let Some(line) = field("threadLine") {
            let line: ThreadLineLine = parse(line).map_err(at_line)?;
            let last = self.last_message();
            let thread = self.thread(&line.thread, number)?;
            let row = thread.add_line(line, last, number).map_err(at_line)?;
            self.page.lines.push(row);
        } else if let Some(request) = field("request") {
            let request: RequestLine = parse(request).map_err(at_line)?;
            let attempt = request.turn.zip(request.attempt);
            let attempts = attempt.map(|(turn, _)| (turn, self.attempts_of(TurnId(turn))));
            let session = self.session;
            let thread = self.thread(&request.thread, number)?;
            let (record, bytes) =
                thread.add_request(request, session, attempts).map_err(at_line)?;
            self.page.requests.push(record);
            return Ok(bytes);
        } else {
            self.add_to_conversation(value).map_err(at_line)?;
        }
        Ok(0)
    }

    fn add_to_conversation(&mut self, value: Value) -> Result<(), ArchiveProblem> {
        match &mut self.conversation {
            Conversation::Log(log) => {
                let event: Event = parse(value)?;
                let event = log.add(event)?;
                let used = event.kind.contents().map(|content| content.hash);
                self.missing.extend(
                    used.filter(|hash| !self.contents.contains(hash))
                        .zip(std::iter::repeat(event.kind.turn().unwrap_or_default())),
                );
                self.page.events.push(event);
            }
            Conversation::Rows(rows) => {
                let used = rows.add(value)?;
                let missing = used.into_iter().filter(|(hash, _)| !self.contents.contains(hash));
                self.missing.extend(missing);
            }
        }
        Ok(())
    }

    fn add_content(&mut self, text: String) {
        let content = Content::new(text);
        let hash = content.reference().hash;
        self.missing.remove(&hash);
        if self.contents.insert(hash) {
            if let Conversation::Rows(rows) = &mut self.conversation {
                rows.add_content(&content);
            }
            self.page.contents.push(content);
        }
    }

    /// Returns the rows so far if they fill a page.
    pub(super) fn full_page(&mut self) -> Option<Page> {
        if self.rows < PAGE.0 && self.bytes < PAGE.1 {
            return None;
        }
        (self.rows, self.bytes) = (0, 0);
        // The lines of threads come after the events, which rows give only when all are read.
        match self.conversation {
            Conversation::Log(_) => Some(std::mem::take(&mut self.page)),
            Conversation::Rows(_) => {
                let contents = std::mem::take(&mut self.page.contents);
                Some(Page { contents, ..Page::default() })
            }
        }
    }

    /// Checks the archive as a whole, and returns the last rows.
    pub(super) fn finish(mut self) -> Result<Page, LineProblem> {
        self.end_thread()?;
        let last_line = self.last_line;
        self.finish_conversation().map_err(|problem| (last_line, problem))
    }

    fn finish_conversation(mut self) -> Result<Page, ArchiveProblem> {
        let missing = self.missing.iter().min_by_key(|(_, turn)| **turn);
        let missing = missing.filter(|_| self.texts == Texts::Included);
        let missing =
            missing.map(|(hash, turn)| format!("the text {hash} of turn {turn} is missing"));
        let events = match self.conversation {
            Conversation::Log(log) => log.finish(),
            Conversation::Rows(rows) => rows.finish()?,
        };
        if let Some(missing) = missing {
            return broken(missing);
        }
        self.page.events.extend(events);
        Ok(self.page)
    }

    fn last_message(&self) -> convoke_protocol::id::MessageNumber {
        match &self.conversation {
            Conversation::Log(log) => log.last_message(),
            Conversation::Rows(rows) => rows.last_message(),
        }
    }

    /// Returns the number of attempts of a turn; `None` if there is no such turn.
    fn attempts_of(&self, turn: TurnId) -> Option<u32> {
        match &self.conversation {
            Conversation::Log(log) => log.attempts_of(turn),
            Conversation::Rows(rows) => rows.attempts_of(turn),
        }
    }

    /// Returns the thread that a line belongs to: the open one, or a new one.
    fn thread(&mut self, name: &str, line: usize) -> Result<&mut OpenThread, LineProblem> {
        if self.thread.as_ref().is_none_or(|open| open.name != name) {
            self.end_thread()?;
            let broken = |what| (line, ArchiveProblem::Broken(what));
            if self.threads.contains(name) {
                let what = format!("the lines of the thread `{name}` are not consecutive");
                return Err(broken(what));
            }
            let new = OpenThread::new(self.session, name);
            let new = new
                .ok_or_else(|| broken(format!("`{name}` is not the name of a member's thread")))?;
            self.thread = Some(new);
        }
        self.thread.as_mut().ok_or_else(|| (line, ArchiveProblem::Broken(name.to_owned())))
    }

    fn end_thread(&mut self) -> Result<(), LineProblem> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.check(self.check)?;
        self.threads.insert(thread.name);
        Ok(())
    }
}

/// Rejects a time that is out of range.
pub(super) fn check_time(field: &str, at: Millis) -> Result<(), ArchiveProblem> {
    if (Millis(0)..=MAX_TIME).contains(&at) {
        return Ok(());
    }
    broken(format!("the field `{field}` is not a time between 1970 and 9999: {at}"))
}

pub(super) fn parse<T: DeserializeOwned>(value: Value) -> Result<T, ArchiveProblem> {
    serde_json::from_value(value).map_err(ArchiveProblem::from)
}

pub(super) fn broken<T>(what: String) -> Result<T, ArchiveProblem> {
    Err(ArchiveProblem::Broken(what))
}
