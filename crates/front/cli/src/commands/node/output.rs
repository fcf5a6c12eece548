//! The output of a node: one line for each turn that begins or ends.

use std::io::{self, Write as _};

use convoke_core::Diagnostic;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::SessionId;
use convoke_session::event_queue::Observer;
use convoke_session::sharing::NodeOffer;
use serde_json::{Value, json};

use crate::terminal::printable;
use crate::terminal::stdout;

/// The output of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeOutput {
    json: bool,
}

impl NodeOutput {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn started(self, name: &str, offer: &NodeOffer) -> io::Result<()> {
        let agents = offer.agents.join(", ");
        let text = format!("node {name} runs turns of {agents}; Ctrl-C stops it");
        self.write(&text, || json!({"type": "node-started", "name": name, "offer": offer}))
    }

    pub(super) fn note(self, text: &str) -> io::Result<()> {
        self.write(text, || json!({"type": "note", "text": text}))
    }

    /// Reports once that the store cannot be reached, and once that it can be reached again.
    pub(super) fn reach(self, is_away: &mut bool, problem: Option<&str>) -> io::Result<()> {
        match problem {
            Some(why) if !std::mem::replace(is_away, true) => {
                let text = format!("cannot reach the store, retrying: {why}");
                self.write(&text, || json!({"type": "trouble", "problem": why}))
            }
            None if std::mem::take(is_away) => self.note("the store can be reached again"),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn failed(self, session: SessionId, why: &str) -> io::Result<()> {
        let text = format!("{}: left to other nodes: {why}", session.short());
        self.write(&text, || json!({"type": "session-left", "session": session, "problem": why}))
    }

    pub(super) fn diagnostics(self, session: SessionId, found: &[Diagnostic]) -> io::Result<()> {
        for diagnostic in found {
            let text = format!("{}: {}", session.short(), diagnostic.message);
            let value =
                || json!({"type": "diagnostic", "session": session, "diagnostic": diagnostic});
            self.write(&text, value)?;
        }
        Ok(())
    }

    fn event(self, event: &Event) -> io::Result<()> {
        let session = event.session.short();
        let text = match &event.kind {
            EventKind::TurnStarted { turn, member, attempt, .. } => {
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                format!("{session}: turn {turn} of {member} began{again}")
            }
            EventKind::TurnEnded { turn, member, result, elapsed, .. } => {
                let seconds = elapsed.as_secs_f64();
                format!("{session}: turn {turn} of {member}: {} ({seconds:.1} s)", result.verdict)
            }
            EventKind::PermissionAsked { turn, member, question, .. } => {
                let (tool, summary) =
                    (&question.tool, question.summary.lines().next().unwrap_or_default());
                format!("{session}: turn {turn} of {member} asks to use {tool}: {summary}")
            }
            EventKind::PermissionAnswered { turn, member, answer, by, .. } => {
                let may = if answer.allows() { "allowed" } else { "refused" };
                format!("{session}: turn {turn} of {member}: {may} ({})", by.as_str())
            }
            EventKind::Diagnostic { diagnostic, .. } => {
                format!("{session}: {}", diagnostic.message)
            }
            _ => return Ok(()),
        };
        self.write(&text, || serde_json::to_value(event).unwrap_or_default())
    }

    fn write(self, text: &str, value: impl FnOnce() -> Value) -> io::Result<()> {
        let mut out = stdout();
        if self.json {
            writeln!(out, "{}", value())?;
        } else {
            writeln!(out, "{}", printable(text))?;
        }
        out.flush()
    }
}

impl Observer for NodeOutput {
    fn observe(&mut self, event: Event) {
        // A node whose output is closed continues its turns.
        let _ = self.event(&event);
    }
}
