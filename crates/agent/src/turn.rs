//! One turn of one agent: a delivery goes in, events come out, then the outcome.

use std::collections::VecDeque;
use std::sync::Arc;

use convoke_core::Diagnostic;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::event::{Event, EventKind};
use crate::redact::Redactor;
use crate::thread::ThreadAppend;
use crate::turn_input::{ResumeHandle, TurnInput};
use crate::usage::Usage;
use crate::verdict::{Failure, Reason, Verdict};

/// Something that can take a turn.
pub trait Agent: Send + Sync {
    /// Begins a turn. Must be called on a tokio runtime. It never fails: what cannot begin ends at once,
    /// with an outcome that says why.
    fn start(&self, turn_input: TurnInput) -> Turn;
}

/// A turn that is under way. Dropping it cancels it.
#[derive(Debug)]
pub struct Turn {
    events: mpsc::Receiver<Event<'static>>,
    outcome: oneshot::Receiver<Outcome>,
    canceller: Canceller,
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// The agent's reply; what there is of it when the turn was not done.
    pub reply: String,
    /// The tokens of this turn, when the agent counted them.
    pub usage: Option<Usage>,
    /// The money, when the agent counted it, in US dollars.
    pub cost_usd: Option<f64>,
    /// The model, when the agent named it.
    pub model: Option<String>,
    /// What a later turn can go on with.
    pub resume: Option<ResumeHandle>,
    /// What a user should know.
    pub diagnostics: Vec<Diagnostic>,
    /// What a caller that keeps the agent's memory has to store with the end of the turn.
    pub memory: Option<ThreadAppend>,
}

impl Outcome {
    /// Creates the outcome of a turn that failed before the agent could say anything.
    pub fn failed(failure: Failure) -> Self {
        Self {
            verdict: Verdict::Failed(failure),
            reply: String::new(),
            usage: None,
            cost_usd: None,
            model: None,
            resume: None,
            diagnostics: Vec::new(),
            memory: None,
        }
    }
}

/// Cancels a turn, from anywhere.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    /// Cancels the turn. The events go on until the agent has ended.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Turn {
    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Event<'static>> {
        self.events.recv().await
    }

    /// Returns what cancels this turn.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Waits for the end and returns the outcome; events that were not read are passed over.
    pub async fn outcome(mut self) -> Outcome {
        while self.events.recv().await.is_some() {}
        let lost = || Failure::new(Reason::Incomplete, "the turn was dropped by its runtime");
        self.outcome.await.unwrap_or_else(|_| Outcome::failed(lost()))
    }

    /// Creates a turn and the side that carries it out.
    pub fn open(redactor: Redactor) -> (Self, TurnSide, oneshot::Sender<Outcome>) {
        let (event_sender, events) = mpsc::channel(256);
        let (outcome_sender, outcome) = oneshot::channel();
        let (cancel, cancelled) = watch::channel(false);
        let turn = Self { events, outcome, canceller: Canceller(Arc::new(cancel)) };
        let side = TurnSide { events: event_sender, cancelled, redactor };
        (turn, side, outcome_sender)
    }
}

/// The side of a turn that carries it out.
#[derive(Debug)]
pub struct TurnSide {
    events: mpsc::Sender<Event<'static>>,
    cancelled: watch::Receiver<bool>,
    redactor: Redactor,
}

impl TurnSide {
    /// Returns when the turn is to end early: cancelled, or dropped with all that could cancel it.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        tokio::select! {
            // An error says that every canceller is gone, and the turn with them.
            _ = cancelled.wait_for(|&cancelled| cancelled) => {}
            () = self.events.closed() => {}
        }
    }

    /// Returns when there is room for an event, or nobody who would read it.
    pub(crate) async fn has_room(&self) {
        let _ = self.events.reserve().await;
    }

    /// Hands on as many events as there is room for. When nobody reads, they are dropped.
    pub(crate) fn hand_on(&self, waiting: &mut VecDeque<Event<'static>>) {
        while !waiting.is_empty() {
            match self.events.try_reserve() {
                Ok(permit) => {
                    if let Some(event) = waiting.pop_front() {
                        permit.send(event);
                    }
                }
                Err(TrySendError::Full(())) => return,
                Err(TrySendError::Closed(())) => waiting.clear(),
            }
        }
    }

    /// Hands on an event, if anybody reads.
    pub async fn send(&self, event: Event<'static>) {
        let _ = self.events.send(event).await;
    }

    /// Hands on a warning, if anybody reads.
    pub async fn warn(&self, diagnostic: Diagnostic) {
        self.send(Event::own(EventKind::Warning(diagnostic))).await;
    }

    /// Returns what takes secrets out of texts.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}
