//! One simulated conversation, run by the model and by the coordinator.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput};
use convoke_protocol::event::{Event, StopReason};
use convoke_protocol::id::{MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::NewSession;
use convoke_protocol::turn::TurnState;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::replay::{ReplayResult, verify};
use convoke_session::verify::rebuild;
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, Store, TeamAgents};
use convoke_team::Team;

use super::model::{MessageRow, Model, TurnRow};
use super::script::{AGENTS, AgentScript, PEOPLE, PersonAction, Random, actions, agent_script};

pub struct World {
    seed: u64,
    agents: usize,
    turn_limit: u64,
    queue_limit: u64,
    parallel: bool,
    actions: Vec<PersonAction>,
}

/// The result of a conversation run by the coordinator.
pub struct FinishedConversation {
    pub stops: Vec<String>,
    pub messages: Vec<MessageRow>,
    pub turns: Vec<TurnRow>,
    pub task: Option<String>,
    asked: u64,
    attempts: u64,
}

struct Actor {
    seed: u64,
    asked: Arc<AtomicU64>,
}

impl Agent for Actor {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let AgentScript { line, fails } = agent_script(self.seed, nth);
        let mut steps = vec![Step::Say(line.text)];
        if fails {
            steps.push(Step::Fail(Failure::new(FailureReason::Server, "overloaded")));
        }
        StandIn::new(Script { turns: vec![steps] }).start(turn_input)
    }
}

impl World {
    pub fn new(seed: u64, parallel: bool) -> Self {
        let mut random = Random(seed);
        Self {
            seed,
            agents: 2 + usize::try_from(random.below(3)).unwrap(),
            turn_limit: 1 + random.below(30),
            queue_limit: 1 + random.below(12),
            parallel,
            actions: actions(seed),
        }
    }

    /// Returns the model's result, and its reasons for stopping.
    pub fn expected(&self) -> (Model, Vec<String>) {
        let queue_limit = usize::try_from(self.queue_limit).unwrap();
        let mut model = Model::new(self.agents, self.turn_limit, queue_limit);
        let perform = |nth| agent_script(self.seed, nth);
        let mut stops = vec![];
        for action in &self.actions {
            match action {
                PersonAction::Say { person, line, to } => {
                    model.say(person, line, &self.present(to));
                }
                PersonAction::GoOn => {}
                PersonAction::Retry => stops.push(format!("retry {:?}", model.retry())),
                PersonAction::Reopen => model.reopen(),
            }
            stops.push(model.run(perform));
        }
        (model, stops)
    }

