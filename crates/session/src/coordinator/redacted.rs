//! Taking secrets out of events, before they are shown or stored.

use std::borrow::Cow;

use crate::diagnostics;
use convoke_agent::event::{Event, EventKind, Part};
use convoke_agent::redact::{Redactor, StreamRedactor};
use convoke_agent::{TurnResult, Verdict};
use convoke_core::Diagnostic;

/// Takes the secrets out of the events of one turn. A secret may be cut over several pieces of a text, so
/// that what could be its beginning waits for the next one.
pub(super) struct Redaction {
    redactor: Redactor,
    /// The texts of which pieces have come.
    texts: Vec<(Origin, StreamRedactor)>,
}

/// Whose text it is, and which one: the pieces of each come one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    sub_agent: Option<Cow<'static, str>>,
    kind: TextKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    IncomingMessage,
    Thought,
}

impl Origin {
    fn of(event: &Event<'static>) -> Option<(Self, Part)> {
        let (kind, part) = match &event.kind {
            EventKind::Text { part, .. } => (TextKind::IncomingMessage, *part),
            EventKind::Thinking { part, .. } => (TextKind::Thought, *part),
            _ => return None,
        };
        Some((Self { sub_agent: event.sub_agent.clone(), kind }, part))
    }

    /// Makes an event of what was held back of a text.
    fn rest(self, mut pieces: StreamRedactor) -> Option<Event<'static>> {
        let text = Some(pieces.finish()).filter(|text| !text.is_empty())?;
        let (text, part) = (Cow::Owned(text), Part::Delta);
        let kind = match self.kind {
            TextKind::IncomingMessage => EventKind::Text { text, part },
            TextKind::Thought => EventKind::Thinking { text, part },
        };
        Some(Event { sub_agent: self.sub_agent, kind })
    }
}

impl Redaction {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, texts: Vec::new() }
    }

    /// Takes in an event, and returns those that can be shown and stored now.
    pub(super) fn take(&mut self, mut event: Event<'static>) -> Vec<Event<'static>> {
        let Some((origin, part)) = Origin::of(&event) else {
            return vec![redact(event, &self.redactor)];
        };
        let at = self.texts.iter().position(|(known, _)| *known == origin);
        if part == Part::Whole {
            let rest = at.map(|at| self.texts.swap_remove(at));
            let rest = rest.and_then(|(origin, pieces)| origin.rest(pieces));
            return rest.into_iter().chain([redact(event, &self.redactor)]).collect();
        }
        let at = at.unwrap_or_else(|| {
            self.texts.push((origin, self.redactor.pieces()));
            self.texts.len() - 1
        });
        let (EventKind::Text { text, .. } | EventKind::Thinking { text, .. }) = &mut event.kind
        else {
            return Vec::new();
        };
        match self.texts[at].1.push(text) {
            Cow::Borrowed(all) if all.len() == text.len() => {}
            shown => *text = Cow::Owned(shown.into_owned()),
        }
        if text.is_empty() { Vec::new() } else { vec![event] }
    }

    /// Returns what was held back of texts whose end never came.
    pub(super) fn finish(&mut self) -> Vec<Event<'static>> {
        let texts = std::mem::take(&mut self.texts).into_iter();
        texts.filter_map(|(origin, pieces)| origin.rest(pieces)).collect()
    }
}

/// Takes the secrets out of every text of an event.
fn redact(mut event: Event<'static>, redactor: &Redactor) -> Event<'static> {
    match &mut event.kind {
        EventKind::Text { text, .. }
        | EventKind::Thinking { text, .. }
        | EventKind::ToolStarted { input: text, .. }
        | EventKind::ToolFinished { output: text, .. }
        | EventKind::Retry { reason: text, .. }
        | EventKind::Unknown { json: text, .. } => clean(text, redactor),
        EventKind::FileChange { changes } => {
            for change in changes {
                clean(&mut change.path, redactor);
            }
        }
        EventKind::Todo { items } => {
            for item in items {
                clean(&mut item.text, redactor);
            }
        }
        EventKind::Warning(diagnostic) => redact_text(&mut diagnostic.message, redactor),
        EventKind::Finished { verdict } => redact_verdict(verdict, redactor),
        EventKind::Started { .. } | EventKind::Request { .. } | EventKind::Usage(_) => {}
    }
    event
}

/// Takes the secrets out of what a failure says.
fn redact_verdict(verdict: &mut Verdict, redactor: &Redactor) {
    if let Verdict::Failed(failure) = verdict {
        redact_text(&mut failure.message, redactor);
    }
}

fn clean(text: &mut Cow<'static, str>, redactor: &Redactor) {
    if let Cow::Owned(clean) = redactor.redact(text) {
        *text = Cow::Owned(clean);
    }
}

/// Removes secrets from every text of a result; the diagnostic reports those of the reply.
pub(super) fn redact_result(result: &mut TurnResult, redactor: &Redactor) -> Option<Diagnostic> {
    redact_verdict(&mut result.verdict, redactor);
    for diagnostic in &mut result.diagnostics {
        redact_text(&mut diagnostic.message, redactor);
    }
    let places = redactor.redact_in_place(&mut result.reply);
    (places > 0).then(|| {
        let places_in = if places == 1 { "one place" } else { "several places" };
        let message = format!("what looks like a secret was taken out of the reply in {places_in}");
        Diagnostic::new(diagnostics::REPLY_REDACTED, message).with_count(places)
    })
}

/// Takes the secrets out of a text.
fn redact_text(text: &mut String, redactor: &Redactor) {
    redactor.redact_in_place(text);
}
