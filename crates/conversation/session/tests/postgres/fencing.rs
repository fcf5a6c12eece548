//! Every kind of write by a process whose lease has expired, or whose session another process has claimed, is
//! refused.

use std::time::Duration;

use convoke_agent::thread::{ThreadStore as _, ThreadStoreError};
use convoke_conformance_store::{
    Log, ended, message, noted, queued, request, said, started, timed_out,
};
use convoke_protocol::content::Content;
use convoke_protocol::id::{AttemptRef, EventNumber, MessageNumber, Millis, ThreadId, TurnId};
use convoke_protocol::request::{RequestOutcome, RequestTexts};
use convoke_protocol::session::NewSession;
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::turn::TurnState;
use convoke_session::sharing::{NextTurn, TurnRequirements};
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::postgres::{PostgresStore, SessionLease};
use convoke_session::store::{Piece, SessionHold as _};
use convoke_session::{Commit, Coordinator, Store, StoreError};

use super::agents::{Seen, team};
use super::cluster::Cluster;
use super::proxy::Proxy;
use super::sharing::{holder, offers, says, session};
use super::{expire, lease_end, node};

/// A session with a running turn, a thread and a request, and a process that loses it.
struct Lost {
    stale: PostgresStore,
    fresh: PostgresStore,
    new: NewSession,
    log: Log,
    thread: ThreadId,
}

/// Returns a commit that adds a running turn.
fn begun(log: &Log, contents: &[Content; 3]) -> Commit {
    let go = said(message(1, None, "ada", &["max"], "go"));
    let mut step = log.commit([go, queued(1, 1), started(1, 1, contents)]);
    step.contents = contents.to_vec();
    step
}

fn append(thread: &ThreadId, known: usize) -> ThreadAppend {
    ThreadAppend { thread: thread.clone(), known, lines: vec!["a line".to_owned()] }
}

fn texts() -> RequestTexts {
    RequestTexts { body: "[]".to_owned(), ledger: String::new() }
}

fn is_refused<T>(written: Result<T, StoreError>) -> bool {
    written.is_err_and(|error| matches!(error, StoreError::HoldLost { .. }))
}

fn is_refused_thread<T>(written: Result<T, ThreadStoreError>) -> bool {
    written.is_err_and(|error| error.to_string().contains("no longer holds"))
}

/// Begins a session with a running turn, a thread, a request and a message in its inbox.
async fn begin(cluster: &Cluster) -> (Lost, SessionLease) {
    let (stale, fresh) = (node(cluster).await, node(cluster).await);
    let new = session();
    let mut log = Log::create(&stale, &new).await.unwrap();
    let lease = stale.hold(new.id, holder(1)).await.unwrap();
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let thread = ThreadId::of_member(new.id, "max");
    let mut first = begun(&log, &contents);
    first.threads = vec![append(&thread, 0)];
    log.store(&stale, first).await.unwrap();
    let sent = request(&thread, 1, Some(of_turn(&new)), texts());
    assert_eq!(stale.add_request(&sent, None).await.unwrap(), 1);
    stale.say(new.id, &says("waits")).await.unwrap();
    (Lost { stale, fresh, new, log, thread }, lease)
}

fn of_turn(new: &NewSession) -> AttemptRef {
    AttemptRef { session: new.id, turn: TurnId(1), attempt: 1 }
}

