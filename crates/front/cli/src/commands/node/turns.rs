//! The turns of a node: claims sessions whose next turn it can run, and runs that turn.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoke_agent::approvals::SessionAnswers;
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::session::Session;
use convoke_session::sharing::{LeftTurn, NodeOffer, TurnRequirements};
use convoke_session::store::postgres::{Commits, PostgresStore, SessionLease};
use convoke_session::store::{Holder, SessionHold as _};
use convoke_session::{AnyStore, Coordinator, CoordinatorError, Store as _, StoreError};
use convoke_team::AgentSettings;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::LOOK;
use super::output::NodeOutput;
use crate::conversation::node_team::NodeTeam;
use crate::conversation::origin::ProjectDirectories;

/// The time for which a turn that cannot run here is left to other nodes: at first, and at most, after repeated
/// checks.
const EXCLUDED: Duration = Duration::from_mins(1);
const MAX_EXCLUSION: Duration = Duration::from_hours(1);
/// The maximum number of turns that are left to other nodes.
const MAX_EXCLUDED: usize = 100_000;
/// The maximum number of sessions whose answers are remembered.
const MAX_REMEMBERED: usize = 1000;

/// The maximum number of turns left to other nodes that are reported, and of the characters of a reason.
const MAX_REPORTED: usize = 64;
const MAX_PROBLEM_CHARACTERS: usize = 500;

/// The turns that are left to other nodes.
type Excluded = HashMap<(SessionId, Option<TurnId>), Exclusion>;

/// A time for which a turn is left to other nodes.
struct Exclusion {
    since: Instant,
    time: Duration,
    problem: String,
}

/// Claims and runs turns.
pub(super) struct Turns {
    pub(super) store: AnyStore,
    pub(super) shared: PostgresStore,
    pub(super) name: String,
    pub(super) offer: NodeOffer,
    pub(super) places: ProjectDirectories,
    pub(super) host_environment: Arc<HostEnvironment>,
    pub(super) holder: Holder,
    pub(super) shown: NodeOutput,
    /// The maximum number of concurrent turns.
    pub(super) most: usize,
    /// The answers that people gave for each session, which hold for its next turns.
    pub(super) answers: Mutex<HashMap<SessionId, SessionAnswers>>,
    /// The turns that were left to other nodes, as reported.
    pub(super) left: watch::Sender<Vec<LeftTurn>>,
}

/// A claimed session, and the turn that is left to other nodes, if there is one.
type ClaimResult = (SessionId, anyhow::Result<Option<LeftTurn>>);

