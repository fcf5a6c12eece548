//! Reads a session page by page, in the order of an archive.

use std::collections::VecDeque;

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, SessionId, ThreadId};
use convoke_protocol::session::Session;
use convoke_protocol::turn::TurnState;

use crate::running_text::interrupted_result;
use crate::store::{Page, Store, StoreError};

/// The number of events per read.
const EVENTS: usize = 256;
/// The number of requests per read; each page reads one request in full.
const REQUESTS: usize = 64;

/// Reads a session as of one moment. Holds one page at a time, except the lines of a thread, which are read
/// together.
pub(super) struct Pages<S> {
    /// A snapshot.
    pub(super) store: S,
    pub(super) session: Session,
    next: NextRows,
}

/// The rows that come next.
enum NextRows {
    Events(EventNumber),
    /// The ends of the attempts that are running.
    Interruptions,
    Lines(VecDeque<ThreadId>),
    Requests(ThreadId, u64, VecDeque<ThreadId>),
    End,
}

impl<S: Store> Pages<S> {
    /// Begins after the first event, which creates the session.
    pub(super) async fn open(store: &S, session: SessionId) -> Result<Self, StoreError> {
        let store = store.snapshot().await?;
        let session = store.session(session).await?;
        Ok(Self { store, session, next: NextRows::Events(EventNumber(1)) })
    }

    /// Returns the next page, which may be empty; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, StoreError> {
        let id = self.session.began.id;
        let mut page = Page::default();
        self.next = match std::mem::replace(&mut self.next, NextRows::End) {
            NextRows::Events(after) => {
                page.events = self.store.events(id, after, EVENTS).await?;
                match page.events.last().and_then(|last| last.number) {
                    Some(last) => NextRows::Events(last),
                    None => NextRows::Interruptions,
                }
            }
            NextRows::Interruptions => {
                self.interrupt(&mut page).await?;
                NextRows::Lines(self.store.threads(id).await?.into())
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

    /// Ends the running attempts, which go on in this store alone.
    async fn interrupt(&self, page: &mut Page) -> Result<(), StoreError> {
        let (session, at) = (self.session.began.id, self.session.updated_at);
        let mut number = self.session.head;
        let open = self.store.open_turns(session).await?;
        for turn in open.into_iter().filter(|turn| turn.state == TurnState::Running) {
            let attempts = self.store.attempts(session, turn.id).await?.into_iter();
            for attempt in attempts.filter(|attempt| attempt.ended.is_none()) {
                let contents = &mut page.contents;
                let result =
                    interrupted_result(&self.store, session, &attempt, at, contents).await?;
                number = number.next();
                let (turn, member, attempt) = (turn.id, turn.member.clone(), attempt.number);
                let result = Box::new(result);
                let kind = EventKind::TurnInterrupted { turn, member, attempt, result };
                let number = Some(number);
                page.events.push(Event { kind, session, at, number, migrated: false });
            }
        }
        Ok(())
    }
}
