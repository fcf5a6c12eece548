//! The stored progress of a running attempt.
//!
//! A turn may run for half an hour. While it runs, its events are stored in batches, so that a crash loses at
//! most the last batch. The result of the attempt replaces the batches.

use std::borrow::Cow;

use convoke_agent::TurnResult;
use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::content::Content;
use convoke_protocol::id::{Millis, SessionId, TurnId};
use convoke_protocol::turn::Attempt;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::attempt::attempt_result;
use crate::diagnostics;
use crate::store::{Store, StoreError};

/// The maximum size of a turn's stored events.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// The maximum size of a running turn's texts: several times the limit of a reply.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// The maximum size of a running turn's stored deltas. Whole texts replace them, so the limit matters only after a
/// crash in the middle of a text.
const MAX_DELTA_BYTES: usize = 32 << 20;

/// A batch of events of a running attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The turn.
    pub turn: TurnId,
    /// The attempt.
    pub attempt: u32,
    /// The events since the previous batch, one JSON object per line; the deltas of an incomplete text are one
    /// event.
    pub events: String,
}

/// An event as it is stored: with its time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredEvent<'e> {
    at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_agent: Option<&'e str>,
    event: &'e AgentEventKind<'e>,
}

impl<'e> StoredEvent<'e> {
    fn new(event: &'e AgentEvent<'e>, at: Millis) -> Self {
        Self { at, sub_agent: event.sub_agent.as_deref(), event: &event.kind }
    }
}

/// The events of a running turn and its text so far.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    lines: String,
    left_out: u64,
    said: String,
    /// The deltas of an incomplete text.
    pieces: String,
    /// The lines that are not in a batch yet. Whole texts are included even beyond the limit of events, because
    /// they replace stored deltas.
    unstored_lines: String,
    /// The size of the current text's deltas in earlier batches.
    stored_pieces: usize,
    /// The size of all deltas in earlier batches.
    stored_deltas: usize,
}

impl EventLog {
    /// Adds an event and its time.
    pub(crate) fn add(&mut self, event: &AgentEvent<'static>, at: Millis) {
        let mut is_said = false;
        if event.sub_agent.is_none()
            && let AgentEventKind::Text { text, part } = &event.kind
        {
            match part {
                TextPart::Delta => {
                    let room = MAX_TEXT_BYTES.saturating_sub(self.said.len() + self.pieces.len());
                    self.pieces.push_str(&text[..text.floor_char_boundary(room)]);
                }
                TextPart::Whole => {
                    self.pieces.clear();
                    self.stored_pieces = 0;
                    is_said = add_paragraph(&mut self.said, text);
                }
            }
        }
        let is_piece = matches!(
            event.kind,
            AgentEventKind::Text { part: TextPart::Delta, .. }
                | AgentEventKind::Thinking { part: TextPart::Delta, .. }
        );
        if is_piece {
            return;
        }
        // Serializing strings and numbers cannot fail.
        let line = serde_json::to_string(&StoredEvent::new(event, at)).unwrap_or_default();
        let is_kept = keep_line(&mut self.lines, &line);
        if is_kept || is_said {
            self.unstored_lines.push_str(&line);
            self.unstored_lines.push('\n');
        }
        self.left_out += u64::from(!is_kept);
    }

    /// Returns the size of the next batch.
    pub(crate) fn unstored(&self) -> usize {
        self.unstored_lines.len() + self.unstored_pieces().len()
    }

    fn unstored_pieces(&self) -> &str {
        let pieces = &self.pieces[self.stored_pieces..];
        let room = MAX_DELTA_BYTES.saturating_sub(self.stored_deltas);
        &pieces[..pieces.floor_char_boundary(room)]
    }

    /// Takes the next batch.
    pub(crate) fn next_batch(&mut self) -> String {
        let mut batch = std::mem::take(&mut self.unstored_lines);
        let pieces = self.unstored_pieces();
        let bytes = pieces.len();
        if !pieces.is_empty() {
            let kind = AgentEventKind::Text { text: Cow::Borrowed(pieces), part: TextPart::Delta };
            batch.push_str(&serde_json::to_string(&AgentEvent::own(kind)).unwrap_or_default());
            batch.push('\n');
        }
        self.stored_pieces += bytes;
        self.stored_deltas += bytes;
        batch
    }

