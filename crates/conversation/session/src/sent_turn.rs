//! A turn with the texts of one attempt, for inspection.

use convoke_agent::thread::ThreadStore as _;
use convoke_core::ledger::Ledger;
use convoke_protocol::id::{SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::turn::{Attempt, Turn};
use serde_json::{Value, json};

use crate::running_text::AttemptProgress;
use crate::store::{AnyStore, Store, StoreError};

/// A turn with the texts of one attempt.
#[derive(Debug, Clone)]
pub struct SentTurn {
    pub turn: Turn,
    /// All attempts.
    pub attempts: Vec<Attempt>,
    /// The attempt that the texts belong to.
    pub attempt: Attempt,
    pub prompt: String,
    /// The system text.
    pub system: Option<String>,
    /// The stored JSON of the ledger.
    pub ledger_json: String,
    pub ledger: Ledger<'static>,
}

impl SentTurn {
    /// Reads the texts of an attempt, by default the last; `None` if there is no such attempt.
    pub async fn read(
        store: &impl Store,
        session: SessionId,
        turn: Turn,
        attempt: Option<u32>,
    ) -> Result<Option<Self>, StoreError> {
        let attempts = store.attempts(session, turn.id).await?;
        let found = match attempt {
            None => attempts.last(),
            Some(number) => attempts.iter().find(|attempt| attempt.number == number),
        };
        let Some(attempt) = found.cloned() else { return Ok(None) };
        let prompt = store.content(attempt.prompt.hash).await?;
        let system = match attempt.system {
            Some(system) => Some(store.content(system.hash).await?),
            None => None,
        };
        let ledger_json = store.content(attempt.ledger.hash).await?;
        let ledger = serde_json::from_str(&ledger_json).map_err(|error| {
            StoreError::Damaged(format!("the ledger of turn {}: {error}", turn.id))
        })?;
        Ok(Some(Self { turn, attempts, attempt, prompt, system, ledger_json, ledger }))
    }

    /// Returns the JSON form, used by the command line and the web page.
    pub fn json(&self) -> serde_json::Result<Value> {
        let ledger: Value = serde_json::from_str(&self.ledger_json)?;
        Ok(json!({
            "turn": self.turn, "attempts": self.attempts, "attempt": self.attempt.number,
            "prompt": self.prompt, "systemFlag": self.system, "ledger": ledger,
            "sentBytes": self.attempt.sent_bytes(),
        }))
    }

    /// Reads the stored events and the partial reply of the attempt. A finished reply is a message.
    pub async fn read_progress(
        &self,
        store: &impl Store,
        session: SessionId,
    ) -> Result<AttemptProgress, StoreError> {
        let mut progress = AttemptProgress::read(store, session, &self.attempt).await?;
        if let Some(ended) = &self.attempt.ended {
            progress.reply = match ended.partial {
                Some(partial) => store.content(partial.hash).await?,
                None => String::new(),
            };
        }
        Ok(progress)
    }
}

/// Reads the requests of an attempt, by default those of the last attempt with requests.
pub async fn requests_of(
    store: &AnyStore,
    session: SessionId,
    turn: &Turn,
    attempt: Option<u32>,
) -> Result<Vec<RequestRecord<()>>, StoreError> {
    let thread = ThreadId::of_member(session, turn.member.as_str());
    let mut found = store.requests(&thread).await?;
    found.retain(|record| record.attempt.is_some_and(|it| it.turn == turn.id));
    let last = found.iter().filter_map(|record| record.attempt).map(|it| it.attempt).max();
    let attempt = attempt.or(last);
    found.retain(|record| record.attempt.map(|it| it.attempt) == attempt);
    Ok(found)
}
