//! Codex's `exec --json`, from 0.98 on.
//!
//! Items arrive complete, without deltas. Only `turn.completed` and `turn.failed` close the turn; `error` is a
//! notice, usually about a retry. The last message is the reply. Tokens are counted over the whole thread.

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::verdict::Verdict;
use serde::Deserialize;

use super::error::{PendingError, Retry, failure};
use super::item::{self, Counts, Item, Message, Phase};
use convoke_agent::ending::Ending;
use convoke_agent::stream::lenient::{Object, Text};
use convoke_agent::stream::{EventReader, Sink, TurnProgress};
use convoke_agent::turn::TurnResult;

/// Parses the events of one turn.
#[derive(Debug)]
pub struct CodexExec {
    progress: TurnProgress,
    pending_error: PendingError,
}

impl CodexExec {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        Self { progress: TurnProgress::new(reply_limit), pending_error: PendingError::default() }
    }

    /// Sets the number of requests per reported failure.
    #[must_use]
    pub fn counting(mut self, requests: u64) -> Self {
        self.progress.requests_per_notice = requests;
        self
    }

    fn read(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        let progress = &mut self.progress;
        if event.kind.as_str() != "turn.failed" {
            self.pending_error.report(progress, sink);
        }
        let phase = match event.kind.as_str() {
            "item.started" => Phase::Started,
            "item.updated" => Phase::Updated,
            "item.completed" => Phase::Completed,
            "thread.started" => {
                progress.session = event.thread_id.0.as_deref().map(str::to_owned);
                return sink(AgentEvent::own(AgentEventKind::Started {
                    session: event.thread_id.0,
                    model: None,
                }));
            }
            "turn.started" => return,
            "turn.completed" => {
                if let Some(usage) = event.usage.0.as_ref().map(Counts::usage) {
                    progress.usage = Some(usage);
                    sink(AgentEvent::own(AgentEventKind::Usage(usage)));
                }
                progress.reply_nothing_new();
                progress.closing = Some(Verdict::Done);
                return;
            }
            "turn.failed" => {
                let message = event.error.0.unwrap_or_default().message.into_text();
                let verdict = Verdict::Failed(failure(message.into_owned()));
                self.pending_error.ended(&verdict, progress, sink);
                progress.closing = Some(verdict);
                return;
            }
            "error" => {
                let message = event.message.into_text();
                return match Retry::read(&message) {
                    Some(retry) => retry.report(progress, sink),
                    None => self.pending_error.record(message.into_owned(), progress, sink),
                };
            }
            "" => return progress.noise(line),
            other => return progress.unknown(other, line, sink),
        };
        match event.item.0 {
            Some(item) => item::read(item, phase, None, line, progress, sink),
            None => progress.unknown(event.kind.as_str(), line, sink),
        }
    }
}

impl EventReader for CodexExec {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let line = self.progress.json(line);
        match serde_json::from_str::<Line<'_>>(&line) {
            Ok(event) => self.read(event, &line, sink),
            Err(_) => self.progress.unreadable(&line, sink),
        }
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.pending_error.logged(line, sink);
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.pending_error.close(ending, &mut self.progress, sink)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    thread_id: Text<'a>,
    item: Object<Item<'a>>,
    usage: Object<Counts>,
    error: Object<Message<'a>>,
    message: Text<'a>,
}
