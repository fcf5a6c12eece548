//! A stored turn: found by its number, and its ledger as a table.

use convoke_core::ledger::{Style, Table};
use convoke_session::prompt::PromptRecord;
use convoke_session::{
    AnyStore, Content, SentTurn, SessionId, Store as _, Turn, TurnId, sent_turn,
};

use crate::outcome::UsageError;

/// Reads a turn and the texts of an attempt, by default the last.
pub(super) async fn read_sent(
    store: &AnyStore,
    session: SessionId,
    id: TurnId,
    attempt: Option<u32>,
) -> anyhow::Result<SentTurn> {
    let turn = find_turn(store, session, id).await?;
    let (state, attempts) = (turn.state, turn.attempts);
    let sent = SentTurn::read(store, session, turn, attempt).await?;
    sent.ok_or_else(|| {
        let problem = match attempt {
            None => format!("nothing was sent for turn {id}: it is {}", state.as_str()),
            Some(number) => format!("turn {id} has no attempt {number}; there are {attempts}"),
        };
        UsageError(problem).into()
    })
}

/// Returns the ledger of a turn as a table. The prompt is assembled again for it; if this version of the engine
/// gives another ledger, the stored one is returned as JSON.
pub(super) async fn explain(
    sent: &SentTurn,
    store: &AnyStore,
    session: SessionId,
    style: Style<'_>,
) -> anyhow::Result<String> {
    let stored = &sent.ledger_json;
    let input = store.content(sent.attempt.input.hash).await?;
    let input = PromptRecord::from_record(&input)?;
    let material = input.read(store, session).await?;
    let as_stored = || format!("{stored}\n");
    let Ok(output) = input.assemble(&material) else { return Ok(as_stored()) };
    let is_same = serde_json::to_string(&output.ledger)? == *stored
        && Content::new(&*output.prompt).reference() == sent.attempt.prompt;
    Ok(if is_same { Table { ledger: &output.ledger, style }.to_string() } else { as_stored() })
}

/// Finds a turn of a session.
pub(super) async fn find_turn(
    store: &AnyStore,
    session: SessionId,
    id: TurnId,
) -> anyhow::Result<Turn> {
    if let Some(turn) = sent_turn::find_turn(store, session, id).await? {
        return Ok(turn);
    }
    let last = store.session(session).await?.state.last_turn;
    let there_is = match last.0 {
        0 => "the session has no turns yet".to_owned(),
        _ => format!("the last turn is {last}"),
    };
    Err(UsageError(format!("no turn {id}; {there_is}")).into())
}
