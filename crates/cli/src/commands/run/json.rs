//! A run for other programs: one JSON object a line.

use std::io::{self, Write, stdout};
use std::time::Duration;

use convoke_session::SessionId;
use serde::Serialize;

use super::tally::{MemberTally, Tally};
use crate::conversation::Conversation;

/// Writes one line.
pub(super) fn write(event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The last line.
#[derive(Serialize)]
#[serde(tag = "type", rename = "summary", rename_all = "camelCase")]
struct Summary<'a> {
    session: SessionId,
    turns: u64,
    messages: u64,
    elapsed_ms: u128,
    members: &'a [MemberTally],
    diagnostics: Vec<DiagnosticCount>,
}

#[derive(Serialize)]
struct DiagnosticCount {
    code: &'static str,
    count: u64,
}

/// Writes the last line.
pub(super) fn summary(
    tally: &Tally,
    conversation: &Conversation,
    elapsed: Duration,
) -> io::Result<()> {
    let counts = tally.diagnostics.iter();
    let counts =
        counts.map(|(code, tally)| DiagnosticCount { code: code.name(), count: tally.count });
    write(&Summary {
        session: conversation.coordinator.session(),
        turns: tally.turns(),
        messages: tally.messages,
        elapsed_ms: elapsed.as_millis(),
        members: &tally.members,
        diagnostics: counts.collect(),
    })
}
