//! Checks the rows of an archive of version 1 to 3, which had no log. They are held in memory until all are read.

use std::collections::{HashMap, HashSet};

use convoke_core::{ConversationMessage, MessageId};
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::event::Event;
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::session::{NewSession, State};
use convoke_protocol::turn::Turn;
use serde_json::Value;

use super::super::ArchiveProblem;
use super::archive::{MAX_NUMBER, broken, check_time, parse};
use crate::legacy::{
    self, LegacyAttempt, LegacyMessage, LegacySession, LegacyTurn, StoredAttempt, StoredResult,
};

/// The rows so far.
pub(super) struct RowReader {
    session: LegacySession,
    ids: HashSet<MessageId>,
    largest_id: u64,
    /// A turn that answers a message that has not been read yet.
    ahead: Option<(TurnId, MessageNumber)>,
    texts: HashMap<ContentHash, String>,
}

impl RowReader {
    pub(super) fn new(began: NewSession, state: State) -> Self {
        let (messages, turns) = (Vec::new(), Vec::new());
        Self {
            session: LegacySession { began, state, messages, turns },
            ids: HashSet::new(),
            largest_id: 0,
            ahead: None,
            texts: HashMap::new(),
        }
    }

    pub(super) fn last_message(&self) -> MessageNumber {
        self.session.state.last_message
    }

    pub(super) fn attempts_of(&self, turn: TurnId) -> Option<u32> {
        let turns = &self.session.turns;
        let index = turns.binary_search_by_key(&turn, |turn| turn.turn.id).ok()?;
        turns.get(index).map(|turn| turn.turn.attempts)
    }

    pub(super) fn add_content(&mut self, content: &Content) {
        self.texts.insert(content.reference().hash, content.text().to_owned());
    }

    /// Reads a row. Returns the contents that it refers to, each with its turn.
    pub(super) fn add(
        &mut self,
        mut value: Value,
    ) -> Result<Vec<(ContentHash, TurnId)>, ArchiveProblem> {
        let mut field = |key: &str| value.get_mut(key).map(Value::take);
        if let Some(message) = field("message") {
            self.add_message(message, &value)?;
        } else if let Some(turn) = field("turn") {
            self.add_turn(parse(turn)?)?;
        } else if let Some(attempt) = field("attempt") {
            return self.add_attempt(parse(attempt)?);
        } else {
            let what = "the line is not a message, turn, attempt, content, thread line or request";
            return broken(what.to_owned());
        }
        Ok(Vec::new())
    }

    fn add_message(&mut self, message: Value, line: &Value) -> Result<(), ArchiveProblem> {
        let message = ConversationMessage::from_json_with_id(message)
            .map_err(|error| ArchiveProblem::Broken(error.to_string()))?;
        let number = MessageNumber(line["number"].as_u64().unwrap_or_default());
        if number.0 != self.session.messages.len() as u64 + 1 {
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
        self.session.messages.push(LegacyMessage { number, answers, message });
        Ok(())
    }

    fn add_turn(&mut self, turn: Turn) -> Result<(), ArchiveProblem> {
        let id = turn.id;
        if self.session.turns.last().is_some_and(|last| last.turn.id >= id) || id.0 == 0 {
            return broken(format!("turn {id} is out of order"));
        }
        if id.0 > MAX_NUMBER {
            return broken(format!(
                "turn {id} is beyond {MAX_NUMBER}, the largest number of a turn"
            ));
        }
        self.end_turn()?;
        let places = [Some(turn.answers), turn.reply].into_iter().flatten();
        let messages = self.session.messages.len() as u64;
        for place in places.filter(|place| place.0 == 0 || place.0 > messages) {
            self.ahead = Some((id, place));
        }
        check_time("queuedAt", turn.queued_at)?;
        check_time("endedAt", turn.ended_at.unwrap_or_default())?;
        self.session.turns.push(LegacyTurn { turn, attempts: Vec::new() });
        Ok(())
    }

    fn add_attempt(
        &mut self,
        attempt: LegacyAttempt,
    ) -> Result<Vec<(ContentHash, TurnId)>, ArchiveProblem> {
        let (turn, number) = (attempt.attempt.turn, attempt.attempt.number);
        let last = self.session.turns.last_mut().filter(|last| last.turn.id == turn);
        let Some(last) = last else {
            return broken(format!("an attempt of turn {turn} does not follow it"));
        };
        if number as usize != last.attempts.len() + 1 {
            return broken(format!("attempt {number} of turn {turn} is out of order"));
        }
        let used = attempt.contents().map(|content| (content.hash, turn)).collect();
        last.attempts.push(attempt);
        Ok(used)
    }

    /// Checks that the last turn has as many attempts as it announced.
    fn end_turn(&self) -> Result<(), ArchiveProblem> {
        match self.session.turns.last() {
            Some(last) if last.turn.attempts as usize != last.attempts.len() => broken(format!(
                "turn {} announces {} attempts in its field `attempts`, but {} follow",
                last.turn.id,
                last.turn.attempts,
                last.attempts.len()
            )),
            _ => Ok(()),
        }
    }

    /// Checks the rows as a whole, and returns their events.
    pub(super) fn finish(mut self) -> Result<Vec<Event>, ArchiveProblem> {
        self.end_turn()?;
        let LegacySession { state, messages, turns, .. } = &mut self.session;
        let count = messages.len() as u64;
        if state.last_message.0 != count {
            let announced = state.last_message;
            return broken(format!("there are {count} messages, but {announced} are announced"));
        }
        if let Some((turn, _)) = self.ahead.filter(|(_, place)| place.0 == 0 || place.0 > count) {
            return broken(format!("turn {turn} answers a message that is missing"));
        }
        let last_turn = turns.last().map_or(TurnId(0), |last| last.turn.id);
        if last_turn != state.last_turn {
            let announced = state.last_turn;
            return broken(format!("the last turn is {last_turn}, but {announced} is announced"));
        }
        let next = state.next_message_id.max(self.largest_id.saturating_add(1)).max(1);
        if next > MAX_NUMBER {
            return broken(format!("the ids of messages go beyond msg-{MAX_NUMBER}"));
        }
        state.next_message_id = next;
        for attempt in turns.iter_mut().flat_map(|turn| &mut turn.attempts) {
            // The new session is at rest.
            let StoredAttempt { began_at, ended, .. } = &mut attempt.attempt;
            ended.get_or_insert_with(|| StoredResult::interrupted(*began_at));
            let events = attempt.attempt.ended.as_ref().and_then(|ended| ended.events);
            let lines = events.and_then(|events| self.texts.get(&events.hash));
            attempt.lines = lines.cloned().unwrap_or_default();
        }
        Ok(legacy::events(self.session))
    }
}
