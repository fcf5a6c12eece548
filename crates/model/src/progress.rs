//! What a turn has come to so far, and how it is stored.

use convoke_agent::thread::{ThreadAppend, ThreadStore, ThreadStoreError};
use convoke_agent::turn_input::ThreadWriter;
use convoke_agent::usage::Usage;
use convoke_agent::verdict::{Failure, FailureReason};
use convoke_core::Diagnostic;
use convoke_thread::record::{self, Event as ThreadEvent};
use convoke_thread::thread::{LastSituation, Thread};

use crate::log::{self, Found, Log};
use crate::secret::Key;
use crate::wire::FinishReason;

/// What a turn has come to so far.
#[derive(Debug)]
pub(crate) struct Progress {
    pub usage: Option<Usage>,
    pub model: Option<String>,
    pub reply: String,
    /// The last summary that was written.
    pub summary: String,
    pub diagnostics: Vec<Diagnostic>,
    pub lines: Vec<String>,
    told: LastSituation,
    pub stopped: Option<FinishReason>,
    pub compaction: Compactions,
    /// What a caller is to store.
    pub thread_append: Option<ThreadAppend>,
    stored: bool,
}

/// What compactions have done in this turn.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    pub done: usize,
    /// The requests of the one that is under way.
    pub requests: usize,
    /// Why another one would not help.
    pub futile: Option<String>,
    /// What is told of those that were done, once they are stored: a turn that fails undoes them.
    pub untold: Vec<Diagnostic>,
}

impl Progress {
    pub fn new(thread: &Thread<'_>, log: Option<&Log>) -> Self {
        let start = match log {
            Some(_) => Vec::new(),
            None => vec![record::write_start(&thread.record_start())],
        };
        Self {
            usage: None,
            model: None,
            reply: String::new(),
            summary: String::new(),
            diagnostics: Vec::new(),
            lines: start,
            told: log.map(|log| log.told.clone()).unwrap_or_default(),
            stopped: None,
            compaction: Compactions::default(),
            thread_append: None,
            stored: false,
        }
    }

    /// Adds tokens that were used.
    pub fn spend(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.usage = Some(self.usage.unwrap_or_default().and(usage));
    }

    /// Says whether a compaction was tried in this turn.
    pub fn has_compacted(&self) -> bool {
        self.compaction.done > 0 || self.compaction.futile.is_some()
    }

    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Returns why the model's last answer was not whole.
    pub fn stopped(&self) -> Option<Failure> {
        Some(match self.stopped? {
            FinishReason::OutputFull => Failure::new(
                FailureReason::OutputFull,
                "the model stopped at its limit of output tokens",
            ),
            FinishReason::Refused => {
                Failure::new(FailureReason::Refused, "the model's answer was stopped by a filter")
            }
        })
    }

    /// Writes down what happened in the thread since the last time.
    pub fn note(&mut self, thread: &mut Thread<'_>) {
        let mut events = thread.take_events();
        fill_in_compactions(&mut events, thread);
        self.lines.extend(events.iter().map(record::write_event));
    }

    /// Stores the turn, or hands it to whoever keeps it: all of it, or nothing.
    pub async fn store(
        &mut self,
        thread: &mut Thread<'_>,
        found: &Found,
        keeper: &ThreadWriter,
        store: &dyn ThreadStore,
        key: Option<&Key>,
    ) -> Result<(), ThreadStoreError> {
        self.note(thread);
        let told = thread.told();
        if told != self.told {
            self.lines.push(log::told_line(&told));
        }
        let turn = match keeper {
            ThreadWriter::Agent => None,
            ThreadWriter::Caller { turn } => Some(turn.as_str()),
        };
        let mut lines = found.heading(turn, &self.lines);
        lines.append(&mut self.lines);
        if let Some(key) = key {
            for line in &mut lines {
                key.take_out_of(line);
            }
        }
        let append = ThreadAppend { thread: found.id.clone(), known: found.known, lines };
        match keeper {
            ThreadWriter::Agent => store.append_lines(&append).await?,
            ThreadWriter::Caller { .. } => self.thread_append = Some(append),
        }
        self.stored = true;
        Ok(())
    }
}

/// Adds to the note of a compaction the history that it left, so that the thread goes on with these
/// very items and not with ones that are built anew.
fn fill_in_compactions(events: &mut [ThreadEvent], thread: &Thread<'_>) {
    let mut after = 0;
    for event in events.iter_mut().rev() {
        match event {
            ThreadEvent::Item(_) => after += 1,
            ThreadEvent::Compacted { history, .. } if history.is_none() => {
                let entries = thread.history().entries();
                let left = entries.len().saturating_sub(after);
                *history = Some(entries[..left].to_vec());
                // An earlier one of the same batch left what this one has replaced.
                return;
            }
            _ => {}
        }
    }
}
