//! Driving one turn of one agent to its end, whatever the agent does.

use std::time::Duration;

use convoke_agent::event::Event;
use convoke_agent::redaction::EventRedactor;
use convoke_agent::{AgentTurn, TurnResult, Verdict};
use convoke_core::Diagnostic;
use convoke_redact::Redactor;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::controls::StopRequest;
use crate::id::TurnId;
use crate::progress::EventLog;

/// How long what an agent does may wait until it is stored, and how many bytes of it: every batch is
/// written to the disk, and most turns should need none.
const STORE_AFTER: Duration = Duration::from_secs(1);
const STORE_BYTES: usize = 64 << 10;
/// How much longer than its time an agent is waited for, when it ends by itself: longer than it takes to
/// ask its program to stop, to interrupt it and to end it.
const PATIENCE: Duration = Duration::from_mins(1);

/// What came of a turn.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) outcome: TurnResult,
    /// One JSON object a line.
    pub(super) events: String,
    /// What there is to say about what was stored of it.
    pub(super) remarks: Vec<Diagnostic>,
    pub(super) elapsed: Duration,
}

impl Driven {
    /// Creates what comes of a turn of which nothing was seen.
    pub(super) fn nothing(outcome: TurnResult) -> Self {
        Self { outcome, events: String::new(), remarks: Vec::new(), elapsed: Duration::ZERO }
    }
}

/// What one turn is driven with.
pub(super) struct Drive {
    pub(super) turn: TurnId,
    pub(super) agent_turn: AgentTurn,
    pub(super) timeout: Duration,
    pub(super) wish: watch::Receiver<StopRequest>,
    pub(super) redactor: Redactor,
    pub(super) reports: mpsc::Sender<(TurnId, Report)>,
}

/// What is heard of a turn that is under way.
pub(super) enum Report {
    /// The agent did something.
    Event(Event<'static>),
    /// This is to be stored, should the turn never end: see [`crate::progress::Progress`].
    Batch(String),
}

impl Drive {
    /// Hands on the agent's events until it ends, or until nobody wants to wait any longer.
    pub(super) async fn run(mut self) -> Driven {
        let began = Instant::now();
        let deadline = began + self.timeout.saturating_add(PATIENCE);
        let mut log = EventLog::default();
        let mut redaction = EventRedactor::new(self.redactor.clone());
        let mut store_at = began + STORE_AFTER;
        let canceller = self.agent_turn.canceller();
        let mut heard = StopRequest::GoOn;
        let given_up = loop {
            let event = tokio::select! {
                biased;
                wish = self.wish.wait_for(|wish| *wish > heard) => {
                    canceller.cancel();
                    // An error says that the coordinator is gone.
                    heard = wish.map_or(StopRequest::Leave, |wish| *wish);
                    if heard == StopRequest::Leave {
                        break Some(Verdict::Cancelled);
                    }
                    continue;
                }
                () = sleep_until(deadline) => {
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
                log.add(&event);
                self.report(Report::Event(event)).await;
            }
            if log.unstored() >= STORE_BYTES || Instant::now() >= store_at {
                store_at = Instant::now() + STORE_AFTER;
                if log.unstored() > 0 {
                    self.report(Report::Batch(log.next_batch())).await;
                }
            }
        };
        for event in redaction.finish() {
            log.add(&event);
            self.report(Report::Event(event)).await;
        }
        let outcome = if let Some(verdict) = given_up {
            log.outcome(verdict)
        } else {
            tokio::select! {
                outcome = self.agent_turn.result() => outcome,
                () = sleep_until(deadline) => log.outcome(Verdict::TimedOut),
            }
        };
        let (events, cut) = log.finish();
        Driven { outcome, events, remarks: cut.into_iter().collect(), elapsed: began.elapsed() }
    }

    async fn report(&self, report: Report) {
        // The coordinator only stops listening when it is dropped.
        let _ = self.reports.send((self.turn, report)).await;
    }
}
