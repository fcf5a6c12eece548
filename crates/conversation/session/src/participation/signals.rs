//! Signals from other machines to turns that run here: cancellations, and answers to the questions of agents.

use std::collections::BTreeSet;
use std::time::Duration;

use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::turn::{Turn, TurnState};
use tokio::task::JoinSet;

use super::POLL_INTERVAL;
use crate::coordinator::{Controls, Coordinator};
use crate::kept_running::kept_running;
use crate::sharing::TurnSignal;
use crate::store::{SharedStore, Store, StoreError};

/// The task that applies signals from other machines; dropping it ends the task.
pub(crate) type SignalWatch = JoinSet<()>;

impl<S: Store> Coordinator<S> {
    /// Starts to apply signals to running turns. Returns once it is known whether a person can be asked.
    pub(crate) async fn watch_signals(&mut self) -> SignalWatch {
        let mut watch = SignalWatch::new();
        let Some(shared) = self.store.sharing() else { return watch };
        let session = self.session;
        let has_asking_agents = self.team_agents.has_asking_agents();
        if has_asking_agents {
            update_presence(shared, session, &self.controls).await;
        }
        let (store, controls) = (self.store.clone(), self.controls.clone());
        watch.spawn(async move {
            let begin =
                || apply_signals(store.clone(), session, controls.clone(), has_asking_agents);
            kept_running("applying signals of other machines", begin).await;
        });
        watch
    }

    /// Returns the turns that a person asked to cancel while a process ran them that is gone now.
    pub(crate) async fn cancelled_elsewhere(
        &mut self,
        open: &[Turn],
    ) -> Result<BTreeSet<TurnId>, StoreError> {
        let is_running = open.iter().any(|turn| turn.state == TurnState::Running);
        let Some(shared) = self.store.sharing().filter(|_| is_running) else {
            return Ok(BTreeSet::new());
        };
        let cancelled = |signal| match signal {
            TurnSignal::Cancel(turn) => Some(turn),
            TurnSignal::Answer(..) => None,
        };
        Ok(shared.signals(self.session).await?.into_iter().filter_map(cancelled).collect())
    }
}

/// Applies signals until the session is lost.
async fn apply_signals(
    store: impl Store,
    session: SessionId,
    controls: Controls,
    has_asking_agents: bool,
) {
    let Some(store) = store.sharing() else { return };
    let mut commits = None;
    let mut given: Vec<TurnSignal> = Vec::new();
    loop {
        // Every later signal is announced.
        if commits.is_none() {
            commits = store.listen().await.ok();
        }
        match store.signals(session).await {
            Ok(signals) => {
                for signal in signals {
                    // Each signal is applied once.
                    if !given.contains(&signal) && controls.apply_signal(&signal) {
                        given.push(signal);
                    }
                }
            }
            Err(StoreError::HoldLost { .. }) => return,
            // An unreachable server is asked again.
            Err(_) => {}
        }
        if has_asking_agents {
            update_presence(store, session, &controls).await;
        }
        let announced = async {
            match &mut commits {
                Some(commits) => commits.wait_for(session).await,
                None => std::future::pending().await,
            }
        };
        // Reads again after [`POLL_INTERVAL`], even without an announcement.
        if let Ok(Err(_)) = tokio::time::timeout(POLL_INTERVAL, announced).await {
            commits = None;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Determines whether a person in another process can be asked. An unreachable server changes nothing.
async fn update_presence(store: &SharedStore, session: SessionId, controls: &Controls) {
    if let Ok(is_attended) = store.is_attended(session).await {
        controls.set_attended_elsewhere(is_attended);
    }
}
