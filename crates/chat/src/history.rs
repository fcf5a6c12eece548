//! The past: what a session holds when a chat takes it up.

use convoke_core::marker::strip_all_markers;
use convoke_session::{
    Coordinator, MemberName, MessageNumber, ShownMessage, Store, StoreError, TurnId, TurnState,
};

use crate::model::Waiting;

/// How many messages are shown of what came before.
const MESSAGES: usize = 200;
/// How many turns are looked at for what was sent last.
const TURNS: usize = 200;

/// What a session holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<ShownMessage>,
    /// How many came before them.
    pub(crate) left_out: u64,
    /// The last turn of each member that was sent, the newest last.
    pub(crate) sent: Vec<(MemberName, TurnId)>,
    /// The last turn, when it was not done.
    pub(crate) undone: Option<TurnId>,
    /// Who waits.
    pub(crate) queue: Vec<Waiting>,
    /// What the team is to do.
    pub(crate) task: Option<String>,
}

/// Reads the end of a session. Costs the same for a long one as for a short one.
pub(crate) async fn read<S: Store>(coordinator: &Coordinator<S>) -> Result<Past, StoreError> {
    let (store, id) = (coordinator.store(), coordinator.session());
    let state = store.session(id).await?.state;
    let left_out = state.last_message.0.saturating_sub(MESSAGES as u64);
    let policy = coordinator.team_agents().team().context.text;
    let messages = store.messages_after(id, MessageNumber(left_out), MESSAGES).await?;
    let messages = messages.into_iter().map(|message| {
        let text = strip_all_markers(&message.message.said.content, policy).into_owned();
        ShownMessage::new(&message, text)
    });
    let first = TurnId(state.last_turn.0.saturating_sub(TURNS as u64));
    let mut sent: Vec<(MemberName, TurnId)> = Vec::new();
    let mut undone = None;
    for turn in store.turns_after(id, first, TURNS).await? {
        if turn.attempts > 0 {
            sent.retain(|(name, _)| *name != turn.member);
            sent.push((turn.member.clone(), turn.id));
            let is_undone = matches!(turn.state, TurnState::Failed | TurnState::Cancelled);
            undone = is_undone.then_some(turn.id);
        }
    }
    Ok(Past {
        messages: messages.collect(),
        left_out,
        sent,
        undone,
        queue: coordinator.waiting().iter().map(Waiting::from).collect(),
        task: coordinator.task().map(str::to_owned),
    })
}
