//! Replay: assembles every prompt of a session again and compares it with the stored one.

use convoke_protocol::content::{Content, ContentRef};
use convoke_protocol::id::{MemberName, MessageNumber, SessionId, TurnId};
use convoke_protocol::turn::Attempt;
use serde::Serialize;

use crate::prompt::PromptRecord;
use crate::store::{Store, StoreError};

/// The number of turns per read.
const PAGE: usize = 256;

/// The replay of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    pub turn: TurnId,
    pub attempt: u32,
    pub member: MemberName,
    /// The version of the engine that assembled the prompt.
    pub engine: String,
    pub result: ReplayResult,
}

/// The result of a replay.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ReplayResult {
    /// The bytes are equal.
    Same,
    /// The bytes differ.
    Differs {
        /// The name of the text.
        text: &'static str,
        /// The stored text that was sent.
        sent: Option<ContentRef>,
        /// The text assembled now.
        rebuilt: Option<ContentRef>,
    },
    /// The stored messages give a different context.
    ContextDiffers {
        /// The messages that were used, newest first.
        used: Vec<MessageNumber>,
        /// The messages that are found now.
        found: Vec<MessageNumber>,
    },
    /// The prompt could not be assembled.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Assembles every prompt of a session again from its stored input and messages, and compares.
///
/// Reads one window of messages per attempt.
pub async fn verify(store: &impl Store, session: SessionId) -> Result<Vec<Replayed>, StoreError> {
    store.session(session).await?;
    let mut replayed = Vec::new();
    let mut after = TurnId::default();
    loop {
        let turns = store.turns_after(session, after, PAGE).await?;
        let Some(last) = turns.last() else { return Ok(replayed) };
        after = last.id;
        for turn in turns {
            for attempt in store.attempts(session, turn.id).await? {
                let result = replay(store, session, &attempt).await;
                replayed.push(Replayed {
                    turn: turn.id,
                    attempt: attempt.number,
                    member: turn.member.clone(),
                    engine: attempt.engine,
                    result: result
                        .unwrap_or_else(|error| ReplayResult::Failed { why: error.to_string() }),
                });
            }
        }
    }
}

async fn replay(
    store: &impl Store,
    session: SessionId,
    attempt: &Attempt,
) -> Result<ReplayResult, StoreError> {
    let input = store.content(attempt.input.hash).await?;
    let input = match PromptRecord::from_record(&input) {
        Ok(input) => input,
        Err(error) => return Ok(ReplayResult::Failed { why: error.to_string() }),
    };
    // The stored prompt must be readable too.
    store.content(attempt.prompt.hash).await?;
    let material = input.read(store, session).await?;
    let found: Vec<MessageNumber> = material.earlier.iter().map(|message| message.number).collect();
    if found != input.context {
        return Ok(ReplayResult::ContextDiffers { used: input.context, found });
    }
    let output = match input.assemble(&material) {
        Ok(output) => output,
        Err(error) => return Ok(ReplayResult::Failed { why: error.to_string() }),
    };
    let prompt = Content::new(output.prompt).reference();
    let system = output.system_flag.map(|system| Content::new(system).reference());
    if prompt != attempt.prompt {
        let (sent, rebuilt) = (Some(attempt.prompt), Some(prompt));
        return Ok(ReplayResult::Differs { text: "prompt", sent, rebuilt });
    }
    if system != attempt.system {
        let sent = attempt.system;
        return Ok(ReplayResult::Differs { text: "system", sent, rebuilt: system });
    }
    Ok(ReplayResult::Same)
}
