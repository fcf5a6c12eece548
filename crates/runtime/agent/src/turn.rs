//! One turn of one agent: takes a [`TurnInput`], streams [`AgentEvent`]s, ends with a [`TurnResult`].

use std::collections::VecDeque;
use std::sync::Arc;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::id::ThreadId;
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use crate::approvals::Answerer;
use crate::diagnostics;
use crate::redaction::redact_verdict;
use crate::turn_input::TurnInput;

/// The maximum number of queued events. Beyond it, the agent waits for the reader.
const EVENT_QUEUE: usize = 256;
/// The maximum number of queued answers. A running turn reads them immediately, even if no question is open.
const ANSWER_QUEUE: usize = 256;

/// An agent: takes one turn at a time.
pub trait Agent: Send + Sync {
    /// Returns how a later turn can continue the agent's own session.
    fn continuity(&self) -> Continuity {
        Continuity::None
    }

    /// Returns whether the program of a member rests in a state of its session.
    fn holds(&self, _thread: &ThreadId, _handle: &ResumeHandle) -> bool {
        false
    }

    /// Starts a turn. Must be called on a tokio runtime. Never fails: a turn that cannot start ends
    /// immediately, with the reason in its result.
    fn start(&self, turn_input: TurnInput) -> AgentTurn;
}

/// How a later turn can continue an agent's own session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Continuity {
    /// Not at all: every turn is a session of its own.
    None,
    /// While its program runs: a later process would not find the session as it was.
    Alive,
    /// As it is now, also in a later process.
    Resumed,
    /// As it was after any turn.
    Rewound,
    /// Convoke keeps the session itself, as it was after the last turn that arrived.
    Own,
}

/// A running turn. Dropping it cancels it.
#[derive(Debug)]
pub struct AgentTurn {
    events: mpsc::Receiver<AgentEvent<'static>>,
    result: oneshot::Receiver<TurnResult>,
    canceller: Canceller,
    answerer: Answerer,
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    pub verdict: Verdict,
    /// The agent's reply; the partial reply if the turn did not complete.
    pub reply: String,
    /// The tokens of this turn; `None` if the agent did not count them.
    pub usage: Option<Usage>,
    /// The cost in US dollars; `None` if the agent did not report it.
    pub cost_usd: Option<f64>,
    /// The model; `None` if the agent did not name it.
    pub model: Option<String>,
    /// The handle with which a later turn resumes the agent's session; `None` if that is impossible.
    pub resume: Option<ResumeHandle>,
    /// Diagnostics of the turn.
    pub diagnostics: Vec<Diagnostic>,
    /// Lines for the member's thread. A caller that writes threads stores them together with the turn's end.
    pub thread_append: Option<ThreadAppend>,
}

impl TurnResult {
    /// Creates a result with a verdict only.
    pub fn new(verdict: Verdict) -> Self {
        Self {
            verdict,
            reply: String::new(),
            usage: None,
            cost_usd: None,
            model: None,
            resume: None,
            diagnostics: Vec::new(),
            thread_append: None,
        }
    }

    /// Creates the result of a turn that failed before the agent wrote anything.
    pub fn failed(failure: Failure) -> Self {
        Self::new(Verdict::Failed(failure))
    }
}

/// Cancels a turn, from any task.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    /// Cancels the turn. Events continue until the agent has ended.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl AgentTurn {
    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<AgentEvent<'static>> {
        self.events.recv().await
    }

    /// Returns a handle that cancels this turn.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Returns a handle that answers the questions of this turn.
    pub fn answerer(&self) -> Answerer {
        self.answerer.clone()
    }

    /// Waits for the end of the turn and returns its result. Discards events that were not read.
    pub async fn result(mut self) -> TurnResult {
        while self.events.recv().await.is_some() {}
        let lost = || {
            let message = "the turn ended without a result: its task panicked or was aborted";
            Failure::new(FailureReason::Incomplete, message)
        };
        self.result.await.unwrap_or_else(|_| TurnResult::failed(lost()))
    }

    /// Creates a turn, and the side that runs it.
    pub fn open(redactor: Redactor) -> (Self, TurnSide) {
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let (result_sender, result) = oneshot::channel();
        let (cancel, cancelled) = watch::channel(false);
        let (answers_sender, answers) = mpsc::channel(ANSWER_QUEUE);
        let (canceller, answerer) = (Canceller(Arc::new(cancel)), Answerer(answers_sender));
        let turn = Self { events, result, canceller, answerer };
        let answers = Mutex::new(answers);
        let side =
            TurnSide { events: event_sender, result: result_sender, cancelled, answers, redactor };
        (turn, side)
    }
}

/// The side of a turn that runs it.
#[derive(Debug)]
pub struct TurnSide {
    events: mpsc::Sender<AgentEvent<'static>>,
    result: oneshot::Sender<TurnResult>,
    cancelled: watch::Receiver<bool>,
    answers: Mutex<mpsc::Receiver<(String, PermissionAnswer)>>,
    redactor: Redactor,
}

impl TurnSide {
    /// Waits until the turn is cancelled, or dropped together with all its cancellers.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        tokio::select! {
            // An error means that every canceller is gone, and the turn too.
            _ = cancelled.wait_for(|&cancelled| cancelled) => {}
            () = self.events.closed() => {}
        }
    }

    /// Returns whether the turn is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits for an answer to a question; forever if no answerer is left.
    pub async fn answer(&self) -> (String, PermissionAnswer) {
        match self.answers.lock().await.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// Waits until the queue has room for an event, or the turn was dropped.
    pub(crate) async fn has_room(&self) {
        let _ = self.events.reserve().await;
    }

    /// Sends as many events as the queue has room for. Discards them if the turn was dropped.
    pub(crate) fn send_waiting(&self, waiting: &mut VecDeque<AgentEvent<'static>>) {
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

    /// Sends an event, waiting for room in the queue.
    pub async fn send(&self, event: AgentEvent<'static>) {
        let _ = self.events.send(event).await;
    }

    /// Sends a warning.
    pub async fn warn(&self, diagnostic: Diagnostic) {
        self.send(AgentEvent::own(AgentEventKind::Warning(diagnostic))).await;
    }

    /// Sets the redactor, before the first event is sent.
    pub(crate) fn set_redactor(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Returns the redactor of the turn's texts.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Ends the turn: sends its last event, then its result. Secrets are removed from the failure's message,
    /// and an empty reply is reported.
    pub async fn finish(self, mut result: TurnResult) {
        if result.verdict == Verdict::Done && result.reply.trim().is_empty() {
            let message = "the agent ended its turn without a reply";
            let empty = Diagnostic::new(diagnostics::AGENT_REPLY_EMPTY, message);
            self.warn(empty.clone()).await;
            result.diagnostics.push(empty);
        }
        redact_verdict(&mut result.verdict, &self.redactor);
        let verdict = result.verdict.clone();
        self.send(AgentEvent::own(AgentEventKind::Finished { verdict })).await;
        // Fails only if the turn was dropped, in which case the result is not read.
        let _ = self.result.send(result);
    }
}
