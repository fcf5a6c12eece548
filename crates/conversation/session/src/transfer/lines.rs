//! The lines of an archive.

use convoke_protocol::id::{MessageNumber, Millis, SessionId};
use convoke_protocol::request::{RequestOutcome, RequestRecord};
use convoke_protocol::session::{NewSession, Rehearsal, State};
use serde::{Deserialize, Serialize};

use crate::request::{RequestDelta, TextDelta};

/// The format that the first line names.
pub(super) const FORMAT: &str = "convoke-session";
/// Version 2 added the threads of models, version 3 their requests. Since version 4, the file is the log of the session.
pub(super) const VERSION: u64 = 4;
/// The last version that has rows of messages, turns and attempts.
pub(super) const LAST_OF_ROWS: u64 = 3;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) id: SessionId,
    pub(super) created_at: Millis,
    pub(super) name: Option<String>,
    pub(super) directory: String,
    pub(super) team: String,
    pub(super) first_task: Option<String>,
    /// Absent in files of older versions.
    #[serde(default)]
    pub(super) rehearsal: Option<Rehearsal>,
    /// The state of a session without a log; absent since version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<State>,
}

impl Header {
    pub(super) fn new(session: NewSession) -> Self {
        let NewSession { id, created_at, name, directory, team, task, rehearsal } = session;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            id,
            created_at,
            name,
            directory,
            team,
            first_task: task,
            rehearsal,
            state: None,
        }
    }

    pub(super) fn into_parts(self) -> (NewSession, Option<State>) {
        let Self { id, created_at, name, directory, team, first_task, rehearsal, state, .. } = self;
        (NewSession { id, created_at, name, directory, team, task: first_task, rehearsal }, state)
    }
}

/// A line of a thread. `thread` is the thread's id without the session's prefix.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadLineLine {
    pub(super) thread: String,
    pub(super) as_of: Option<MessageNumber>,
    pub(super) line: String,
}

/// A request as a delta from the previous one. `about` and `outcome` are JSON in a string.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestLine {
    pub(super) thread: String,
    pub(super) number: u64,
    pub(super) turn: Option<u64>,
    pub(super) attempt: Option<u32>,
    pub(super) about: String,
    pub(super) outcome: Option<String>,
    pub(super) body: TextDelta,
    pub(super) ledger: TextDelta,
}

impl RequestLine {
    pub(super) fn new(
        thread: &str,
        record: RequestRecord<RequestDelta>,
    ) -> serde_json::Result<Self> {
        let RequestRecord { number, attempt, meta, outcome, texts, .. } = record;
        let has_outcome = outcome != RequestOutcome::default();
        Ok(Self {
            thread: thread.to_owned(),
            number,
            turn: attempt.map(|attempt| attempt.turn.0),
            attempt: attempt.map(|attempt| attempt.attempt),
            about: serde_json::to_string(&meta)?,
            outcome: has_outcome.then(|| serde_json::to_string(&outcome)).transpose()?,
            body: texts.body,
            ledger: texts.ledger,
        })
    }
}
