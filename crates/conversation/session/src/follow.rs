//! Follows a session that another process writes: reads its log from a number on.

use std::collections::BTreeMap;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MemberName, Millis, SessionId, TurnId};
use convoke_protocol::turn::TurnState;

use crate::running_text::events_to_end;
use crate::store::{Store, StoreError};

/// A position in the log of a session, up to which its events were reported.
#[derive(Debug, Clone)]
pub struct Follower {
    session: SessionId,
    last: EventNumber,
    /// Earlier events are known, except those of attempts that were running.
    known: EventNumber,
    running: BTreeMap<TurnId, RunningAttempt>,
}

/// An attempt that has not ended.
#[derive(Debug, Clone)]
struct RunningAttempt {
    number: u32,
    member: MemberName,
    began_at: Millis,
    /// The reported pieces of the agent's current text.
    pieces: String,
}

impl Follower {
    /// Starts after an event.
    pub fn after(session: SessionId, last: EventNumber) -> Self {
        Self { session, last, known: last, running: BTreeMap::new() }
    }

    /// Starts at the end of a log. Everything before it is known, except how far the running turns have got: they are
    /// reported from their start.
    pub async fn at<S: Store>(
        store: &S,
        session: SessionId,
        head: EventNumber,
    ) -> Result<Self, StoreError> {
        let mut follower = Self::after(session, head);
        let open = store.open_turns(session).await?;
        for turn in open.into_iter().filter(|turn| turn.state == TurnState::Running) {
            let attempt = store.attempts(session, turn.id).await?.pop();
            if let Some(attempt) = attempt.filter(|attempt| attempt.ended.is_none()) {
                let before = EventNumber(attempt.event.0.saturating_sub(1));
                follower.last = follower.last.min(before);
                let (number, member, began_at) = (attempt.number, turn.member, attempt.began_at);
                let pieces = String::new();
                let running = RunningAttempt { number, member, began_at, pieces };
                follower.running.insert(turn.id, running);
            }
        }
        Ok(follower)
    }

    /// Returns the new events, in order. Has no effect if it is dropped before it completes.
    pub async fn advance<S: Store>(&mut self, store: &S) -> Result<Vec<Event>, StoreError> {
        let mut next = self.clone();
        let mut events = Vec::new();
        let add = |event| next.add(event, &mut events);
        let last = events_to_end(store, self.session, self.last, add).await?;
        next.last = last;
        for (turn, running) in &mut next.running {
            let pieces = store.pieces(self.session, *turn, running.number).await?;
            // The pieces begin anew after a whole text, which is read next time.
            if let Some(new) = pieces.strip_prefix(&*running.pieces).filter(|new| !new.is_empty()) {
                events.push(running.piece(self.session, *turn, new));
            }
            if pieces.len() > running.pieces.len() {
                running.pieces = pieces;
            }
        }
        *self = next;
        Ok(events)
    }

    /// Adds an event of the log, unless it was known.
    fn add(&mut self, event: Event, events: &mut Vec<Event>) {
        let is_new = event.number.is_some_and(|number| number > self.known);
        let is_running = |turn: TurnId| self.running.contains_key(&turn);
        if !is_new && !event.kind.turn().is_some_and(is_running) {
            return;
        }
        match &event.kind {
            EventKind::TurnStarted { turn, member, attempt, .. } => {
                let (number, member, began_at) = (*attempt, member.clone(), event.at);
                let pieces = String::new();
                self.running.insert(*turn, RunningAttempt { number, member, began_at, pieces });
            }
            EventKind::TurnEnded { turn, .. } | EventKind::TurnInterrupted { turn, .. } => {
                self.running.remove(turn);
            }
            EventKind::TurnQueued { .. } if !is_new => return,
            _ => {}
        }
        // Views that have shown pieces ignore the whole text, so the missing end is reported as one more piece.
        if let (Some((text, TextPart::Whole)), Some(turn)) =
            (event.kind.own_text(), event.kind.turn())
            && let Some(running) = self.running.get_mut(&turn)
        {
            let pieces = std::mem::take(&mut running.pieces);
            let rest = text.strip_prefix(&*pieces).filter(|rest| !rest.is_empty());
            if let Some(rest) = rest.filter(|_| !pieces.is_empty()) {
                events.push(running.piece(self.session, turn, rest));
            }
        }
        events.push(event);
    }
}

impl RunningAttempt {
    /// Returns the event of a piece of text, which is not in the log.
    fn piece(&self, session: SessionId, turn: TurnId, text: &str) -> Event {
        let text = text.to_owned().into();
        let event = AgentEvent::own(AgentEventKind::Text { text, part: TextPart::Delta });
        let kind = EventKind::Agent { turn, member: self.member.clone(), event };
        Event { kind, session, at: self.began_at, number: None, migrated: false }
    }
}
