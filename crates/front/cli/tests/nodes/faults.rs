//! Nodes under faults: killed, stopped for longer than their leases, cut off in the middle of a COMMIT, and with a
//! server that crashes. Every turn is recorded once and in order, and everybody sees the same.
//!
//! `CONVOKE_FAULT_SESSIONS`, `CONVOKE_FAULT_TURNS` and `CONVOKE_FAULT_ROUNDS` make it longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use convoke_agent::clock::now;
use convoke_conformance_store::{Log, message, said};
use convoke_core::marker::{TextPolicy, strip_all_markers};
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{EventNumber, MessageNumber, SessionId, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::follow::Follower;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::{Holder, Piece};
use convoke_session::{Commit, NewMessage, Store as _, StoreError};
use nix::sys::signal::Signal;

use super::cluster::Cluster;
use super::create;
use super::machine::{Machine, Node};
use super::proxy::Proxy;

const TEAM: &str =
    "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n";
/// Answers the last question, after a while.
const AGENT: &str =
    "question=$(grep -o 'question [0-9]*' | tail -n 1); sleep 0.5; echo \"answer to $question\"";
/// The duration of a lease.
const LEASE: Duration = Duration::from_secs(3);
/// The commits that are cut off at a time.
const CUTS: u32 = 4;
/// The longest that a whole run may take without any progress.
const TIMEOUT: Duration = Duration::from_mins(4);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Stop,
    Crash,
    Cut,
    /// A process that knows the head of the session continues after it was stopped for longer than its lease.
    Late,
}

