//! The JSON output of a run: one object per line.

use std::io::{self, Write};
use std::time::Duration;

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::SessionId;
use convoke_protocol::session::Rehearsal;
use convoke_protocol::view::MemberFigures;
use serde::Serialize;

use super::totals::Totals;
use crate::conversation::Conversation;
use crate::terminal::stdout;

/// Writes one line.
pub(super) fn write(event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = stdout();
    out.write_all(&line)?;
    out.flush()
}

/// Writes an event. The first one says whether the run is a rehearsal.
pub(super) fn event(event: &Event, rehearsal: Option<Rehearsal>) -> io::Result<()> {
    if !matches!(event.kind, EventKind::Opened { .. }) {
        return write(event);
    }
    let mut opened = serde_json::to_value(event)?;
    opened["rehearsal"] = serde_json::to_value(rehearsal)?;
    write(&opened)
}

/// The last line.
#[derive(Serialize)]
#[serde(tag = "type", rename = "summary", rename_all = "camelCase")]
struct Summary<'a> {
    session: SessionId,
    /// The kind of rehearsal; null for a real run.
    rehearsal: Option<Rehearsal>,
    turns: u64,
    messages: u64,
    #[serde(rename = "elapsedMs", with = "convoke_protocol::milliseconds")]
    elapsed: Duration,
    members: &'a [MemberFigures],
    diagnostics: Vec<DiagnosticCount<'a>>,
}

#[derive(Serialize)]
struct DiagnosticCount<'a> {
    code: &'a str,
    count: u64,
}

/// Writes the last line.
pub(super) fn summary(
    totals: &Totals,
    conversation: &Conversation,
    elapsed: Duration,
) -> io::Result<()> {
    let counts = totals.view.diagnostics.iter();
    let counts =
        counts.map(|(code, given)| DiagnosticCount { code: code.name(), count: given.count });
    write(&Summary {
        session: conversation.coordinator.session(),
        rehearsal: conversation.backend.rehearsal(),
        turns: totals.turns(),
        messages: totals.messages,
        elapsed,
        members: &totals.view.members,
        diagnostics: counts.collect(),
    })
}
