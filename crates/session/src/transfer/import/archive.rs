//! Checks the lines of an archive, one after another.

use std::collections::{HashMap, HashSet};

use convoke_core::{ConversationMessage, MessageId};
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::session::{NumberedMessage, State};
use convoke_protocol::turn::{Attempt, Turn};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::ArchiveProblem;
use super::super::fork::set_at_rest;
use super::super::pages::contents_of;
use super::thread::{OpenThread, ThreadCheck};
use crate::store::Page;

/// The largest number of a message, its id or a turn. Other JSON parsers lose digits beyond it.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// The last millisecond of the year 9999.
const MAX_TIME: Millis = Millis(253_402_300_799_999);
/// The number of rows or bytes at which a page is written.
const PAGE: (usize, usize) = (512, 4 << 20);

/// A problem with the number of its line.
pub(super) type LineProblem = (usize, ArchiveProblem);

/// Reads the lines of an archive after the first, and collects pages of rows.
pub(super) struct ArchiveReader<'c> {
    session: SessionId,
    state: State,
    check: ThreadCheck<'c>,
    ids: HashSet<MessageId>,
    messages: u64,
    largest_id: u64,
    /// The turns, with the number of attempts that each announces.
    turns: Vec<(TurnId, u32)>,
    /// The number of attempts read for the last turn.
    attempts: u32,
    /// A turn that answers a message that has not been read yet.
    ahead: Option<(TurnId, MessageNumber)>,
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
    pub(super) fn new(session: SessionId, state: State, check: ThreadCheck<'c>) -> Self {
        Self {
            session,
            state,
            check,
            ids: HashSet::new(),
            messages: 0,
            largest_id: 0,
            turns: Vec::new(),
            attempts: 0,
            ahead: None,
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
        if let Some(message) = field("message") {
            self.add_message(message, &value).map_err(at_line)?;
        } else if let Some(turn) = field("turn") {
            parse(turn).and_then(|turn| self.add_turn(turn)).map_err(at_line)?;
        } else if let Some(attempt) = field("attempt") {
            parse(attempt).and_then(|attempt| self.add_attempt(attempt)).map_err(at_line)?;
        } else if let Some(Value::String(text)) = field("content") {
            let content = Content::new(text);
            let hash = content.reference().hash;
            self.missing.remove(&hash);
            if self.contents.insert(hash) {
                self.page.contents.push(content);
            }
        } else if let Some(line) = field("threadLine") {
            let line: super::super::lines::ThreadLineLine = parse(line).map_err(at_line)?;
            let last = self.state.last_message;
            let thread = self.thread(&line.thread, number)?;
            let row = thread.add_line(line, last, number).map_err(at_line)?;
            self.page.lines.push(row);
        } else if let Some(request) = field("request") {
            let request: super::super::lines::RequestLine = parse(request).map_err(at_line)?;
            let attempt = request.turn.zip(request.attempt);
            let attempts = attempt.map(|(turn, _)| (turn, self.attempts_of(TurnId(turn))));
            let session = self.session;
            let thread = self.thread(&request.thread, number)?;
            let (record, bytes) =
                thread.add_request(request, session, attempts).map_err(at_line)?;
            self.page.requests.push(record);
            return Ok(bytes);
        } else {
            let what = "the line is not a message, turn, attempt, content, thread line or request";
            return Err(at_line(ArchiveProblem::Broken(what.to_owned())));
        }
        Ok(0)
    }

    /// Returns the rows so far if they fill a page.
    pub(super) fn full_page(&mut self) -> Option<Page> {
        if self.rows < PAGE.0 && self.bytes < PAGE.1 {
            return None;
        }
        (self.rows, self.bytes) = (0, 0);
        Some(std::mem::take(&mut self.page))
    }

    /// Checks the archive as a whole, and returns the last rows and the state of the session.
    pub(super) fn finish(mut self) -> Result<(Page, State), LineProblem> {
        self.end_thread()?;
        let problem = self.check_whole().err();
        match problem {
            Some(problem) => Err((self.last_line, problem)),
            None => Ok((self.page, self.state)),
        }
    }

    fn add_message(&mut self, message: Value, line: &Value) -> Result<(), ArchiveProblem> {
        let message = ConversationMessage::from_json_with_id(message)
            .map_err(|error| ArchiveProblem::Broken(error.to_string()))?;
        let number = MessageNumber(line["number"].as_u64().unwrap_or_default());
        if number.0 != self.messages + 1 {
            return broken(format!("message {number} is out of order"));
        }
        let answers = line["answers"].as_u64().map(MessageNumber);
        if answers.is_some_and(|answers| answers.0 == 0 || answers >= number) {
            return broken(format!("message {number} answers one that comes later"));
        }
        if !self.ids.insert(message.id.clone()) {
            let id = &message.id;
            return broken(format!("message {number} has the `id` of an earlier one: {id}"));
        }
        let digits = message.id.digits().map(|digits| digits.parse().unwrap_or(u64::MAX));
        self.largest_id = self.largest_id.max(digits.unwrap_or(0));
        self.messages = number.0;
        self.page.messages.push(NumberedMessage { number, answers, message });
        Ok(())
    }

    fn add_turn(&mut self, mut turn: Turn) -> Result<(), ArchiveProblem> {
        let id = turn.id;
        if self.turns.last().is_some_and(|(last, _)| *last >= id) || id.0 == 0 {
            return broken(format!("turn {id} is out of order"));
        }
        if id.0 > MAX_NUMBER {
            return broken(format!(
                "turn {id} is beyond {MAX_NUMBER}, the largest number of a turn"
            ));
        }
        self.end_turn()?;
        let places = [Some(turn.answers), turn.reply].into_iter().flatten();
        for place in places.filter(|place| place.0 == 0 || place.0 > self.messages) {
            self.ahead = Some((id, place));
        }
        check_time("queuedAt", turn.queued_at)?;
        check_time("endedAt", turn.ended_at.unwrap_or_default())?;
        self.turns.push((id, turn.attempts));
        self.attempts = 0;
        set_at_rest(&mut turn);
        self.page.turns.push(turn);
        Ok(())
    }

    fn add_attempt(&mut self, attempt: Attempt) -> Result<(), ArchiveProblem> {
        let Attempt { turn, number, .. } = attempt;
        if self.turns.last().is_none_or(|(last, _)| *last != turn) {
            return broken(format!("an attempt of turn {turn} does not follow it"));
        }
        if number != self.attempts + 1 {
            return broken(format!("attempt {number} of turn {turn} is out of order"));
        }
        self.attempts = number;
        let missing = contents_of(&attempt).filter(|hash| !self.contents.contains(hash));
        self.missing.extend(missing.map(|hash| (hash, turn)));
        self.page.attempts.push(attempt);
        Ok(())
    }

    /// Checks that the last turn has as many attempts as it announced.
    fn end_turn(&self) -> Result<(), ArchiveProblem> {
        match self.turns.last() {
            Some((turn, announced)) if *announced != self.attempts => broken(format!(
                "turn {turn} announces {announced} attempts in its field `attempts`, but {} follow",
                self.attempts
            )),
            _ => Ok(()),
        }
    }

    /// Returns the number of attempts of a turn; `None` if there is no such turn.
    fn attempts_of(&self, turn: TurnId) -> Option<u32> {
        let index = self.turns.binary_search_by_key(&turn, |(id, _)| *id).ok()?;
        self.turns.get(index).map(|(_, attempts)| *attempts)
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

    fn check_whole(&mut self) -> Result<(), ArchiveProblem> {
        self.end_turn()?;
        let (count, state) = (self.messages, &mut self.state);
        if state.last_message.0 != count {
            let announced = state.last_message;
            return broken(format!("there are {count} messages, but {announced} are announced"));
        }
        if let Some((hash, turn)) = self.missing.iter().min_by_key(|(_, turn)| **turn) {
            return broken(format!("the text {hash} of turn {turn} is missing"));
        }
        if let Some((turn, _)) = self.ahead.filter(|(_, place)| place.0 == 0 || place.0 > count) {
            return broken(format!("turn {turn} answers a message that is missing"));
        }
        let last_turn = self.turns.last().map_or(TurnId(0), |(id, _)| *id);
        if last_turn != state.last_turn {
            let announced = state.last_turn;
            return broken(format!("the last turn is {last_turn}, but {announced} is announced"));
        }
        let next = state.next_message_id.max(self.largest_id.saturating_add(1));
        if next > MAX_NUMBER {
            return broken(format!("the ids of messages go beyond msg-{MAX_NUMBER}"));
        }
        state.next_message_id = next;
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

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, ArchiveProblem> {
    serde_json::from_value(value).map_err(ArchiveProblem::from)
}

fn broken<T>(what: String) -> Result<T, ArchiveProblem> {
    Err(ArchiveProblem::Broken(what))
}
