//! Turns in a store that machines share: how many a second with one, two and four nodes, beside SQLite; the statements and
//! bytes of a turn; and the time from a message on one machine to the screen of another.
//!
//! Agents reply at once, so that everything that is measured is Convoke and its database. PostgreSQL runs on this machine, with
//! `fsync`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput};
use convoke_conformance_store::new_session;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_session::event_queue::EventQueue;
use convoke_session::sharing::NodeOffer;
use convoke_session::store::Holder;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, Store as _, TeamAgents};
use convoke_team::Team;
use tokio::runtime::Builder;

use crate::cluster::Cluster;
use crate::table;

/// The sessions, and the turns of each.
const SESSIONS: usize = 32;
const TURNS: u64 = 10;
/// The turns that a node runs at the same time.
const JOBS: usize = 4;
/// The messages whose way is timed.
const MESSAGES: usize = 200;

/// Prints the tables of nodes.
pub fn run() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::start_durable();
        turns(&cluster).await;
        costs(&cluster).await;
        latency(&cluster).await;
    });
}

/// Answers at once, never the same, and calls itself.
struct Endless;

impl Agent for Endless {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        // Of all nodes: a text that three of them say stops the conversation.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let text = format!("{}answer {number} [NEXT: max]", "word ".repeat(400));
        StandIn::new(Script { turns: vec![vec![Step::Say(text)]] }).start(turn_input)
    }
}

fn team_text() -> String {
    format!(
        "[limits]\nturns = {TURNS}\n[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\n\
         agent = \"claude\"\n"
    )
}

fn team() -> TeamAgents {
    let max: Arc<dyn Agent> = Arc::new(Endless);
    let agents = HashMap::from([("max".into(), MemberAgent::new(max, "/"))]);
    TeamAgents::new(Team::parse(&team_text()).unwrap(), agents)
}

fn session() -> NewSession {
    NewSession { team: team_text(), ..new_session() }
}

fn question() -> NewMessage {
    NewMessage::from_person("ada", format!("{} [NEXT: max]", "what? ".repeat(100)))
}

/// Creates sessions with a message each.
async fn fill(store: &PostgresStore, count: usize) {
    for _ in 0..count {
        let new = session();
        store.create(new.clone()).await.unwrap();
        store.say(new.id, &question()).await.unwrap();
    }
}

/// Takes turns until none are left.
async fn take(store: PostgresStore, turns: Arc<AtomicU64>) {
    let offer = NodeOffer { agents: vec!["claude".to_owned()], ..NodeOffer::default() };
    let holder = Holder { pid: 1, host: "bench".to_owned(), since: Millis(0) };
    let team = team();
    while turns.load(Ordering::Relaxed) < SESSIONS as u64 * TURNS {
        let claimed = store.claim_offered("bench", &offer, &[], &holder).await.unwrap();
        let Some((id, lease)) = claimed else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        let observer = Box::new(|_: Event| {});
        let coordinator =
            Coordinator::of_claim(store.clone(), id, lease, team.clone(), observer).await.unwrap();
        turns.fetch_add(u64::from(coordinator.run_claimed().await.unwrap()), Ordering::Relaxed);
    }
}

async fn with_nodes(cluster: &Cluster, nodes: usize) -> f64 {
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    fill(&store, SESSIONS).await;
    let turns = Arc::new(AtomicU64::new(0));
    let mut stores = Vec::new();
    for _ in 0..nodes {
        stores.push(PostgresStore::open(&cluster.url(), None).await.unwrap());
    }
    let begun = Instant::now();
    let mut takers = tokio::task::JoinSet::new();
    for store in stores.iter().flat_map(|store| std::iter::repeat_n(store, JOBS)) {
        takers.spawn(take(store.clone(), Arc::clone(&turns)));
    }
    takers.join_all().await;
    per_second(SESSIONS as u64 * TURNS, begun.elapsed())
}

