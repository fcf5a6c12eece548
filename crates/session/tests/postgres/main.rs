//! The PostgreSQL store: conformance, leases, and properties of a server.

#![allow(clippy::unwrap_used, clippy::panic)]

mod agents;
mod cluster;
mod connections;
mod fencing;
mod histories;
mod lease_model;
mod proxy;
mod sharing;
mod signals;
mod statements;

use std::time::Duration;

use convoke_conformance_store::{self as conformance, attempt, commit, message, new_session, turn};
use convoke_protocol::content::Content;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::{Holder, SessionHold as _};
use convoke_session::transfer::{self, TransferError};
use convoke_session::{SqliteStore, Store, StoreError};

use self::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn postgres_does_what_every_store_must() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    Box::pin(conformance::check(&store)).await.unwrap();
}

fn holder(pid: u32) -> Holder {
    Holder { pid, host: "here".to_owned(), since: Millis(0) }
}

/// Opens the store as a separate process would, with a lease that is short but longer than a busy machine
/// stalls.
async fn node(cluster: &Cluster) -> PostgresStore {
    let (options, lease) = (cluster.url().parse().unwrap(), Duration::from_secs(9));
    PostgresStore::open_with(options, lease, Failpoint::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_lease_was_claimed_writes_nothing_more() {
    let cluster = Cluster::start();
    let (stale, fresh) = (node(&cluster).await, node(&cluster).await);
    let new = new_session();
    stale.create(new.clone()).await.unwrap();
    let lease = stale.hold(new.id, holder(1)).await.unwrap();
    let head = stale.commit(new.id, commit(EventNumber(0))).await.unwrap();
    let refused = fresh.commit(new.id, commit(head)).await;
    assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");

    // The database's clock passes the end of the lease, as if the process had been stopped.
    let lost = lease.lost();
    expire(&cluster, &new.id.to_string()).await;
    let next = fresh.hold(new.id, holder(2)).await.unwrap();
    let head = fresh.commit(new.id, commit(head)).await.unwrap();
    let mut late = commit(head);
    late.messages = vec![message(1, None, "max", &[], "too late")];
    for write in [
        stale.commit(new.id, late).await.map(drop),
        stale.remove(new.id).await,
        stale.set_removed(new.id, Some(Millis(1))).await,
    ] {
        let is_refused =
            matches!(write, Err(StoreError::LeaseLost { .. } | StoreError::Held { .. }));
        assert!(is_refused, "{write:?}");
    }
    tokio::time::timeout(Duration::from_secs(30), lost).await.expect("the loss is told");
    drop(lease);
    stale.close().await;
    // Releasing a lost lease does not end the lease of the process that holds it now.
    assert!(fresh.is_held(new.id).await.unwrap());
    drop(next);
    fresh.close().await;
}

/// Ends the lease of a session.
async fn expire(cluster: &Cluster, session: &str) {
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let expired = sqlx::query("UPDATE lease SET until = '-infinity' WHERE session = $1");
    assert_eq!(expired.bind(session).execute(&pool).await.unwrap().rows_affected(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_as_long_as_its_heartbeats() {
    let cluster = Cluster::start();
    let (one, two) = (node(&cluster).await, node(&cluster).await);
    let session = new_session().id;
    let lease = one.hold(session, holder(1)).await.unwrap();
    let begun = lease_end(&cluster, &session.to_string()).await;
    while lease_end(&cluster, &session.to_string()).await == begun {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held = two.hold(session, holder(2)).await.err();
    assert!(matches!(held, Some(StoreError::Held { .. })), "{held:?}");
    lease.release().await;
    two.hold(session, holder(2)).await.unwrap().release().await;
}

/// Returns when the lease of a session ends.
async fn lease_end(cluster: &Cluster, session: &str) -> String {
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let end = sqlx::query_scalar("SELECT until::TEXT FROM lease WHERE session = $1");
    end.bind(session).fetch_one(&pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_announced_to_every_process_by_its_numbers_alone() {
    let cluster = Cluster::start();
    let (one, two) = (node(&cluster).await, node(&cluster).await);
    let mut commits = two.listen().await.unwrap();
    let new = new_session();
    one.create(new.clone()).await.unwrap();
    for head in 0..3 {
        one.commit(new.id, commit(EventNumber(head))).await.unwrap();
    }
    for head in 1..=3 {
        assert_eq!(commits.next().await.unwrap(), Some((new.id, EventNumber(head))));
    }
    // After a crash of the server, the reader must read again.
    cluster.crash();
    cluster.run_server();
    assert_eq!(commits.next().await.unwrap(), None);
    one.commit(new.id, commit(EventNumber(3))).await.unwrap();
    assert_eq!(commits.next().await.unwrap(), Some((new.id, EventNumber(4))));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_character_comes_back() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let mut new = new_session();
    new.name = Some("nul \0 name".to_owned());
    new.task = Some("task \0 \u{1F980}".to_owned());
    store.create(new.clone()).await.unwrap();
    let long = format!("start {} end \0", "word\u{e9} ".repeat(200_000));
    let mut step = commit(EventNumber(0));
    step.messages = vec![message(1, None, "max", &["a\0b"], &long)];
    store.commit(new.id, step.clone()).await.unwrap();
    assert_eq!(store.session(new.id).await.unwrap().began, new);
    assert_eq!(store.messages_after(new.id, MessageNumber(0), 9).await.unwrap(), step.messages);
    let found = store.search(&["worde".to_owned(), "end".to_owned()], None, 9).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_see_later_commits() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let new = new_session();
    store.create(new.clone()).await.unwrap();
    let snapshot = store.snapshot().await.unwrap();
    store.commit(new.id, commit(EventNumber(0))).await.unwrap();
    assert_eq!(snapshot.session(new.id).await.unwrap().head, EventNumber(0));
    assert_eq!(store.session(new.id).await.unwrap().head, EventNumber(1));
    assert!(snapshot.create(new_session()).await.is_err(), "a snapshot is not written");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_create_the_tables_once_and_foreign_tables_are_refused() {
    let cluster = Cluster::start();
    let (url, other) = (cluster.url(), cluster.url());
    let (one, two) =
        tokio::join!(PostgresStore::open(&url, None), PostgresStore::open(&other, None));
    let (one, _two) = (one.unwrap(), two.unwrap());
    one.create(new_session()).await.unwrap();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    // Tables of the first format are migrated.
    let older = "ALTER TABLE lease DROP COLUMN stopped; DROP TABLE inbox, offer, project, node, signal, attendance; \
                 UPDATE convoke_store SET format = 1";
    sqlx::raw_sql(older).execute(&pool).await.unwrap();
    let migrated = PostgresStore::open(&url, None).await.unwrap();
    migrated.hold(new_session().id, holder(1)).await.unwrap().release().await;
    assert!(migrated.nodes().await.unwrap().is_empty());
    assert_eq!(migrated.cancel_turns(new_session().id).await.unwrap(), 0);
    assert!(!migrated.is_attended(new_session().id).await.unwrap());
    // An offer of the third format may have no lease, and can still be claimed.
    let new = new_session();
    migrated.create(new.clone()).await.unwrap();
    migrated.say(new.id, &sharing::says("go")).await.unwrap();
    let older = "DELETE FROM lease; UPDATE convoke_store SET format = 3";
    sqlx::raw_sql(older).execute(&pool).await.unwrap();
    let migrated = PostgresStore::open(&url, None).await.unwrap();
    let offer = sharing::offers("claude");
    let claimed = migrated.claim_offered("any", &offer, &[], &holder(1)).await.unwrap();
    assert_eq!(claimed.map(|(session, _)| session), Some(new.id));
    sqlx::raw_sql("UPDATE convoke_store SET format = 99").execute(&pool).await.unwrap();
    let refused = PostgresStore::open(&url, None).await.unwrap_err();
    assert!(matches!(refused, StoreError::DatabaseVersion { found: 99, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_the_same_in_every_store_that_it_was_copied_to() {
    let cluster = Cluster::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = SqliteStore::open(first.path()).await.unwrap();
    let new = new_session();
    file.create(new.clone()).await.unwrap();
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let mut step = commit(EventNumber(0));
    step.contents = contents.to_vec();
    step.messages = vec![message(1, None, "kailai", &["max"], "any \0 text")];
    step.turns = vec![turn(1, 1, TurnState::Failed)];
    step.attempts = vec![attempt(1, 1, &contents, true)];
    step.state.last_message = MessageNumber(1);
    step.state.last_turn = TurnId(1);
    let head = file.commit(new.id, step).await.unwrap();

    let server = node(&cluster).await;
    let there = transfer::copy(&file, &server, new.id).await.unwrap();
    let back = SqliteStore::open(second.path()).await.unwrap();
    let again = transfer::copy(&server, &back, new.id).await.unwrap();
    assert_eq!((there.hash, there.was_there), (again.hash, again.was_there));
    assert_eq!(back.content(contents[0].reference().hash).await.unwrap(), "prompt");
    assert!(transfer::copy(&file, &server, new.id).await.unwrap().was_there);

    // Another conversation with the same id is left unchanged.
    let mut more = commit(head);
    more.messages = vec![message(2, None, "kailai", &[], "more")];
    more.state.last_message = MessageNumber(2);
    file.commit(new.id, more).await.unwrap();
    let refused = transfer::copy(&file, &server, new.id).await;
    assert!(matches!(refused, Err(TransferError::Differs { .. })), "{refused:?}");
    assert_eq!(server.session(new.id).await.unwrap().state.last_message, MessageNumber(1));
}
