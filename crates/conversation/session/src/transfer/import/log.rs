//! Checks the events of an archive: what contradicts the events before it is refused.

use std::collections::{BTreeMap, HashSet};

use convoke_core::MessageId;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::{AttemptResult, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};

use super::super::ArchiveProblem;
use super::archive::{MAX_NUMBER, broken, check_time};

/// The state of a log that is being read.
pub(super) struct LogReader {
    session: SessionId,
    /// The id of the session in the archive.
    written: SessionId,
    last: EventNumber,
    at: Millis,
    messages: MessageNumber,
    ids: HashSet<MessageId>,
    /// The number in the next message's id.
    next_id: u64,
    turns: BTreeMap<TurnId, LoggedTurn>,
}

struct LoggedTurn {
    member: MemberName,
    state: TurnState,
    attempts: u32,
}

impl LogReader {
    pub(super) fn new(session: SessionId, written: SessionId) -> Self {
        Self {
            session,
            written,
            last: EventNumber(1),
            at: Millis(0),
            messages: MessageNumber::default(),
            ids: HashSet::new(),
            next_id: 1,
            turns: BTreeMap::new(),
        }
    }

    pub(super) fn last_message(&self) -> MessageNumber {
        self.messages
    }

    pub(super) fn attempts_of(&self, turn: TurnId) -> Option<u32> {
        self.turns.get(&turn).map(|turn| turn.attempts)
    }

    /// Checks an event, and returns it as one of the new session.
    pub(super) fn add(&mut self, mut event: Event) -> Result<Event, ArchiveProblem> {
        let next = self.last.next();
        if event.number != Some(next) {
            let found = event.number.map_or("none".to_owned(), |number| number.to_string());
            return broken(format!("the number of the event is {found}, and {next} was expected"));
        }
        if event.session != self.written {
            let other = event.session;
            return broken(format!("event {next} belongs to another session: {other}"));
        }
        check_time("at", event.at)?;
        self.check(&event.kind)
            .map_err(|what| ArchiveProblem::Broken(format!("event {next}: {what}")))?;
        self.last = next;
        self.at = event.at;
        event.session = self.session;
        Ok(event)
    }

    fn check(&mut self, kind: &EventKind) -> Result<(), String> {
        match kind {
            EventKind::Created { .. } => Err("a session is created once".to_owned()),
            kind if !kind.is_logged() => Err("it is not an event of a log".to_owned()),
            EventKind::Restored { state } => {
                let last_turn = self.turns.last_key_value().map(|(turn, _)| *turn);
                let follows = state.last_message == self.messages
                    && state.last_turn == last_turn.unwrap_or_default()
                    && (self.next_id..=MAX_NUMBER).contains(&state.next_message_id)
                    && state.last_finished.is_none_or(|last| last <= self.messages);
                let wrong = || "the state does not follow from the events".to_owned();
                follows.then_some(()).ok_or_else(wrong)
            }
            EventKind::Message(message) => self.add_message(message),
            EventKind::TurnQueued { turn, member, answers, .. } => {
                if self.turns.last_key_value().is_some_and(|(last, _)| last >= turn) || turn.0 == 0
                {
                    return Err(format!("turn {turn} is out of order"));
                }
                if turn.0 > MAX_NUMBER {
                    return Err(format!("turn {turn} is beyond {MAX_NUMBER}, the largest number"));
                }
                if answers.0 == 0 || *answers > self.messages {
                    return Err(format!("turn {turn} answers a message that is missing"));
                }
                let (member, state) = (member.clone(), TurnState::Queued);
                self.turns.insert(*turn, LoggedTurn { member, state, attempts: 0 });
                Ok(())
            }
            EventKind::TurnDropped { turn, .. } => {
                self.change(*turn, &[TurnState::Queued], TurnState::Cancelled).map(drop)
            }
            EventKind::TurnRetried { turn, .. } => {
                let before = [TurnState::Failed, TurnState::Cancelled];
                self.change(*turn, &before, TurnState::Queued).map(drop)
            }
            EventKind::TurnStarted { turn, attempt, .. } => {
                let queued = self.change(*turn, &[TurnState::Queued], TurnState::Running)?;
                queued.attempts += 1;
                if queued.attempts != *attempt {
                    return Err(format!("attempt {attempt} of turn {turn} is out of order"));
                }
                Ok(())
            }
            EventKind::TurnInterrupted { turn, attempt, .. } => {
                let running = self.change(*turn, &[TurnState::Running], TurnState::Queued)?;
                is_last(running, *turn, *attempt)
            }
            EventKind::TurnEnded { turn, attempt, state, .. } => {
                let before: &[TurnState] = match (state, attempt) {
                    (TurnState::Queued | TurnState::Running, _) => {
                        return Err(format!("turn {turn} ends and is open"));
                    }
                    // The reply ended it.
                    (TurnState::Done, _) => &[TurnState::Done],
                    (_, 0) => &[TurnState::Queued],
                    _ => &[TurnState::Running],
                };
                let ended = self.change(*turn, before, *state)?;
                if *attempt == 0 { Ok(()) } else { is_last(ended, *turn, *attempt) }
            }
            kind => match kind.turn() {
                Some(turn) if !self.turns.contains_key(&turn) => {
                    Err(format!("there is no turn {turn}"))
                }
                _ => Ok(()),
            },
        }
    }

