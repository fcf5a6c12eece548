//! Limits the text in the events of one turn.

use std::borrow::Cow;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};

use crate::turn_input::Limits;

/// Counts the text of events, and cuts text over the limits.
#[derive(Debug)]
pub(super) struct EventBudget {
    /// The remaining bytes for all events.
    left: usize,
    /// The remaining bytes for deltas, until the whole text arrives.
    deltas: usize,
    /// The maximum size of one text.
    text: usize,
    left_out: u64,
}

impl EventBudget {
    pub fn new(limits: &Limits) -> Self {
        let text = limits.reply_bytes;
        Self { left: limits.event_bytes, deltas: text, text, left_out: 0 }
    }

    /// Returns the number of bytes left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns an event with its text cut to the limits; `None` for a delta over the limit.
    pub fn admit<'e>(&mut self, mut event: AgentEvent<'e>) -> Option<AgentEvent<'e>> {
        match &mut event.kind {
            AgentEventKind::Text { text, part: TextPart::Delta }
            | AgentEventKind::Thinking { text, part: TextPart::Delta } => {
                if text.len() > self.deltas.min(self.left) {
                    self.left_out += text.len() as u64;
                    return None;
                }
                self.deltas -= text.len();
                self.left -= text.len();
            }
            AgentEventKind::Text { text, part: TextPart::Whole }
            | AgentEventKind::Thinking { text, part: TextPart::Whole } => {
                self.deltas = self.text;
                self.shorten(text);
            }
            AgentEventKind::ToolStarted { input, .. } => self.shorten(input),
            AgentEventKind::ToolFinished { output, .. } => self.shorten(output),
            AgentEventKind::Unknown { json, .. } => self.shorten(json),
            AgentEventKind::Retry { reason, .. } => self.shorten(reason),
            AgentEventKind::FileChange { changes } => {
                for change in changes {
                    self.shorten(&mut change.path);
                }
            }
            AgentEventKind::Todo { items } => {
                for item in items {
                    self.shorten(&mut item.text);
                }
            }
            AgentEventKind::Started { .. }
            | AgentEventKind::Request { .. }
            | AgentEventKind::Received(_)
            | AgentEventKind::Usage(_)
            | AgentEventKind::PermissionAsked { .. }
            | AgentEventKind::PermissionAnswered { .. }
            | AgentEventKind::Warning(_)
            | AgentEventKind::Finished { .. } => {}
        }
        Some(event)
    }

    fn shorten(&mut self, text: &mut Cow<'_, str>) {
        let room = self.left.min(self.text);
        if text.len() > room {
            let end = text.floor_char_boundary(room);
            self.left_out += (text.len() - end) as u64;
            match text {
                Cow::Borrowed(text) => *text = &text[..end],
                Cow::Owned(text) => text.truncate(end),
            }
        }
        self.left -= text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, part: TextPart) -> AgentEvent<'static> {
        AgentEvent::own(AgentEventKind::Text { text: text.to_owned().into(), part })
    }

    fn budget(reply_bytes: usize, event_bytes: usize) -> EventBudget {
        EventBudget::new(&Limits { reply_bytes, event_bytes, ..Limits::default() })
    }

    #[test]
    fn deltas_beyond_the_replys_limit_are_counted_and_not_kept() {
        let mut budget = budget(10, 100);
        let kept = (0..1000).filter(|_| budget.admit(text("abc", TextPart::Delta)).is_some());
        assert_eq!(kept.count(), 3);
        assert_eq!(budget.left_out(), 997 * 3);
        let whole = budget.admit(text("0123456789éabc", TextPart::Whole)).unwrap();
        assert_eq!(whole, text("0123456789", TextPart::Whole));
        assert!(budget.admit(text("abc", TextPart::Delta)).is_some(), "another text begins");
    }

    #[test]
    fn all_events_of_a_turn_carry_a_bounded_text() {
        let mut budget = budget(10, 25);
        let output =
            || AgentEventKind::ToolFinished { id: "1".into(), ok: true, output: "éééé".into() };
        let kept: usize = (0..9)
            .filter_map(|_| budget.admit(AgentEvent::own(output())))
            .map(|event| match event.kind {
                AgentEventKind::ToolFinished { output, .. } => output.len(),
                _ => 0,
            })
            .sum();
        assert_eq!((kept, budget.left_out()), (24, 9 * 8 - 24));
    }
}
