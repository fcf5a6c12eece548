//! The cost of a long session: opening it, the next turn's prompt, and a turn with an agent that answers
//! at once. `cargo bench -p convoke-session`; `CONVOKE_BENCH_MESSAGES` sets the length.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput};
use convoke_conformance_store::{Log, message, new_session, said};
use convoke_protocol::id::{MessageNumber, SessionId};
use convoke_session::prompt::PromptRecord;
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;

const RUNS: usize = 100;

/// Replies immediately.
struct Instantly;

impl Agent for Instantly {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let text = format!("answer to {} bytes", turn_input.prompt.len());
        StandIn::new(Script { turns: vec![vec![Step::Say(text)]] }).start(turn_input)
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let long = std::env::var("CONVOKE_BENCH_MESSAGES").map_or(100_000, |n| n.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    for visibility in ["all", "addressed"] {
        for messages in [100, long] {
            let data = directory.path().join(format!("{messages}-{visibility}"));
            runtime.block_on(measure(&data, messages, visibility));
        }
    }
}

async fn measure(data: &Path, messages: u64, visibility: &str) {
    let store = SqliteStore::open(data).await.unwrap();
    let session = fill(&store, messages).await;
    store.close().await;
    println!("{messages} messages, visibility {visibility}:");

    let team_agents = team_agents(visibility);
    let mut open = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let store = SqliteStore::open(data).await.unwrap();
        let coordinator =
            Coordinator::open(store.clone(), session, team_agents.clone(), Box::new(|_| {})).await;
        drop(coordinator.unwrap());
        open.push(began.elapsed());
        store.close().await;
    }
    report("open the store and the session", open);

    let store = SqliteStore::open(data).await.unwrap();
    let mut prompt = Vec::new();
    let member = team_agents.team().member("max").unwrap();
    for _ in 0..RUNS {
        let began = Instant::now();
        let last = MessageNumber(messages);
        let input = PromptRecord::new(team_agents.team(), member, None, None, last, last);
        let material = input.read(&store, session).await.unwrap();
        input.assemble(&material).unwrap();
        prompt.push(began.elapsed());
    }
    report("the next turn's prompt", prompt);

    let mut coordinator =
        Coordinator::open(store.clone(), session, team_agents, Box::new(|_| {})).await.unwrap();
    let (mut accept, mut turn) = (Vec::new(), Vec::new());
    for n in 0..RUNS {
        let began = Instant::now();
        let saying = NewMessage::from_person("kailai", format!("question {n} [NEXT: max]"));
        coordinator.accept(saying).await.unwrap();
        accept.push(began.elapsed());
        let began = Instant::now();
        coordinator.run().await.unwrap();
        turn.push(began.elapsed());
    }
    report("accept a message", accept);
    report("a turn with an instant agent", turn);
    store.close().await;
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("  {what:42} median {:>9.1?}  p99 {:>9.1?}  max {:>9.1?}", at(50), at(99), at(100));
}

fn team_agents(visibility: &str) -> TeamAgents {
    let file = format!(
        "[context]\nvisibility = \"{visibility}\"\n\n\
         [[member]]\nname = \"kailai\"\nhuman = true\n\n\
         [[member]]\nname = \"max\"\nagent = \"claude\"\n"
    );
    let member_agent = MemberAgent::new(Arc::new(Instantly), "/");
    TeamAgents::new(Team::parse(&file).unwrap(), HashMap::from([("max".into(), member_agent)]))
}

/// Stores a conversation with messages of one kilobyte; one in a hundred is addressed to max.
async fn fill(store: &SqliteStore, messages: u64) -> SessionId {
    let new = new_session();
    let id = new.id;
    let mut log = Log::create(store, &new).await.unwrap();
    let text = "All work and no play makes a long conversation. ".repeat(21);
    for first in (1..=messages).step_by(10_000) {
        let last = (first + 9_999).min(messages);
        let message = |n: u64| {
            let to = if n.is_multiple_of(100) { "max" } else { "sarah" };
            said(message(n, (n > 1).then(|| n - 1), "kailai", &[to], &text))
        };
        log.add(store, (first..=last).map(message)).await.unwrap();
    }
    id
}
