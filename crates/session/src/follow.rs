//! Follows a session that another process writes: reads new rows and converts them to events of the conversation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::event::{Event, EventKind, ShownMessage};
use convoke_protocol::id::{Head, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use convoke_protocol::session::{NumberedMessage, State};
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use convoke_team::Team;
use serde::Deserialize as _;
use serde_json::Value;

use crate::diagnostics;
use crate::prompt::PromptRecord;
use crate::routing::route;
use crate::rows::find_turn;
use crate::store::{Store, StoreError};

/// The number of rows that are read at once.
const PAGE: usize = 256;

/// The position in a session up to which events were reported.
#[derive(Debug, Clone)]
pub struct Follower {
    session: SessionId,
    head: Head,
    last_message: MessageNumber,
    last_turn: TurnId,
    /// The turns that had not ended at that position.
    open: BTreeMap<TurnId, ReportedTurn>,
}

/// A turn that has not ended, and how much of it was reported.
#[derive(Debug, Clone, Default)]
struct ReportedTurn {
    /// The reported attempts.
    attempts: u32,
    /// Whether the last reported attempt has ended.
    has_ended: bool,
    /// The number of reported bytes of the last attempt's progress.
    progress: usize,
    /// The number of reported events that are stored with the ended attempt: all but pieces of text.
    events: usize,
    /// The reported pieces of the agent's current text.
    pieces: String,
    /// The open questions of its agent.
    questions: BTreeSet<String>,
}

impl ReportedTurn {
    /// Returns the position before the running attempt, which is then reported from its start.
    fn before_attempt(turn: &Turn) -> Self {
        let is_running = turn.state == TurnState::Running;
        let attempts = turn.attempts.saturating_sub(u32::from(is_running));
        Self { attempts, has_ended: true, ..Self::default() }
    }

    /// Completes the events of the last attempt, and records their questions and texts.
    ///
    /// The last pieces of a text are not stored: the whole text is stored instead. Views that have shown pieces
    /// ignore the whole text, so the missing end is reported as one more piece.
    fn complete(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut completed = Vec::with_capacity(events.len());
        for event in events {
            if let Some((text, part)) = own_text(&event.kind) {
                match part {
                    TextPart::Delta => self.pieces.push_str(text),
                    TextPart::Whole => {
                        let pieces = std::mem::take(&mut self.pieces);
                        let rest = text.strip_prefix(&*pieces).filter(|rest| !rest.is_empty());
                        if let Some(rest) = rest.filter(|_| !pieces.is_empty()) {
                            completed.push(with_piece(&event, rest.to_owned()));
                        }
                    }
                }
            }
            match &event.kind {
                EventKind::PermissionAsked { question, .. } => {
                    self.questions.insert(question.id.clone());
                }
                EventKind::PermissionAnswered { id, .. } => {
                    self.questions.remove(id);
                }
                _ => {}
            }
            completed.push(event);
        }
        completed
    }
}

/// Returns the text that the agent itself wrote, not a sub-agent.
fn own_text(kind: &EventKind) -> Option<(&str, TextPart)> {
    match kind {
        EventKind::Agent {
            event: AgentEvent { kind: AgentEventKind::Text { text, part }, sub_agent: None, .. },
            ..
        } => Some((text, *part)),
        _ => None,
    }
}

/// Returns the event of a piece of text, like an event of the same agent.
fn with_piece(like: &Event, text: String) -> Event {
    let mut piece = like.clone();
    if let EventKind::Agent { event, .. } = &mut piece.kind {
        event.kind = AgentEventKind::Text { text: text.into(), part: TextPart::Delta };
    }
    piece
}

/// The new events of a turn.
struct TurnUpdate {
    turn: Turn,
    /// The events before the turn's reply, and those after it.
    before: Vec<Event>,
    after: Vec<Event>,
    followed: ReportedTurn,
}

impl Follower {
    /// Starts at a position. Everything before it is known, except how far the open turns have got.
    pub fn new(session: SessionId, head: Head, state: &State, open: &[Turn]) -> Self {
        Self {
            session,
            // The state of running turns must be read first.
            head: if open.iter().any(|turn| turn.state == TurnState::Running) {
                Head(head.0.wrapping_sub(1))
            } else {
                head
            },
            last_message: state.last_message,
            last_turn: state.last_turn,
            open: open.iter().map(|turn| (turn.id, ReportedTurn::before_attempt(turn))).collect(),
        }
    }

    /// Returns the new events, in order. Has no effect if it is dropped before it completes.
    pub async fn advance<S: Store>(
        &mut self,
        store: &S,
        team: &Team,
    ) -> Result<Vec<Event>, StoreError> {
        let session = store.session(self.session).await?;
        if session.head == self.head {
            return Ok(Vec::new());
        }
        // Rows of later commits are read next time.
        let (last_message, last_turn) = (session.state.last_message, session.state.last_turn);
        let mut messages = Vec::new();
        let mut after = self.last_message;
        while after < last_message {
            let page = store.messages_after(self.session, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            messages.extend(page.into_iter().filter(|message| message.number <= last_message));
        }
        let mut turns = self.read_turns(store, last_turn).await?;
        let mut updates = Vec::new();
        let mut queued: HashMap<MessageNumber, Vec<Event>> = HashMap::new();
        for turn in turns.drain(..) {
            if turn.id > self.last_turn {
                let Turn { id, member, answers, intent, .. } = turn.clone();
                let kind = EventKind::TurnQueued { turn: id, member, answers, intent };
                queued.entry(answers).or_default().push(self.event(turn.queued_at, kind));
            }
            if turn.reply.is_none_or(|reply| reply <= last_message) {
                updates.push(self.read_turn(store, turn).await?);
            } else {
                let followed = self.followed(&turn);
                let (before, after) = (Vec::new(), Vec::new());
                let turn = Turn { state: TurnState::Running, ..turn };
                updates.push(TurnUpdate { turn, before, after, followed });
            }
        }
        let mut events = Vec::new();
        for message in &messages {
            let answered =
                updates.iter_mut().find(|update| update.turn.reply == Some(message.number));
            let mut after = Vec::new();
            if let Some(update) = answered {
                events.append(&mut update.before);
                after = std::mem::take(&mut update.after);
            }
            events.extend(self.message(team, message));
            events.extend(queued.remove(&message.number).unwrap_or_default());
            events.append(&mut after);
        }
        // Turns queued by a fork or a retry answer an older message.
        events.extend(queued.into_values().flatten());
        self.open.clear();
        for mut update in updates {
            events.append(&mut update.before);
            events.append(&mut update.after);
            if update.turn.state.is_open() {
                self.open.insert(update.turn.id, update.followed);
            }
        }
        (self.last_message, self.last_turn) = (last_message, last_turn);
        self.head = session.head;
        Ok(events)
    }

    /// Reads the turns that were open, and the new ones.
    async fn read_turns<S: Store>(&self, store: &S, last: TurnId) -> Result<Vec<Turn>, StoreError> {
        let mut turns: BTreeMap<TurnId, Turn> = BTreeMap::new();
        for turn in store.open_turns(self.session).await? {
            turns.insert(turn.id, turn);
        }
        for id in self.open.keys() {
            if !turns.contains_key(id) {
                let found = find_turn(store, self.session, *id).await?;
                turns.extend(found.map(|turn| (turn.id, turn)));
            }
        }
        let mut after = self.last_turn;
        while after < last {
            let page = store.turns_after(self.session, after, PAGE).await?;
            let Some(newest) = page.last() else { break };
            after = newest.id;
            turns.extend(page.into_iter().map(|turn| (turn.id, turn)));
        }
        turns.retain(|id, _| *id <= last);
        Ok(turns.into_values().collect())
    }

    /// Returns how much of a turn was reported.
    fn followed(&self, turn: &Turn) -> ReportedTurn {
        let known = self.open.get(&turn.id).cloned();
        // The turn had ended and was retried.
        let retried = || (turn.id <= self.last_turn).then(|| ReportedTurn::before_attempt(turn));
        known.or_else(retried).unwrap_or_default()
    }

    /// Reads the new events of a turn.
    async fn read_turn<S: Store>(&self, store: &S, turn: Turn) -> Result<TurnUpdate, StoreError> {
        let mut followed = self.followed(&turn);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let is_told = turn.attempts == followed.attempts && followed.has_ended;
        if turn.attempts == 0 || is_told {
            if turn.state == TurnState::Cancelled {
                let kind = EventKind::TurnDropped { turn: turn.id, member: turn.member.clone() };
                before.push(self.event(turn.ended_at.unwrap_or_default(), kind));
            }
            return Ok(TurnUpdate { turn, before, after, followed });
        }
        for attempt in store.attempts(self.session, turn.id).await? {
            if attempt.number < followed.attempts
                || (attempt.number == followed.attempts && followed.has_ended)
            {
                continue;
            }
            if attempt.number > followed.attempts {
                before.push(self.started(store, &turn, &attempt).await?);
                followed = ReportedTurn { attempts: attempt.number, ..ReportedTurn::default() };
            }
            let is_last = attempt.number == turn.attempts;
            match &attempt.ended {
                None => {
                    let progress = store.progress(self.session, turn.id, attempt.number).await?;
                    let new = progress.get(followed.progress..).unwrap_or_default();
                    followed.progress = progress.len();
                    followed.events += new.lines().filter(|line| !is_piece(line)).count();
                    let events = self.agent_events(&turn, &attempt, attempt.began_at, new.lines());
                    before.extend(followed.complete(events));
                }
                // The attempt ended after the turn was read; the rest is read next time.
                Some(_) if is_last && turn.state == TurnState::Running => break,
                Some(result) => {
                    followed.has_ended = true;
                    if let Some(events) = result.events {
                        let events = store.content(events.hash).await?;
                        let new = events.lines().skip(followed.events);
                        let events = self.agent_events(&turn, &attempt, result.at, new);
                        before.extend(followed.complete(events));
                    }
                    for id in std::mem::take(&mut followed.questions) {
                        let (turn, member) = (turn.id, turn.member.clone());
                        let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
                        let kind = EventKind::PermissionAnswered { turn, member, id, answer, by };
                        before.push(self.event(result.at, kind));
                    }
                    if !is_last || turn.state.is_open() {
                        let kind = interrupted(&turn);
                        before.push(self.event(result.at, kind));
                    } else {
                        after.extend(self.ended(store, &turn, attempt).await?);
                    }
                }
            }
        }
        Ok(TurnUpdate { turn, before, after, followed })
    }

    async fn started<S: Store>(
        &self,
        store: &S,
        turn: &Turn,
        attempt: &Attempt,
    ) -> Result<Event, StoreError> {
        let record: Option<PromptRecord> =
            serde_json::from_str(&store.content(attempt.input.hash).await?).ok();
        let context = record.map_or(0, |record| record.context.len());
        let kind = EventKind::turn_started(turn, attempt, context);
        Ok(self.event(attempt.began_at, kind))
    }

    async fn ended<S: Store>(
        &self,
        store: &S,
        turn: &Turn,
        attempt: Attempt,
    ) -> Result<Option<Event>, StoreError> {
        let Some(result) = attempt.ended else { return Ok(None) };
        let reply = match turn.reply {
            Some(number) => Some(store.message(self.session, number).await?.message.id),
            None => None,
        };
        let at = result.at;
        let kind = EventKind::turn_ended(turn, attempt.began_at, reply, result);
        Ok(Some(self.event(at, kind)))
    }

    /// Returns the events of a message: the message, and the task that it sets.
    fn message(&self, team: &Team, message: &NumberedMessage) -> Vec<Event> {
        let stored = &message.message;
        let speaker = MemberName::new(&*stored.speaker.role_id);
        let routed = route(team, &speaker, &stored.content);
        let at = match &stored.timestamp {
            Some(convoke_core::Timestamp::Millis(at)) => at.as_i64().map_or(Millis(0), Millis),
            _ => Millis(0),
        };
        let shown = ShownMessage::new(message, team.context.text);
        let mut events = vec![self.event(at, EventKind::Message(shown))];
        if let Some(task) = routed.task {
            events.push(self.event(at, EventKind::Task { task, by: speaker }));
        }
        events
    }

    /// Returns the stored events of a turn's agent.
    fn agent_events<'l>(
        &self,
        turn: &Turn,
        attempt: &Attempt,
        at: Millis,
        lines: impl Iterator<Item = &'l str>,
    ) -> Vec<Event> {
        let told = |event| {
            let kind = EventKind::of_agent(turn, attempt.number, event);
            self.event(at, kind)
        };
        lines.filter_map(stored_event).map(told).collect()
    }

    fn event(&self, at: Millis, kind: EventKind) -> Event {
        Event { kind, session: self.session, at }
    }
}

/// Returns whether a line of a turn's progress is a piece of a text.
fn is_piece(line: &str) -> bool {
    let event = stored_event(line).map(|event| event.kind);
    matches!(event, Some(AgentEventKind::Text { part: TextPart::Delta, .. }))
}

/// Returns the event of a turn whose process ended during the attempt.
pub(crate) fn interrupted(turn: &Turn) -> EventKind {
    let message = format!("turn {} of {} was interrupted; retrying", turn.id, turn.member);
    let diagnostic = Diagnostic::new(diagnostics::TURN_INTERRUPTED, message);
    EventKind::Diagnostic { turn: Some(turn.id), diagnostic }
}

/// Parses an event of a turn's progress: a text, a tool call or a question. Other kinds are reported only by
/// the process that runs the turn.
pub fn stored_event(line: &str) -> Option<AgentEvent<'static>> {
    let event: Value = serde_json::from_str(line).ok()?;
    let kind = &event["event"];
    let text = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
    let part = || if kind["part"] == "delta" { TextPart::Delta } else { TextPart::Whole };
    let kind = match kind["kind"].as_str()? {
        "text" => AgentEventKind::Text { text: text("text").into(), part: part() },
        "thinking" => AgentEventKind::Thinking { text: text("text").into(), part: part() },
        "toolStarted" => AgentEventKind::ToolStarted {
            id: text("id").into(),
            name: text("name").into(),
            input: text("input").into(),
        },
        "toolFinished" => AgentEventKind::ToolFinished {
            id: text("id").into(),
            ok: kind["ok"].as_bool().unwrap_or_default(),
            output: text("output").into(),
        },
        "permissionAsked" => AgentEventKind::PermissionAsked {
            question: question(&kind["question"]),
            expires_at: kind["expiresAt"].as_i64().unwrap_or_default(),
        },
        "permissionAnswered" => AgentEventKind::PermissionAnswered {
            id: text("id"),
            answer: PermissionAnswer::deserialize(&kind["answer"]).ok()?,
            by: AnsweredBy::deserialize(&kind["by"]).ok()?,
        },
        _ => return None,
    };
    let sub_agent = event["subAgent"].as_str().map(|id| id.to_owned().into());
    Some(AgentEvent { sub_agent, kind })
}

