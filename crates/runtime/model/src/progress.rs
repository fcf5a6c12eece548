//! The progress of a turn, and how it is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_agent::thread::{ThreadStore, ThreadStoreError};
use convoke_agent::turn_input::ThreadWriter;
use convoke_core::Diagnostic;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_redact::Redactor;
use convoke_thread::record::{self, Event as ThreadEvent};
use convoke_thread::thread::{LastSituation, Thread};

use crate::redacted;
use crate::stored_thread::{self, LoadedThread, Log};
use crate::wire::FinishReason;

/// The progress of a turn.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub usage: Option<Usage>,
    pub model: Option<String>,
    pub reply: String,
    /// The last summary.
    pub summary: String,
    pub diagnostics: Vec<Diagnostic>,
    pub lines: Vec<String>,
    last_situation: LastSituation,
    pub stopped: Option<FinishReason>,
    pub compaction: Compactions,
    /// The event of a request that may not be sent yet.
    pub unreported: Option<AgentEventKind<'static>>,
    /// Whether any byte of that request has been sent, as far as its call knows.
    pub leaving: Arc<AtomicBool>,
    /// Whether a request of this turn was sent.
    pub was_sent: bool,
    /// The lines for the caller to store.
    pub thread_append: Option<ThreadAppend>,
    stored: bool,
}

/// The compactions of this turn.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    pub done: usize,
    /// The number of requests of the running compaction.
    pub requests: usize,
    /// The reason why another compaction would not help.
    pub futile: Option<String>,
    /// Diagnostics to report once the turn is stored, because a failed turn undoes its compactions.
    pub unreported: Vec<Diagnostic>,
}

impl Progress {
    pub fn new(thread: &Thread<'_>, log: Option<&Log>) -> Self {
        let start = match log {
            Some(_) => Vec::new(),
            None => vec![record::write_start(&thread.record_start())],
        };
        Self {
            lines: start,
            last_situation: log.map(|log| log.last_situation.clone()).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Returns the event of a request that was being sent when the turn was stopped, if any byte of it was
    /// sent.
    pub fn take_stopped_request(&mut self) -> Option<AgentEventKind<'static>> {
        let request = self.unreported.take()?;
        let has_left = self.leaving.load(Ordering::Relaxed);
        self.was_sent |= has_left;
        has_left.then_some(request)
    }

    /// Adds token counts.
    pub fn spend(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.usage = Some(self.usage.unwrap_or_default().and(usage));
    }

    /// Returns whether a compaction was tried in this turn.
    pub fn has_compacted(&self) -> bool {
        self.compaction.done > 0 || self.compaction.futile.is_some()
    }

    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Returns the failure of an incomplete last response.
    pub fn stopped(&self) -> Option<Failure> {
        Some(match self.stopped? {
            FinishReason::OutputFull => Failure::new(
                FailureReason::OutputFull,
                "the model reached its limit of output tokens",
            ),
            FinishReason::Refused => {
                Failure::new(FailureReason::Refused, "the model refused, or a filter stopped it")
            }
        })
    }

    /// Records the events of the thread since the last call.
    pub fn note(&mut self, thread: &mut Thread<'_>) {
        let mut events = thread.take_events();
        fill_in_compactions(&mut events, thread);
        self.lines.extend(events.iter().map(record::write_event));
    }

    /// Stores the turn atomically, or prepares its lines for the caller.
    pub async fn store(
        &mut self,
        thread: &mut Thread<'_>,
        found: &LoadedThread,
        thread_writer: &ThreadWriter,
        store: &dyn ThreadStore,
        redactor: &Redactor,
    ) -> Result<(), ThreadStoreError> {
        self.note(thread);
        let situation = thread.last_situation();
        if situation != self.last_situation {
            self.lines.push(stored_thread::situation_line(&situation));
        }
        let turn = match thread_writer {
            ThreadWriter::Agent => None,
            ThreadWriter::Caller { turn } => Some(turn.as_str()),
        };
        let mut lines = found.heading(turn, &self.lines);
        lines.append(&mut self.lines);
        for line in &mut lines {
            redacted::text(redactor, line);
        }
        let append = ThreadAppend { thread: found.id.clone(), known: found.known, lines };
        match thread_writer {
            ThreadWriter::Agent => store.append_lines(&append).await?,
            ThreadWriter::Caller { .. } => self.thread_append = Some(append),
        }
        self.stored = true;
        Ok(())
    }
}

/// Adds the remaining history to a compaction event, so that the thread continues with exactly these items.
fn fill_in_compactions(events: &mut [ThreadEvent], thread: &Thread<'_>) {
    let mut after = 0;
    for event in events.iter_mut().rev() {
        match event {
            ThreadEvent::Item(_) => after += 1,
            ThreadEvent::Compacted { history, .. } if history.is_none() => {
                let entries = thread.history().entries();
                let left = entries.len().saturating_sub(after);
                *history = Some(entries[..left].to_vec());
                // Only the last compaction of a batch corresponds to the current history.
                return;
            }
            _ => {}
        }
    }
}
