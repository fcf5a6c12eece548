//! The child process: runs a conversation in which every message depends on the earlier ones, so that it ends
//! the same way however often it is interrupted.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput};
use convoke_core::marker::{TextPolicy, strip_all_markers};
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MemberName, MessageNumber, Millis, SessionId};
use convoke_protocol::message::Message;
use convoke_protocol::session::NewSession;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::sqlite::Durability;
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, Store, TeamAgents};
use convoke_team::Team;

pub const DIRECTORY: &str = "CONVOKE_CRASH_DIRECTORY";
pub const FAILPOINT: &str = "CONVOKE_CRASH_FAILPOINT";
pub const ACKNOWLEDGED: &str = "acknowledged ";

const TEAM: &str = r#"
    [[member]]
    name = "kailai"
    human = true
    [[member]]
    name = "max"
    agent = "claude"
    [[member]]
    name = "sarah"
    agent = "codex"
"#;

/// The messages of the person, in order.
const SAYINGS: [&str; 3] =
    ["first [NEXT: max, sarah]", "second [TEAM_TASK: go on] [NEXT: sarah!P1]", "third [NEXT: max]"];

pub fn session() -> SessionId {
    "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap()
}

/// Returns a message as one line.
pub fn line(message: &Message) -> String {
    let stored = &message.message;
    let text = strip_all_markers(&stored.content, TextPolicy::Preserve);
    format!("{} {} {text:?}", message.number, stored.speaker.name())
}

/// Replies with its prompt.
struct Echo(&'static str);

impl Agent for Echo {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let heard = turn_input.prompt.lines().last().unwrap_or_default();
        let next = if heard.contains("hears") { "" } else { " [NEXT: sarah]" };
        let reply = format!("{} hears: {heard}{next}", self.0);
        StandIn::new(Script { turns: vec![vec![Step::Say(reply)]] }).start(turn_input)
    }
}

pub fn main(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(talk(directory));
}

async fn talk(directory: &Path) {
    let failpoint = match std::env::var(FAILPOINT) {
        Ok(nth) => Failpoint::at(nth.parse().unwrap()),
        Err(_) => Failpoint::default(),
    };
    let store = SqliteStore::open_with(directory, Durability::PowerCut, failpoint).await.unwrap();
    let seats = ["max", "sarah"]
        .map(|name| (MemberName::from(name), MemberAgent::new(Arc::new(Echo(name)), directory)));
    let team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), HashMap::from(seats));
    let observer = Box::new(|event: Event| {
        if let EventKind::Message(message) = event.kind {
            let (number, from, text) = (message.number, message.from(), &message.text);
            // On a separate line, whatever the test harness has written.
            println!("\n{ACKNOWLEDGED}{number} {from} {text:?}");
            std::io::stdout().flush().unwrap();
        }
    });
    let known = store.session(session()).await.is_ok();
    let mut coordinator = if known {
        Coordinator::open(store.clone(), session(), team_agents, observer).await.unwrap()
    } else {
        let new = NewSession {
            id: session(),
            created_at: Millis(0),
            name: None,
            directory: "/project".to_owned(),
            team: TEAM.to_owned(),
            task: None,
            rehearsal: None,
        };
        Coordinator::create(store.clone(), new, team_agents, observer).await.unwrap()
    };
    loop {
        let stop = coordinator.run().await.unwrap();
        assert!(matches!(stop, StopReason::Idle { .. }), "{stop:?}");
        let said = store.messages_after(session(), MessageNumber(0), 1000).await.unwrap();
        let said = said.iter().filter(|message| !message.message.speaker.is_ai()).count();
        let Some(saying) = SAYINGS.get(said) else { break };
        coordinator.accept(NewMessage::from_person("kailai", *saying)).await.unwrap();
    }
    store.close().await;
}
