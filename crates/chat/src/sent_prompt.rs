//! A stored prompt with its ledger.

use convoke_core::ledger::{Ledger, Style, Table};
use convoke_session::{Attempt, MemberName, SessionId, Store, StoreError, TurnId};

/// The prompt of one turn, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPrompt {
    /// The member.
    pub member: MemberName,
    /// The turn.
    pub turn: TurnId,
    /// The attempt.
    pub attempt: u32,
    /// The ledger, as a table.
    pub table: String,
    /// The system text, if it was delivered apart.
    pub system: Option<String>,
    /// The prompt.
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
    member: MemberName,
    turn: TurnId,
) -> Result<Option<SentPrompt>, StoreError> {
    let Some(Attempt { number, prompt, system, ledger, .. }) =
        store.attempts(session, turn).await?.pop()
    else {
        return Ok(None);
    };
    let ledger = store.content(ledger.hash).await?;
    let ledger: Ledger<'static> = serde_json::from_str(&ledger)
        .map_err(|error| StoreError::Damaged(format!("the ledger of turn {turn}: {error}")))?;
    let system = match system {
        Some(system) => Some(store.content(system.hash).await?),
        None => None,
    };
    Ok(Some(SentPrompt {
        member,
        turn,
        attempt: number,
        table: Table { ledger: &ledger, style: Style::default() }.to_string(),
        system,
        prompt: store.content(prompt.hash).await?,
    }))
}
