//! Follows the turn of a model to its end.

use std::io;

use convoke_agent::{AgentTurn, TurnResult};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};

/// A turn that has ended.
pub struct EndedTurn {
    /// The result.
    pub ended: TurnResult,
    /// The thread of the turn.
    pub thread: Option<String>,
    /// Whether all output could be written.
    pub shown: io::Result<()>,
}

/// Follows a turn to its end. An interrupt cancels it, and so does a closed output.
pub async fn follow(
    mut turn: AgentTurn,
    mut show: impl FnMut(&AgentEvent<'_>) -> io::Result<()>,
) -> EndedTurn {
    let canceller = turn.canceller();
    let on_interrupt = canceller.clone();
    let interrupt = tokio::spawn(async move {
        // Without a signal handler the turn cannot be cancelled and runs to its end.
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.cancel();
        }
    });
    let mut thread = None;
    let mut shown = Ok(());
    while let Some(event) = turn.next().await {
        if let AgentEventKind::Started { session: Some(session), .. } = &event.kind {
            thread = Some(session.to_string());
        }
        shown = show(&event);
        if shown.is_err() {
            // The output is closed: cancel the turn, and still follow it to its end.
            canceller.cancel();
            break;
        }
    }
    let ended = turn.result().await;
    interrupt.abort();
    EndedTurn { ended, thread, shown }
}