    /// Returns the result of an abandoned turn, from its events so far.
    pub(crate) fn result(&self, verdict: Verdict) -> TurnResult {
        let mut reply = self.said.clone();
        add_paragraph(&mut reply, &self.pieces);
        TurnResult { reply, ..TurnResult::new(verdict) }
    }

    /// Returns the events, and a diagnostic if some were left out.
    pub(crate) fn finish(self) -> (String, Option<Diagnostic>) {
        let cut = (self.left_out > 0).then(|| {
            let message = format!("{} events of the turn were not stored", self.left_out);
            Diagnostic::new(diagnostics::EVENTS_TRUNCATED, message).with_count(self.left_out)
        });
        (self.lines, cut)
    }
}

/// The progress of an interrupted attempt.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttemptProgress {
    /// The partial reply.
    pub reply: String,
    /// The events, one JSON object per line, without deltas of whole texts.
    pub events: String,
}

impl AttemptProgress {
    /// Parses the batches of an attempt.
    pub fn read(batches: &str) -> Self {
        let mut so_far = Self::default();
        let mut pieces = String::new();
        for line in batches.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            let kind = &event["event"];
            let text = kind["text"].as_str().filter(|_| kind["kind"] == "text");
            if let Some(text) = text.filter(|_| event["subAgent"].is_null()) {
                if kind["part"] == "delta" {
                    pieces.push_str(text);
                    continue;
                }
                pieces.clear();
                add_paragraph(&mut so_far.reply, text);
            }
            keep_line(&mut so_far.events, line);
        }
        add_paragraph(&mut so_far.reply, &pieces);
        so_far
    }
}

/// Ends an attempt that was interrupted by a crash, using its stored events. The texts are added to `contents`.
/// An attempt that has ended is not changed.
pub(crate) async fn interrupt(
    store: &impl Store,
    session: SessionId,
    attempt: &mut Attempt,
    at: Millis,
    contents: &mut Vec<Content>,
) -> Result<(), StoreError> {
    if attempt.ended.is_some() {
        return Ok(());
    }
    let batches = store.progress(session, attempt.turn, attempt.number).await?;
    let AttemptProgress { reply, events } = AttemptProgress::read(&batches);
    let failure =
        Failure::new(FailureReason::Incomplete, "Convoke was interrupted during this attempt");
    let result = TurnResult { reply, ..TurnResult::failed(failure) };
    attempt.ended = Some(attempt_result(at, result, &events, contents));
    Ok(())
}

/// Adds a line if it fits. Returns whether it was added.
fn keep_line(lines: &mut String, line: &str) -> bool {
    let has_room = lines.len() + line.len() < MAX_EVENT_BYTES;
    if has_room {
        lines.push_str(line);
        lines.push('\n');
    }
    has_room
}

