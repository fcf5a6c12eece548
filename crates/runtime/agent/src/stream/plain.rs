//! The output of any command that writes text: the output is the reply.
//!
//! There is no closing event, so the exit code decides the verdict.

use std::borrow::Cow;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::verdict::Verdict;

use super::{EventReader, Sink, TurnPhase, TurnProgress, explain_ending};
use crate::ending::{Ending, Exit};
use crate::turn::TurnResult;

/// Collects the text of one turn.
#[derive(Debug)]
pub struct Plain {
    progress: TurnProgress,
    text: String,
    limit: usize,
}

impl Plain {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        Self { progress: TurnProgress::new(reply_limit), text: String::new(), limit: reply_limit }
    }

    fn add(&mut self, line: &str, sink: &mut Sink<'_>) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let text = [line, "\n"].concat();
        self.progress.say(&text);
        if self.text.len() + text.len() <= self.limit {
            self.text.push_str(&text);
        }
        sink(AgentEvent::own(AgentEventKind::Text {
            text: Cow::Owned(text),
            part: TextPart::Delta,
        }));
    }
}

impl EventReader for Plain {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let line = self.progress.text(line);
        self.add(&line, sink);
    }

    fn is_text(&self) -> bool {
        true
    }

    fn phase(&self) -> TurnPhase {
        TurnPhase::Running
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        let whole = self.text.trim_end_matches('\n').to_owned();
        if !whole.is_empty() {
            sink(AgentEvent::own(AgentEventKind::Text {
                text: Cow::Borrowed(&whole),
                part: TextPart::Whole,
            }));
        }
        if ending.exit == Exit::Code(0) && ending.stop.is_none() {
            self.progress.closing = Some(Verdict::Done);
        }
        let mut account = self.progress.close(ending, explain_ending, sink);
        account.reply.truncate(account.reply.trim_end_matches('\n').len());
        account
    }
}
