//! Threads in the store of sessions, as the binary keeps them.

use convoke_model::store::{KeptRequest, NewRequest, StoreError, Stored};
use convoke_model::{ThreadId, ThreadStore};
use convoke_session::request::{self, Predecessor, RequestTexts, RequestTurn};
use convoke_session::{SqliteStore, Store as _, StoreError as SessionStoreError, TurnId};

pub struct StoredThreads(pub SqliteStore);

impl ThreadStore for StoredThreads {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move {
            let lines = self.0.thread(thread.as_str()).await.unwrap();
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
                error => StoreError::Failed(error.to_string()),
            })
        })
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<KeptRequest>> {
        Box::pin(async move {
            let last = self.0.last_request(thread.as_str()).await.unwrap();
            let kept = |(number, texts): (u64, RequestTexts)| {
                let RequestTexts { body, ledger } = texts;
                KeptRequest { number, body, ledger }
            };
            Ok(last.map(kept))
        })
    }

    fn keep_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        request: NewRequest<'s>,
    ) -> Stored<'s, u64> {
        let NewRequest { turn, about, body, ledger, before } = request;
        let new = request::NewRequest {
            turn: turn.map(|turn| RequestTurn {
                session: turn.session.parse().unwrap(),
                turn: TurnId(turn.number),
                attempt: turn.attempt,
            }),
            about,
            texts: RequestTexts { body, ledger },
            before: before.map(|before| Predecessor {
                number: before.number,
                texts: RequestTexts { body: &before.body, ledger: &before.ledger },
            }),
        };
        Box::pin(async move { Ok(self.0.add_request(thread.as_str(), new).await.unwrap()) })
    }

    fn note_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: String,
    ) -> Stored<'s, ()> {
        Box::pin(async move {
            self.0.note_request(thread.as_str(), number, &outcome).await.unwrap();
            Ok(())
        })
    }
}
