//! A stored turn, found by its number.

use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::turn::Turn;
use convoke_session::{AnyStore, SentTurn, Store as _, rows};

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

/// Finds a turn of a session.
pub(super) async fn find_turn(
    store: &AnyStore,
    session: SessionId,
    id: TurnId,
) -> anyhow::Result<Turn> {
    if let Some(turn) = rows::find_turn(store, session, id).await? {
        return Ok(turn);
    }
    let last = store.session(session).await?.state.last_turn;
    let there_is = match last.0 {
        0 => "the session has no turns yet".to_owned(),
        _ => format!("the last turn is {last}"),
    };
    Err(UsageError(format!("no turn {id}; {there_is}")).into())
}
