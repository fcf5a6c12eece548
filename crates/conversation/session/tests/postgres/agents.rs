//! Teams of scripted agents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::clock::now;
use convoke_agent::turn_input::Permissions;
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::MemberName;
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use convoke_protocol::verdict::Verdict;
use convoke_redact::Redactor;
use convoke_session::event_queue::Observer;
use convoke_session::{MemberAgent, TeamAgents};
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

/// An agent whose turns end when its gate opens.
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
            let is_let = tokio::select! {
                permit = gate.acquire() => {
                    permit.unwrap().forget();
                    true
                }
                () = side.cancelled() => false,
            };
            if !is_let {
                return side.finish(TurnResult::new(Verdict::Cancelled)).await;
            }
            while let Some(event) = inner.next().await {
                side.send(event).await;
            }
            side.finish(inner.result().await).await;
        });
        turn
    }
}

/// An agent that asks before it acts, and replies with the answer.
struct Asking;

impl Agent for Asking {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::for_env(&[]));
        let question = PermissionQuestion {
            id: "q".to_owned(),
            tool: "Bash".to_owned(),
            summary: "make x".to_owned(),
            input: "{\"command\":\"make x\"}".to_owned(),
            is_command: true,
            ..PermissionQuestion::default()
        };
        tokio::spawn(async move {
            let decided = turn_input.approvals.decide(&question);
            // By the clock of this machine, as a supervisor says it.
            let expires_at = if decided.is_some() { 0 } else { now().0 + 60_000 };
            let asked = AgentEventKind::PermissionAsked { question: question.clone(), expires_at };
            side.send(AgentEvent::own(asked)).await;
            let (answer, by) = if let Some(decided) = decided {
                decided
            } else {
                tokio::select! {
                    (_, answer) = side.answer() => {
                        turn_input.approvals.remember(&question, answer);
                        (answer, AnsweredBy::Person)
                    }
                    () = turn_input.approvals.unattended() => {
                        (PermissionAnswer::Never, AnsweredBy::Nobody)
                    }
                    () = side.cancelled() => {
                        return side.finish(TurnResult::new(Verdict::Cancelled)).await;
                    }
                }
            };
            let answered = AgentEventKind::PermissionAnswered { id: question.id, answer, by };
            side.send(AgentEvent::own(answered)).await;
            let reply = format!("told {}", answer.as_str());
            side.finish(TurnResult { reply, ..TurnResult::new(Verdict::Done) }).await;
        });
        turn
    }
}

/// Returns a team whose member cody asks here; max runs elsewhere.
pub fn asking_team() -> TeamAgents {
    let mut cody = MemberAgent::new(Arc::new(Asking), "/");
    cody.permissions = Permissions::Ask;
    let agents = HashMap::from([(MemberName::from("cody"), cody)]);
    let mut team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), agents);
    team_agents.elsewhere.insert("max".into());
    team_agents
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
    fn observe(&mut self, event: Event) {
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

/// Returns the line for an event of the conversation itself.
fn line(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Message(message) => {
            format!("{} {}: {}", message.number, message.from(), message.text)
        }
        EventKind::TurnQueued { turn, member, .. } => format!("queued {turn} {member}"),
        EventKind::TurnStarted { turn, attempt, .. } => format!("started {turn}.{attempt}"),
        EventKind::TurnEnded { turn, state, .. } => {
            format!("ended {turn} {}", state.as_str())
        }
        EventKind::TurnOffered { turn, member, node, problem } => {
            let problem = problem.as_ref().map(|problem| format!(": {problem}"));
            let node = node.as_deref().unwrap_or("anywhere");
            format!("offered {turn} {member} {node}{}", problem.unwrap_or_default())
        }
        EventKind::PermissionAsked { question, .. } => {
            format!("asked {}: {}", question.id, question.summary)
        }
        EventKind::PermissionAnswered { id, answer, by, .. } => {
            format!("answered {id}: {} by {}", answer.as_str(), by.as_str())
        }
        EventKind::Diagnostic { diagnostic, .. } => diagnostic.code.name().to_owned(),
        _ => return None,
    })
}
