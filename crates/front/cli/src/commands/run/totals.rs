//! The totals of a run: what the view of its events counts, and whom its messages reached.

use convoke_core::{Code, Diagnostic};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::view::View;
use convoke_session::diagnostics::MARKER_UNRESOLVED;

/// The totals of a run.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) view: View,
    /// The messages of this run.
    pub(super) messages: u64,
    /// Whether the newest message calls no member.
    has_no_recipient: bool,
    /// The names in markers of messages that call no member.
    unknown_calls: u64,
}

impl Totals {
    /// Records an event.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Message(message) => {
                self.messages += 1;
                self.has_no_recipient = message.message.addressees().is_empty();
            }
            EventKind::Diagnostic { diagnostic, .. } => self.remark(diagnostic),
            EventKind::Agent { event, .. } => {
                if let AgentEventKind::Warning(diagnostic) = &event.kind {
                    self.remark(diagnostic);
                }
            }
            _ => {}
        }
        self.view.apply(event);
    }

    /// Counts a marker that names no member. The diagnostics of a message come right after it.
    fn remark(&mut self, diagnostic: &Diagnostic) {
        if diagnostic.code == MARKER_UNRESOLVED
            && matches!(diagnostic.section.as_deref(), None | Some("NEXT"))
            && self.has_no_recipient
        {
            self.unknown_calls += 1;
        }
    }

    /// Returns the code of every diagnostic, duplicates included.
    pub(super) fn given(&self) -> impl Iterator<Item = Code> {
        self.view
            .diagnostics
            .iter()
            .flat_map(|(code, given)| (0..given.count).map(move |_| code.clone()))
    }

    /// Returns the number of attempts of all members.
    pub(super) fn turns(&self) -> u64 {
        self.view.members.iter().map(|member| member.turns).sum()
    }

    /// Returns whether messages were sent but none called a member.
    pub(super) fn has_reached_no_member(&self) -> bool {
        (self.turns() == 0 && self.messages > 0) || self.unknown_calls > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_whose_recipients_are_unknown_reaches_no_member() {
        let mut totals = Totals { has_no_recipient: true, ..Totals::default() };
        totals.remark(&Diagnostic::new(MARKER_UNRESOLVED, "no member has the name `x`"));
        assert!(totals.has_reached_no_member());
    }
}
