//! Sheets: exactly what a member was sent, and the account of it, as they are stored.

use convoke_core::ledger::{Ledger, Style, Table};
use convoke_session::{Attempt, MemberName, SessionId, Store, StoreError, TurnId};

/// What a member was sent in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPrompt {
    /// Who.
    pub member: MemberName,
    /// In which turn.
    pub turn: TurnId,
    /// Which attempt it was.
    pub attempt: u32,
    /// The account, as a table.
    pub table: String,
    /// The system text, when it travelled apart.
    pub system: Option<String>,
    /// The prompt.
    pub prompt: String,
}

impl SentPrompt {
    /// Returns the texts, one after the other.
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

/// Reads what was sent in the last attempt of a turn; nothing when it was never sent.
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
