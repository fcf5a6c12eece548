//! Sessions of stores and archives that had no log: their rows become events.
//!
//! The order is that of the messages. A turn is queued after the message that it answers, and what its agent did comes before
//! its reply; a turn without a reply is placed by its time.

use std::collections::{BTreeMap, VecDeque};

use convoke_core::marker::TextPolicy;
use convoke_core::{ConversationMessage, Timestamp};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::content::ContentRef;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, State};
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_team::Team;
use serde::Deserialize;
use serde_json::Value;

use crate::routing::route;

/// The rows of a session.
#[derive(Debug)]
pub(crate) struct LegacySession {
    pub(crate) began: NewSession,
    pub(crate) state: State,
    pub(crate) messages: Vec<LegacyMessage>,
    pub(crate) turns: Vec<LegacyTurn>,
}

#[derive(Debug)]
pub(crate) struct LegacyMessage {
    pub(crate) number: MessageNumber,
    pub(crate) answers: Option<MessageNumber>,
    pub(crate) message: ConversationMessage,
}

/// A turn with its attempts.
#[derive(Debug)]
pub(crate) struct LegacyTurn {
    pub(crate) turn: Turn,
    pub(crate) attempts: Vec<LegacyAttempt>,
}

/// An attempt as its row stored it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LegacyAttempt {
    #[serde(flatten)]
    pub(crate) attempt: StoredAttempt,
    /// The events of its agent, one JSON object per line.
    #[serde(skip)]
    pub(crate) lines: String,
}

/// The record of an attempt. Its result also named the events of the agent, which had no place of their own.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredAttempt {
    pub(crate) turn: TurnId,
    pub(crate) number: u32,
    pub(crate) began_at: Millis,
    pub(crate) engine: String,
    pub(crate) prompt: ContentRef,
    pub(crate) system: Option<ContentRef>,
    pub(crate) input: ContentRef,
    pub(crate) ledger: ContentRef,
    pub(crate) diagnostics: Vec<convoke_core::Diagnostic>,
    pub(crate) ended: Option<StoredResult>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StoredResult {
    #[serde(flatten)]
    pub(crate) result: AttemptResult,
    pub(crate) events: Option<ContentRef>,
}

impl StoredResult {
    /// Returns the result of an attempt whose process ended before it.
    pub(crate) fn interrupted(at: Millis) -> Self {
        let failure =
            Failure::new(FailureReason::Incomplete, "Convoke was interrupted during this attempt");
        Self { result: AttemptResult::new(at, Verdict::Failed(failure)), events: None }
    }
}

impl LegacyAttempt {
    /// Returns the contents that the attempt refers to.
    pub(crate) fn contents(&self) -> impl Iterator<Item = ContentRef> {
        let StoredAttempt { prompt, system, input, ledger, ended, .. } = &self.attempt;
        let ended = ended.as_ref();
        let partial = ended.and_then(|ended| ended.result.partial);
        let events = ended.and_then(|ended| ended.events);
        [Some(*prompt), *system, Some(*input), Some(*ledger), partial, events].into_iter().flatten()
    }

    fn started(&self) -> Attempt {
        let StoredAttempt {
            turn,
            number,
            began_at,
            engine,
            prompt,
            system,
            input,
            ledger,
            diagnostics,
            ..
        } = self.attempt.clone();
        let event = EventNumber::default();
        Attempt {
            turn,
            number,
            event,
            began_at,
            engine,
            prompt,
            system,
            input,
            ledger,
            diagnostics,
            ended: None,
        }
    }

    /// Returns the result, also of an attempt whose process ended before it.
    fn result(&self, at: Millis) -> AttemptResult {
        let ended = self.attempt.ended.as_ref().map(|ended| ended.result.clone());
        ended.unwrap_or_else(|| StoredResult::interrupted(at).result)
    }

    fn is_open(&self) -> bool {
        self.attempt.ended.is_none()
    }
}