/// Repeats a request while the server is away.
macro_rules! surely {
    ($request:expr) => {{
        let begun = Instant::now();
        loop {
            match $request {
                Ok(answer) => break answer,
                Err(error) if error.is_transient() && begun.elapsed() < TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }};
}

/// The pace of the conversation: no question is asked long before the faults that it is to meet.
#[derive(Default)]
struct Pace {
    asked: AtomicU64,
    /// The questions that may be asked.
    allowed: AtomicU64,
    /// The turns that have ended.
    done: AtomicU64,
}

impl Pace {
    async fn next_question(&self) {
        let next = |asked: u64| (asked < self.allowed.load(Ordering::SeqCst)).then_some(asked + 1);
        while self.asked.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Asks one question after the other, each when the one before is answered.
async fn ask(store: PostgresStore, session: SessionId, turns: u64, pace: Arc<Pace>) {
    for number in 1..=turns {
        pace.next_question().await;
        let text = format!("question {number} [NEXT: max]");
        let message = NewMessage::from_person("ada", &text);
        // A request whose connection failed may have been carried out.
        while !surely!(is_said(&store, session, &text).await) {
            let said = store.say(session, &message).await;
            assert!(said.as_ref().map_or_else(StoreError::is_transient, |()| true), "{said:?}");
        }
        let begun = Instant::now();
        loop {
            let turns = surely!(store.turns_after(session, TurnId(0), 1000).await);
            let ended = turns.iter().filter(|turn| !turn.state.is_open()).count();
            if ended as u64 == number {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "question {number} of {session} has no answer");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        pace.done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns whether a message is in the inbox or in the conversation.
async fn is_said(
    store: &PostgresStore,
    session: SessionId,
    text: &str,
) -> Result<bool, StoreError> {
    let waits = store.arrived(session).await?.iter().any(|(_, waiting)| waiting.content == text);
    // Read after the inbox: a message leaves it only for the conversation.
    let stored = store.messages_after(session, MessageNumber(0), 1000).await?;
    Ok(waits || stored.iter().any(|message| message.message.content == text))
}

/// Reads all sessions until it is asked to stop, and returns the messages of each in the order of arrival.
async fn read(
    store: PostgresStore,
    sessions: Vec<SessionId>,
    pause: Duration,
    stop: Arc<AtomicBool>,
) -> Vec<Vec<String>> {
    let start = |session: &SessionId| Follower::after(*session, EventNumber(0));
    let mut followers: Vec<Follower> = sessions.iter().map(start).collect();
    let mut seen = vec![Vec::new(); sessions.len()];
    loop {
        // Everything stored before the request to stop is read.
        let is_last = stop.load(Ordering::SeqCst);
        for (follower, seen) in followers.iter_mut().zip(&mut seen) {
            let events = surely!(follower.advance(&store).await);
            seen.extend(events.into_iter().filter_map(|event| match event.kind {
                EventKind::Message(message) => {
                    Some(format!("{} {}: {}", message.number, message.from(), message.text))
                }
                _ => None,
            }));
        }
        if is_last {
            return seen;
        }
        tokio::time::sleep(pause).await;
    }
}

/// The nodes, of which every one that is killed is replaced.
struct Nodes {
    machines: Vec<Machine>,
    running: Vec<Node>,
    started: u32,
}

impl Nodes {
    fn start(count: usize, store: &str) -> Self {
        let seconds = LEASE.as_secs().to_string();
        let machine = || Machine::new(store).agent(AGENT).env("CONVOKE_STORE_LEASE", &seconds);
        let machines: Vec<Machine> = (0..count).map(|_| machine()).collect();
        let mut nodes = Self { machines, running: Vec::new(), started: 0 };
        for place in 0..count {
            let node = nodes.node(place);
            nodes.running.push(node);
        }
        nodes
    }

    fn node(&mut self, place: usize) -> Node {
        self.started += 1;
        let name = format!("node-{}", self.started);
        let map = self.machines[place].map_from(&self.machines[0]);
        let jobs = ["--offer", "worker", "--jobs", "4"];
        self.machines[place].node(&[&["--name", &*name, "--map", &*map][..], &jobs].concat())
    }

    /// Waits until a node runs a turn, and returns its place: the given one, if it does.
    async fn busy(&self, place: usize, store: &PostgresStore) -> usize {
        let begun = Instant::now();
        loop {
            for place in (place..place + self.running.len()).map(|place| place % self.running.len())
            {
                if !surely!(turns_of(store, &self.running[place]).await).is_empty() {
                    return place;
                }
            }
            assert!(begun.elapsed() < TIMEOUT, "no node runs a turn");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Causes a fault, and records its target.
    async fn suffer(&mut self, fault: Fault, place: usize, world: &World<'_>, hits: &mut Hits) {
        let World { cluster, proxy, store, .. } = world;
        let begun = Instant::now();
        match fault {
            // A node that happens to run no turn is not hit by its end.
            Fault::Kill => loop {
                let place = self.busy(place, store).await;
                self.running[place].kill();
                let hit = surely!(turns_of(store, &self.running[place]).await);
                self.running[place] = self.node(place);
                if hits.note(hit) {
                    hits.kills += 1;
                    break;
                }
                assert!(begun.elapsed() < TIMEOUT, "no node that was killed had a turn");
            },
            Fault::Stop => loop {
                let node = &self.running[self.busy(place, store).await];
                node.signal(Signal::SIGSTOP);
                // Earlier writes are stored meanwhile.
                tokio::time::sleep(LEASE / 6).await;
                let hit = surely!(turns_of(store, node).await);
                if hits.note(hit) {
                    hits.stops += 1;
                    tokio::time::sleep(2 * LEASE).await;
                    node.signal(Signal::SIGCONT);
                    // Its next write is refused, which it reports.
                    node.wait_for("this process no longer holds session");
                    break;
                }
                node.signal(Signal::SIGCONT);
                assert!(begun.elapsed() < TIMEOUT, "no node that was stopped had a turn");
            },
            Fault::Crash => {
                cluster.crash();
                hits.crashes += 1;
                tokio::time::sleep(LEASE / 3).await;
                cluster.run_server();
            }
            Fault::Cut => {
                proxy.cut_commits(CUTS);
                while proxy.planned() > 0 {
                    assert!(begun.elapsed() < TIMEOUT, "{} cuts are left", proxy.planned());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Fault::Late => hits.late += write_late(world).await,
        }
    }
}

/// Writes a session that a process has lost to a node, on its present head: nothing but the check of the epoch refuses
/// that. Returns the number of refused writes.
async fn write_late(world: &World<'_>) -> u64 {
    type Step = fn(&Log) -> Commit;
    let World { cluster, store, directory, .. } = world;
    let session = create(store, TEAM, directory).await;
    let late = PostgresStore::open_with_lease(&cluster.url(), None, LEASE).await.unwrap();
    let holder = Holder { pid: 1, host: "late".to_owned(), since: now() };
    let lease = late.hold(session, holder).await.unwrap();
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let expire = sqlx::query("UPDATE lease SET until = '-infinity' WHERE session = $1");
    expire.bind(session.to_string()).execute(&pool).await.unwrap();
    store.say(session, &NewMessage::from_person("ada", "question 1 [NEXT: max]")).await.unwrap();
    let begun = Instant::now();
    while store.turns_after(session, TurnId(0), 1).await.unwrap().iter().all(|it| it.attempts == 0)
    {
        assert!(begun.elapsed() < TIMEOUT, "no node goes on with the session");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let steps: [Step; 2] = [
        |log| log.commit([said(message(2, None, "max", &[], "too late"))]),
        |log| {
            let (turn, text) = (TurnId(1), "too late".to_owned());
            Commit { pieces: vec![Piece { turn, attempt: 1, position: 0, text }], ..log.commit([]) }
        },
    ];
    for step in steps {
        loop {
            let step = step(&Log::read(&late, session).await.unwrap());
            match late.commit(session, step).await {
                Err(StoreError::HoldLost { .. }) => break,
                // The node was faster.
                Err(StoreError::Conflict { .. }) => {}
                written => panic!("a stale process has written: {written:?}"),
            }
        }
    }
    while store.turns_after(session, TurnId(0), 1).await.unwrap()[0].state != TurnState::Done {
        assert!(begun.elapsed() < TIMEOUT, "the turn does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.messages_after(session, MessageNumber(0), 9).await.unwrap().len(), 2);
    drop(lease);
    late.close().await;
    steps.len() as u64
}

/// The environment of the nodes.
struct World<'w> {
    cluster: &'w Cluster,
    proxy: &'w Proxy,
    store: &'w PostgresStore,
    /// The directory of the sessions.
    directory: &'w str,
}

/// The faults that happened.
#[derive(Debug, Default)]
struct Hits {
    kills: u64,
    stops: u64,
    crashes: u64,
    /// The writes of processes whose lease was over.
    late: u64,
    /// The turns that a killed or stopped node had begun.
    interrupted: Vec<(SessionId, TurnId)>,
}

impl Hits {
    /// Notes the turns that a fault hit. Returns whether there were any.
    fn note(&mut self, hit: Vec<(SessionId, TurnId)>) -> bool {
        let is_hit = !hit.is_empty();
        self.interrupted.extend(hit);
        is_hit
    }
}

/// Returns the turns that a node has begun and not ended.
async fn turns_of(
    store: &PostgresStore,
    node: &Node,
) -> Result<Vec<(SessionId, TurnId)>, StoreError> {
    let nodes = store.nodes().await?;
    let of_node = nodes.into_iter().filter(|standing| standing.holder.pid == node.pid());
    Ok(of_node.flat_map(|node| node.turns).map(|turn| (turn.session, turn.turn)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_turn_is_recorded_once_and_in_order_whatever_happens_to_the_nodes() {
    let (count, turns) = (setting("CONVOKE_FAULT_SESSIONS", 6), setting("CONVOKE_FAULT_TURNS", 4));
    let rounds = setting("CONVOKE_FAULT_ROUNDS", 1);
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.socket());
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let mut nodes = Nodes::start(3, &proxy.url());
    let directory = nodes.machines[0].path().display().to_string();
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(create(&store, TEAM, &directory).await);
    }
    let (pace, stop) = (Arc::new(Pace::default()), Arc::new(AtomicBool::new(false)));
    let readers = [30, 170].map(|pause| {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        tokio::spawn(read(store, sessions.clone(), Duration::from_millis(pause), stop))
    });
    let people: Vec<_> = sessions
        .iter()
        .map(|session| tokio::spawn(ask(store.clone(), *session, turns, Arc::clone(&pace))))
        .collect();
    let world = World { cluster: &cluster, proxy: &proxy, store: &store, directory: &directory };
    let mut hits = Hits::default();
    let faults = [Fault::Cut, Fault::Kill, Fault::Late, Fault::Stop, Fault::Crash];
    let faults: Vec<Fault> = (0..rounds).flat_map(|_| faults).collect();
    for (number, fault) in faults.iter().enumerate() {
        // They are spread over the whole conversation.
        let step = count * turns / (faults.len() as u64 + 1);
        let share = (number as u64 + 1) * step;
        // Some turns are left for each fault to meet.
        pace.allowed.store(share + 2 * step, Ordering::SeqCst);
        let begun = Instant::now();
        while pace.done.load(Ordering::SeqCst) < share {
            assert!(begun.elapsed() < TIMEOUT, "nothing goes on after {number} faults");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        nodes.suffer(*fault, number % 3, &world, &mut hits).await;
    }
    pace.allowed.store(u64::MAX, Ordering::SeqCst);
    for person in people {
        person.await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    // A node that a fault met between the last reply and the end of the conversation leaves that end to another.
    let begun = Instant::now();
    for session in &sessions {
        while surely!(store.shared_state(*session).await).continues {
            assert!(begun.elapsed() < TIMEOUT, "nobody ends the conversation of {session}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    for node in &nodes.running {
        assert_eq!(node.end(), Some(0), "{}", node.output());
    }

    let expected: Vec<String> = (1..=turns)
        .flat_map(|number| {
            let question = format!("{} ada: question {number}", 2 * number - 1);
            [question, format!("{} max: answer to question {number}", 2 * number)]
        })
        .collect();
    let mut attempts = 0;
    for (place, session) in sessions.iter().enumerate() {
        let messages = store.messages_after(*session, MessageNumber(0), 1000).await.unwrap();
        let line = |message: &convoke_protocol::message::Message| {
            let stored = &message.message;
            let text = strip_all_markers(&stored.content, TextPolicy::Preserve);
            format!("{} {}: {text}", message.number, stored.speaker.name())
        };
        assert_eq!(messages.iter().map(line).collect::<Vec<_>>(), expected);
        assert_eq!(seen[0][place], expected);
        assert_eq!(seen[1][place], expected);
        let stored = store.turns_after(*session, TurnId(0), 1000).await.unwrap();
        assert!(stored.iter().all(|turn| turn.state == TurnState::Done));
        for turn in &stored {
            let tried = store.attempts(*session, turn.id).await.unwrap();
            assert!(tried.iter().all(|attempt| attempt.ended.is_some()), "{tried:?}");
            for attempt in &tried {
                let left = store.pieces(*session, turn.id, attempt.number).await.unwrap();
                assert_eq!(left, "", "a stale node has written pieces of a text");
            }
            attempts += tried.len();
        }
        assert!(store.arrived(*session).await.unwrap().is_empty());
        assert!(!store.shared_state(*session).await.unwrap().continues);
    }
    // Every planned fault has happened, and every turn that one hit was tried again.
    let (before, after) = proxy.made();
    assert_eq!((hits.kills, hits.stops, hits.crashes), (rounds, rounds, rounds));
    assert_eq!(hits.late, 2 * rounds);
    let half = u64::from(CUTS / 2) * rounds;
    assert_eq!((u64::from(before), u64::from(after)), (half, half));
    for (session, turn) in &hits.interrupted {
        let tried = store.attempts(*session, *turn).await.unwrap();
        assert!(tried.len() > 1, "turn {turn} of {session} was hit and has one attempt");
    }
    println!(
        "{} turns in {attempts} attempts; {rounds} nodes killed, {rounds} stopped, {} turns of theirs \
         interrupted; {rounds} crashes of the server; {} late writes refused; {before} connections cut before their COMMIT, {after} \
         after it",
        count * turns,
        hits.interrupted.len(),
        hits.late,
    );
    for machine in &nodes.machines {
        machine.assert_no_process_is_left();
    }
}
