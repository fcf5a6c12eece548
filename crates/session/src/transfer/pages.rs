//! Reads a session page by page, in the order of an archive.

use std::collections::VecDeque;

use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{MessageNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::session::Session;
use convoke_protocol::turn::Attempt;

use crate::progress::interrupt;
use crate::store::{Page, Store, StoreError};

/// The number of rows per read.
const ROWS: usize = 256;
/// The number of requests per read; each page reads one request in full.
const REQUESTS: usize = 64;

/// Reads a session as of one moment. Holds one page at a time, except the lines of a thread, which are read
/// together.
pub(super) struct Pages<S> {
    /// A snapshot.
    pub(super) store: S,
    pub(super) session: Session,
    /// The newest message that is read.
    through: MessageNumber,
    next: NextRows,
}

/// The rows that come next.
enum NextRows {
    Messages(MessageNumber),
    Turns(TurnId),
    Lines(VecDeque<ThreadId>),
    Requests(ThreadId, u64, VecDeque<ThreadId>),
    End,
}

impl<S: Store> Pages<S> {
    pub(super) async fn open(store: &S, session: SessionId) -> Result<Self, StoreError> {
        let store = store.snapshot().await?;
        let session = store.session(session).await?;
        let through = session.state.last_message;
        Ok(Self { store, session, through, next: NextRows::Messages(MessageNumber::default()) })
    }

    /// Stops reading messages after this one. Turns and threads are read to their end.
    pub(super) fn stop_messages_at(&mut self, last: MessageNumber) {
        self.through = last;
    }

    /// Returns the next page, which may be empty; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, StoreError> {
        let id = self.session.began.id;
        let mut page = Page::default();
        self.next = match std::mem::replace(&mut self.next, NextRows::End) {
            NextRows::Messages(after) => {
                let left = usize::try_from(self.through.0 - after.0).unwrap_or(ROWS).min(ROWS);
                page.messages = self.store.messages_after(id, after, left).await?;
                match page.messages.last() {
                    Some(last) => NextRows::Messages(last.number),
                    None => NextRows::Turns(TurnId::default()),
                }
            }
            NextRows::Turns(after) => {
                page.turns = self.store.turns_after(id, after, ROWS).await?;
                for turn in &page.turns {
                    for mut attempt in self.store.attempts(id, turn.id).await? {
                        let at = self.session.updated_at;
                        interrupt(&self.store, id, &mut attempt, at, &mut page.contents).await?;
                        page.attempts.push(attempt);
                    }
                }
                match page.turns.last() {
                    Some(last) => NextRows::Turns(last.id),
                    None => NextRows::Lines(self.store.threads(id).await?.into()),
                }
            }
            NextRows::Lines(mut threads) => match threads.pop_front() {
                Some(thread) => {
                    let lines = self.store.thread_lines(&thread).await?;
                    page.lines = lines.into_iter().map(|line| (thread.clone(), line)).collect();
                    NextRows::Requests(thread, 0, threads)
                }
                None => return Ok(None),
            },
            NextRows::Requests(thread, after, threads) => {
                page.requests = self.store.request_deltas(&thread, after, REQUESTS).await?;
                match page.requests.last() {
                    Some(last) => NextRows::Requests(thread, last.number, threads),
                    None => NextRows::Lines(threads),
                }
            }
            NextRows::End => return Ok(None),
        };
        Ok(Some(page))
    }
}

/// Returns the hashes of the texts that an attempt refers to.
pub(super) fn contents_of(attempt: &Attempt) -> impl Iterator<Item = ContentHash> {
    let ended = attempt.ended.as_ref();
    [
        Some(attempt.prompt),
        attempt.system,
        Some(attempt.input),
        Some(attempt.ledger),
        ended.and_then(|ended| ended.partial),
        ended.and_then(|ended| ended.events),
    ]
    .into_iter()
    .flatten()
    .map(|reference| reference.hash)
}
