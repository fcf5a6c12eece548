//! Sessions shared by several processes. Each store here is opened as a separate process would.

use std::time::Duration;

use convoke_conformance_store::new_session;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::session::NewSession;
use convoke_protocol::turn::TurnState;
use convoke_session::sharing::{NodeOffer, ProjectOrigin};
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::{Holder, SessionHold as _};
use convoke_session::{Coordinator, CoordinatorError, NewMessage, Store, StoreError};

use super::agents::{Gate, Seen, TEAM, team};
use super::cluster::Cluster;
use super::proxy::Proxy;
use super::{expire, node};

pub fn session() -> NewSession {
    NewSession { team: TEAM.to_owned(), ..new_session() }
}

pub fn says(text: &str) -> NewMessage {
    NewMessage::from_person("ada", text)
}

/// Returns the offer of a node with one agent.
pub fn offers(agent: &str) -> NodeOffer {
    NodeOffer { agents: vec![agent.to_owned()], ..NodeOffer::default() }
}

pub fn holder(pid: u32) -> Holder {
    Holder { pid, host: "elsewhere".to_owned(), since: Millis(0) }
}

/// Runs one turn of any session, as a node does.
async fn run_as_node(
    store: &PostgresStore,
    name: &str,
    offer: &NodeOffer,
    agents: &[(&'static str, &Gate)],
) -> Option<SessionId> {
    let (session, lease) = store.claim_offered(name, offer, &[], &holder(7)).await.unwrap()?;
    let observer = Box::new(Seen::default());
    let coordinator =
        Coordinator::of_claim(store.clone(), session, lease, team(agents), observer).await.unwrap();
    assert!(coordinator.run_claimed().await.unwrap());
    Some(session)
}

/// Runs turns of [`endless`] as a node until nothing is offered, and returns their number.
async fn run_all_as_laptop(store: &PostgresStore) -> u32 {
    let mut turns = 0;
    while let Some((session, lease)) =
        store.claim_offered("laptop", &OFFER, &[], &HOLDER).await.unwrap()
    {
        let observer = Box::new(Seen::default());
        let coordinator = Coordinator::of_claim(store.clone(), session, lease, endless(), observer)
            .await
            .unwrap();
        turns += u32::from(coordinator.run_claimed().await.unwrap());
        assert!(turns < 10, "nothing stops it");
    }
    turns
}

async fn texts(store: &PostgresStore, session: SessionId) -> Vec<String> {
    let messages = store.messages_after(session, MessageNumber(0), 1000).await.unwrap();
    messages.into_iter().map(|message| message.message.content.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_said_elsewhere_is_stored_once_and_everybody_sees_the_same_sequence() {
    let cluster = Cluster::start();
    let (here, there) = (node(&cluster).await, node(&cluster).await);
    let (new, gate) = (session(), Gate::closed());
    let (seen, seen_there) = (Seen::default(), Seen::default());
    let mut first = Coordinator::create(
        here.clone(),
        new.clone(),
        team(&[("max", &gate)]),
        Box::new(seen.clone()),
    )
    .await
    .unwrap();
    first.accept(says("one [NEXT: max]")).await.unwrap();
    let first = tokio::spawn(async move {
        let stop = first.run().await.unwrap();
        (first, stop)
    });
    gate.begun().await;

    let observer = Box::new(seen_there.clone());
    let mut second = Coordinator::open(there.clone(), new.id, team(&[]), observer).await.unwrap();
    assert_eq!(second.accept(says("two [NEXT: max]")).await.unwrap(), None, "it waits");
    let controls = second.controls();
    let second = tokio::spawn(async move { second.run().await.unwrap() });
    // A message that is added while others run a turn waits too.
    seen_there.wait_for("started 1.1").await;
    controls.interject(says("three")).await.unwrap();
    while there.arrived(new.id).await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(texts(&there, new.id).await, ["one [NEXT: max]"]);
    gate.let_one_end();
    gate.let_one_end();
    let (mut first, stop) = first.await.unwrap();
    assert_eq!(stop, StopReason::Idle { person: "ada".into() });
    assert_eq!(second.await.unwrap(), stop);
    let all = ["one [NEXT: max]", "max says 1", "two [NEXT: max]", "three", "max says 2"];
    assert_eq!(texts(&here, new.id).await, all);
    assert!(here.arrived(new.id).await.unwrap().is_empty());

    let conversation = |seen: &Seen| -> Vec<String> {
        let lines = seen.lines().into_iter();
        lines.skip_while(|line| !line.starts_with("started 1")).collect()
    };
    assert_eq!(conversation(&seen_there), conversation(&seen));
    // A stopped session is not held, and every process sees the next message.
    assert!(!here.is_held(new.id).await.unwrap());
    there.say(new.id, &says("four")).await.unwrap();
    first.wake().await.unwrap();
    assert_eq!(first.run().await.unwrap(), stop);
    seen.wait_for("6 ada: four").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_another_machine_is_offered_run_there_and_seen_here() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let (new, gate) = (session(), Gate::open());
    let seen = Seen::default();
    let observer = Box::new(seen.clone());
    let mut coordinator =
        Coordinator::create(laptop.clone(), new.clone(), team(&[("max", &gate)]), observer)
            .await
            .unwrap();
    coordinator.accept(says("both [NEXT: max, cody]")).await.unwrap();
    let running = tokio::spawn(async move { coordinator.run().await.unwrap() });
    seen.wait_for("offered 2 cody build-server").await;
    // A node without the agent, and one with another name, do not claim it.
    for (name, agent) in [("build-server", "claude"), ("laptop", "codex")] {
        let claimed = server.claim_offered(name, &offers(agent), &[], &holder(8)).await.unwrap();
        assert!(claimed.is_none(), "{name} {agent}");
    }
    let labelled = NodeOffer { labels: vec!["build-server".to_owned()], ..offers("codex") };
    let ran = run_as_node(&server, "any", &labelled, &[("cody", &gate)]).await;
    assert_eq!(ran, Some(new.id));
    assert_eq!(running.await.unwrap(), StopReason::Idle { person: "ada".into() });
    assert_eq!(
        seen.lines(),
        [
            "1 ada: both",
            "queued 1 max",
            "queued 2 cody",
            "started 1.1",
            "2 max: max says 1",
            "ended 1 done",
            "offered 2 cody build-server: no node `build-server` is ready",
            "started 2.1",
            "3 cody: cody says 1",
            "ended 2 done",
        ]
    );
    assert!(
        server
            .claim_offered("build-server", &offers("codex"), &[], &holder(8))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_turn_is_claimed_first_and_no_session_waits_for_another() {
    let cluster = Cluster::start();
    let (one, two) = (node(&cluster).await, node(&cluster).await);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let new = session();
        one.create(new.clone()).await.unwrap();
        one.say(new.id, &says("go on [NEXT: max]")).await.unwrap();
        one.say(new.id, &says("and again [NEXT: max]")).await.unwrap();
        sessions.push(new.id);
    }
    let (gate, offer) = (Gate::open(), offers("claude"));
    let mut order = Vec::new();
    while let Some(ran) = run_as_node(&one, "laptop", &offer, &[("max", &gate)]).await {
        order.push(ran);
    }
    // Every session gets its first turn before any gets its second.
    assert_eq!(order, [sessions.clone(), sessions.clone()].concat());

    // Nodes that claim at the same time get different sessions, or none.
    for session in &sessions[..2] {
        one.say(*session, &says("more")).await.unwrap();
    }
    let excluded: Vec<_> = sessions.iter().map(|session| (*session, None)).collect();
    let (h1, h2, h3) = (holder(1), holder(2), holder(3));
    let claims = tokio::join!(
        one.claim_offered("a", &offer, &[], &h1),
        two.claim_offered("b", &offer, &[], &h2),
        two.claim_offered("c", &offer, &excluded, &h3),
    );
    let (a, b, c) = (claims.0.unwrap(), claims.1.unwrap(), claims.2.unwrap());
    assert!(c.is_none());
    let claimed: Vec<SessionId> =
        [&a, &b].into_iter().flatten().map(|(session, _)| *session).collect();
    let mut different = claimed.clone();
    different.dedup();
    assert_eq!(claimed, different);
    assert!(!claimed.is_empty());
}

/// Writers lock the lease before the offer. A claim that waited for the lease while holding the offer would
/// deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_no_writer_and_takes_the_next_session() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let (busy, free) = (session(), session());
    for new in [&busy, &free] {
        store.create(new.clone()).await.unwrap();
        store.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    }
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    for locked in ["lease", "offer"] {
        let mut writer = pool.begin().await.unwrap();
        let lock = format!("SELECT 1 FROM {locked} WHERE session = $1 FOR SHARE");
        let lock = sqlx::query(sqlx::AssertSqlSafe(lock)).bind(busy.id.to_string());
        assert_eq!(lock.execute(&mut *writer).await.unwrap().rows_affected(), 1);
        let (offer, holder) = (offers("claude"), holder(1));
        let claim = store.claim_offered("laptop", &offer, &[], &holder);
        let claimed = tokio::time::timeout(Duration::from_mins(1), claim).await;
        let (session, lease) = claimed.expect("it waits").unwrap().unwrap();
        assert_eq!(session, free.id, "{locked}");
        writer.rollback().await.unwrap();
        lease.release().await;
    }
}

/// A commit between the first read and the start of listening would be seen two seconds later.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_listens_before_it_looks() {
    type Looks = fn(Coordinator<PostgresStore>) -> tokio::task::JoinHandle<()>;
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let new = session();
    store.create(new.clone()).await.unwrap();
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let count = async |what: &'static str| -> i64 {
        let count = format!("SELECT COUNT(*) FROM pg_stat_activity WHERE {what}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(&pool).await.unwrap()
    };
    let looks: [Looks; 3] = [
        |mut reader| tokio::spawn(async move { reader.wake().await.unwrap() }),
        |mut reader| tokio::spawn(async move { drop(reader.run().await.unwrap()) }),
        |mut reader| tokio::spawn(async move { drop(reader.watch().await) }),
    ];
    for look in looks {
        let there = node(&cluster).await;
        let observer = Box::new(Seen::default());
        let reader = Coordinator::open(there.clone(), new.id, team(&[]), observer).await.unwrap();
        let mut blocking = pool.begin().await.unwrap();
        let lock = "LOCK TABLE event IN ACCESS EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut *blocking).await.unwrap();
        let looking = look(reader);
        while count("wait_event_type = 'Lock' AND query LIKE '%FROM event%'").await == 0 {
            assert!(!looking.is_finished());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(count("query = 'LISTEN \"convoke\"'").await, 1);
        looking.abort();
        blocking.rollback().await.unwrap();
        there.close().await;
        while count("query = 'LISTEN \"convoke\"'").await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_lost_node_runs_again_and_is_recorded_once() {
    let cluster = Cluster::start();
    let (lost, next) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    lost.create(new.clone()).await.unwrap();
    lost.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    let (gate, offer) = (Gate::closed(), offers("claude"));
    let (claimed, lease) =
        lost.claim_offered("laptop", &offer, &[], &holder(1)).await.unwrap().unwrap();
    assert_eq!(claimed, new.id);
    let seen = Seen::default();
    let agents = team(&[("max", &gate)]);
    let coordinator =
        Coordinator::of_claim(lost.clone(), new.id, lease, agents, Box::new(seen.clone()))
            .await
            .unwrap();
    let running = tokio::spawn(coordinator.run_claimed());
    gate.begun().await;
    assert!(run_as_node(&next, "other", &offer, &[("max", &Gate::open())]).await.is_none(), "held");
    // The node is stopped for longer than its lease. Another node claims the session, and a person follows it.
    expire(&cluster, &new.id.to_string()).await;
    let follower = Seen::default();
    let observer = Box::new(follower.clone());
    let mut person = Coordinator::open(next.clone(), new.id, team(&[]), observer).await.unwrap();
    let person = tokio::spawn(async move { person.run().await.unwrap() });
    follower.wait_for("started 1.1").await;
    let open = Gate::open();
    assert_eq!(run_as_node(&next, "other", &offer, &[("max", &open)]).await, Some(new.id));
    // The lost node continues: it terminates its agent and writes nothing.
    gate.let_one_end();
    let ended = running.await.unwrap();
    let is_lost = matches!(ended, Err(CoordinatorError::Store(StoreError::HoldLost { .. })));
    assert!(is_lost, "{ended:?}");
    assert_eq!(texts(&next, new.id).await, ["go [NEXT: max]", "max says 1"]);
    let turns = next.turns_after(new.id, TurnId(0), 10).await.unwrap();
    assert_eq!((turns.len(), turns[0].state, turns[0].attempts), (1, TurnState::Done, 2));
    assert_eq!(person.await.unwrap(), StopReason::Idle { person: "ada".into() });
    assert!(follower.lines().contains(&"turn.interrupted".to_owned()), "{:?}", follower.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_loses_its_lease_ends_its_agent_and_follows() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let (new, gate, seen) = (session(), Gate::closed(), Seen::default());
    let observer = Box::new(seen.clone());
    let mut coordinator =
        Coordinator::create(laptop.clone(), new.clone(), team(&[("max", &gate)]), observer)
            .await
            .unwrap();
    coordinator.accept(says("go [NEXT: max]")).await.unwrap();
    let running = tokio::spawn(async move { coordinator.run().await.unwrap() });
    gate.begun().await;
    expire(&cluster, &new.id.to_string()).await;
    let open = Gate::open();
    let ran = run_as_node(&server, "server", &offers("claude"), &[("max", &open)]).await;
    assert_eq!(ran, Some(new.id));
    assert_eq!(running.await.unwrap(), StopReason::Idle { person: "ada".into() });
    // Its own agent never finished; the reply is the other node's.
    assert_eq!(texts(&server, new.id).await, ["go [NEXT: max]", "max says 1"]);
    let lines = seen.lines();
    assert!(lines.contains(&"lease.lost".to_owned()), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("max says")).count(), 1, "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_said_while_the_server_is_away_is_stored_once() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let (new, gate, seen) = (session(), Gate::open(), Seen::default());
    let observer = Box::new(seen.clone());
    let agents = team(&[("max", &gate)]);
    let mut coordinator = Coordinator::create(store, new.clone(), agents, observer).await.unwrap();
    cluster.crash();
    let accepting = tokio::spawn(async move {
        coordinator.accept(says("still there? [NEXT: max]")).await.unwrap();
        coordinator.run().await.unwrap()
    });
    seen.wait_for("store.unreachable").await;
    cluster.run_server();
    assert_eq!(accepting.await.unwrap(), StopReason::Idle { person: "ada".into() });
    let stored = texts(&node(&cluster).await, new.id).await;
    assert_eq!(stored, ["still there? [NEXT: max]", "max says 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_the_words_of_another_is_not_taken_for_it() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.socket());
    let (options, lease) = (proxy.url().parse().unwrap(), Duration::from_secs(2));
    let here = PostgresStore::open_with(options, lease, Failpoint::default()).await.unwrap();
    let there = node(&cluster).await;
    let new = session();
    let observer = Box::new(Seen::default());
    let mut ada = Coordinator::create(here, new.clone(), team(&[]), observer).await.unwrap();
    // The connection is lost before the commit reaches the server, and another process says the same meanwhile.
    proxy.stop_at_commit(true);
    let accepting = tokio::spawn(async move { ada.accept(says("yes")).await.unwrap() });
    proxy.wait_for_stop();
    there.say(new.id, &says("yes")).await.unwrap();
    proxy.resume();
    accepting.await.unwrap();
    let mut other = Coordinator::open(there.clone(), new.id, team(&[]), Box::new(Seen::default()))
        .await
        .unwrap();
    other.run().await.unwrap();
    assert_eq!(texts(&there, new.id).await, ["yes", "yes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_while_the_server_is_away_gets_the_message_back() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let (new, seen) = (session(), Seen::default());
    let observer = Box::new(seen.clone());
    let mut coordinator = Coordinator::create(store, new, team(&[]), observer).await.unwrap();
    let controls = coordinator.controls();
    cluster.crash();
    let accepting = tokio::spawn(async move { coordinator.accept(says("an hour's work")).await });
    seen.wait_for("store.unreachable").await;
    controls.leave();
    let error = accepting.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("an hour's work"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_added_during_an_outage_is_sent_once_when_it_ends() {
    let cluster = Cluster::start();
    let (here, there) = (node(&cluster).await, node(&cluster).await);
    let (new, gate, seen) = (session(), Gate::closed(), Seen::default());
    here.create(new.clone()).await.unwrap();
    here.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    let offer = offers("claude");
    let (_, lease) = there.claim_offered("node", &offer, &[], &holder(1)).await.unwrap().unwrap();
    let agents = team(&[("max", &gate)]);
    let observer = Box::new(Seen::default());
    let running = Coordinator::of_claim(there, new.id, lease, agents, observer).await.unwrap();
    let running = tokio::spawn(running.run_claimed());
    gate.begun().await;
    let observer = Box::new(seen.clone());
    let mut person = Coordinator::open(here.clone(), new.id, team(&[]), observer).await.unwrap();
    let controls = person.controls();
    let person = tokio::spawn(async move { person.run().await.unwrap() });
    seen.wait_for("started 1.1").await;
    cluster.crash();
    seen.wait_for("store.unreachable").await;
    let interjected = tokio::spawn(async move { controls.interject(says("and the tests?")).await });
    cluster.run_server();
    interjected.await.unwrap().unwrap();
    let other = node(&cluster).await;
    while other.arrived(new.id).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    gate.let_one_end();
    assert!(running.await.unwrap().unwrap());
    assert_eq!(person.await.unwrap(), StopReason::Idle { person: "ada".into() });
    assert_eq!(texts(&other, new.id).await, ["go [NEXT: max]", "max says 1", "and the tests?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_session_is_offered_to_nobody_and_ends_for_those_who_follow_it() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let new = session();
    store.create(new.clone()).await.unwrap();
    store.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    store.set_removed(new.id, Some(Millis(1))).await.unwrap();
    let claim = || store.claim_offered("laptop", &OFFER, &[], &HOLDER);
    assert!(claim().await.unwrap().is_none());
    let gone = store.shared_state(new.id).await;
    assert!(matches!(gone, Err(StoreError::NoSession(id)) if id == new.id));
    store.set_removed(new.id, None).await.unwrap();
    assert!(claim().await.unwrap().is_some());
}

static OFFER: std::sync::LazyLock<NodeOffer> = std::sync::LazyLock::new(|| offers("claude"));

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_runs_again_counts_once() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let mut new = session();
    new.team = format!("[limits]\nturns = 2\n{TEAM}");
    store.create(new.clone()).await.unwrap();
    store.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    let (gate, offer) = (Gate::closed(), offers("claude"));
    let claim = || store.claim_offered("laptop", &offer, &[], &HOLDER);
    let (_, lease) = claim().await.unwrap().unwrap();
    let (agents, observer) = (team(&[("max", &gate)]), Box::new(Seen::default()));
    let lost = Coordinator::of_claim(store.clone(), new.id, lease, agents, observer).await.unwrap();
    let lost = tokio::spawn(lost.run_claimed());
    gate.begun().await;
    expire(&cluster, &new.id.to_string()).await;
    lost.abort();
    assert_eq!(run_all_as_laptop(&store).await, 2);
}

/// Connections that the network has lost stay silent, and are never closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_that_nobody_closed_is_given_up() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.socket());
    let (options, lease) = (proxy.url().parse().unwrap(), Duration::from_secs(2));
    let here = PostgresStore::open_with(options, lease, Failpoint::default()).await.unwrap();
    let there = node(&cluster).await;
    let (new, gate, seen) = (session(), Gate::closed(), Seen::default());
    there.create(new.clone()).await.unwrap();
    there.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    let offer = offers("claude");
    let (_, lease) = there.claim_offered("node", &offer, &[], &holder(1)).await.unwrap().unwrap();
    let (agents, observer) = (team(&[("max", &gate)]), Box::new(Seen::default()));
    let running = Coordinator::of_claim(there, new.id, lease, agents, observer).await.unwrap();
    let running = tokio::spawn(running.run_claimed());
    gate.begun().await;
    let observer = Box::new(seen.clone());
    let mut person = Coordinator::open(here.clone(), new.id, team(&[]), observer).await.unwrap();
    let controls = person.controls();
    let person = tokio::spawn(async move {
        let stop = person.run().await.unwrap();
        (person, stop)
    });
    seen.wait_for("started 1.1").await;
    proxy.silence();
    gate.let_one_end();
    assert!(running.await.unwrap().unwrap());
    seen.wait_for("max says 1").await;
    let (mut person, stop) = person.await.unwrap();
    assert_eq!(stop, StopReason::Idle { person: "ada".into() });

    // While the server does not respond, a person can leave, and gets the message back.
    proxy.silence_all();
    let leaving = tokio::spawn(async move { person.accept(says("an hour's work")).await });
    seen.wait_for("store.unreachable").await;
    controls.leave();
    let ended = tokio::time::timeout(Duration::from_mins(1), leaving).await.expect("it ends");
    let error = ended.unwrap().unwrap_err().to_string();
    assert!(error.contains("an hour's work"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_hold_across_machines() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let mut new = session();
    new.team = format!("[limits]\nturns = 2\n{TEAM}");
    store.create(new.clone()).await.unwrap();
    store.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    assert_eq!(run_all_as_laptop(&store).await, 2);
    let stopped = store.shared_state(new.id).await.unwrap().stopped;
    assert_eq!(stopped, Some(StopReason::TurnLimit { person: "ada".into(), limit: 2 }));
}

static HOLDER: std::sync::LazyLock<Holder> = std::sync::LazyLock::new(|| holder(3));

/// Returns a team in which max calls himself again and again, with a limit of two turns.
fn endless() -> convoke_session::TeamAgents {
    use convoke_agent::adapter::{Script, StandIn, Step};
    let team = format!("[limits]\nturns = 2\n{TEAM}");
    let team = convoke_team::Team::parse(&team).unwrap();
    let text = format!("again {} [NEXT: max]", SessionId::generate());
    let max = StandIn::new(Script { turns: vec![vec![Step::Say(text)]] });
    let max = convoke_session::MemberAgent::new(std::sync::Arc::new(max), "/");
    convoke_session::TeamAgents::new(team, [("max".into(), max)].into())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed_with_what_they_offer_and_a_name_is_given_once() {
    let cluster = Cluster::start();
    let (one, two) = (node(&cluster).await, node(&cluster).await);
    let offer = offers("claude");
    let registration = one.register_node("laptop", &offer, &holder(11)).await.unwrap();
    let refused = two.register_node("laptop", &offer, &holder(12)).await.unwrap_err();
    assert!(refused.to_string().contains("process 11 on elsewhere"), "{refused}");
    assert!(
        one.beat_node(&registration, &NodeOffer { is_draining: true, ..offer.clone() })
            .await
            .unwrap()
    );

    let new = session();
    one.create(new.clone()).await.unwrap();
    one.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    let gate = Gate::closed();
    let (_, lease) = one.claim_offered("laptop", &offer, &[], &holder(11)).await.unwrap().unwrap();
    let agents = team(&[("max", &gate)]);
    let coordinator =
        Coordinator::of_claim(one.clone(), new.id, lease, agents, Box::new(Seen::default()))
            .await
            .unwrap();
    let running = tokio::spawn(coordinator.run_claimed());
    gate.begun().await;
    let nodes = two.nodes().await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert!(nodes[0].is_alive && nodes[0].offer.is_draining);
    assert_eq!((nodes[0].turns[0].session, nodes[0].turns[0].turn), (new.id, TurnId(1)));
    gate.let_one_end();
    assert!(running.await.unwrap().unwrap());
    assert!(two.nodes().await.unwrap()[0].turns.is_empty());
    one.remove_node(&registration).await.unwrap();
    two.register_node("laptop", &offer, &holder(12)).await.unwrap();
    let origin = ProjectOrigin {
        remote: "h/p".to_owned(),
        revision: "0".repeat(40),
        below: "web".to_owned(),
    };
    one.set_origin(new.id, &origin).await.unwrap();
    assert_eq!(two.origin(new.id).await.unwrap(), Some(origin));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_has_a_limit_and_goes_with_its_session() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let new = session();
    let nowhere = store.say(new.id, &says("x")).await;
    assert!(matches!(nowhere, Err(StoreError::NoSession(_))), "{nowhere:?}");
    store.create(new.clone()).await.unwrap();
    for number in 0..convoke_session::store::INBOX_LIMIT {
        store.say(new.id, &says(&format!("{number} \0"))).await.unwrap();
    }
    let full = store.say(new.id, &says("x")).await;
    assert!(matches!(full, Err(StoreError::InboxFull { .. })), "{full:?}");
    assert_eq!(store.arrived(new.id).await.unwrap()[1].1.content, "1 \0");
    store.remove(new.id).await.unwrap();
    assert!(store.arrived(new.id).await.unwrap().is_empty());
}
