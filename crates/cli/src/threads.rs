//! The threads of models, in the store of sessions.

use convoke_agent::turn_input::TurnName;
use convoke_model::log::Compaction;
use convoke_model::store::{KeptRequest, NewRequest, StoreError, Stored};
use convoke_model::{ThreadId, ThreadStore, log, sent};
use convoke_session::id::InvalidSessionId;
use convoke_session::request::{self, Predecessor, RequestTexts, RequestTurn};
use convoke_session::store::{Store as _, StoreError as SessionStoreError};
use convoke_session::transfer::{BadRequest, BadThread, BroughtRequest, Checks};
use convoke_session::{SqliteStore, TurnId};
use convoke_thread::item::ResponseItem;
use serde::Serialize;

use crate::figures::count;

/// Keeps threads in the store of sessions.
#[derive(Debug, Clone)]
pub struct StoredThreads(pub SqliteStore);

impl ThreadStore for StoredThreads {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move {
            let lines = self.0.thread(thread.as_str()).await.map_err(|it| failed(&it))?;
            Ok(lines.into_iter().map(|line| line.text).collect())
        })
    }

    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        lines: Vec<String>,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            let added = self.0.extend_thread(thread.as_str(), known, &lines).await;
            added.map_err(|error| match error {
                SessionStoreError::ThreadChanged(_) => StoreError::Conflict(thread.clone()),
                error => failed(&error),
            })
        })
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<KeptRequest>> {
        Box::pin(async move {
            let last = self.0.last_request(thread.as_str()).await.map_err(|it| failed(&it))?;
            Ok(last.map(|(number, texts)| {
                let RequestTexts { body, ledger } = texts;
                KeptRequest { number, body, ledger }
            }))
        })
    }

    fn keep_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        request: NewRequest<'s>,
    ) -> Stored<'s, u64> {
        Box::pin(async move {
            let NewRequest { turn, about, body, ledger, before } = request;
            let turn = turn.map(of_session).transpose()?;
            let new = request::NewRequest {
                turn,
                about,
                texts: RequestTexts { body, ledger },
                before: before.map(|before| Predecessor {
                    number: before.number,
                    texts: RequestTexts { body: &before.body, ledger: &before.ledger },
                }),
            };
            self.0.add_request(thread.as_str(), new).await.map_err(|it| failed(&it))
        })
    }

    fn note_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: String,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            let noted = self.0.note_request(thread.as_str(), number, &outcome).await;
            noted.map_err(|it| failed(&it))
        })
    }
}

fn of_session(turn: &TurnName) -> Result<RequestTurn, StoreError> {
    let session = turn.session.parse();
    let session = session.map_err(|it: InvalidSessionId| StoreError::Failed(it.to_string()))?;
    Ok(RequestTurn { session, turn: TurnId(turn.number), attempt: turn.attempt })
}

fn failed(error: &SessionStoreError) -> StoreError {
    StoreError::Failed(error.to_string())
}

/// What came back with an undone compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BroughtBack {
    /// How many items of the thread.
    items: u64,
    /// The bytes of their texts.
    bytes: u64,
    /// The summary that stood for them.
    summary: String,
}

impl From<Compaction> for BroughtBack {
    fn from(compaction: Compaction) -> Self {
        let Compaction { summary, replaced, .. } = compaction;
        let bytes = replaced.iter().map(ResponseItem::text_bytes).sum();
        Self { items: replaced.len() as u64, bytes, summary }
    }
}

impl BroughtBack {
    /// Says it in a line, of whoever remembers it.
    pub fn line(&self, who: &str) -> String {
        let (items, bytes) = (count(self.items, "item"), count(self.bytes, "byte"));
        format!("{who} has back what the last summary had replaced: {items}, {bytes} of text")
    }
}

/// Says that a summary stands for what was said, and how to undo that.
pub fn compacted(who: &str, summary: &str, undo: &str) -> String {
    format!("{summary}\n\n{who} goes on from this summary; {undo} brings the rest back")
}

/// Refuses what an imported session brings of models and they have never written.
pub const CHECKS: Checks<'static> = Checks { thread: &check_thread, request: &check_request };

fn check_thread(lines: &[&str]) -> Result<(), BadThread> {
    log::check(lines).map_err(|bad| BadThread { line: bad.line, reason: bad.reason })
}

fn check_request(request: BroughtRequest<'_>) -> Result<(), BadRequest> {
    let BroughtRequest { about, outcome, texts } = request;
    sent::check(about, outcome, texts.body, texts.ledger)
        .map_err(|bad| BadRequest { field: bad.field, reason: bad.reason })
}
