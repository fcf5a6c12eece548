//! A running turn.

use std::time::Duration;

use convoke_core::ledger::estimate_tokens;
use convoke_protocol::agent_event::{
    AgentEvent, AgentEventKind, Received, RequestPurpose, TextPart,
};
use convoke_protocol::id::{MemberName, TurnId};
use convoke_protocol::usage::Usage;

use crate::text::{Flow, printable, printable_line};

/// A running turn.
#[derive(Debug, Clone)]
pub(crate) struct RunningTurn {
    pub(crate) turn: TurnId,
    pub(crate) member: MemberName,
    /// The start time, on the clock of the screen.
    pub(crate) began: Duration,
    /// The number of events.
    pub(crate) events: u64,
    /// The current activity.
    pub(crate) activity: String,
    /// The estimated tokens that were sent.
    sent: u64,
    usage: Option<Usage>,
    /// The requests that the model received, if they are recorded.
    pub(crate) received: Option<Received>,
    reply: Flow,
    /// The size of the confirmed part of the reply; the rest is streamed text.
    certain: usize,
    written: u64,
}

impl RunningTurn {
    /// Creates a turn.
    pub(crate) fn new(
        turn: TurnId,
        member: MemberName,
        began: Duration,
        sent: u64,
        width: usize,
    ) -> Self {
        Self {
            turn,
            member,
            began,
            events: 0,
            activity: "starting".to_owned(),
            sent,
            usage: None,
            received: None,
            reply: Flow::new(width),
            certain: 0,
            written: 0,
        }
    }

    /// Returns the reply so far.
    pub(crate) fn lines(&self) -> &[String] {
        if self.reply.text().is_empty() { &[] } else { self.reply.lines() }
    }

    /// Returns the reply so far, as text.
    pub(crate) fn text(&self) -> &str {
        self.reply.text()
    }

    /// Wraps the reply for a new width.
    pub(crate) fn resize(&mut self, width: usize) {
        self.reply.resize(width);
    }

    /// Formats the token counts, estimated or counted.
    pub(crate) fn tokens(&self) -> String {
        let grouped = convoke_core::figures::thousands;
        if let Some(usage) = self.usage {
            return format!("{} in, {} out", grouped(usage.input), grouped(usage.output));
        }
        let out = estimate_tokens(self.written);
        format!("~{} in, ~{} out", grouped(self.sent), grouped(out))
    }

    /// Applies an event of the agent.
    pub(crate) fn observe(&mut self, event: &AgentEvent<'_>) {
        self.events += 1;
        let is_own = event.sub_agent.is_none();
        match &event.kind {
            AgentEventKind::Text { text, part: TextPart::Delta } if is_own => {
                "writing".clone_into(&mut self.activity);
                self.written += text.len() as u64;
                if self.certain > 0 && self.reply.text().len() == self.certain {
                    self.reply.push("\n\n");
                }
                self.reply.push(&printable(text));
            }
            AgentEventKind::Text { text, part: TextPart::Whole } if is_own => {
                self.settle(&printable(text));
            }
            AgentEventKind::Text { .. } => "sub-agent writing".clone_into(&mut self.activity),
            AgentEventKind::Thinking { .. } => "thinking".clone_into(&mut self.activity),
            AgentEventKind::ToolStarted { name, input, .. } => {
                let name = if name.is_empty() { "a tool" } else { name };
                self.activity = format!("using {} {}", printable_line(name), brief(input));
            }
            AgentEventKind::ToolFinished { ok: false, output, .. } => {
                self.activity = format!("tool failed: {}", brief(output));
            }
            AgentEventKind::FileChange { changes } => {
                let paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
                self.activity = format!("changed {}", brief(&paths.join(", ")));
            }
            AgentEventKind::Request { purpose: RequestPurpose::Compaction, .. } => {
                "compacting its thread".clone_into(&mut self.activity);
            }
            AgentEventKind::Received(received) => self.received = Some(received.clone()),
            AgentEventKind::Usage(usage) => self.usage = Some(*usage),
            AgentEventKind::Retry { reason, .. } => {
                self.activity = format!("retrying: {}", brief(reason));
            }
            _ => {}
        }
    }

    /// Replaces streamed text by the complete text.
    fn settle(&mut self, whole: &str) {
        let text = self.reply.text();
        // Only the end of a long reply is kept.
        let certain = text.get(..self.certain).unwrap_or_default();
        let space = if certain.is_empty() { "" } else { "\n\n" };
        let settled = format!("{certain}{space}{whole}");
        if settled != text {
            self.written = self.written.max(settled.len() as u64);
            self.reply.replace(settled);
        }
        self.certain = self.reply.text().len();
    }
}

/// Returns the beginning of a text as one line.
fn brief(text: &str) -> String {
    printable_line(&text[..text.floor_char_boundary(200)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn text(text: &'static str, part: TextPart) -> AgentEvent<'static> {
        AgentEvent::own(AgentEventKind::Text { text: Cow::Borrowed(text), part })
    }

    #[test]
    fn a_whole_text_replaces_the_pieces_that_ran_ahead_of_it() {
        let mut work = RunningTurn::new(TurnId(1), "ada".into(), Duration::ZERO, 12, 40);
        work.observe(&text("One ", TextPart::Delta));
        work.observe(&text("tow.", TextPart::Delta));
        assert_eq!(work.text(), "One tow.");
        work.observe(&text("One two.", TextPart::Whole));
        work.observe(&text("Three\u{1b}[2J", TextPart::Delta));
        assert_eq!(work.lines(), ["One two.", "", "Three␛[2J"]);
    }
}
