//! Compares the prompt that reached the model in a rehearsal with the prompt that was sent.

use convoke_core::Diagnostic;
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_session::{Store, StoreError};
use serde::Serialize;

use crate::conversation::rehearsal_servers::Received;
use crate::diagnostics::own;

/// The texts that reached the model in one turn.
#[derive(Debug)]
pub(in crate::commands) struct Reached {
    pub(super) turn: TurnId,
    member: MemberName,
    received: Received,
    prompt: Arrival,
    /// `None` without a separate system text.
    system: Option<Arrival>,
}

/// The way in which a text arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arrival {
    /// As a separate text, byte for byte.
    Whole,
    /// Byte for byte, within a text of the program.
    Within,
    /// Changed.
    Changed,
}

/// The number of prompts that arrived, and how many of them unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrivals {
    pub(super) arrived: usize,
    pub(super) calls: usize,
}

/// The JSON form.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "reached-model", rename_all = "camelCase")]
pub(super) struct ReachedModel<'a> {
    turn: TurnId,
    member: &'a MemberName,
    prompt: Arrival,
    system: Option<Arrival>,
    request_bytes: u64,
    received_system: &'a [String],
    received_messages: &'a [String],
}

impl Reached {
    /// Wraps the first request of a turn.
    pub(super) fn new(turn: TurnId, member: MemberName, received: Received) -> Self {
        Self { turn, member, received, prompt: Arrival::Changed, system: None }
    }

    /// Compares it with the stored prompt.
    pub(super) async fn compare(
        &mut self,
        store: &impl Store,
        session: SessionId,
    ) -> Result<(), StoreError> {
        let Some(attempt) = store.attempts(session, self.turn).await?.pop() else { return Ok(()) };
        let prompt = store.content(attempt.prompt.hash).await?;
        self.prompt = arrival(&prompt, &self.received.messages);
        if let Some(system) = attempt.system {
            let system = store.content(system.hash).await?;
            self.system = Some(arrival(&system, &self.received.system));
        }
        Ok(())
    }

    /// Returns whether everything arrived unchanged.
    pub(super) fn is_unchanged(&self) -> bool {
        self.prompt != Arrival::Changed && self.system != Some(Arrival::Changed)
    }

    /// Returns a diagnostic for each text that arrived changed.
    pub(super) fn diagnostics(&self) -> Vec<Diagnostic> {
        let texts = [("prompt", Some(self.prompt)), ("system text", self.system)];
        let changed = texts.into_iter().filter(|(_, arrival)| *arrival == Some(Arrival::Changed));
        let diagnostic = |(text, _)| {
            let message = format!(
                "turn {}: {}'s {text} did not reach the model unchanged",
                self.turn, self.member
            );
            Diagnostic::new(own::REHEARSAL_CHANGED, message)
        };
        changed.map(diagnostic).collect()
    }

    /// Returns the JSON form.
    pub(super) fn report(&self) -> ReachedModel<'_> {
        ReachedModel {
            turn: self.turn,
            member: &self.member,
            prompt: self.prompt,
            system: self.system,
            request_bytes: self.received.bytes,
            received_system: &self.received.system,
            received_messages: &self.received.messages,
        }
    }
}

fn arrival(sent: &str, received: &[String]) -> Arrival {
    if received.iter().any(|text| text == sent) {
        Arrival::Whole
    } else if received.iter().any(|text| text.contains(sent)) {
        Arrival::Within
    } else {
        Arrival::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_missing_is_noticed() {
        let received = ["preamble".to_owned(), "the prompt\n".to_owned()];
        for (sent, expected) in [
            ("the prompt\n", Arrival::Whole),
            ("the prompt", Arrival::Within),
            ("the prompt\n\n", Arrival::Changed),
            ("The prompt\n", Arrival::Changed),
        ] {
            assert_eq!(arrival(sent, &received), expected, "{sent:?}");
        }
    }
}
