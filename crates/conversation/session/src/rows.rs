//! The turns and messages of a session, one after the other.

use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::Turn;

use crate::store::{Store, StoreError};

/// The number of rows per read.
const PAGE: usize = 256;

/// Reads a turn of a session; `None` if there is none with this number.
pub async fn find_turn(
    store: &impl Store,
    session: SessionId,
    id: TurnId,
) -> Result<Option<Turn>, StoreError> {
    let before = TurnId(id.0.saturating_sub(1));
    let turn = store.turns_after(session, before, 1).await?.pop();
    Ok(turn.filter(|turn| turn.id == id))
}

/// Calls `each` with every turn of a session, in order.
pub async fn each_turn<E: From<StoreError>>(
    store: &impl Store,
    session: SessionId,
    mut each: impl FnMut(Turn) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = TurnId::default();
    loop {
        let page = store.turns_after(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        page.into_iter().try_for_each(&mut each)?;
    }
}

/// Calls `each` with every message of a session after one, in order.
pub async fn each_message<E: From<StoreError>>(
    store: &impl Store,
    session: SessionId,
    mut after: MessageNumber,
    mut each: impl FnMut(Message) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let page = store.messages_after(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.number;
        page.into_iter().try_for_each(&mut each)?;
    }
}
