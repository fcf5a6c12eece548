//! A stored turn: the turn, one attempt, and the texts that were sent.

use convoke_core::ledger::{Style, Table};
use convoke_session::progress::SoFar;
use convoke_session::prompt::PromptRecord;
use convoke_session::{
    AnyStore, Attempt, Content, ContentRef, SessionId, Store as _, StoreError, Turn, TurnId,
};

use crate::outcome::UsageError;

/// A turn with the texts of one attempt.
pub(super) struct SentTurn {
    pub(super) turn: Turn,
    pub(super) attempts: Vec<Attempt>,
    /// The attempt.
    pub(super) attempt: Attempt,
    pub(super) prompt: String,
    pub(super) system: Option<String>,
}

impl SentTurn {
    /// Reads a turn and the texts of an attempt, by default the last.
    pub(super) async fn read(
        store: &AnyStore,
        session: SessionId,
        id: TurnId,
        attempt: Option<u32>,
    ) -> anyhow::Result<Self> {
        let turn = find_turn(store, session, id).await?;
        let attempts = store.attempts(session, id).await?;
        let found = match attempt {
            None => attempts.last(),
            Some(number) => attempts.iter().find(|attempt| attempt.number == number),
        };
        let Some(found) = found.cloned() else {
            let problem = match attempt {
                None => format!("nothing was sent for turn {id}: it is {}", turn.state.as_str()),
                Some(number) => {
                    format!("turn {id} has no attempt {number}; there are {}", attempts.len())
                }
            };
            return Err(UsageError(problem).into());
        };
        let prompt = store.content(found.prompt.hash).await?;
        let system = match found.system {
            Some(system) => Some(store.content(system.hash).await?),
            None => None,
        };
        Ok(Self { turn, attempts, attempt: found, prompt, system })
    }

    /// Returns the stored events and the partial reply of the attempt. A finished reply is a message.
    pub(super) async fn came_back(
        &self,
        store: &AnyStore,
        session: SessionId,
    ) -> Result<SoFar, StoreError> {
        let Attempt { turn, number, ended, .. } = &self.attempt;
        let Some(ended) = ended else {
            return Ok(SoFar::read(&store.progress(session, *turn, *number).await?));
        };
        let text = async |of: Option<ContentRef>| match of {
            Some(of) => store.content(of.hash).await,
            None => Ok(String::new()),
        };
        Ok(SoFar { said: text(ended.partial).await?, events: text(ended.events).await? })
    }

    /// Returns the bytes of the prompt and the system text that were sent.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.attempt.sent_bytes()
    }

    /// Returns the stored ledger.
    pub(super) async fn ledger(&self, store: &AnyStore) -> Result<String, StoreError> {
        store.content(self.attempt.ledger.hash).await
    }

    /// Returns the ledger as a table. The prompt is assembled again for it; if this version of the engine gives
    /// another ledger, the stored one is returned as JSON.
    pub(super) async fn explain(
        &self,
        store: &AnyStore,
        session: SessionId,
        style: Style<'_>,
    ) -> anyhow::Result<String> {
        let stored = self.ledger(store).await?;
        let input = store.content(self.attempt.input.hash).await?;
        let input = PromptRecord::from_record(&input)?;
        let material = input.read(store, session).await?;
        let Ok(output) = input.assemble(&material) else { return Ok(stored + "\n") };
        let is_same = serde_json::to_string(&output.ledger)? == stored
            && Content::new(&*output.prompt).reference() == self.attempt.prompt;
        Ok(if is_same {
            Table { ledger: &output.ledger, style }.to_string()
        } else {
            stored + "\n"
        })
    }
}

/// Finds a turn of a session.
pub(super) async fn find_turn(
    store: &AnyStore,
    session: SessionId,
    id: TurnId,
) -> anyhow::Result<Turn> {
    let before = TurnId(id.0.saturating_sub(1));
    let turn = store.turns_after(session, before, 1).await?.pop();
    if let Some(turn) = turn.filter(|turn| turn.id == id) {
        return Ok(turn);
    }
    let last = store.session(session).await?.state.last_turn;
    let there_is = match last.0 {
        0 => "the session has no turns yet".to_owned(),
        _ => format!("the last one is turn {last}"),
    };
    Err(UsageError(format!("there is no turn {id}; {there_is}")).into())
}
