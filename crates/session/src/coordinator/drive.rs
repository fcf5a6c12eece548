//! Driving one turn of one agent to its end, whatever the agent does.

use std::time::Duration;

use convoke_agent::event::{Event, EventKind, Part};
use convoke_agent::redact::Redactor;
use convoke_agent::{Outcome, Turn as AgentTurn, Verdict};
use convoke_core::{Code, Diagnostic};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::controls::Wish;
use super::redacted::redact;
use crate::id::TurnId;

/// The bytes of a turn's events that are stored.
const MOST_EVENT_BYTES: usize = 16 << 20;
/// How much longer than its time an agent is waited for, when it ends by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of a turn.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) outcome: Outcome,
    /// One JSON object a line.
    pub(super) events: String,
    pub(super) elapsed: Duration,
}

impl Driven {
    /// Creates what comes of a turn of which nothing was seen.
    pub(super) fn nothing(outcome: Outcome) -> Self {
        Self { outcome, events: String::new(), elapsed: Duration::ZERO }
    }
}

/// What one turn is driven with.
pub(super) struct Drive {
    pub(super) turn: TurnId,
    pub(super) agent_turn: AgentTurn,
    pub(super) timeout: Duration,
    pub(super) wish: watch::Receiver<Wish>,
    pub(super) redactor: Redactor,
    pub(super) events: mpsc::Sender<(TurnId, Event<'static>)>,
}

impl Drive {
    /// Hands on the agent's events until it ends, or until nobody wants to wait any longer.
    pub(super) async fn run(mut self) -> Driven {
        let began = Instant::now();
        let deadline = began + self.timeout.saturating_add(PATIENCE);
        let mut log = EventLog::default();
        let canceller = self.agent_turn.canceller();
        let mut heard = Wish::GoOn;
        let given_up = loop {
            let event = tokio::select! {
                biased;
                wish = self.wish.wait_for(|wish| *wish > heard) => {
                    canceller.cancel();
                    // An error says that the coordinator is gone.
                    heard = wish.map_or(Wish::Leave, |wish| *wish);
                    if heard == Wish::Leave {
                        break Some(Verdict::Cancelled);
                    }
                    continue;
                }
                () = sleep_until(deadline) => {
                    canceller.cancel();
                    break Some(Verdict::TimedOut);
                }
                event = self.agent_turn.next() => event,
            };
            let Some(event) = event else { break None };
            let event = redact(event, &self.redactor);
            log.add(&event);
            // The coordinator only stops listening when it is dropped.
            let _ = self.events.send((self.turn, event)).await;
        };
        let mut outcome = if let Some(verdict) = given_up {
            log.outcome(verdict)
        } else {
            tokio::select! {
                outcome = self.agent_turn.outcome() => outcome,
                () = sleep_until(deadline) => log.outcome(Verdict::TimedOut),
            }
        };
        let (events, cut) = log.finish();
        outcome.diagnostics.extend(cut);
        Driven { outcome, events, elapsed: began.elapsed() }
    }
}

/// The events of a turn, for storing, and the text that there is so far.
#[derive(Debug, Default)]
struct EventLog {
    lines: String,
    left_out: u64,
    said: String,
    /// Pieces of a text that is not whole yet.
    pieces: String,
}

impl EventLog {
    fn add(&mut self, event: &Event<'static>) {
        if event.sub_agent.is_none()
            && let EventKind::Text { text, part } = &event.kind
        {
            match part {
                Part::Delta => self.pieces.push_str(text),
                Part::Whole => {
                    self.pieces.clear();
                    if !self.said.is_empty() {
                        self.said.push_str("\n\n");
                    }
                    self.said.push_str(text);
                }
            }
        }
        let is_piece = matches!(
            event.kind,
            EventKind::Text { part: Part::Delta, .. }
                | EventKind::Thinking { part: Part::Delta, .. }
        );
        if is_piece {
            return;
        }
        match serde_json::to_string(event) {
            Ok(line) if self.lines.len() + line.len() < MOST_EVENT_BYTES => {
                self.lines.push_str(&line);
                self.lines.push('\n');
            }
            _ => self.left_out += 1,
        }
    }

    /// Makes an outcome of what was seen of a turn that nobody waits for any longer.
    fn outcome(&self, verdict: Verdict) -> Outcome {
        let mut reply = self.said.clone();
        if !reply.is_empty() && !self.pieces.is_empty() {
            reply.push_str("\n\n");
        }
        reply.push_str(&self.pieces);
        Outcome {
            verdict,
            reply,
            usage: None,
            cost_usd: None,
            model: None,
            resume: None,
            diagnostics: Vec::new(),
            memory: None,
        }
    }

    fn finish(self) -> (String, Option<Diagnostic>) {
        let cut = (self.left_out > 0).then(|| {
            let message = format!("{} events of the turn were not stored", self.left_out);
            Diagnostic::new(Code::EventsTruncated, message).with_count(self.left_out)
        });
        (self.lines, cut)
    }
}