/// Adds as much of a text as fits, as a paragraph. Returns whether any was added.
fn add_paragraph(to: &mut String, text: &str) -> bool {
    let room = MAX_TEXT_BYTES.saturating_sub(to.len());
    let text = &text[..text.floor_char_boundary(room)];
    if !to.is_empty() && !text.is_empty() {
        to.push_str("\n\n");
    }
    to.push_str(text);
    room > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Millis = Millis(7);

    fn text(text: &'static str, part: TextPart) -> AgentEvent<'static> {
        AgentEvent::own(AgentEventKind::Text { text: text.into(), part })
    }

    fn tool() -> AgentEvent<'static> {
        AgentEvent::own(AgentEventKind::ToolStarted {
            id: "1".into(),
            name: "sh".into(),
            input: "{}".into(),
        })
    }

    #[test]
    fn batches_hold_what_a_log_holds_however_they_are_cut() {
        let of_sub_agent =
            AgentEvent { sub_agent: Some("call".into()), ..text("not mine", TextPart::Whole) };
        let events = [
            text("one ", TextPart::Delta),
            text("two", TextPart::Delta),
            text("one two", TextPart::Whole),
            tool(),
            of_sub_agent,
            text("thr", TextPart::Delta),
            text("ee", TextPart::Delta),
        ];
        for pattern in 0..1_u32 << events.len() {
            let mut log = EventLog::default();
            let mut batches = String::new();
            for (index, event) in events.iter().enumerate() {
                log.add(event, AT);
                if pattern >> index & 1 == 1 {
                    batches += &log.next_batch();
                    assert_eq!(log.unstored(), 0);
                }
            }
            batches += &log.next_batch();
            let said = log.result(Verdict::Cancelled).reply;
            let (events, _) = log.finish();
            assert_eq!(
                AttemptProgress::read(&batches),
                AttemptProgress { reply: said, events },
                "{pattern:b}"
            );
        }
        assert_eq!(AttemptProgress::read(""), AttemptProgress::default());
    }

    #[test]
    fn an_event_is_stored_with_its_time() {
        let mut log = EventLog::default();
        log.add(&tool(), Millis(1_700_000_000_123));
        let of_sub_agent = AgentEvent { sub_agent: Some("call".into()), ..tool() };
        log.add(&of_sub_agent, Millis(1_700_000_000_456));
        let (events, _) = log.finish();
        let kind = r#""event":{"kind":"toolStarted","id":"1","name":"sh","input":"{}"}"#;
        let lines = [
            format!("{{\"at\":1700000000123,{kind}}}\n"),
            format!("{{\"at\":1700000000456,\"subAgent\":\"call\",{kind}}}\n"),
        ];
        assert_eq!(events, lines.concat());
    }

    #[test]
    fn what_is_kept_and_stored_of_a_turn_follows_the_limit_and_not_the_stream() {
        let delta = AgentEvent::own(AgentEventKind::Text {
            text: "é".repeat(1 << 20).into(),
            part: TextPart::Delta,
        });
        let whole = AgentEvent::own(AgentEventKind::Text {
            text: "é".repeat(4 << 20).into(),
            part: TextPart::Whole,
        });
        let mut log = EventLog::default();
        let (mut stored, mut kept) = (0, 0);
        for round in 0..160 {
            log.add(&delta, AT);
            stored += log.next_batch().len();
            kept = kept.max(log.said.len() + log.pieces.len() + log.lines.len());
            if round % 4 == 3 {
                log.add(&whole, AT);
                stored += log.next_batch().len();
            }
        }
        assert!(kept <= MAX_TEXT_BYTES + MAX_EVENT_BYTES, "{kept}");
        let limit = MAX_DELTA_BYTES + MAX_TEXT_BYTES + MAX_EVENT_BYTES + (1 << 20);
        assert!(stored <= limit, "{stored}");
        assert!(log.result(Verdict::Cancelled).reply.len() <= MAX_TEXT_BYTES + 2);
    }

    #[test]
    fn a_text_whose_event_has_no_room_is_in_the_batches_once_and_whole() {
        let long = |letter: &str, part| {
            AgentEvent::own(AgentEventKind::Text { text: letter.repeat(6 << 20).into(), part })
        };
        let mut log = EventLog::default();
        let mut batches = String::new();
        for letter in ["a", "b", "c"] {
            log.add(&long(letter, TextPart::Delta), AT);
            batches += &log.next_batch();
            log.add(&long(letter, TextPart::Whole), AT);
            log.add(&tool(), AT);
            batches += &log.next_batch();
        }
        let said = log.result(Verdict::Cancelled).reply;
        assert_eq!(said.len(), 3 * (6 << 20) + 4);
        let (events, cut) = log.finish();
        assert_eq!(cut.unwrap().count, Some(1));
        let so_far = AttemptProgress::read(&batches);
        assert!(so_far == AttemptProgress { reply: said, events }, "they differ");
    }
}
