//! What every screen shows of a session: recorded logs, and the facts in them. Each renderer (`run`, `chat`, the page, `acp`) is
//! tested with the same logs and the same facts.

use std::path::{Path, PathBuf};

use convoke_core::SpeakerType;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, SessionId};
use convoke_protocol::turn::TurnState;
use convoke_session::{SqliteStore, Store as _, StoreError};

/// Opens a copy of the recorded store in an empty directory.
pub async fn recorded_store(directory: &Path) -> Result<SqliteStore, StoreError> {
    let recorded = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../stores/sqlite-5/sessions.db");
    let copy = directory.join("sessions.db");
    let copied = std::fs::copy(&recorded, &copy);
    copied.map_err(|source| StoreError::Io { path: recorded, source })?;
    SqliteStore::open(directory).await
}

/// Returns the logs of a recorded store.
pub async fn logs(store: &SqliteStore) -> Result<Vec<(SessionId, Vec<Event>)>, StoreError> {
    let mut logs = Vec::new();
    for session in store.sessions().await? {
        let events = store.events(session.id, EventNumber(0), usize::MAX >> 1).await?;
        logs.push((session.id, events));
    }
    Ok(logs)
}

/// Checks that what a renderer showed while a log was played contains every fact of the log.
///
/// # Panics
///
/// Panics with the facts that were not shown.
pub fn check(renderer: &str, session: SessionId, events: &[Event], shown: &str) {
    let plain = plain(shown);
    let mut missing = facts(events);
    missing.retain(|fact| !plain.contains(&self::plain(fact)));
    assert!(
        missing.is_empty(),
        "{renderer} does not show {missing:#?} of session {session}:\n{shown}"
    );
}

/// Returns the facts of a log: who worked, with which tools, what is asked, what is answered, and how a turn failed.
fn facts(events: &[Event]) -> Vec<String> {
    let facts = |event: &Event| match &event.kind {
        // An editor gets the markers too, on lines of their own, and knows what its person wrote.
        EventKind::Message(message)
            if message.turn.is_some()
                && message.message.speaker.kind != Some(SpeakerType::Human) =>
        {
            message.text.lines().map(str::to_owned).collect()
        }
        EventKind::Agent { event, .. } => match &event.kind {
            AgentEventKind::ToolStarted { name, .. } => vec![name.to_string()],
            _ => Vec::new(),
        },
        EventKind::PermissionAsked { question, answers, .. } if !answers.is_empty() => {
            vec![question.summary.clone()]
        }
        EventKind::TurnEnded { member, state, result, .. } => {
            let failure = (*state != TurnState::Done).then(|| result.verdict.to_string());
            failure.into_iter().chain([member.to_string()]).collect()
        }
        _ => Vec::new(),
    };
    events.iter().flat_map(facts).collect()
}

/// Returns the letters and digits of a text: screens wrap lines and draw frames.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}
