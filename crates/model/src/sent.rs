//! What was sent: every request is kept before it leaves, with its ledger, and what came of it after.
//!
//! The key is in none of this: it goes into a header, and is taken out of everything else before it is
//! sent, so that what is kept is what was sent.

use std::time::{SystemTime, UNIX_EPOCH};

use convoke_agent::event::Purpose;
use convoke_agent::turn_input::TurnName;
use convoke_agent::usage::Usage;
use convoke_core::Diagnostic;
use convoke_core::ledger::Ledger;
use convoke_thread::prompt::{self, Request};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::diagnostics;
use crate::store::{KeptRequest, NewRequest, StoreError, ThreadId, ThreadStore};

/// What is known of a request when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestMeta {
    /// When it was sent, in milliseconds since 1970.
    pub at: u64,
    /// The path below the endpoint's address.
    pub path: String,
    /// What it is for.
    pub purpose: Purpose,
    /// The bytes that were sent.
    pub bytes: u64,
    /// How many of them, from the beginning, are those of the request before.
    pub unchanged_bytes: u64,
    /// Whether the key stood in the body, and was taken out of what is kept. Only earlier versions sent it.
    pub redacted: bool,
}

/// What came of a request, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// Why each attempt failed that did: the same bytes were sent each time.
    pub failed: Vec<String>,
    /// How it ended; nothing while it is under way, or when the program was killed.
    pub how: Option<RequestEnd>,
    /// The tokens that the provider counted for it.
    pub usage: Option<Usage>,
    /// The model that answered, in the provider's words.
    pub model: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestEnd {
    /// With an answer.
    Answered,
    /// With the failure of its last attempt.
    Failed,
    /// The user cancelled the turn.
    Cancelled,
    /// The turn took too long.
    TimedOut,
}

/// Reads the ledger of a request that was kept.
pub fn read_ledger(kept: &str, about: &RequestMeta) -> serde_json::Result<Ledger<'static>> {
    let entries = kept.lines().collect::<Vec<_>>().join(",");
    let mut ledger: Ledger<'static> =
        serde_json::from_str(&format!("{{\"maxBytes\":null,\"entries\":[{entries}]}}"))?;
    ledger.unchanged_bytes = Some(about.unchanged_bytes);
    Ok(ledger)
}

/// Writes a ledger an entry a line, so that the ledgers of two requests begin alike.
fn write_ledger(ledger: &Ledger<'_>) -> serde_json::Result<String> {
    let lines = ledger.entries().map(|entry| serde_json::to_string(&entry));
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// A field of a request that cannot be what was written of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadField {
    /// Which.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Refuses a request that somebody brings and that was never written like this.
pub fn check(about: &str, outcome: Option<&str>, body: &str, ledger: &str) -> Result<(), BadField> {
    let bad = |field, reason: String| BadField { field, reason };
    let unreadable = |field| move |error: serde_json::Error| bad(field, error.to_string());
    let about: RequestMeta = serde_json::from_str(about).map_err(unreadable("about"))?;
    outcome.map(serde_json::from_str::<Ending>).transpose().map_err(unreadable("outcome"))?;
    serde_json::from_str::<IgnoredAny>(body).map_err(unreadable("body"))?;
    let kept = body.len() as u64;
    if !about.redacted && about.bytes != kept {
        let bytes = about.bytes;
        return Err(bad("about", format!("it says {bytes} bytes were sent, and these are {kept}")));
    }
    if about.unchanged_bytes > kept {
        let reason = "it says that more bytes are unchanged than there are".to_owned();
        return Err(bad("about", reason));
    }
    let ledger = read_ledger(ledger, &about).map_err(unreadable("ledger"))?;
    let accounted = ledger.used_bytes();
    if accounted != about.bytes {
        let reason = format!("it accounts for {accounted} bytes of {}", about.bytes);
        return Err(bad("ledger", reason));
    }
    Ok(())
}

/// Keeps the requests of one turn.
pub(crate) struct Recorder<'r> {
    store: &'r dyn ThreadStore,
    thread: &'r ThreadId,
    turn: Option<TurnName>,
    before: Before,
    open: Option<(u64, Ending)>,
}

