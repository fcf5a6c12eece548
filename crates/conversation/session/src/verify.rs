//! Rebuilds the tables of a session from its log, and compares them with those that are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, Session, State};
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use serde::Serialize;

use crate::rows::{each_message, each_turn, find_turn};
use crate::store::{Store, StoreError};

/// The number of events that are read at once.
const PAGE: usize = 256;

/// A row that is not what the log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub row: Row,
    pub problem: Problem,
}

/// A row of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Row {
    /// The fields that the session was created with, except its name, which can be changed.
    Creation,
    State,
    Event(EventNumber),
    Message(MessageNumber),
    Turn(TurnId),
    Attempt {
        turn: TurnId,
        number: u32,
    },
}

/// How a row differs from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Problem {
    /// The log tells of it, and it is not stored.
    Missing,
    /// It is stored, and the log does not tell of it.
    Unexpected,
    Different,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Row::Creation => f.write_str("the row of the session")?,
            Row::State => f.write_str("the state of the conversation")?,
            Row::Event(number) => write!(f, "event {number}")?,
            Row::Message(number) => write!(f, "message {number}")?,
            Row::Turn(turn) => write!(f, "turn {turn}")?,
            Row::Attempt { turn, number } => write!(f, "attempt {number} of turn {turn}")?,
        }
        f.write_str(match self.problem {
            Problem::Missing => " is missing",
            Problem::Unexpected => " does not follow from the log",
            Problem::Different => " is not what the log tells",
        })
    }
}

/// Compares the messages, turns, attempts and the state of a session with those that its log adds up to, as of one moment.
/// Memory: one page, the turns that are open or were retried, and eight bytes per turn.
pub async fn rebuild(
    store: &impl Store,
    session: SessionId,
) -> Result<Vec<Difference>, StoreError> {
    let store = store.snapshot().await?;
    let stored = store.session(session).await?;
    let mut rebuilt = Rebuilt::new(&store, session);
    let mut last = EventNumber::default();
    loop {
        let page = store.events(session, last, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            let number = event.number.unwrap_or_default();
            for missing in last.0 + 1..number.0.min(last.0 + 1 + PAGE as u64) {
                rebuilt.tell(Row::Event(EventNumber(missing)), Problem::Missing);
            }
            if number > stored.head {
                rebuilt.tell(Row::Event(number), Problem::Unexpected);
            }
            last = number;
            rebuilt.add(event, &stored).await?;
        }
        rebuilt.compare_messages().await?;
    }
    if last < stored.head {
        rebuilt.tell(Row::Event(last.next()), Problem::Missing);
    }
    rebuilt.finish(&stored).await
}

/// The rows that events add up to and that were not compared yet.
struct Rebuilt<'s, S> {
    store: &'s S,
    session: SessionId,
    state: State,
    /// The messages since the last that was compared, by number.
    messages: BTreeMap<MessageNumber, Message>,
    last_message: MessageNumber,
    /// Turns that are open, or differ from their rows: they may be retried later.
    turns: BTreeMap<TurnId, RebuiltTurn>,
    known: BTreeSet<TurnId>,
    differences: Vec<Difference>,
}

struct RebuiltTurn {
    turn: Turn,
    attempts: Vec<Attempt>,
}

impl<'s, S: Store> Rebuilt<'s, S> {
    fn new(store: &'s S, session: SessionId) -> Self {
        Self {
            store,
            session,
            state: State::default(),
            messages: BTreeMap::new(),
            last_message: MessageNumber::default(),
            turns: BTreeMap::new(),
            known: BTreeSet::new(),
            differences: Vec::new(),
        }
    }

    fn tell(&mut self, row: Row, problem: Problem) {
        self.differences.push(Difference { row, problem });
    }

