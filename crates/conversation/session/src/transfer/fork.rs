//! Copies a session within its store.

use std::collections::BTreeSet;

use convoke_core::Diagnostic;
use convoke_protocol::content::ContentHash;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{
    AttemptRef, EventNumber, MessageNumber, Millis, SessionId, ThreadId, TurnId,
};
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_protocol::session::{NewSession, Rehearsal};

use super::TransferError;
use super::export::name;
use super::pages::Pages;
use crate::diagnostics;
use crate::request::{self, RequestDelta, TextDelta};
use crate::running_text::events_to_end;
use crate::store::{Page, SessionImport, Store, StoreError};

/// Copies a session as it was after one of its messages, or as it is now.
///
/// A copy of the current session includes queued turns; a copy as of an earlier message does not. Models
/// continue with a copy of their threads as of that message, and of the requests of the copied turns. Threads
/// for which this is unknown start empty, and diagnostics name them. The copy is a rehearsal if the session is one, or if
/// `rehearsal` is given. Memory: one page, and eight bytes per turn.
pub async fn fork(
    store: &impl Store,
    session: SessionId,
    after: Option<MessageNumber>,
    id: SessionId,
    at: Millis,
    rehearsal: Option<Rehearsal>,
) -> Result<Vec<Diagnostic>, TransferError> {
    let mut pages = Pages::open(store, session).await?;
    let last = pages.session.state.last_message;
    if let Some(after) = after.filter(|after| after.0 == 0 || *after > last) {
        return Err(TransferError::NoMessage(after));
    }
    let began = pages.session.began.clone();
    let rehearsal = rehearsal.or(began.rehearsal);
    let new = NewSession { id, created_at: at, rehearsal, ..began };
    let mut cut = match after.filter(|after| *after < last) {
        Some(after) => Some(SessionCut::find(&pages.store, session, after).await?),
        None => None,
    };
    let mut copy = store.import(new).await?;
    let mut number = EventNumber(1);
    while let Some(mut page) = pages.next().await? {
        if let Some(cut) = &mut cut {
            cut.apply(&mut page, &pages).await?;
        }
        for event in &mut page.events {
            number = number.next();
            (event.session, event.number) = (id, Some(number));
        }
        copy.write(moved(page, session, id)?).await?;
    }
    copy.finish().await?;
    Ok(cut.map(|cut| cut.diagnostics).unwrap_or_default())
}

/// Replaces the ids in the rows by those of the copy.
fn moved(mut page: Page, from: SessionId, to: SessionId) -> Result<Page, StoreError> {
    let thread = |thread: &ThreadId| {
        ThreadId::with_suffix(to, name(thread, from)).ok_or_else(|| {
            StoreError::Damaged(format!("the id of the thread {thread} is too long"))
        })
    };
    let own: Vec<ContentHash> = page.contents.iter().map(|it| it.reference().hash).collect();
    let used = page.events.iter().flat_map(|event| event.kind.contents()).map(|it| it.hash);
    page.shared = used.filter(|hash| !own.contains(hash)).collect();
    for (of, _) in &mut page.lines {
        *of = thread(of)?;
    }
    for record in &mut page.requests {
        record.thread = thread(&record.thread)?;
        record.attempt = record.attempt.map(|attempt| AttemptRef { session: to, ..attempt });
    }
    Ok(page)
}

/// Leaves out everything after a message.
struct SessionCut {
    last: MessageNumber,
    /// The last event that is copied.
    last_event: EventNumber,
    /// The turns that had ended then, in order.
    turns: Vec<TurnId>,
    thread: Option<CutThread>,
    diagnostics: Vec<Diagnostic>,
}

/// The thread whose requests are being cut.
struct CutThread {
    id: ThreadId,
    /// Whether a request without a turn is kept, like the one before it.
    keeps: bool,
    /// The texts of the previous request.
    before: RequestTexts,
    /// The last kept request, if later ones were left out.
    last: Option<RequestTexts>,
    /// The number of kept requests.
    kept: u64,
}