/// Parses a stored question. Only the process that runs the turn knows whether it is about a command or files.
fn question(stored: &Value) -> PermissionQuestion {
    let text = |name: &str| stored[name].as_str().unwrap_or_default().to_owned();
    PermissionQuestion {
        id: text("id"),
        tool: text("tool"),
        summary: text("summary"),
        input: match &stored["input"] {
            Value::String(cut) => cut.clone(),
            input => input.to_string(),
        },
        diff: stored["diff"].as_str().map(str::to_owned),
        directory: stored["directory"].as_str().map(PathBuf::from).map(Box::new),
        ..PermissionQuestion::default()
    }
}

/// Returns the unanswered questions in the stored events of a running attempt, as events of the conversation.
pub fn open_questions(turn: &Turn, attempt: u32, events: &str) -> Vec<EventKind> {
    let mut open: Vec<(String, EventKind)> = Vec::new();
    for event in events.lines().filter_map(stored_event) {
        match EventKind::of_agent(turn, attempt, event) {
            EventKind::PermissionAnswered { id, .. } => open.retain(|(it, _)| *it != id),
            kind => {
                if let EventKind::PermissionAsked { question, .. } = &kind {
                    open.push((question.id.clone(), kind));
                }
            }
        }
    }
    open.into_iter().map(|(_, kind)| kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(followed: &mut ReportedTurn, given: &[(&str, TextPart)]) -> Vec<(String, TextPart)> {
        let told = |(text, part): &(&str, TextPart)| {
            let event = AgentEvent::own(AgentEventKind::Text {
                text: (*text).to_owned().into(),
                part: *part,
            });
            let kind = EventKind::Agent { turn: TurnId(1), member: "max".into(), event };
            Event { kind, session: SessionId::generate(), at: Millis(0) }
        };
        let events = followed.complete(given.iter().map(told).collect());
        let text = |event: &Event| own_text(&event.kind).map(|(text, part)| (text.into(), part));
        events.iter().filter_map(text).collect()
    }

    #[test]
    fn the_end_of_a_text_that_was_not_stored_in_pieces_is_reported_as_one() {
        use TextPart::{Delta, Whole};
        let owned = |texts: &[(&str, TextPart)]| -> Vec<(String, TextPart)> {
            texts.iter().map(|(text, part)| ((*text).to_owned(), *part)).collect()
        };
        let mut followed = ReportedTurn::default();
        let pieces = [("tick 0\n", Delta), ("tick 1\n", Delta)];
        assert_eq!(texts(&mut followed, &pieces), owned(&pieces));
        let whole = "tick 0\ntick 1\ndone now";
        assert_eq!(
            texts(&mut followed, &[(whole, Whole)]),
            owned(&[("done now", Delta), (whole, Whole)])
        );
        // Nothing is missing of a text that came whole, or in all its pieces.
        assert_eq!(texts(&mut followed, &[("whole", Whole)]), owned(&[("whole", Whole)]));
        let all = [("all", Delta), ("all", Whole)];
        assert_eq!(texts(&mut followed, &all), owned(&all));
    }
}
