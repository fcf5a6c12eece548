//! Snapshots (002, version 1): the conversation alone.

use std::collections::HashMap;
use std::io::Write;

use convoke_core::{ContextManager, Diagnostic, MessageId};
use convoke_protocol::event::Event;
use convoke_protocol::id::{MessageNumber, Millis, SessionId};
use convoke_protocol::session::{NewSession, State};
use serde_json::Value;

use super::{ArchiveProblem, TransferError};
use crate::legacy::{self, LegacyMessage, LegacySession};
use crate::rows::each_message;
use crate::store::Store;

pub(super) async fn write(
    store: &impl Store,
    session: SessionId,
    at: Millis,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    let store = store.snapshot().await?;
    let stored = store.session(session).await?;
    out.write_all(b"{\"messages\":[")?;
    each_message(&store, session, MessageNumber::default(), |message| {
        if message.number.0 > 1 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &message.message).map_err(std::io::Error::from)?;
        Ok::<_, TransferError>(())
    })
    .await?;
    let task = serde_json::to_string(&stored.state.task).map_err(std::io::Error::from)?;
    writeln!(out, "],\"teamTask\":{task},\"timestamp\":{at},\"version\":1}}")?;
    Ok(())
}

/// A snapshot converted to a session.
pub(super) struct Snapshot {
    pub(super) session: NewSession,
    pub(super) events: Vec<Event>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Parses a snapshot.
pub(super) fn read(text: &str, new: NewSession) -> Result<Snapshot, TransferError> {
    let snapshot: Value = serde_json::from_str(text).map_err(|error| TransferError::Invalid {
        line: error.line(),
        problem: ArchiveProblem::Json(error.to_string()),
    })?;
    let mut manager = ContextManager::default();
    let diagnostics = manager.import_snapshot(snapshot)?;
    let mut places: HashMap<MessageId, MessageNumber> = HashMap::new();
    let mut messages = Vec::new();
    let mut number = MessageNumber::default();
    let mut next_message_id = 1;
    for message in manager.messages() {
        number = number.next();
        let answers = message.in_reply_to.as_ref().and_then(|id| places.get(id)).copied();
        let digits = message.id.digits().and_then(|digits| digits.parse::<u64>().ok());
        next_message_id = next_message_id.max(digits.unwrap_or(0) + 1);
        places.insert(message.id.clone(), number);
        messages.push(LegacyMessage { number, answers, message: message.clone() });
    }
    let state = State {
        task: manager.team_task().map(str::to_owned),
        last_message: number,
        next_message_id,
        ..State::default()
    };
    let session = NewSession { task: state.task.clone(), ..new };
    let began = session.clone();
    let events = legacy::events(LegacySession { began, state, messages, turns: Vec::new() });
    Ok(Snapshot { session, events, diagnostics })
}
