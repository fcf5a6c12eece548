//! The stored state of a session when a chat opens it.

use convoke_protocol::id::{MemberName, MessageNumber, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::TurnState;
use convoke_protocol::view::QueuedTurn;
use convoke_session::{Coordinator, Store, StoreError};

use crate::transcript::EarlierPage;

/// The maximum number of earlier messages that are shown.
const MESSAGES: usize = 200;
/// The maximum number of turns that are searched for the last prompts.
const TURNS: usize = 200;

/// The stored state of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredState {
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<Message>,
    /// The number of messages before them.
    pub(crate) left_out: u64,
    /// The last turn of each member that got a prompt, the newest last.
    pub(crate) sent: Vec<(MemberName, TurnId)>,
    /// The last turn, if it failed or was cancelled.
    pub(crate) unfinished: Option<TurnId>,
    /// The queued turns.
    pub(crate) queue: Vec<QueuedTurn>,
    /// The team task.
    pub(crate) task: Option<String>,
}

/// Reads a page of earlier messages, oldest first.
pub(crate) async fn read_earlier(
    store: &impl Store,
    session: SessionId,
    page: EarlierPage,
) -> Result<Vec<Message>, StoreError> {
    let EarlierPage { after, count } = page;
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    store.messages_after(session, MessageNumber(after), limit).await
}

/// Reads the end of a session, in constant time.
pub(crate) async fn read<S: Store>(
    coordinator: &Coordinator<S>,
) -> Result<StoredState, StoreError> {
    let (store, id) = (coordinator.store(), coordinator.session());
    let state = store.session(id).await?.state;
    let left_out = state.last_message.0.saturating_sub(MESSAGES as u64);
    let messages = store.messages_after(id, MessageNumber(left_out), MESSAGES).await?;
    let first = TurnId(state.last_turn.0.saturating_sub(TURNS as u64));
    let mut sent: Vec<(MemberName, TurnId)> = Vec::new();
    let mut unfinished = None;
    for turn in store.turns_after(id, first, TURNS).await? {
        if turn.attempts > 0 {
            sent.retain(|(name, _)| *name != turn.member);
            sent.push((turn.member.clone(), turn.id));
            let is_unfinished = matches!(turn.state, TurnState::Failed | TurnState::Cancelled);
            unfinished = is_unfinished.then_some(turn.id);
        }
    }
    Ok(StoredState {
        messages,
        left_out,
        sent,
        unfinished,
        queue: coordinator.waiting().iter().map(QueuedTurn::from).collect(),
        task: coordinator.task().map(str::to_owned),
    })
}
