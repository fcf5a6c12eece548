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
use crate::running_text::RunningText;

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
    pub(super) reports: mpsc::Sender<(TurnId, AgentEvent<'static>)>,
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

impl TurnRunner {
    /// Reports the agent's events until it ends, a person leaves, or its time is over. Returns the result.
    pub(super) async fn run(mut self) -> TurnResult {
        let mut deadline = Instant::now() + self.timeout.saturating_add(GRACE);
        let mut waiting = OpenQuestions::default();
        let mut text = RunningText::default();
        let mut redaction = EventRedactor::new(self.redactor.clone());
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
                event = self.agent_turn.next() => match event {
                    Some(event) => event,
                    None => break None,
                },
            };
            for event in redaction.take(event).await {
                deadline += waiting.note(&event);
                text.add(&event);
                self.report(event).await;
            }
        };
        for event in redaction.finish() {
            text.add(&event);
            self.report(event).await;
        }
        if let Some(verdict) = given_up {
            return text.into_result(verdict);
        }
        tokio::select! {
            result = self.agent_turn.result() => result,
            () = sleep_until(deadline) => text.into_result(Verdict::TimedOut),
        }
    }

    async fn report(&self, event: AgentEvent<'static>) {
        // Sending fails only if the coordinator is dropped.
        let _ = self.reports.send((self.turn, event)).await;
    }
}