    async fn add(&mut self, event: Event, stored: &Session) -> Result<(), StoreError> {
        self.state.apply(&event.kind);
        let attempt = Attempt::started(&event);
        let (at, number) = (event.at, event.number.unwrap_or_default());
        match event.kind {
            EventKind::Created { name: _, directory, team, task, rehearsal } => {
                let (id, name) = (self.session, stored.began.name.clone());
                let logged =
                    NewSession { id, created_at: at, name, directory, team, task, rehearsal };
                if logged != stored.began {
                    self.tell(Row::Creation, Problem::Different);
                }
            }
            EventKind::Message(message) => {
                if let Some(turn) = message.turn {
                    let reply = Some(message.number);
                    self.change(number, turn, TurnState::Done, Some(at), |it| {
                        it.turn.reply = reply;
                    })
                    .await?;
                }
                self.messages.insert(message.number, *message);
            }
            EventKind::TurnQueued { turn: id, member, answers, intent, asker } => {
                let turn = Turn {
                    id,
                    member,
                    answers,
                    intent,
                    asker,
                    state: TurnState::Queued,
                    reply: None,
                    problem: None,
                    attempts: 0,
                    queued_at: at,
                    ended_at: None,
                };
                self.known.insert(id);
                self.turns.insert(id, RebuiltTurn { turn, attempts: Vec::new() });
            }
            EventKind::TurnDropped { turn, problem, .. } => {
                let drop = |it: &mut RebuiltTurn| it.turn.problem = Some(problem);
                self.change(number, turn, TurnState::Cancelled, Some(at), drop).await?;
                self.compare_turn(turn).await?;
            }
            EventKind::TurnRetried { turn, .. } => {
                self.change(number, turn, TurnState::Queued, None, |_| {}).await?;
            }
            EventKind::TurnStarted { turn, .. } => {
                self.change(number, turn, TurnState::Running, None, |it| it.begin(attempt)).await?;
            }
            EventKind::TurnInterrupted { turn, attempt, result, .. } => {
                let end = |it: &mut RebuiltTurn| it.end(attempt, *result);
                self.change(number, turn, TurnState::Queued, None, end).await?;
            }
            EventKind::TurnEnded { turn, attempt, state, result, .. } => {
                self.end(number, at, turn, attempt, state, *result).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn end(
        &mut self,
        number: EventNumber,
        at: Millis,
        turn: TurnId,
        attempt: u32,
        state: TurnState,
        result: AttemptResult,
    ) -> Result<(), StoreError> {
        if state == TurnState::Done {
            // The reply has ended it.
            if let Some(it) = self.turns.get_mut(&turn) {
                it.end(attempt, result);
            }
        } else {
            let end = |it: &mut RebuiltTurn| {
                it.turn.problem = Some(result.verdict.to_string());
                it.end(attempt, result);
            };
            self.change(number, turn, state, Some(at), end).await?;
        }
        self.compare_turn(turn).await
    }

    /// Changes a turn by an event. A turn that is no longer in memory was like its row.
    async fn change(
        &mut self,
        event: EventNumber,
        turn: TurnId,
        state: TurnState,
        ended_at: Option<Millis>,
        more: impl FnOnce(&mut RebuiltTurn),
    ) -> Result<(), StoreError> {
        if !self.turns.contains_key(&turn)
            && self.known.contains(&turn)
            && let Some(row) = find_turn(self.store, self.session, turn).await?
        {
            let attempts = self.store.attempts(self.session, turn).await?;
            self.turns.insert(turn, RebuiltTurn { turn: row, attempts });
        }
        match self.turns.get_mut(&turn) {
            Some(it) => {
                it.turn = Turn { state, ended_at, reply: None, problem: None, ..it.turn.clone() };
                more(it);
            }
            None => self.tell(Row::Event(event), Problem::Unexpected),
        }
        Ok(())
    }

    /// Forgets a turn that is like its row.
    async fn compare_turn(&mut self, turn: TurnId) -> Result<(), StoreError> {
        if let Some(rebuilt) = self.turns.get(&turn)
            && rebuilt.differences(self.store, self.session).await?.is_empty()
        {
            self.turns.remove(&turn);
        }
        Ok(())
    }

    /// Compares the messages of the last page of events.
    async fn compare_messages(&mut self) -> Result<(), StoreError> {
        let mut logged = std::mem::take(&mut self.messages);
        let Some((&last, _)) = logged.last_key_value() else { return Ok(()) };
        let mut after = self.last_message;
        while after < last {
            let mut page = self.store.messages_after(self.session, after, PAGE).await?;
            page.retain(|message| message.number <= last);
            let Some(newest) = page.last() else { break };
            after = newest.number;
            for message in page {
                let row = Row::Message(message.number);
                match logged.remove(&message.number) {
                    Some(logged) if logged == message => {}
                    Some(_) => self.tell(row, Problem::Different),
                    None => self.tell(row, Problem::Unexpected),
                }
            }
        }
        for number in logged.into_keys() {
            self.tell(Row::Message(number), Problem::Missing);
        }
        self.last_message = last;
        Ok(())
    }

    /// Compares what is left, and returns all differences.
    async fn finish(mut self, stored: &Session) -> Result<Vec<Difference>, StoreError> {
        for turn in std::mem::take(&mut self.turns).into_values() {
            self.differences.extend(turn.differences(self.store, self.session).await?);
        }
        let (mut differences, session) = (self.differences, self.session);
        let unexpected = |row| Difference { row, problem: Problem::Unexpected };
        each_turn(self.store, session, |turn| {
            if !self.known.contains(&turn.id) {
                differences.push(unexpected(Row::Turn(turn.id)));
            }
            Ok::<_, StoreError>(())
        })
        .await?;
        each_message(self.store, session, self.last_message, |message| {
            differences.push(unexpected(Row::Message(message.number)));
            Ok::<_, StoreError>(())
        })
        .await?;
        if self.state != stored.state {
            differences.push(Difference { row: Row::State, problem: Problem::Different });
        }
        Ok(differences)
    }
}

impl RebuiltTurn {
    fn begin(&mut self, attempt: Option<Attempt>) {
        if let Some(attempt) = attempt {
            self.turn.attempts = attempt.number;
            self.attempts.push(attempt);
        }
    }

    /// Ends an attempt; 0 is none.
    fn end(&mut self, attempt: u32, result: AttemptResult) {
        if let Some(found) = self.attempts.iter_mut().find(|it| it.number == attempt) {
            found.ended = Some(result);
        }
    }

    /// Compares the turn and its attempts with their rows.
    async fn differences(
        &self,
        store: &impl Store,
        session: SessionId,
    ) -> Result<Vec<Difference>, StoreError> {
        let id = self.turn.id;
        let row = find_turn(store, session, id).await?;
        let mut found = Vec::new();
        found.extend(compare(Row::Turn(id), Some(&self.turn), row.as_ref()));
        let rows = store.attempts(session, id).await?;
        let numbers = self.attempts.iter().chain(&rows).map(|attempt| attempt.number);
        for number in numbers.collect::<BTreeSet<u32>>() {
            let of = |attempts: &[Attempt]| {
                attempts.iter().find(|attempt| attempt.number == number).cloned()
            };
            let (logged, stored) = (of(&self.attempts), of(&rows));
            let row = Row::Attempt { turn: id, number };
            found.extend(compare(row, logged.as_ref(), stored.as_ref()));
        }
        Ok(found)
    }
}

fn compare<T: PartialEq>(row: Row, logged: Option<&T>, stored: Option<&T>) -> Option<Difference> {
    let problem = match (logged, stored) {
        (Some(logged), Some(stored)) if logged == stored => return None,
        (Some(_), Some(_)) => Problem::Different,
        (Some(_), None) => Problem::Missing,
        (None, Some(_)) => Problem::Unexpected,
        (None, None) => return None,
    };
    Some(Difference { row, problem })
}