async fn with_sqlite() -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let begun = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..SESSIONS {
        if running.len() == JOBS {
            running.join_next().await;
        }
        let store = store.clone();
        running.spawn(async move {
            let observer = Box::new(|_: Event| {});
            let mut coordinator =
                Coordinator::create(store, session(), team(), observer).await.unwrap();
            coordinator.accept(question()).await.unwrap();
            coordinator.run().await.unwrap();
        });
    }
    running.join_all().await;
    per_second(SESSIONS as u64 * TURNS, begun.elapsed())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

async fn turns(cluster: &Cluster) {
    table::begin(
        "Turns a second: 32 sessions of 10 turns, replies of 2 KB at once, 4 turns at a time on a node",
        &["store", "nodes", "turns/s"],
    );
    table::row(&[
        "SQLite".to_owned(),
        "one process".to_owned(),
        format!("{:.0}", with_sqlite().await),
    ]);
    for nodes in [1, 2, 4] {
        let rate = with_nodes(cluster, nodes).await;
        table::row(&["PostgreSQL".to_owned(), nodes.to_string(), format!("{rate:.0}")]);
    }
}

/// Prints what a turn costs the database.
async fn costs(cluster: &Cluster) {
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .execute(&pool)
        .await
        .unwrap();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    fill(&store, SESSIONS).await;
    sqlx::raw_sql("SELECT pg_stat_statements_reset()").execute(&pool).await.unwrap();
    let begun = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::BIGINT";
    let before: i64 = sqlx::query_scalar(begun).fetch_one(&pool).await.unwrap();
    take(store.clone(), Arc::new(AtomicU64::new(0))).await;
    let after: i64 = sqlx::query_scalar(begun).fetch_one(&pool).await.unwrap();
    let (statements, commits): (i64, i64) = sqlx::query_as(
        "SELECT SUM(calls)::BIGINT, (SUM(calls) FILTER (WHERE query = 'COMMIT'))::BIGINT \
         FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%' AND query NOT LIKE '%lsn%'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    let count = i64::try_from(SESSIONS as u64 * TURNS).unwrap();
    table::begin(
        "A turn in PostgreSQL, from the claim to the release",
        &["statements", "transactions with COMMIT", "bytes of write-ahead log"],
    );
    let each = |total: i64| format!("{}.{}", total / count, total * 10 / count % 10);
    table::row(&[each(statements), each(commits), ((after - before) / count).to_string()]);
    let top: Vec<(String, i64)> = sqlx::query_as(
        "SELECT LEFT(REGEXP_REPLACE(query, '\\s+', ' ', 'g'), 90), calls FROM pg_stat_statements \
         WHERE query NOT LIKE '%pg_stat%' AND query NOT LIKE '%lsn%' ORDER BY calls DESC LIMIT 40",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    table::begin("Its statements", &["statement", "each turn"]);
    for (query, calls) in top {
        table::row(&[query.replace('|', "\\|"), each(calls)]);
    }
}

/// Prints the time from a message on one machine to the event on another.
async fn latency(cluster: &Cluster) {
    let here = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let there = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let new = session();
    let id: SessionId = new.id;
    let (observer, mut seen) = EventQueue::new();
    let mut speaker =
        Coordinator::create(here, new, team(), Box::new(|_: Event| {})).await.unwrap();
    let mut reader = Coordinator::open(there, id, team(), Box::new(observer)).await.unwrap();
    let reading = tokio::spawn(async move {
        loop {
            reader.wake().await.unwrap();
            reader.run().await.unwrap();
        }
    });
    let mut times = Vec::new();
    for number in 0..MESSAGES {
        let begun = Instant::now();
        speaker.accept(NewMessage::from_person("ada", format!("note {number}"))).await.unwrap();
        while let Some(event) = seen.recv().await {
            if let EventKind::Message(message) = event.kind
                && message.text == format!("note {number}")
            {
                break;
            }
        }
        times.push(begun.elapsed());
        speaker.run().await.unwrap();
    }
    reading.abort();
    times.sort();
    table::begin(
        "From a message on one machine to the screen of another",
        &["messages", "median", "99 of 100 within", "longest"],
    );
    let at =
        |share: usize| format!("{:.1} ms", times[(MESSAGES - 1) * share / 100].as_secs_f64() * 1e3);
    table::row(&[MESSAGES.to_string(), at(50), at(99), at(100)]);
}
