//! The child process: two models answer a person; turns that fail or are cancelled are retried.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use convoke_agent::config::{Api, ApiWire};
use convoke_agent::thread::ThreadStore;
use convoke_model::{Host, ModelAgent, Settings};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MemberName, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::session::NewSession;
use convoke_protocol::turn::TurnState;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::sqlite::Durability;
use convoke_session::{
    Controls, Coordinator, MemberAgent, NewMessage, SqliteStore, Store, TeamAgents,
};
use convoke_team::Team;
use convoke_thread::config::Machine;

pub const DIRECTORY: &str = "CONVOKE_CRASH_DIRECTORY";
pub const FAILPOINT: &str = "CONVOKE_CRASH_FAILPOINT";
pub const SERVER: &str = "CONVOKE_CRASH_SERVER";
/// The text that a model writes before it hangs.
pub const THINKING: &str = "I am thin";
/// The context window in tokens. The server always counts more than nine tenths of it.
pub const WINDOW: u64 = 100_000;

const TEAM: &str = r#"
    briefing = false
    [context]
    window = 0
    [[member]]
    name = "kim"
    human = true
    [[member]]
    name = "ada"
    agent = "api"
    [[member]]
    name = "bob"
    agent = "api"
"#;

/// The messages of the person, in order.
const SAYINGS: [&str; 3] = [
    "first [NEXT: ada]",
    "second, which fails at first [NEXT: ada, bob]",
    "third, which is cancelled at first [NEXT: ada]",
];

pub fn session() -> SessionId {
    "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap()
}

pub fn thread(member: &str) -> ThreadId {
    ThreadId::of_member(session(), member)
}

pub fn main(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(talk(directory));
}

/// Creates a model that keeps its thread in the store.
fn model(name: &str, wire: ApiWire, work: PathBuf, threads: Arc<dyn ThreadStore>) -> ModelAgent {
    let api = Api {
        base_url: Some(std::env::var(SERVER).unwrap()),
        wire,
        context_window: Some(WINDOW),
        ..Api::default()
    };
    let settings = Settings { api, model: Some("m".to_owned()), thread: Some(thread(name)) };
    let host = Host {
        env: Vec::new(),
        machine: Machine {
            home: None,
            codex_home: work.clone(),
            cwd: work,
            shell: "bash".to_owned(),
            tmpdir: None,
            openai_base_url: None,
        },
        private: Vec::new(),
        programs: convoke_agent::Programs::default(),
        pack: Arc::new(convoke_packs::convoke().unwrap()),
        store: threads,
    };
    ModelAgent::new(settings, host)
}

async fn talk(directory: &Path) {
    let failpoint = match std::env::var(FAILPOINT) {
        Ok(nth) => Failpoint::at(nth.parse().unwrap()),
        Err(_) => Failpoint::default(),
    };
    let state = directory.join("state");
    let store = SqliteStore::open_with(&state, Durability::PowerCut, failpoint).await.unwrap();
    let threads: Arc<dyn ThreadStore> = Arc::new(store.clone());
    let work = directory.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let seats = [("ada", ApiWire::Responses), ("bob", ApiWire::Chat)].map(|(name, wire)| {
        let agent = model(name, wire, work.clone(), Arc::clone(&threads));
        (MemberName::from(name), MemberAgent::new(Arc::new(agent), &work))
    });
    let team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), HashMap::from(seats));
    let controls: Arc<OnceLock<Controls>> = Arc::default();
    let steering = Arc::clone(&controls);
    let observer = Box::new(move |event: Event| {
        if let EventKind::Agent { event, .. } = event.kind
            && matches!(&event.kind, AgentEventKind::Text { text, .. } if text.contains(THINKING))
            && let Some(controls) = steering.get()
        {
            controls.cancel_turn();
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
    controls.set(coordinator.controls()).unwrap_or_else(|_| panic!("there are two"));
    loop {
        let stop = coordinator.run().await.unwrap();
        let turns = store.turns_after(session(), TurnId(0), 1000).await.unwrap();
        let again = turns
            .iter()
            .find(|turn| matches!(turn.state, TurnState::Failed | TurnState::Cancelled));
        if let Some(turn) = again {
            coordinator.retry(turn.id).await.unwrap();
            continue;
        }
        assert!(matches!(stop, StopReason::Idle { .. }), "{stop:?}");
        let said = store.messages_after(session(), MessageNumber(0), 1000).await.unwrap();
        let said = said.iter().filter(|message| !message.message.speaker.is_ai()).count();
        let Some(saying) = SAYINGS.get(said) else { break };
        coordinator.accept(NewMessage::from_person("kim", *saying)).await.unwrap();
    }
    store.close().await;
}