    /// Leaves out members that are not in the team.
    fn present(&self, to: &[&'static str]) -> Vec<&'static str> {
        to.iter().copied().filter(|name| AGENTS[..self.agents].contains(name)).collect()
    }

    fn team_agents(&self, asked: &Arc<AtomicU64>) -> TeamAgents {
        let mut file = format!(
            "[limits]\nturns = {}\nqueue = {}\nparallel = {}\n",
            self.turn_limit, self.queue_limit, self.parallel
        );
        for person in PEOPLE {
            let _ = writeln!(file, "[[member]]\nname = \"{person}\"\nhuman = true");
        }
        let mut seats = HashMap::new();
        for agent in &AGENTS[..self.agents] {
            let _ = writeln!(file, "[[member]]\nname = \"{agent}\"\nagent = \"gemini\"");
            let actor = Actor { seed: self.seed, asked: asked.clone() };
            seats.insert(MemberName::from(*agent), MemberAgent::new(Arc::new(actor), "/"));
        }
        TeamAgents::new(Team::parse(&file).unwrap(), seats)
    }

    pub async fn hold(&self, store: &SqliteStore) -> FinishedConversation {
        let asked = Arc::new(AtomicU64::new(0));
        let id = SessionId::generate();
        let new = NewSession {
            id,
            created_at: Millis(0),
            name: None,
            directory: String::new(),
            team: String::new(),
            task: None,
            rehearsal: None,
        };
        let team_agents = self.team_agents(&asked);
        let mut coordinator =
            Coordinator::create(store.clone(), new, team_agents.clone(), Box::new(|_: Event| {}))
                .await
                .unwrap();
        let mut stops = vec![];
        for action in &self.actions {
            match action {
                PersonAction::Say { person, line, to } => {
                    let saying = NewMessage::from_person(*person, &*line.text).to(self.present(to));
                    coordinator.accept(saying).await.unwrap();
                }
                PersonAction::GoOn => {}
                PersonAction::Retry => {
                    let ended = last_without_reply(store, id).await;
                    if let Some(turn) = ended {
                        coordinator.retry(turn).await.unwrap();
                    }
                    stops.push(format!("retry {:?}", ended.map(|turn| turn.0)));
                }
                PersonAction::Reopen => {
                    drop(coordinator);
                    let observer = Box::new(|_: Event| {});
                    coordinator =
                        Coordinator::open(store.clone(), id, team_agents.clone(), observer)
                            .await
                            .unwrap();
                }
            }
            stops.push(word(&coordinator.run().await.unwrap()));
        }
        drop(coordinator);
        self.read(store, id, stops, asked.load(Ordering::SeqCst)).await
    }

    async fn read(
        &self,
        store: &SqliteStore,
        id: SessionId,
        stops: Vec<String>,
        asked: u64,
    ) -> FinishedConversation {
        let messages = store.messages_after(id, MessageNumber(0), 10_000).await.unwrap();
        let turns = store.turns_after(id, TurnId(0), 10_000).await.unwrap();
        let mut attempts = 0;
        for turn in &turns {
            attempts += u64::from(turn.attempts);
        }
        assert_eq!(rebuild(store, id).await.unwrap(), [], "seed {}", self.seed);
        // Every prompt can be assembled again; only some are checked, because this takes the longest.
        let replayed =
            if self.seed.is_multiple_of(8) { verify(store, id).await.unwrap() } else { vec![] };
        for replayed in replayed {
            assert_eq!(replayed.result, ReplayResult::Same, "seed {}: {replayed:?}", self.seed);
        }
        let session = store.session(id).await.unwrap();
        assert_eq!(session.state.last_message.0, messages.len() as u64);
        assert_eq!(session.state.last_turn.0, turns.len() as u64);
        FinishedConversation {
            stops,
            messages: messages
                .into_iter()
                .map(|Message { number, answers, message, .. }| MessageRow {
                    number: number.0,
                    from: message.speaker.name().to_owned(),
                    to: message.addressees().to_vec(),
                    content: message.content,
                    answers: answers.map(|number| number.0),
                })
                .collect(),
            turns: turns
                .into_iter()
                .map(|turn| TurnRow {
                    number: turn.id.0,
                    member: turn.member.as_str().to_owned(),
                    answers: turn.answers.0,
                    intent: turn.intent,
                    state: turn.state.as_str(),
                    reply: turn.reply.map(|number| number.0),
                })
                .collect(),
            task: session.state.task,
            asked,
            attempts,
        }
    }
}

impl FinishedConversation {
    /// Checks properties that hold in any order of replies.
    pub fn check(&self) {
        assert_eq!(self.attempts, self.asked, "every time an agent was asked is on record");
        let mut replies: Vec<u64> = self.turns.iter().filter_map(|turn| turn.reply).collect();
        let count = replies.len();
        replies.sort_unstable();
        replies.dedup();
        assert_eq!(replies.len(), count, "no two turns have one reply");
        for message in &self.messages {
            let turn = self.turns.iter().find(|turn| turn.reply == Some(message.number));
            let is_agent = AGENTS.contains(&message.from.as_str());
            assert!(!is_agent || turn.is_some(), "an agent speaks only in its turn");
            if let Some(turn) = turn {
                assert_eq!(turn.member, message.from, "nobody speaks in another's turn");
                assert_eq!(Some(turn.answers), message.answers, "a turn answers its message");
            }
        }
        for turn in &self.turns {
            assert_ne!(turn.state, "running", "nobody is at work");
            assert_eq!(turn.state == "done", turn.reply.is_some(), "what is done has a reply");
        }
    }
}

/// Finds the turn that ended last without a reply.
async fn last_without_reply(store: &SqliteStore, id: SessionId) -> Option<TurnId> {
    let turns = store.turns_after(id, TurnId(0), 10_000).await.unwrap();
    let ended =
        turns.iter().filter(|turn| matches!(turn.state, TurnState::Failed | TurnState::Cancelled));
    ended.max_by_key(|turn| turn.id).map(|turn| turn.id)
}

fn word(stop: &StopReason) -> String {
    match stop {
        StopReason::Idle { person } => format!("idle {person}"),
        StopReason::Addressed { person, turn, .. } => format!("addressed {person} {turn}"),
        StopReason::TurnFailed { turns, .. } => format!("failed {}", turns[0].turn),
        StopReason::TurnLimit { .. } => "turn-limit".to_owned(),
        StopReason::Repetition { member, times, .. } => format!("repetition {member} {times}"),
        StopReason::QueueFull { left_out, .. } => format!("queue-full {left_out}"),
        StopReason::Cancelled { .. } | StopReason::Left => "somebody interfered".to_owned(),
    }
}