impl SessionCut {
    /// Finds the last event before the next message, and the turns that had ended then.
    async fn find(
        store: &impl Store,
        session: SessionId,
        last: MessageNumber,
    ) -> Result<Self, StoreError> {
        let mut turns = BTreeSet::new();
        let mut last_event = EventNumber::default();
        let mut is_over = false;
        events_to_end(store, session, EventNumber::default(), |event| {
            is_over |= matches!(&event.kind, EventKind::Message(message) if message.number > last);
            if is_over {
                return;
            }
            last_event = event.number.unwrap_or_default();
            match &event.kind {
                // A person's turn has no other end than the message.
                EventKind::Message(message) => turns.extend(message.turn),
                EventKind::TurnDropped { turn, .. } | EventKind::TurnEnded { turn, .. } => {
                    turns.insert(*turn);
                }
                EventKind::TurnRetried { turn, .. } => {
                    turns.remove(turn);
                }
                _ => {}
            }
        })
        .await?;
        let turns = turns.into_iter().collect();
        Ok(Self { last, last_event, turns, thread: None, diagnostics: Vec::new() })
    }

    async fn apply<S: Store>(
        &mut self,
        page: &mut Page,
        pages: &Pages<S>,
    ) -> Result<(), StoreError> {
        page.events.retain(|event| {
            let is_before = event.number.is_some_and(|number| number <= self.last_event);
            is_before && event.kind.turn().is_none_or(|turn| self.has(turn))
        });
        // Only running attempts have new contents here, and none of them is kept.
        page.contents.clear();
        self.cut_lines(page);
        let mut requests = Vec::new();
        for record in std::mem::take(&mut page.requests) {
            requests.extend(self.cut_request(record, &pages.store).await?);
        }
        page.requests = requests;
        Ok(())
    }

    /// Removes the lines that depend on later messages, or all lines if that is unknown.
    fn cut_lines(&mut self, page: &mut Page) {
        let later = |as_of: Option<MessageNumber>| as_of.is_some_and(|as_of| as_of > self.last);
        let kept = page.lines.iter().position(|(_, line)| later(line.as_of));
        page.lines.truncate(kept.unwrap_or(page.lines.len()));
        // `as_of` never decreases, so the last line decides.
        if let Some((thread, line)) = page.lines.last()
            && line.as_of.is_none()
        {
            let message = format!(
                "the thread `{thread}` starts empty in the copy: an early version stored it without the \
                 message that each line belongs to",
            );
            self.diagnostics.push(Diagnostic::new(diagnostics::THREAD_FORGOTTEN, message));
            page.lines.clear();
        }
    }

    /// Returns a request if its turn is kept, with its number in the copy and as a delta from the previous kept
    /// request.
    async fn cut_request(
        &mut self,
        mut record: RequestRecord<RequestDelta>,
        store: &impl Store,
    ) -> Result<Option<RequestRecord<RequestDelta>>, StoreError> {
        let open = self.thread.take().filter(|thread| thread.id == record.thread);
        let mut thread = if let Some(open) = open {
            open
        } else {
            let requests = store.requests(&record.thread).await?;
            let first = requests.iter().find_map(|request| request.attempt);
            CutThread {
                id: record.thread.clone(),
                keeps: first.is_some_and(|first| self.has(first.turn)),
                before: RequestTexts::default(),
                last: None,
                kept: 0,
            }
        };
        thread.keeps = record.attempt.map_or(thread.keeps, |attempt| self.has(attempt.turn));
        let before = std::mem::take(&mut thread.before);
        if !thread.keeps && thread.last.is_none() {
            thread.last = Some(before.clone());
        }
        let texts = request::apply(&record, before).map_err(|(text, error)| {
            let RequestRecord { thread, number, .. } = &record;
            StoreError::Damaged(format!("the {text} of request {number} of {thread}: {error}"))
        })?;
        let kept = thread.keeps.then(|| {
            thread.kept += 1;
            record.number = thread.kept;
            if let Some(last) = thread.last.take() {
                record.texts = RequestDelta {
                    body: TextDelta::between(&last.body, &texts.body),
                    ledger: TextDelta::between(&last.ledger, &texts.ledger),
                };
            }
            record
        });
        thread.before = texts;
        self.thread = Some(thread);
        Ok(kept)
    }

    fn has(&self, turn: TurnId) -> bool {
        self.turns.binary_search(&turn).is_ok()
    }
}
