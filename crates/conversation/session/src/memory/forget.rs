//! Takes a turn out of its member's memory.

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MemberName, Millis, SessionId, TurnId};
use convoke_protocol::memory::Remembered;
use convoke_protocol::session::State;

use crate::running_text::events_to_end;
use crate::store::{Commit, Holder, SessionHold as _, Store, StoreError};

/// The member's memory before a turn.
struct Before {
    member: MemberName,
    remembered: Option<Remembered>,
}

/// Takes a turn, and those of its member that followed, out of the member's memory: the next turn continues the state
/// before it. Returns the member; `None` if the turn is in no memory. O(events).
pub async fn forget(
    store: &impl Store,
    session: SessionId,
    turn: TurnId,
    at: Millis,
) -> Result<Option<MemberName>, StoreError> {
    let hold = store.hold(session, Holder::this_process(at)).await?;
    let forgotten = forget_held(store, session, turn, at).await;
    hold.release().await;
    forgotten
}

async fn forget_held(
    store: &impl Store,
    session: SessionId,
    turn: TurnId,
    at: Millis,
) -> Result<Option<MemberName>, StoreError> {
    let mut state = State::default();
    let mut before: Option<Before> = None;
    events_to_end(store, session, EventNumber::default(), |event| {
        if let EventKind::TurnStarted { turn: started, member, memory: Some(_), .. } = &event.kind
            && *started == turn
            && before.is_none()
        {
            let memory = state.memory.get(member);
            let remembered = memory.and_then(|memory| memory.last.clone());
            before = Some(Before { member: member.clone(), remembered });
        }
        state.remember(&event.kind);
    })
    .await?;
    let Some(Before { member, remembered }) = before else { return Ok(None) };
    let stored = store.session(session).await?;
    let kind = EventKind::MemoryChanged {
        member: member.clone(),
        turn,
        to: remembered.map(Box::new),
        reason: format!("turn {turn} was undone"),
    };
    let mut state = stored.state;
    state.apply(&kind);
    let number = Some(stored.head.next());
    let event = Event { kind, session, at, number, migrated: false };
    store
        .commit(
            session,
            Commit { on: stored.head, events: vec![event], state, ..Commit::default() },
        )
        .await?;
    Ok(Some(member))
}
