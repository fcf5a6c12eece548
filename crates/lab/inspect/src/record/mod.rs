//! Recorded requests: stores the requests of an agent's program with the turn that sent them.
//!
//! A [`RecordingAgent`] runs another agent, whose program speaks to a rehearsal server, and a
//! [`RelayingAgent`] points the program of each turn to a relay. A [`WatchedProgram`] is one that a person runs in their own
//! terminal. All store what the server saw in the thread of the member, as `convoke-model` does with its own requests.
//! [`cache`] compares them.

pub mod cache;
mod ledger;
pub(crate) mod relayed_program;
mod relaying;
mod turn_record;
mod watching;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use convoke_agent::redaction::{EventRedactor, redact_result};
use convoke_agent::thread::ThreadStore;
use convoke_agent::turn::{Continuity, TurnSide};
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::id::ThreadId;
use convoke_protocol::resume::ResumeHandle;
use convoke_redact::Redactor;
use convoke_rehearsal::RequestFeed;
use convoke_vendor::MeasuredCli;
use tokio::sync::{Mutex, watch};

use self::ledger::{HandedOver, Program};
pub use self::relaying::RelayingAgent;
use self::turn_record::{Room, TurnRecord};
pub use self::watching::{WatchError, Watched, WatchedProgram, WatchingAgent};
use crate::capture::UserHome;

/// The configuration of a recording agent.
#[derive(Clone)]
pub struct Recording {
    /// The program.
    pub vendor: &'static dyn MeasuredCli,
    /// Its version, if known.
    pub version: Option<String>,
    /// The store of the requests.
    pub store: Arc<dyn ThreadStore>,
    /// The thread of the member.
    pub thread: ThreadId,
    /// Removes secrets from everything that is stored.
    pub redactor: Redactor,
    /// The home that the program reads its configuration from.
    pub home: ProgramHome,
}

impl Recording {
    fn program(&self) -> Program {
        let Self { vendor, version, home, .. } = self;
        Program { vendor: *vendor, version: version.clone(), home: home.clone() }
    }
}

/// The home of a program.
#[derive(Debug, Clone)]
pub enum ProgramHome {
    /// The user's own: files in it are the user's.
    Users(UserHome),
    /// A private one: files in it are the program's.
    Private(PathBuf),
}

/// An agent whose program speaks to a rehearsal server.
pub struct RecordingAgent {
    agent: Arc<dyn Agent>,
    feed: Arc<Mutex<RequestFeed>>,
    recording: Arc<Recording>,
}

impl RecordingAgent {
    /// Creates an agent that stores the requests of another, whose program speaks to the server of the feed.
    pub fn new(agent: Arc<dyn Agent>, feed: RequestFeed, recording: Recording) -> Self {
        Self { agent, feed: Arc::new(Mutex::new(feed)), recording: Arc::new(recording) }
    }
}

impl Agent for RecordingAgent {
    fn continuity(&self) -> Continuity {
        self.agent.continuity()
    }

    fn holds(&self, thread: &ThreadId, handle: &ResumeHandle) -> bool {
        self.agent.holds(thread, handle)
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(self.recording.redactor.clone());
        let (agent, feed) = (Arc::clone(&self.agent), Arc::clone(&self.feed));
        let recording = Arc::clone(&self.recording);
        tokio::spawn(async move {
            let handed_over = HandedOver::new(&turn_input, recording.program());
            let attempt = turn_input.attempt;
            let mut record = TurnRecord::new(recording, handed_over, attempt, Room::Turn);
            let mut feed = feed.lock().await;
            // A request that came after the end of the last turn belongs to none.
            while feed.take().is_some() {}
            let mut result = {
                let mut forwarded = pin!(forward(agent.start(turn_input), &side, None));
                loop {
                    tokio::select! {
                        biased;
                        request = feed.next() => record.rehearsed(request, &side).await,
                        result = &mut forwarded => break result,
                    }
                }
            };
            while let Some(request) = feed.take() {
                record.rehearsed(request, &side).await;
            }
            drop(feed);
            record.finish(&mut result, &side).await;
            side.finish(result).await;
        });
        turn
    }
}

/// Passes on the events of a turn, without the secrets that become known while it runs, and to the turn the answers and
/// the cancellation. Returns its result.
async fn forward(
    mut turn: AgentTurn,
    side: &TurnSide,
    mut secrets: Option<watch::Receiver<Redactor>>,
) -> TurnResult {
    let mut redaction = secrets.as_ref().map(|it| EventRedactor::new(it.borrow().clone()));
    let (canceller, answerer) = (turn.canceller(), turn.answerer());
    let mut is_cancelled = false;
    loop {
        tokio::select! {
            biased;
            event = turn.next() => match event {
                Some(event) if matches!(event.kind, AgentEventKind::Finished { .. }) => {}
                Some(event) => match (&mut redaction, &mut secrets) {
                    (Some(redaction), Some(secrets)) => {
                        if secrets.has_changed().unwrap_or(false) {
                            let known = secrets.borrow_and_update().clone();
                            send_all(side, redaction.replace(known)).await;
                        }
                        send_all(side, redaction.take(event).await).await;
                    }
                    _ => side.send(event).await,
                },
                None => {
                    let mut result = turn.result().await;
                    if let (Some(mut redaction), Some(secrets)) = (redaction, secrets) {
                        send_all(side, redaction.finish()).await;
                        let known = secrets.borrow().clone();
                        if let Err(failed) = redact_result(&mut result, &known).await {
                            side.warn(failed.clone()).await;
                            result.diagnostics.push(failed);
                        }
                    }
                    return result;
                }
            },
            (question, answer) = side.answer() => answerer.answer(&question, answer),
            () = side.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                canceller.cancel();
            }
        }
    }
}

async fn send_all(side: &TurnSide, events: Vec<AgentEvent<'static>>) {
    for event in events {
        side.send(event).await;
    }
}