/// Tries every kind of write with a lease that is no longer valid. All are refused.
async fn nothing_is_written(lost: &Lost) {
    commits_are_refused(lost).await;
    let Lost { stale, fresh, new, log, thread } = lost;
    assert!(is_refused_thread(stale.append_lines(&append(thread, 1)).await), "a thread");
    for of_turn in [Some(of_turn(new)), None] {
        let second = request(thread, 2, of_turn, texts());
        assert!(is_refused_thread(stale.add_request(&second, None).await), "{of_turn:?}");
    }
    let outcome = RequestOutcome { status: Some(200), ..RequestOutcome::default() };
    assert!(is_refused_thread(stale.set_outcome(thread, 1, &outcome).await), "an outcome");
    assert!(stale.signals(new.id).await.map_or(true, |taken| taken.is_empty()), "signals");

    assert_eq!(fresh.session(new.id).await.unwrap().head, log.head);
    assert_eq!(fresh.events(new.id, log.head, 9).await.unwrap(), []);
    assert_eq!(fresh.messages_after(new.id, MessageNumber(0), 9).await.unwrap().len(), 1);
    assert_eq!(fresh.open_turns(new.id).await.unwrap()[0].state, TurnState::Running);
    assert_eq!(fresh.pieces(new.id, TurnId(1), 1).await.unwrap(), "");
    assert_eq!(fresh.thread_lines(thread).await.unwrap().len(), 1);
    let requests = fresh.requests(thread).await.unwrap();
    assert_eq!((requests.len(), &requests[0].outcome), (1, &RequestOutcome::default()));
    assert_eq!(fresh.arrived(new.id).await.unwrap().len(), 1);
    assert_eq!(fresh.shared_state(new.id).await.unwrap().next, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kind_of_write_of_a_stale_process_is_carried_out() {
    let cluster = Cluster::start();
    let (lost, lease) = begin(&cluster).await;
    expire(&cluster, &lost.new.id.to_string()).await;
    let held = lost.fresh.hold(lost.new.id, holder(2)).await.unwrap();
    nothing_is_written(&lost).await;
    drop((lease, held));
    lost.stale.close().await;
    lost.fresh.close().await;
}

/// No other process has claimed the session: the end of the lease alone decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_writes_nothing_and_is_not_revived() {
    let cluster = Cluster::start();
    let (lost, lease) = begin(&cluster).await;
    let id = lost.new.id.to_string();
    expire(&cluster, &id).await;
    let over = lease_end(&cluster, &id).await;
    nothing_is_written(&lost).await;
    // The next heartbeat notices that it has expired.
    let told = tokio::time::timeout(Duration::from_mins(1), lease.lost()).await;
    assert!(told.is_ok(), "the heartbeats go on");
    assert_eq!(lease_end(&cluster, &id).await, over);
    drop(lease);
    // A new claim has a new epoch.
    let lease = lost.stale.hold(lost.new.id, holder(1)).await.unwrap();
    lost.stale.commit(lost.new.id, lost.log.commit([noted()])).await.unwrap();
    lease.release().await;
}

/// Makes another process claim every session right after the claim of this one.
async fn claim_after_every_claim(cluster: &Cluster) {
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let trigger = "CREATE FUNCTION claim() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN \
         UPDATE lease SET epoch = epoch + 1, pid = 2 WHERE session = NEW.session; RETURN NULL; END $$; \
         CREATE TRIGGER claim AFTER INSERT OR UPDATE ON lease FOR EACH ROW \
         WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION claim()";
    sqlx::raw_sql(trigger).execute(&pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_claimed_meanwhile_is_neither_removed_nor_restored() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let (kept, trashed) = (session(), session());
    for new in [&kept, &trashed] {
        store.create(new.clone()).await.unwrap();
    }
    store.set_removed(trashed.id, Some(Millis(1))).await.unwrap();
    claim_after_every_claim(&cluster).await;
    assert!(is_refused(store.set_removed(kept.id, Some(Millis(2))).await));
    expire(&cluster, &kept.id.to_string()).await;
    assert!(is_refused(store.remove(kept.id).await));
    assert!(is_refused(store.set_removed(trashed.id, None).await));
    assert_eq!(store.session(kept.id).await.unwrap().began, kept);
    assert_eq!(store.removed_sessions().await.unwrap().len(), 1);
}

/// The check is useless if another process can claim the session between it and the end of the transaction.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_claims_a_session_in_the_middle_of_a_write() {
    let cluster = Cluster::start();
    let (Lost { stale, new, log, .. }, lease) = begin(&cluster).await;
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let mut blocking = pool.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM session WHERE id = $1 FOR UPDATE");
    lock.bind(new.id.to_string()).execute(&mut *blocking).await.unwrap();
    let (id, head, step) = (new.id, log.head, log.commit([noted()]));
    let writing = tokio::spawn(async move { stale.commit(id, step).await });
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let claim = sqlx::query("SELECT 1 FROM lease WHERE session = $1 FOR NO KEY UPDATE NOWAIT");
    let claimed = claim.bind(new.id.to_string()).execute(&pool).await.unwrap_err();
    let code = claimed.as_database_error().and_then(|error| Some(error.code()?.into_owned()));
    assert_eq!(code.as_deref(), Some("55P03"), "{claimed}");
    blocking.rollback().await.unwrap();
    assert_eq!(writing.await.unwrap().unwrap(), head.next());
    drop(lease);
}

/// A process whose connection breaks during a COMMIT reads the head, which another process may have advanced.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_another_process_is_not_taken_for_a_lost_one() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.socket());
    let (options, lease) = (proxy.url().parse().unwrap(), Duration::from_mins(1));
    let stale = PostgresStore::open_with(options, lease, Failpoint::default()).await.unwrap();
    let fresh = node(&cluster).await;
    let new = session();
    let observer = Box::new(Seen::default());
    let mut coordinator =
        Coordinator::create(stale.clone(), new.clone(), team(&[]), observer).await.unwrap();
    proxy.stop_at_commit(true);
    let accepting = tokio::spawn(async move { coordinator.accept(says("lost")).await });
    tokio::task::block_in_place(|| proxy.wait_for_stop());
    expire(&cluster, &new.id.to_string()).await;
    let held = fresh.hold(new.id, holder(2)).await.unwrap();
    let mut log = Log::read(&fresh, new.id).await.unwrap();
    log.add(&fresh, [noted()]).await.unwrap();
    proxy.resume();
    // The message waits for the other process, which holds the session now.
    assert_eq!(accepting.await.unwrap().unwrap(), None);
    assert!(fresh.messages_after(new.id, MessageNumber(0), 9).await.unwrap().is_empty());
    assert_eq!(fresh.arrived(new.id).await.unwrap().len(), 1);
    held.release().await;
}

