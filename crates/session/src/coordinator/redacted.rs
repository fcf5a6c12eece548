//! Taking secrets out of events, before they are shown or stored.

use std::borrow::Cow;

use convoke_agent::Verdict;
use convoke_agent::event::{Event, EventKind};
use convoke_agent::redact::Redactor;

/// Takes the secrets out of every text of an event.
pub(super) fn redact(mut event: Event<'static>, redactor: &Redactor) -> Event<'static> {
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
pub(super) fn redact_verdict(verdict: &mut Verdict, redactor: &Redactor) {
    if let Verdict::Failed(failure) = verdict {
        redact_text(&mut failure.message, redactor);
    }
}

fn clean(text: &mut Cow<'static, str>, redactor: &Redactor) {
    if let Cow::Owned(clean) = redactor.redact(text) {
        *text = Cow::Owned(clean);
    }
}

/// Takes the secrets out of a text.
pub(super) fn redact_text(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(clean) = redactor.redact(text) {
        *text = clean;
    }
}