impl Turns {
    /// Runs turns until it is asked to stop and the running ones have ended. Dropping it earlier terminates the agents.
    pub(super) async fn take(self, mut draining: watch::Receiver<bool>) -> anyhow::Result<()> {
        let this = Arc::new(self);
        let mut running: JoinSet<ClaimResult> = JoinSet::new();
        let mut excluded = Excluded::new();
        let mut is_refused = false;
        // Subscribed before the first search: later offers are announced.
        let mut commits = this.shared.listen().await.ok();
        loop {
            let is_draining = *draining.borrow_and_update();
            if is_draining && running.is_empty() {
                return Ok(());
            }
            excluded.retain(|_, it| it.since.elapsed() < MAX_EXCLUSION);
            if !is_draining && running.len() < this.most {
                let claimed = tokio::select! {
                    claimed = this.claim(&excluded) => claimed,
                    // A store that does not respond must not delay the end of the node.
                    _ = draining.changed() => continue,
                };
                match claimed {
                    Ok(Some((session, lease))) => {
                        let taking = Arc::clone(&this);
                        running.spawn(async move {
                            (session, Box::pin(taking.run_or_leave(session, lease)).await)
                        });
                        continue;
                    }
                    Ok(None) => this.shown.reach(&mut is_refused, None)?,
                    // The heartbeat reports it.
                    Err(error) if error.is_transient() => {}
                    Err(error) if error.is_refusal() => {
                        this.shown.reach(&mut is_refused, Some(&error.to_string()))?;
                    }
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

    /// Claims a session: one that was not left to other nodes, or else one that was and is looked at again.
    async fn claim(
        &self,
        excluded: &Excluded,
    ) -> Result<Option<(SessionId, SessionLease)>, StoreError> {
        let left: Vec<_> = excluded.keys().copied().collect();
        let claimed = self.claim_but(&left).await?;
        let still = excluded.iter().filter(|(_, it)| it.since.elapsed() < it.time);
        let still: Vec<_> = still.map(|(turn, _)| *turn).collect();
        if claimed.is_some() || still.len() == left.len() {
            return Ok(claimed);
        }
        self.claim_but(&still).await
    }

    /// Claims a session. A claim whose answer is lost ends with its lease.
    async fn claim_but(
        &self,
        excluded: &[(SessionId, Option<TurnId>)],
    ) -> Result<Option<(SessionId, SessionLease)>, StoreError> {
        let claim = self.shared.claim_offered(&self.name, &self.offer, excluded, &self.holder);
        tokio::time::timeout(self.shared.lease_duration(), claim).await.unwrap_or(Ok(None))
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

    /// Records the end of a turn.
    fn note(&self, (session, taken): ClaimResult, excluded: &mut Excluded) -> anyhow::Result<()> {
        let left = match taken {
            Ok(left) => left,
            Err(error) => return Ok(self.shown.failed(session, &format!("{error:#}"))?),
        };
        self.left.send_if_modified(|all| {
            let before = all.clone();
            all.retain(|earlier| earlier.session != session);
            all.extend(left.clone());
            all.drain(..all.len().saturating_sub(MAX_REPORTED));
            *all != before
        });
        let Some(LeftTurn { turn, problem, .. }) = left else { return Ok(()) };
        let before = excluded.remove(&(session, turn));
        let time = before.as_ref().map_or(EXCLUDED, |it| (2 * it.time).min(MAX_EXCLUSION));
        if before.is_none_or(|it| it.problem != problem) {
            self.shown.failed(session, &problem)?;
        }
        if excluded.len() < MAX_EXCLUDED {
            excluded.insert((session, turn), Exclusion { since: Instant::now(), time, problem });
        }
        Ok(())
    }

    /// Runs the next turn of a claimed session. Returns the turn if it cannot run here; fails if the session was lost.
    async fn run_or_leave(
        &self,
        session: SessionId,
        lease: SessionLease,
    ) -> anyhow::Result<Option<LeftTurn>> {
        let lost = lease.lost();
        let duration = self.shared.lease_duration();
        let ran = tokio::select! {
            ran = self.run(session, lease) => ran,
            // Ends whatever waits for a lost connection.
            () = async { lost.await; tokio::time::sleep(duration).await } => {
                Err(StoreError::HoldLost { session }.into())
            }
        };
        let (problem, is_error) = match ran {
            Ok(None) => return Ok(None),
            Ok(Some(problem)) => (problem, false),
            Err(error) if is_lost(&error) => return Err(error),
            Err(error) => (format!("{error:#}"), true),
        };
        let offer = self.shared.shared_state(session).await?.next;
        let is_own =
            offer.as_ref().is_some_and(|it| self.offer.meets(&self.name, &it.requirements));
        let problem = problem.chars().take(MAX_PROBLEM_CHARACTERS).collect();
        let left = LeftTurn { session, turn: offer.map(|offer| offer.turn), problem };
        Ok((is_own || is_error).then_some(left))
    }

    /// Runs the next turn of a claimed session. Returns the problem if no turn ran for it.
    async fn run(&self, id: SessionId, lease: SessionLease) -> anyhow::Result<Option<String>> {
        let session = self.store.session(id).await?;
        let resolved = if let Some(directory) = self.place(&session).await? {
            self.resolve(&session, &directory).await
        } else {
            let directory = &session.began.directory;
            Err(anyhow::anyhow!(
                "no directory here for {directory}: start the node there, with --map {directory}=DIR, or with \
                 --project DIR for its repository"
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
        Ok(problem.filter(|_| !has_run))
    }

    /// Resolves the agents that the node offers.
    async fn resolve(&self, session: &Session, directory: &Path) -> anyhow::Result<NodeTeam> {
        let is_offered = |settings: &AgentSettings| {
            let (agent, node) = (settings.agent.clone(), settings.node.clone());
            self.offer.meets(&self.name, &TurnRequirements { agent, node })
        };
        let host = &self.host_environment;
        let answers = self.answers_of(session.began.id);
        NodeTeam::resolve(session, directory, &self.store, host, &is_offered, answers).await
    }

    /// Returns the answers that people gave for a session. Those of too many sessions are forgotten, and asked for again.
    fn answers_of(&self, session: SessionId) -> SessionAnswers {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_REMEMBERED {
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

/// Returns whether a turn ended because another process may have its session, or the store could not be reached or refused
/// a statement. It can run here all the same.
fn is_lost(error: &anyhow::Error) -> bool {
    let error = match error.downcast_ref::<CoordinatorError>() {
        Some(CoordinatorError::Store(error)) => Some(error),
        _ => error.downcast_ref::<StoreError>(),
    };
    error.is_some_and(|error| {
        let is_passing = error.is_transient() || error.is_refusal();
        is_passing || matches!(error, StoreError::HoldLost { .. })
    })
}