/// A process that is stopped in the middle of a transaction has locked the row of its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_left_open_ends_with_its_lease() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.socket());
    // Short, but longer than a busy machine stalls.
    let (options, lease) = (proxy.url().parse().unwrap(), Duration::from_secs(9));
    let stopped = PostgresStore::open_with(options, lease, Failpoint::default()).await.unwrap();
    let fresh = node(&cluster).await;
    let new = session();
    fresh.create(new.clone()).await.unwrap();
    let lease = stopped.hold(new.id, holder(1)).await.unwrap();
    proxy.stop_at_commit(false);
    let (id, step) = (new.id, Log::of(&new).commit([noted()]));
    let late = step.clone();
    let writing = tokio::spawn(async move { stopped.commit(id, late).await });
    tokio::task::block_in_place(|| proxy.wait_for_stop());
    let claimed = async {
        loop {
            match fresh.hold(new.id, holder(2)).await {
                Err(StoreError::Held { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                claimed => return claimed.unwrap(),
            }
        }
    };
    let held = tokio::time::timeout(Duration::from_mins(1), claimed).await.expect("it is free");
    assert_eq!(fresh.commit(new.id, step).await.unwrap(), EventNumber(2));
    proxy.resume();
    assert!(writing.await.unwrap().is_err(), "it was written too late");
    drop(lease);
    held.release().await;
}

/// A claim waits for whoever has locked the row of the lease. What it was given must not have ended by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_begins_when_its_claim_has_waited_for_others() {
    let cluster = Cluster::start();
    let duration = Duration::from_secs(5);
    let options = cluster.url().parse().unwrap();
    let store = PostgresStore::open_with(options, duration, Failpoint::default()).await.unwrap();
    let new = session();
    store.create(new.clone()).await.unwrap();
    store.hold(new.id, holder(1)).await.unwrap().release().await;
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let mut other = pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 FROM lease FOR UPDATE").execute(&mut *other).await.unwrap();
    let (id, claimer) = (new.id, store.clone());
    let claiming = tokio::spawn(async move { claimer.hold(id, holder(1)).await });
    tokio::time::sleep(duration + Duration::from_secs(1)).await;
    other.rollback().await.unwrap();
    let lease = claiming.await.unwrap().unwrap();
    let step = Log::of(&new).commit([noted()]);
    assert_eq!(store.commit(new.id, step).await.unwrap(), EventNumber(2));
    lease.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_neither_extends_nor_removes_the_registration_of_another() {
    let cluster = Cluster::start();
    let (stale, fresh) = (node(&cluster).await, node(&cluster).await);
    let first = stale.register_node("build", &offers("claude"), &holder(1)).await.unwrap();
    let refused = fresh.register_node("build", &offers("codex"), &holder(2)).await.unwrap_err();
    assert!(matches!(refused, StoreError::NodeExists { .. }), "{refused}");
    // Its heartbeats have stopped for too long.
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    sqlx::raw_sql("UPDATE node SET until = '-infinity'").execute(&pool).await.unwrap();
    let second = fresh.register_node("build", &offers("codex"), &holder(2)).await.unwrap();
    assert!(!stale.beat_node(&first, &offers("claude")).await.unwrap());
    stale.remove_node(&first).await.unwrap();
    let nodes = fresh.nodes().await.unwrap();
    assert_eq!((nodes.len(), nodes[0].holder.pid, &nodes[0].offer), (1, 2, &offers("codex")));
    assert!(fresh.beat_node(&second, &offers("codex")).await.unwrap());
    fresh.remove_node(&second).await.unwrap();
    assert!(fresh.nodes().await.unwrap().is_empty());
}

/// Tries a commit for each kind of row.
async fn commits_are_refused(lost: &Lost) {
    type Change = fn(&Lost) -> Commit;
    let Lost { stale, new, log, thread, .. } = lost;
    let number = stale.arrived(new.id).await.unwrap()[0].0;
    let kinds: [(&str, Change); 6] = [
        ("an event", |lost| lost.log.commit([noted()])),
        ("a message", |lost| lost.log.commit([said(message(2, None, "max", &[], "too late"))])),
        ("a turn", |lost| {
            let result = timed_out(&Content::new("prompt"));
            lost.log.commit([ended(1, 1, TurnState::Failed, result)])
        }),
        ("a piece of a text", |lost| {
            let (turn, text) = (TurnId(1), "late".to_owned());
            let pieces = vec![Piece { turn, attempt: 1, position: 0, text }];
            Commit { pieces, ..lost.log.commit([]) }
        }),
        ("a thread", |lost| {
            let threads = vec![append(&lost.thread, 1)];
            Commit { threads, ..lost.log.commit([]) }
        }),
        ("an offer", |lost| {
            let requirements = TurnRequirements { agent: "claude".to_owned(), node: None };
            let guard = convoke_session::sharing::Guard::default();
            let (turn, member) = (TurnId(1), "max".into());
            let next = Some(NextTurn { turn, member, requirements, guard });
            Commit { next, ..lost.log.commit([]) }
        }),
    ];
    for (kind, change) in kinds {
        assert!(is_refused(stale.commit(new.id, change(lost)).await), "{kind} of {thread:?}");
    }
    let step = Commit { taken: Some(number), ..log.commit([]) };
    assert!(is_refused(stale.commit(new.id, step).await), "a message of the inbox");
}

/// A process that has lost its session neither stops the conversation nor hands it over.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_process_does_not_release_the_session_of_another() {
    for text in ["to nobody", "for another machine [NEXT: cody]"] {
        let cluster = Cluster::start();
        let (stale, fresh) = (node(&cluster).await, node(&cluster).await);
        let (new, seen) = (session(), Seen::default());
        let observer = Box::new(seen.clone());
        let mut coordinator =
            Coordinator::create(stale.clone(), new.clone(), team(&[]), observer).await.unwrap();
        // The session is held from here on.
        coordinator.accept(says(text)).await.unwrap();
        expire(&cluster, &new.id.to_string()).await;
        let held = fresh.hold(new.id, holder(2)).await.unwrap();
        let controls = coordinator.controls();
        let running = tokio::spawn(async move { coordinator.run().await.unwrap() });
        seen.wait_for("lease.lost").await;
        assert!(fresh.is_held(new.id).await.unwrap(), "{text}");
        let state = fresh.shared_state(new.id).await.unwrap();
        assert_eq!((state.next, state.stopped), (None, None), "{text}");
        controls.leave();
        let ended = tokio::time::timeout(Duration::from_mins(1), running).await;
        assert!(ended.is_ok(), "it follows for ever");
        drop(held);
        fresh.close().await;
    }
}