/// Returns the events of a session after the first, which creates it.
pub(crate) fn events(session: LegacySession) -> Vec<Event> {
    let LegacySession { began, state, messages, turns } = session;
    let team = Team::parse(&began.team).ok();
    let mut log = Log {
        session: began.id,
        team,
        events: Vec::new(),
        replies: BTreeMap::new(),
        queued: BTreeMap::new(),
        unanswered: VecDeque::new(),
    };
    let mut unanswered: Vec<LegacyTurn> = Vec::new();
    for turn in turns {
        log.queued.entry(turn.turn.answers).or_default().push(turn.turn.clone());
        match turn.turn.reply {
            Some(reply) => {
                log.replies.insert(reply, turn);
            }
            None => unanswered.push(turn),
        }
    }
    unanswered.sort_by_key(|turn| (time_of(turn), turn.turn.id));
    log.unanswered = unanswered.into();
    for message in messages {
        log.add_message(message);
    }
    log.add_unanswered(Millis(i64::MAX), None);
    let at = log.events.last().map_or(began.created_at, |event| event.at);
    log.push(at, EventKind::Restored { state });
    log.events
}

/// Returns when a turn without a reply ended, or began.
fn time_of(turn: &LegacyTurn) -> Millis {
    let began = turn.attempts.last().map(|attempt| attempt.attempt.began_at);
    turn.turn.ended_at.or(began).unwrap_or(turn.turn.queued_at)
}

struct Log {
    session: SessionId,
    team: Option<Team>,
    events: Vec<Event>,
    /// The turns by their replies.
    replies: BTreeMap<MessageNumber, LegacyTurn>,
    /// The turns that are not queued yet, by the messages that they answer.
    queued: BTreeMap<MessageNumber, Vec<Turn>>,
    /// The turns without a reply, in the order of their ends.
    unanswered: VecDeque<LegacyTurn>,
}

impl Log {
    fn push(&mut self, at: Millis, kind: EventKind) {
        // The first event creates the session.
        let number = Some(EventNumber(self.events.len() as u64 + 2));
        let session = self.session;
        self.events.push(Event { kind, session, at, number, migrated: true });
    }

    fn add_message(&mut self, message: LegacyMessage) {
        let LegacyMessage { number, answers, message } = message;
        let at = match &message.timestamp {
            Some(Timestamp::Millis(at)) => at.as_i64().map_or(Millis(0), Millis),
            _ => Millis(0),
        };
        self.add_unanswered(at, Some(number));
        let mut replied = self.replies.remove(&number);
        if let Some(turn) = &replied {
            self.queue(turn.turn.id, turn.turn.answers);
            self.add_attempts(turn);
        }
        let speaker = MemberName::new(&*message.speaker.role_id);
        let policy = self.team.as_ref().map_or_else(TextPolicy::default, |team| team.context.text);
        let task = self.team.as_ref().and_then(|team| route(team, &speaker, &message.content).task);
        let mut message = Message::new(number, answers, message, policy);
        if let Some(turn) = &replied {
            message.turn = Some(turn.turn.id);
            message.asker = turn.turn.asker.clone();
        }
        let id = message.id().clone();
        self.push(at, EventKind::Message(Box::new(message)));
        if let Some(task) = task {
            self.push(at, EventKind::Task { task, by: speaker });
        }
        for turn in self.queued.remove(&number).unwrap_or_default() {
            self.push(turn.queued_at, EventKind::queued(&turn));
        }
        if let Some(turn) = &mut replied
            && let Some(attempt) = turn.attempts.last()
        {
            let result = attempt.result(at);
            let StoredAttempt { number, began_at, .. } = attempt.attempt;
            turn.turn.state = TurnState::Done;
            let ended = EventKind::ended(&turn.turn, number, began_at, Some(id), result);
            self.push(turn.turn.ended_at.unwrap_or(at), ended);
        }
    }

    /// Queues a turn, if it is not: the order of turns is that of their ids.
    fn queue(&mut self, turn: TurnId, answers: MessageNumber) {
        let waiting = self.queued.entry(answers).or_default();
        if let Some(index) = waiting.iter().position(|waiting| waiting.id == turn) {
            let turn = waiting.remove(index);
            self.push(turn.queued_at, EventKind::queued(&turn));
        }
    }

    /// Adds the turns without a reply that ended before a message.
    fn add_unanswered(&mut self, before: Millis, message: Option<MessageNumber>) {
        while let Some(next) = self.unanswered.front() {
            let is_queued = message.is_none_or(|message| next.turn.answers < message);
            let is_over =
                message.is_none() || (!next.turn.state.is_open() && time_of(next) < before);
            if !is_queued || !is_over {
                return;
            }
            if let Some(turn) = self.unanswered.pop_front() {
                self.queue(turn.turn.id, turn.turn.answers);
                self.add_attempts(&turn);
                self.end(&turn);
            }
        }
    }

