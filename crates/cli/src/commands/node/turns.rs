//! The turns of a node: claims sessions whose next turn it can run, and runs that turn.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoke_agent::permission::SessionAnswers;
use convoke_inspect::HostEnvironment;
use convoke_session::shared::NodeOffer;
use convoke_session::store::Holder;
use convoke_session::store::postgres::{Commits, PostgresStore, SessionLease};
use convoke_session::{
    AnyStore, Coordinator, CoordinatorError, Session, SessionId, Store as _, StoreError,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::shown::Shown;
use super::{LOOK, is_offered};
use crate::conversation::node_team::NodeTeam;
use crate::conversation::origin::Places;

/// The time for which a session that cannot run here is left to other nodes.
const EXCLUDED: Duration = Duration::from_mins(1);
/// The most sessions that are left to other nodes.
const MOST_EXCLUDED: usize = 1000;
/// The most sessions whose answers are remembered.
const MOST_REMEMBERED: usize = 1000;

/// Claims and runs turns.
pub(super) struct Turns {
    pub(super) store: AnyStore,
    pub(super) shared: PostgresStore,
    pub(super) name: String,
    pub(super) offer: NodeOffer,
    pub(super) places: Places,
    pub(super) host_environment: Arc<HostEnvironment>,
    pub(super) holder: Holder,
    pub(super) shown: Shown,
    /// The most turns at the same time.
    pub(super) most: usize,
    /// The answers that people gave for each session, which hold for its next turns.
    pub(super) answers: Mutex<HashMap<SessionId, SessionAnswers>>,
}

/// The outcome of a claimed session.
enum Taken {
    /// It was let go, after a turn or because its next turn is another machine's.
    Done,
    /// It cannot run here.
    Impossible(String),
}

impl Turns {
    /// Runs turns until it is asked to stop and the running ones have ended. Dropping it earlier terminates the agents.
    pub(super) async fn take(self, mut draining: watch::Receiver<bool>) -> anyhow::Result<()> {
        let this = Arc::new(self);
        let mut running: JoinSet<(SessionId, anyhow::Result<Taken>)> = JoinSet::new();
        let mut excluded: HashMap<SessionId, Instant> = HashMap::new();
        // Before the first look: what is offered after that is announced.
        let mut commits = this.shared.listen().await.ok();
        loop {
            let is_draining = *draining.borrow_and_update();
            if is_draining && running.is_empty() {
                return Ok(());
            }
            excluded.retain(|_, since| since.elapsed() < EXCLUDED);
            if !is_draining && running.len() < this.most {
                match this.claim(&excluded).await {
                    Ok(Some((session, lease))) => {
                        let taking = Arc::clone(&this);
                        running.spawn(async move {
                            (session, Box::pin(taking.run(session, lease)).await)
                        });
                        continue;
                    }
                    Ok(None) => {}
                    // The heartbeats of the node say so.
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::select! {
                Some(ended) = running.join_next() => this.note(ended?, &mut excluded)?,
                _ = draining.changed() => {}
                () = this.announced(&mut commits) => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn claim(
        &self,
        excluded: &HashMap<SessionId, Instant>,
    ) -> Result<Option<(SessionId, SessionLease)>, StoreError> {
        let excluded: Vec<SessionId> = excluded.keys().copied().collect();
        self.shared.claim_offered(&self.name, &self.offer, &excluded, &self.holder).await
    }

    /// Waits until a session may have changed.
    async fn announced(&self, commits: &mut Option<Commits>) {
        if let Some(listener) = commits {
            if listener.wait().await.is_err() {
                *commits = None;
            }
            return;
        }
        match self.shared.listen().await {
            Ok(listener) => *commits = Some(listener),
            Err(_) => std::future::pending().await,
        }
    }

    /// Notes the end of a turn.
    fn note(
        &self,
        (session, taken): (SessionId, anyhow::Result<Taken>),
        excluded: &mut HashMap<SessionId, Instant>,
    ) -> anyhow::Result<()> {
        let why = match taken {
            Ok(Taken::Done) => return Ok(()),
            Ok(Taken::Impossible(why)) => why,
            Err(error) => {
                let store = match error.downcast_ref::<CoordinatorError>() {
                    Some(CoordinatorError::Store(error)) => Some(error),
                    _ => error.downcast_ref::<StoreError>(),
                };
                let lost = |error: &StoreError| {
                    matches!(error, StoreError::LeaseLost { .. }) || error.is_transient()
                };
                let why = format!("{error:#}");
                if store.is_some_and(lost) {
                    return Ok(self.shown.failed(session, &why)?);
                }
                why
            }
        };
        if excluded.len() < MOST_EXCLUDED {
            excluded.insert(session, Instant::now());
        }
        Ok(self.shown.failed(session, &why)?)
    }

    /// Runs the next turn of a claimed session.
    async fn run(&self, id: SessionId, lease: SessionLease) -> anyhow::Result<Taken> {
        let session = self.store.session(id).await?;
        let resolved = if let Some(directory) = self.place(&session).await? {
            self.resolve(&session, &directory).await
        } else {
            let directory = &session.began.directory;
            Err(anyhow::anyhow!(
                "no directory here for {directory}: pass --map {directory}=DIR, or --project DIR with its repository"
            ))
        };
        let (team, problem) = match resolved {
            Ok(team) => (team, None),
            Err(error) => (NodeTeam::without_agents(&session)?, Some(format!("{error:#}"))),
        };
        let NodeTeam { team_agents, diagnostics, unstartable, keep } = team;
        let problem = problem.or(unstartable);
        self.shown.diagnostics(id, &diagnostics)?;
        let observer = Box::new(self.shown);
        let shared = self.shared.clone();
        let coordinator = Coordinator::of_claim(shared, id, lease, team_agents, observer).await?;
        let has_run = coordinator.run_claimed().await?;
        drop(keep);
        Ok(match problem {
            Some(why) if !has_run => Taken::Impossible(why),
            _ => Taken::Done,
        })
    }

    /// Resolves the agents that the node offers.
    async fn resolve(&self, session: &Session, directory: &Path) -> anyhow::Result<NodeTeam> {
        let is_offered = |settings: &_| is_offered(&self.offer, &self.name, settings);
        let host = &self.host_environment;
        let answers = self.answers_of(session.began.id);
        NodeTeam::resolve(session, directory, &self.store, host, &is_offered, answers).await
    }

    /// Returns the answers that people gave for a session. Those of too many sessions are forgotten, and asked for again.
    fn answers_of(&self, session: SessionId) -> SessionAnswers {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST_REMEMBERED {
            answers.clear();
        }
        answers.entry(session).or_default().clone()
    }

    /// Finds the directory of a session on this machine.
    async fn place(&self, session: &Session) -> anyhow::Result<Option<PathBuf>> {
        let origin = self.shared.origin(session.began.id).await?;
        let (places, host) = (self.places.clone(), Arc::clone(&self.host_environment));
        let directory = PathBuf::from(&session.began.directory);
        let find = move || places.find(&directory, origin.as_ref(), &host);
        Ok(tokio::task::spawn_blocking(find).await?)
    }
}
