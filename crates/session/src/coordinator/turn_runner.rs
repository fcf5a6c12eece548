//! Runs one turn of one agent to its end, even if the agent does not exit on its own.

use std::collections::BTreeSet;
use std::time::Duration;

use convoke_agent::redaction::EventRedactor;
use convoke_agent::{AgentTurn, TurnResult};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::id::TurnId;
use convoke_protocol::verdict::Verdict;
use convoke_redact::Redactor;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::controls::StopRequest;
use super::team_agents::Clock;
use crate::progress::EventLog;

/// The time and size after which events of a running turn are stored. Every batch is a disk write, which most
/// turns do not need.
const STORE_AFTER: Duration = Duration::from_secs(1);
const STORE_BYTES: usize = 64 << 10;
/// The time after its limit in which an agent must end: enough to ask its program to stop, interrupt it and
/// kill it.
const GRACE: Duration = Duration::from_mins(1);

/// Runs one turn and reports its events.
pub(super) struct TurnRunner {
    pub(super) turn: TurnId,
    pub(super) agent_turn: AgentTurn,
    pub(super) timeout: Duration,
    pub(super) stop_requests: watch::Receiver<StopRequest>,
    pub(super) redactor: Redactor,
    pub(super) clock: Clock,
    pub(super) reports: mpsc::Sender<(TurnId, TurnReport)>,
}

/// The open questions of an agent. The time limit of the turn is suspended while there are any.
#[derive(Default)]
struct OpenQuestions {
    questions: BTreeSet<String>,
    since: Option<Instant>,
}

impl OpenQuestions {
    fn is_asked(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Records an event. Returns how long the agent waited, when the last open question is answered.
    fn note(&mut self, event: &AgentEvent<'static>) -> Duration {
        match &event.kind {
            AgentEventKind::PermissionAsked { question, .. } => {
                self.questions.insert(question.id.clone());
                self.since.get_or_insert_with(Instant::now);
            }
            AgentEventKind::PermissionAnswered { id, .. } => {
                self.questions.remove(id);
            }
            _ => {}
        }
        let is_over = self.questions.is_empty();
        self.since.take_if(|_| is_over).map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A report on a running turn.
pub(super) enum TurnReport {
    /// An event of the agent.
    Event(AgentEvent<'static>),
    /// Events to store in case the turn never ends: see [`crate::progress::Progress`].
    Batch(String),
}

impl TurnRunner {
    /// Reports the agent's events until it ends, a person leaves, or its time is over. Returns the result and the events.
    pub(super) async fn run(mut self) -> (TurnResult, EventLog) {
        let began = Instant::now();
        let mut deadline = began + self.timeout.saturating_add(GRACE);
        let mut waiting = OpenQuestions::default();
        let mut log = EventLog::default();
        let mut redaction = EventRedactor::new(self.redactor.clone());
        let mut store_at = began + STORE_AFTER;
        let canceller = self.agent_turn.canceller();
        let mut heard = StopRequest::None;
        let given_up = loop {
            let event = tokio::select! {
                biased;
                request = self.stop_requests.wait_for(|request| *request > heard) => {
                    canceller.cancel();
                    // An error means that the coordinator was dropped.
                    heard = request.map_or(StopRequest::Leave, |request| *request);
                    if heard == StopRequest::Leave {
                        break Some(Verdict::Cancelled);
                    }
                    continue;
                }
                () = sleep_until(deadline), if !waiting.is_asked() => {
                    canceller.cancel();
                    break Some(Verdict::TimedOut);
                }
                () = sleep_until(store_at), if log.unstored() > 0 => None,
                event = self.agent_turn.next() => match event {
                    Some(event) => Some(event),
                    None => break None,
                },
            };
            let events = match event {
                Some(event) => redaction.take(event).await,
                None => Vec::new(),
            };
            for event in events {
                if matches!(
                    event.kind,
                    AgentEventKind::PermissionAsked { .. }
                        | AgentEventKind::PermissionAnswered { .. }
                ) {
                    // A process on another machine that can answer reads the question from the store.
                    store_at = Instant::now();
                }
                deadline += waiting.note(&event);
                log.add(&event, (self.clock)());
                self.report(TurnReport::Event(event)).await;
            }
            if log.unstored() >= STORE_BYTES || Instant::now() >= store_at {
                store_at = Instant::now() + STORE_AFTER;
                if log.unstored() > 0 {
                    self.report(TurnReport::Batch(log.next_batch())).await;
                }
            }
        };
        for event in redaction.finish() {
            log.add(&event, (self.clock)());
            self.report(TurnReport::Event(event)).await;
        }
        let result = if let Some(verdict) = given_up {
            log.result(verdict)
        } else {
            tokio::select! {
                result = self.agent_turn.result() => result,
                () = sleep_until(deadline) => log.result(Verdict::TimedOut),
            }
        };
        (result, log)
    }

    async fn report(&self, report: TurnReport) {
        // Sending fails only if the coordinator is dropped.
        let _ = self.reports.send((self.turn, report)).await;
    }
}