    /// Adds the attempts of a turn, without the end of the last one.
    fn add_attempts(&mut self, turn: &LegacyTurn) {
        for (index, attempt) in turn.attempts.iter().enumerate() {
            let began = attempt.started();
            let at = began.began_at;
            // The number of turns in a row is restored with the state.
            self.push(at, EventKind::started(&turn.turn, &began, 0, 0));
            self.add_agent_events(turn, attempt);
            if index + 1 < turn.attempts.len() {
                self.interrupt(turn, attempt);
            }
        }
    }

    fn interrupt(&mut self, turn: &LegacyTurn, attempt: &LegacyAttempt) {
        let result = Box::new(attempt.result(attempt.attempt.began_at));
        let Turn { id, member, .. } = turn.turn.clone();
        let at = result.at;
        let attempt = attempt.attempt.number;
        // A person retried a turn that had ended; a crash interrupted it.
        let is_crash = matches!(&result.verdict, Verdict::Failed(failure)
            if failure.reason == FailureReason::Incomplete);
        if is_crash {
            self.push(at, EventKind::TurnInterrupted { turn: id, member, attempt, result });
        } else {
            let ended = Turn { state: failed_state(&result.verdict), ..turn.turn.clone() };
            let began_at = turn.attempts[attempt as usize - 1].attempt.began_at;
            self.push(at, EventKind::ended(&ended, attempt, began_at, None, *result));
            self.push(at, EventKind::TurnRetried { turn: id, member });
        }
    }

    /// Ends a turn without a reply, unless it is running: whoever opens the session decides about it. One that was not begun
    /// is dropped, and one whose attempt was interrupted is queued again.
    fn end(&mut self, turn: &LegacyTurn) {
        let at = time_of(turn);
        match (turn.turn.state, turn.attempts.last()) {
            (TurnState::Running, Some(attempt)) if attempt.is_open() => {}
            (TurnState::Queued | TurnState::Running, Some(attempt)) => {
                self.interrupt(turn, attempt);
            }
            (TurnState::Queued | TurnState::Running, None) => {}
            (_, Some(attempt)) => {
                let result = attempt.result(at);
                let StoredAttempt { number, began_at, .. } = attempt.attempt;
                self.push(at, EventKind::ended(&turn.turn, number, began_at, None, result));
            }
            (TurnState::Cancelled, None) => {
                let Turn { id, member, problem, .. } = turn.turn.clone();
                let problem = problem.unwrap_or_default();
                self.push(at, EventKind::TurnDropped { turn: id, member, problem });
            }
            (_, None) => {
                let problem = turn.turn.problem.clone().unwrap_or_default();
                let problem = problem.strip_prefix("failed: ").unwrap_or(&problem).to_owned();
                let failure = Failure::new(FailureReason::Other, problem);
                let result = AttemptResult::new(at, Verdict::Failed(failure));
                self.push(at, EventKind::ended(&turn.turn, 0, at, None, result));
            }
        }
    }

    /// Adds the stored events of an attempt.
    fn add_agent_events(&mut self, turn: &LegacyTurn, attempt: &LegacyAttempt) {
        let StoredAttempt { number, began_at, .. } = attempt.attempt;
        for (at, event) in agent_events(&attempt.lines).filter(|(_, event)| !event.is_piece()) {
            self.push(at.unwrap_or(began_at), EventKind::of_agent(&turn.turn, number, event));
        }
    }
}

/// Returns the stored events of an agent, each with its time. One that cannot be read, because an early version stored fewer
/// fields, is kept as it is.
pub(crate) fn agent_events(
    lines: &str,
) -> impl Iterator<Item = (Option<Millis>, AgentEvent<'static>)> {
    lines.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let at = value["at"].as_i64().map(Millis);
        let name = value["event"]["kind"].as_str().unwrap_or("unreadable").to_owned();
        let unknown = || {
            let (name, json) = (name.into(), line.to_owned().into());
            AgentEvent::own(AgentEventKind::Unknown { name, json })
        };
        (at, AgentEvent::deserialize(value).unwrap_or_else(|_| unknown()))
    })
}

fn failed_state(verdict: &Verdict) -> TurnState {
    match verdict {
        Verdict::Cancelled | Verdict::Withdrawn => TurnState::Cancelled,
        _ => TurnState::Failed,
    }
}