/// The request before the next one.
enum Before {
    /// Nobody has looked yet.
    Stored,
    Known(Option<KeptRequest>),
}

/// A request that was kept.
pub(crate) struct Recorded {
    pub number: u64,
    pub purpose: Purpose,
    pub unchanged_bytes: u64,
    /// What the user should know.
    pub diagnostic: Option<Diagnostic>,
}

impl<'r> Recorder<'r> {
    pub fn new(store: &'r dyn ThreadStore, thread: &'r ThreadId, turn: Option<TurnName>) -> Self {
        Self { store, thread, turn, before: Before::Stored, open: None }
    }

    /// Keeps a request that is about to be sent.
    pub async fn sending(&mut self, request: &Request) -> Result<Recorded, StoreError> {
        let mut diagnostic = None;
        let before = match std::mem::replace(&mut self.before, Before::Known(None)) {
            Before::Known(before) => before,
            Before::Stored => {
                // What was sent before matters to nobody so much that nothing could be sent any more.
                self.store.last_request(self.thread).await.unwrap_or_else(|error| {
                    let message = format!("the last request of thread {}: {error}", self.thread);
                    diagnostic =
                        Some(Diagnostic::new(diagnostics::THREAD_REQUEST_UNREADABLE, message));
                    None
                })
            }
        };
        let body = request.body.clone();
        let unchanged = before.as_ref().map_or(0, |before| common_start(&before.body, &body));
        let purpose = match request.purpose {
            prompt::Purpose::Answer => Purpose::Answer,
            prompt::Purpose::Compaction => Purpose::Compaction,
        };
        let about = RequestMeta {
            at: now(),
            path: request.path.to_owned(),
            purpose,
            bytes: body.len() as u64,
            unchanged_bytes: unchanged,
            redacted: false,
        };
        let failed = |error: serde_json::Error| StoreError::Failed(error.to_string());
        let about = serde_json::to_string(&about).map_err(failed)?;
        let ledger = write_ledger(&request.ledger).map_err(failed)?;
        let new = NewRequest {
            turn: self.turn.as_ref(),
            about: &about,
            body: &body,
            ledger: &ledger,
            before: before.as_ref(),
        };
        let number = self.store.keep_request(self.thread, new).await?;
        self.before = Before::Known(Some(KeptRequest { number, body, ledger }));
        self.open = Some((number, Ending::default()));
        Ok(Recorded { number, purpose, unchanged_bytes: unchanged, diagnostic })
    }

    /// Notes that an attempt failed and that the request is sent again.
    pub async fn attempt_failed(&mut self, why: String) -> Result<(), StoreError> {
        if let Some((_, ending)) = &mut self.open {
            ending.failed.push(why);
        }
        self.note().await
    }

    /// Notes an answer.
    pub async fn answered(
        &mut self,
        usage: Option<Usage>,
        model: Option<String>,
    ) -> Result<(), StoreError> {
        if let Some((_, ending)) = &mut self.open {
            *ending = Ending {
                failed: std::mem::take(&mut ending.failed),
                how: Some(RequestEnd::Answered),
                usage,
                model,
            };
        }
        self.close().await
    }

    /// Notes that there was no answer.
    pub async fn failed(&mut self, why: String) -> Result<(), StoreError> {
        if let Some((_, ending)) = &mut self.open {
            ending.failed.push(why);
        }
        self.ended(RequestEnd::Failed).await
    }

    /// Notes how a request ended, if one is under way.
    pub async fn ended(&mut self, how: RequestEnd) -> Result<(), StoreError> {
        if let Some((_, ending)) = &mut self.open {
            ending.how = Some(how);
        }
        self.close().await
    }

    async fn close(&mut self) -> Result<(), StoreError> {
        self.note().await?;
        self.open = None;
        Ok(())
    }

    async fn note(&self) -> Result<(), StoreError> {
        let Some((number, ending)) = &self.open else { return Ok(()) };
        let outcome = serde_json::to_string(ending);
        let outcome = outcome.map_err(|error| StoreError::Failed(error.to_string()))?;
        self.store.note_request(self.thread, *number, outcome).await
    }
}

/// Returns how many bytes two texts begin with alike.
fn common_start(one: &str, other: &str) -> u64 {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count() as u64
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