    fn add_message(&mut self, message: &Message) -> Result<(), String> {
        let Message { number, answers, turn, .. } = message;
        if *number != self.messages.next() {
            return Err(format!("message {number} is out of order"));
        }
        if answers.is_some_and(|answers| answers.0 == 0 || answers >= *number) {
            return Err(format!("message {number} answers one that comes later"));
        }
        let id = message.id();
        if !self.ids.insert(id.clone()) {
            return Err(format!("message {number} has the `id` of an earlier one: {id}"));
        }
        let digits = id.digits().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
        if digits >= MAX_NUMBER {
            return Err(format!("the ids of messages go beyond msg-{MAX_NUMBER}"));
        }
        self.next_id = self.next_id.max(digits + 1);
        if let Some(turn) = turn {
            self.change(*turn, &[TurnState::Queued, TurnState::Running], TurnState::Done)?;
        }
        self.messages = *number;
        Ok(())
    }

    /// Changes the state of a turn from one of those before.
    fn change(
        &mut self,
        turn: TurnId,
        before: &[TurnState],
        after: TurnState,
    ) -> Result<&mut LoggedTurn, String> {
        let found = self.turns.get_mut(&turn).ok_or_else(|| format!("there is no turn {turn}"))?;
        if !before.contains(&found.state) {
            let (is, becomes) = (found.state.as_str(), after.as_str());
            return Err(format!("turn {turn} is {is} and cannot become {becomes}"));
        }
        found.state = after;
        Ok(found)
    }

    /// Returns the ends of the attempts that were running: the new session is at rest.
    pub(super) fn finish(self) -> Vec<Event> {
        let Self { session, mut last, at, turns, .. } = self;
        let running = turns.into_iter().filter(|(_, turn)| turn.state == TurnState::Running);
        let ended = running.map(|(turn, LoggedTurn { member, attempts: attempt, .. })| {
            let failure = Failure::new(FailureReason::Incomplete, "the log ends in this attempt");
            let result = Box::new(AttemptResult::new(at, Verdict::Failed(failure)));
            last = last.next();
            let kind = EventKind::TurnInterrupted { turn, member, attempt, result };
            Event { kind, session, at, number: Some(last), migrated: false }
        });
        ended.collect()
    }
}

fn is_last(found: &LoggedTurn, turn: TurnId, attempt: u32) -> Result<(), String> {
    if found.attempts == attempt {
        return Ok(());
    }
    Err(format!("attempt {attempt} of turn {turn} is not its last"))
}
