//! Teams of agents that say what a test has them say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput};
use convoke_redact::Redactor;
use convoke_session::event_queue::Observer;
use convoke_session::{MemberAgent, MemberName, SessionEvent, SessionEventKind, TeamAgents};
use convoke_team::Team;
use tokio::sync::Semaphore;

pub const TEAM: &str = r#"
    [[member]]
    name = "ada"
    human = true
    [[member]]
    name = "max"
    agent = "claude"
    [[member]]
    name = "cody"
    agent = "codex"
    node = "build-server"
"#;

/// An agent whose turns end when they are let to.
pub struct Gated {
    name: &'static str,
    gate: Arc<Semaphore>,
    begun: Arc<Semaphore>,
    turns: Mutex<u32>,
}

/// The gate of an agent's turns.
#[derive(Clone)]
pub struct Gate {
    gate: Arc<Semaphore>,
    begun: Arc<Semaphore>,
}

impl Gate {
    pub fn closed() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), begun: Arc::new(Semaphore::new(0)) }
    }

    pub fn open() -> Self {
        Self { gate: Arc::new(Semaphore::new(1000)), begun: Arc::new(Semaphore::new(0)) }
    }

    /// Lets one turn end.
    pub fn let_one_end(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until one more turn has begun.
    pub async fn begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }
}

impl Agent for Gated {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let mut turns = self.turns.lock().unwrap();
        *turns += 1;
        let text = format!("{} says {}", self.name, *turns);
        drop(turns);
        let mut inner =
            StandIn::new(Script { turns: vec![vec![Step::Say(text)]] }).start(turn_input);
        let (turn, side) = AgentTurn::open(Redactor::for_env(&[]));
        let gate = Arc::clone(&self.gate);
        self.begun.add_permits(1);
        tokio::spawn(async move {
            gate.acquire().await.unwrap().forget();
            while let Some(event) = inner.next().await {
                side.send(event).await;
            }
            side.finish(inner.result().await).await;
        });
        turn
    }
}

/// Returns the team with these agents; the others run elsewhere.
pub fn team(agents: &[(&'static str, &Gate)]) -> TeamAgents {
    let team = Team::parse(TEAM).unwrap();
    let agent = |(name, gate): &(&'static str, &Gate)| {
        let (gate, begun) = (Arc::clone(&gate.gate), Arc::clone(&gate.begun));
        let gated = Gated { name, gate, begun, turns: Mutex::default() };
        (MemberName::from(*name), MemberAgent::new(Arc::new(gated), "/"))
    };
    let mut team_agents =
        TeamAgents::new(team, agents.iter().map(agent).collect::<HashMap<_, _>>());
    for name in ["max", "cody"] {
        if agents.iter().all(|(here, _)| *here != name) {
            team_agents.elsewhere.insert(name.into());
        }
    }
    team_agents
}

/// The events of a conversation, as lines.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<String>>>);

impl Observer for Seen {
    fn observe(&mut self, event: SessionEvent) {
        self.0.lock().unwrap().extend(line(&event.kind));
    }
}

impl Seen {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for a line.
    pub async fn wait_for(&self, wanted: &str) {
        let seen = async {
            while !self.lines().iter().any(|line| line.contains(wanted)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_mins(2), seen).await;
        assert!(in_time.is_ok(), "`{wanted}` is not in {:?}", self.lines());
    }
}

/// Returns what an event says of the conversation itself.
fn line(kind: &SessionEventKind) -> Option<String> {
    Some(match kind {
        SessionEventKind::Message(message) => {
            format!("{} {}: {}", message.number, message.from, message.text)
        }
        SessionEventKind::TurnQueued { turn, member, .. } => format!("queued {turn} {member}"),
        SessionEventKind::TurnStarted { turn, attempt, .. } => format!("started {turn}.{attempt}"),
        SessionEventKind::TurnEnded { turn, state, .. } => {
            format!("ended {turn} {}", state.as_str())
        }
        SessionEventKind::TurnOffered { turn, member, node } => {
            format!("offered {turn} {member} {}", node.as_deref().unwrap_or("anywhere"))
        }
        SessionEventKind::Diagnostic { diagnostic, .. } => diagnostic.code.name().to_owned(),
        _ => return None,
    })
}
