//! The text of an attempt that has not ended.

use std::fmt::Write as _;

use convoke_agent::TurnResult;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::content::Content;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use convoke_protocol::permission::PermissionQuestion;
use convoke_protocol::question::QuestionId;
use convoke_protocol::turn::{Attempt, AttemptResult};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde::Serialize;

use crate::attempt::attempt_result;
use crate::store::{Store, StoreError};

/// The maximum size of a running turn's texts: several times the limit of a reply.
const MAX_BYTES: usize = 32 << 20;
/// The number of events that are read at once.
const PAGE: usize = 256;

/// The text that an agent has written so far: whole texts, and the pieces of an incomplete one.
#[derive(Debug, Default)]
pub(crate) struct RunningText {
    said: String,
    pieces: String,
}

impl RunningText {
    /// Adds an event of the agent.
    pub(crate) fn add(&mut self, event: &AgentEvent<'_>) {
        if let (AgentEventKind::Text { text, part }, None) = (&event.kind, &event.sub_agent) {
            self.add_text(text, *part);
        }
    }

    fn add_text(&mut self, text: &str, part: TextPart) {
        match part {
            TextPart::Delta => {
                let room = MAX_BYTES.saturating_sub(self.said.len() + self.pieces.len());
                self.pieces.push_str(&text[..text.floor_char_boundary(room)]);
            }
            TextPart::Whole => {
                self.pieces.clear();
                add_paragraph(&mut self.said, text);
            }
        }
    }

    /// Returns the text as the reply of a turn that is abandoned.
    pub(crate) fn into_reply(mut self) -> String {
        add_paragraph(&mut self.said, &self.pieces);
        self.said
    }

    /// Returns the pieces of the text that is not complete.
    pub(crate) fn into_pieces(self) -> String {
        self.pieces
    }

    /// Returns the result of an abandoned turn.
    pub(crate) fn into_result(self, verdict: Verdict) -> TurnResult {
        TurnResult { reply: self.into_reply(), ..TurnResult::new(verdict) }
    }
}

/// Adds as much of a text as fits, as a paragraph.
fn add_paragraph(to: &mut String, text: &str) {
    let room = MAX_BYTES.saturating_sub(to.len());
    let text = &text[..text.floor_char_boundary(room)];
    if !to.is_empty() && !text.is_empty() {
        to.push_str("\n\n");
    }
    to.push_str(text);
}

/// The progress of an attempt: its text and its other events.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttemptProgress {
    /// The reply so far.
    pub reply: String,
    /// The events of the agent, one JSON object per line.
    pub events: String,
}

impl AttemptProgress {
    /// Reads the progress of an attempt from the log. O(events since its start).
    pub async fn read(
        store: &impl Store,
        session: SessionId,
        attempt: &Attempt,
    ) -> Result<Self, StoreError> {
        let mut text = RunningText::default();
        let mut events = String::new();
        let mut after = attempt.event;
        'log: loop {
            let page = store.events(session, after, PAGE).await?;
            let Some(last) = page.last().and_then(|event| event.number) else { break };
            after = last;
            for event in page.iter().filter(|event| event.kind.turn() == Some(attempt.turn)) {
                match &event.kind {
                    EventKind::TurnEnded { .. } | EventKind::TurnInterrupted { .. } => break 'log,
                    kind => {
                        if let Some((whole, part)) = kind.own_text() {
                            text.add_text(whole, part);
                        }
                        add_line(&mut events, event);
                    }
                }
            }
        }
        if attempt.ended.is_none() {
            let pieces = store.pieces(session, attempt.turn, attempt.number).await?;
            text.add_text(&pieces, TextPart::Delta);
        }
        Ok(Self { reply: text.into_reply(), events })
    }
}

/// Returns the unanswered questions of a running attempt, as events.
pub async fn open_questions(
    store: &impl Store,
    session: SessionId,
    attempt: &Attempt,
) -> Result<Vec<EventKind>, StoreError> {
    let mut open: Vec<EventKind> = Vec::new();
    events_to_end(store, session, attempt.event, |event| {
        match event.kind {
        EventKind::PermissionAsked { turn, .. } if turn == attempt.turn => open.push(event.kind),
        EventKind::PermissionAnswered { id, .. } => open.retain(|kind| {
            !matches!(kind, EventKind::PermissionAsked { question, .. } if question.id == id)
        }),
        _ => {}
    }
    })
    .await?;
    Ok(open)
}

/// An event of an agent with its time, for inspection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TimedEvent<'e> {
    at: Millis,
    #[serde(flatten)]
    event: &'e AgentEvent<'e>,
}

fn add_line(lines: &mut String, Event { kind, at, .. }: &Event) {
    let asked;
    let event = match kind {
        EventKind::Agent { event, .. } => event,
        EventKind::PermissionAsked { question, expires_at, .. } => {
            let question = PermissionQuestion { id: own_id(&question.id), ..question.clone() };
            let expires_at = *expires_at;
            asked = AgentEvent::own(AgentEventKind::PermissionAsked { question, expires_at });
            &asked
        }
        EventKind::PermissionAnswered { id, answer, by, .. } => {
            let (id, answer, by) = (own_id(id), *answer, *by);
            asked = AgentEvent::own(AgentEventKind::PermissionAnswered { id, answer, by });
            &asked
        }
        _ => return,
    };
    // Serializing strings and numbers cannot fail.
    let line = serde_json::to_string(&TimedEvent { at: *at, event }).unwrap_or_default();
    let _ = writeln!(lines, "{line}");
}

/// Returns the agent's own id of a question.
fn own_id(id: &str) -> String {
    QuestionId::parse(id).map_or_else(|| id.to_owned(), |question| question.id)
}

/// Returns the result of an attempt that was interrupted by a crash. The texts are added to `contents`.
pub(crate) async fn interrupted_result(
    store: &impl Store,
    session: SessionId,
    attempt: &Attempt,
    at: Millis,
    contents: &mut Vec<Content>,
) -> Result<AttemptResult, StoreError> {
    let AttemptProgress { reply, .. } = AttemptProgress::read(store, session, attempt).await?;
    let failure =
        Failure::new(FailureReason::Incomplete, "Convoke was interrupted during this attempt");
    let result = TurnResult { reply, ..TurnResult::failed(failure) };
    Ok(attempt_result(at, result, contents))
}

/// Returns the events after one, page by page, to the end of the log.
pub(crate) async fn events_to_end(
    store: &impl Store,
    session: SessionId,
    mut after: EventNumber,
    mut each: impl FnMut(Event),
) -> Result<EventNumber, StoreError> {
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last().and_then(|event| event.number) else { return Ok(after) };
        after = last;
        page.into_iter().for_each(&mut each);
    }
}
