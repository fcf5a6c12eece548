//! A stored prompt with its ledger.

use convoke_core::ledger::{Style, Table};
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_session::rows::{each_turn, find_turn};
use convoke_session::{SentTurn, Store, StoreError};

/// The prompt of one turn, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPrompt {
    pub member: MemberName,
    pub turn: TurnId,
    pub attempt: u32,
    /// The ledger, as a table.
    pub table: String,
    /// The system text, if it was delivered apart.
    pub system: Option<String>,
    pub prompt: String,
}

impl SentPrompt {
    /// Returns the system text and the prompt as one text.
    pub fn texts(&self) -> String {
        let prompt = &self.prompt;
        match &self.system {
            None => prompt.clone(),
            Some(system) => format!(
                "── system text, {} bytes ──\n{system}\n\n── prompt, {} bytes ──\n{prompt}",
                system.len(),
                prompt.len()
            ),
        }
    }
}

/// Reads the prompt of the last attempt of a turn; `None` without an attempt.
pub async fn read(
    store: &impl Store,
    session: SessionId,
    turn: TurnId,
) -> Result<Option<SentPrompt>, StoreError> {
    let Some(turn) = find_turn(store, session, turn).await? else { return Ok(None) };
    let Some(sent) = SentTurn::read(store, session, turn, None).await? else { return Ok(None) };
    let SentTurn { turn, attempt, prompt, system, ledger, .. } = sent;
    let table = Table { ledger: &ledger, style: Style::default() }.to_string();
    Ok(Some(SentPrompt {
        member: turn.member,
        turn: turn.id,
        attempt: attempt.number,
        table,
        system,
        prompt,
    }))
}

/// Reads the last prompt that was sent, to one member or to any. Reads every turn of the session.
pub async fn read_last(
    store: &impl Store,
    session: SessionId,
    member: Option<&MemberName>,
) -> Result<Option<SentPrompt>, StoreError> {
    let mut last = None;
    each_turn(store, session, |turn| {
        if turn.attempts > 0 && member.is_none_or(|member| *member == turn.member) {
            last = Some(turn.id);
        }
        Ok::<_, StoreError>(())
    })
    .await?;
    match last {
        Some(turn) => read(store, session, turn).await,
        None => Ok(None),
    }
}
