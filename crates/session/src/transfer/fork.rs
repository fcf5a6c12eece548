//! Copies a session within its store.

use convoke_core::marker::{TextPolicy, scan};
use convoke_core::{Diagnostic, SpeakerType};
use convoke_protocol::id::{
    AttemptRef, MemberName, MessageNumber, Millis, SessionId, ThreadId, TurnId,
};
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_protocol::session::{NewSession, NumberedMessage, State};
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use convoke_team::Team;

use super::TransferError;
use super::export::name;
use super::pages::{Pages, contents_of};
use crate::diagnostics;
use crate::prompt::PromptRecord;
use crate::request::{self, RequestDelta, TextDelta};
use crate::store::{Page, SessionImport, Store, StoreError};

/// Copies a session as it was after one of its messages, or as it is now.
///
/// A copy of the current session includes queued turns; a copy as of an earlier message does not. Models
/// continue with a copy of their threads as of that message, and of the requests of the copied turns. Threads
/// for which this is unknown start empty, and diagnostics name them. Memory: one page, and eight bytes per
/// turn.
pub async fn fork(
    store: &impl Store,
    session: SessionId,
    after: Option<MessageNumber>,
    id: SessionId,
    at: Millis,
) -> Result<Vec<Diagnostic>, TransferError> {
    let mut pages = Pages::open(store, session).await?;
    let last = pages.session.state.last_message;
    if let Some(after) = after.filter(|after| after.0 == 0 || *after > last) {
        return Err(TransferError::NoMessage(after));
    }
    let new = NewSession { id, created_at: at, ..pages.session.began.clone() };
    let mut cut = match after.filter(|after| *after < last) {
        Some(after) => {
            pages.stop_messages_at(after);
            Some(SessionCut::new(after, &new))
        }
        None => None,
    };
    let mut copy = store.import(new).await?;
    while let Some(mut page) = pages.next().await? {
        if let Some(cut) = &mut cut {
            cut.apply(&mut page, &pages).await?;
        }
        let rows = moved(page, session, id)?;
        copy.write(rows).await?;
    }
    let (state, diagnostics) = match cut {
        Some(cut) => cut.finish(&pages.session.state),
        None => (pages.session.state, Vec::new()),
    };
    copy.finish(state).await?;
    Ok(diagnostics)
}

/// Replaces the ids in the rows by those of the copy.
fn moved(mut page: Page, from: SessionId, to: SessionId) -> Result<Page, StoreError> {
    let thread = |thread: &ThreadId| {
        ThreadId::with_suffix(to, name(thread, from)).ok_or_else(|| {
            StoreError::Damaged(format!("the id of the thread {thread} is too long"))
        })
    };
    page.turns.iter_mut().for_each(set_at_rest);
    page.shared = page.attempts.iter().flat_map(contents_of).collect();
    for (of, _) in &mut page.lines {
        *of = thread(of)?;
    }
    for record in &mut page.requests {
        record.thread = thread(&record.thread)?;
        record.attempt = record.attempt.map(|attempt| AttemptRef { session: to, ..attempt });
    }
    Ok(page)
}

/// Requeues a running turn in the copy.
pub(super) fn set_at_rest(turn: &mut Turn) {
    if turn.state == TurnState::Running {
        turn.state = TurnState::Queued;
    }
}

/// Leaves out everything after a message.
struct SessionCut {
    last: MessageNumber,
    policy: TextPolicy,
    task: Option<String>,
    asker: Option<MemberName>,
    /// The turns that are kept, in order.
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
    fn new(last: MessageNumber, session: &NewSession) -> Self {
        Self {
            last,
            policy: Team::parse(&session.team).map(|team| team.context.text).unwrap_or_default(),
            task: session.task.clone(),
            asker: None,
            turns: Vec::new(),
            thread: None,
            diagnostics: Vec::new(),
        }
    }

    async fn apply<S: Store>(
        &mut self,
        page: &mut Page,
        pages: &Pages<S>,
    ) -> Result<(), StoreError> {
        for NumberedMessage { message, .. } in &page.messages {
            if message.speaker.kind == Some(SpeakerType::Human) {
                self.asker = Some(MemberName::from(message.speaker.name()));
            }
            self.task = scan(&message.content, self.policy).task.or(self.task.take());
        }
        let mut turns = Vec::new();
        let mut attempts = std::mem::take(&mut page.attempts).into_iter().peekable();
        for turn in std::mem::take(&mut page.turns) {
            let mut own = Vec::new();
            while let Some(attempt) = attempts.next_if(|attempt| attempt.turn == turn.id) {
                own.push(attempt);
            }
            if self.keeps(&turn, &own, &pages.store).await? {
                self.turns.push(turn.id);
                turns.push(turn);
                page.attempts.append(&mut own);
            }
        }
        page.turns = turns;
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

    /// Returns whether a turn had ended when the last message was stored.
    async fn keeps(
        &self,
        turn: &Turn,
        attempts: &[Attempt],
        store: &impl Store,
    ) -> Result<bool, StoreError> {
        if turn.state.is_open() || turn.answers > self.last {
            return Ok(false);
        }
        if let Some(reply) = turn.reply {
            return Ok(reply <= self.last);
        }
        // The prompt of a turn without a reply may contain later messages.
        for attempt in attempts {
            let input = store.content(attempt.input.hash).await?;
            let input = PromptRecord::from_record(&input);
            if input.map_or(true, |input| input.as_of > self.last) {
                return Ok(false);
            }
        }
        Ok(true)
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
                keeps: first.is_some_and(|first| self.has(first)),
                before: RequestTexts::default(),
                last: None,
                kept: 0,
            }
        };
        thread.keeps = record.attempt.map_or(thread.keeps, |attempt| self.has(attempt));
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

    fn has(&self, attempt: AttemptRef) -> bool {
        self.turns.binary_search(&attempt.turn).is_ok()
    }

    fn finish(self, state: &State) -> (State, Vec<Diagnostic>) {
        let state = State {
            task: self.task,
            asker: self.asker,
            last_message: self.last,
            last_turn: self.turns.last().copied().unwrap_or_default(),
            last_finished: Some(self.last),
            in_a_row: 0,
            next_message_id: state.next_message_id,
        };
        (state, self.diagnostics)
    }
}
