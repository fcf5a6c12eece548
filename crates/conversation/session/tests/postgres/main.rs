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

use convoke_conformance_store::{
    self as conformance, Log, ended, message, new_session, noted, queued, said, started, timed_out,
};
use convoke_protocol::content::Content;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis};
use convoke_protocol::turn::TurnState;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::{Holder, SessionHold as _};
use convoke_session::transfer::{self, TransferError};
use convoke_session::{AnyStore, SqliteStore, Store, StoreError, verify};

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
    let mut log = Log::of(&new);
    log.add(&stale, [noted()]).await.unwrap();
    let refused = fresh.commit(new.id, log.commit([noted()])).await;
    assert!(matches!(refused, Err(StoreError::HoldLost { .. })), "{refused:?}");

    // The database's clock passes the end of the lease, as if the process had been stopped.
    let lost = lease.lost();
    expire(&cluster, &new.id.to_string()).await;
    let next = fresh.hold(new.id, holder(2)).await.unwrap();
    log.add(&fresh, [noted()]).await.unwrap();
    let late = log.commit([said(message(1, None, "max", &[], "too late"))]);
    for write in [
        stale.commit(new.id, late).await.map(drop),
        stale.remove(new.id).await,
        stale.set_removed(new.id, Some(Millis(1))).await,
    ] {
        let is_refused =
            matches!(write, Err(StoreError::HoldLost { .. } | StoreError::Held { .. }));
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
    let mut log = Log::create(&one, &new).await.unwrap();
    for _ in 0..3 {
        log.add(&one, [noted()]).await.unwrap();
    }
    for head in 2..=4 {
        assert_eq!(commits.next().await.unwrap(), Some((new.id, EventNumber(head))));
    }
    // After a crash of the server, the reader must read again.
    cluster.crash();
    cluster.run_server();
    assert_eq!(commits.next().await.unwrap(), None);
    log.add(&one, [noted()]).await.unwrap();
    assert_eq!(commits.next().await.unwrap(), Some((new.id, EventNumber(5))));
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
    let message = message(1, None, "max", &["a\0b"], &long);
    Log::of(&new).add(&store, [said(message.clone())]).await.unwrap();
    assert_eq!(store.session(new.id).await.unwrap().began, new);
    assert_eq!(store.messages_after(new.id, MessageNumber(0), 9).await.unwrap(), [message]);
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
    Log::of(&new).add(&store, [noted()]).await.unwrap();
    assert_eq!(snapshot.session(new.id).await.unwrap().head, EventNumber(1));
    assert_eq!(store.session(new.id).await.unwrap().head, EventNumber(2));
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
    sqlx::raw_sql("UPDATE convoke_store SET format = 99").execute(&pool).await.unwrap();
    let refused = PostgresStore::open(&url, None).await.unwrap_err();
    assert!(matches!(refused, StoreError::DatabaseVersion { found: 99, .. }), "{refused}");
    let refused = PostgresStore::migrate(&url, None).await.unwrap_err();
    assert!(matches!(refused, StoreError::DatabaseVersion { found: 99, .. }), "{refused}");
}

/// Makes the tables those of the fourth format, which had no log.
const TO_FORMAT_4: &str = "
    DROP TABLE event, piece; ALTER TABLE session RENAME COLUMN events TO head;
    CREATE TABLE progress (
        session TEXT COLLATE \"C\" NOT NULL, turn BIGINT NOT NULL, attempt BIGINT NOT NULL,
        number BIGINT NOT NULL, events TEXT NOT NULL, PRIMARY KEY (session, turn, attempt, number)
    );
    UPDATE message SET rest = (rest::json->'message')::text; UPDATE convoke_store SET format = 4;";

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_earlier_formats_are_migrated_when_the_operator_asks() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let to_format_1 = "ALTER TABLE lease DROP COLUMN stopped; \
        DROP TABLE inbox, offer, project, node, signal, attendance; UPDATE convoke_store SET format = 1";
    // An offer of the third format may have no lease, and can still be claimed.
    let to_format_3 = "DELETE FROM lease; UPDATE convoke_store SET format = 3";
    for (format, older) in [(1, to_format_1), (3, to_format_3), (4, "")] {
        let store = PostgresStore::open(&url, None).await.unwrap();
        let new = new_session();
        let mut log = Log::create(&store, &new).await.unwrap();
        let said = said(message(1, None, "kailai", &["max"], "any \0 text"));
        log.add(&store, [said, queued(1, 1)]).await.unwrap();
        if format > 1 {
            store.say(new.id, &sharing::says("go")).await.unwrap();
        }
        store.close().await;
        sqlx::raw_sql(TO_FORMAT_4).execute(&pool).await.unwrap();
        sqlx::raw_sql(older).execute(&pool).await.unwrap();
        let refused = PostgresStore::open(&url, None).await.unwrap_err();
        assert!(matches!(refused, StoreError::OldDatabase { .. }), "{refused}");
        let (one, other) =
            tokio::join!(PostgresStore::migrate(&url, None), PostgresStore::migrate(&url, None));
        let mut found = [one.unwrap(), other.unwrap()];
        found.sort_unstable();
        assert_eq!(found, [format, 5], "one of two migrates");

        let migrated = PostgresStore::open(&url, None).await.unwrap();
        let events = migrated.events(new.id, EventNumber(1), 9).await.unwrap();
        assert!(events.iter().all(|event| event.migrated), "{events:?}");
        assert_eq!(verify::rebuild(&migrated, new.id).await.unwrap(), []);
        assert_eq!(migrated.open_turns(new.id).await.unwrap().len(), 1);
        migrated.hold(new_session().id, holder(1)).await.unwrap().release().await;
        assert!(migrated.nodes().await.unwrap().is_empty());
        assert_eq!(migrated.cancel_turns(new_session().id).await.unwrap(), 0);
        assert!(!migrated.is_attended(new_session().id).await.unwrap());
        if format > 1 {
            let offer = sharing::offers("claude");
            let claimed = migrated.claim_offered("any", &offer, &[], &holder(1)).await.unwrap();
            let (session, lease) = claimed.unwrap();
            assert_eq!(session, new.id);
            lease.release().await;
            sqlx::raw_sql("DELETE FROM inbox; DELETE FROM offer").execute(&pool).await.unwrap();
        }
        migrated.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_a_process_uses_are_not_migrated() {
    let cluster = Cluster::start();
    let store = node(&cluster).await;
    let new = new_session();
    store.create(new.clone()).await.unwrap();
    let lease = store.hold(new.id, holder(7)).await.unwrap();
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    sqlx::raw_sql(TO_FORMAT_4).execute(&pool).await.unwrap();
    let refused = PostgresStore::migrate(&cluster.url(), None).await.unwrap_err();
    assert!(matches!(&refused, StoreError::InUse { holder } if holder.pid == 7), "{refused}");
    lease.release().await;
    assert_eq!(PostgresStore::migrate(&cluster.url(), None).await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_the_same_in_every_store_that_it_was_copied_to() {
    let cluster = Cluster::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = SqliteStore::open(first.path()).await.unwrap();
    let new = new_session();
    file.create(new.clone()).await.unwrap();
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let mut log = Log::of(&new);
    let mut step = log.commit([
        said(message(1, None, "kailai", &["max"], "any \0 text")),
        queued(1, 1),
        started(1, 1, &contents),
        ended(1, 1, TurnState::Failed, timed_out(&contents[0])),
    ]);
    step.contents = contents.to_vec();
    log.store(&file, step).await.unwrap();

    let server = node(&cluster).await;
    let there = transfer::copy(&file, &server, new.id).await.unwrap();
    let back = SqliteStore::open(second.path()).await.unwrap();
    let again = transfer::copy(&server, &back, new.id).await.unwrap();
    assert_eq!((there.hash, there.was_there), (again.hash, again.was_there));
    for store in [AnyStore::from(server.clone()), AnyStore::from(back.clone())] {
        assert_eq!(verify::rebuild(&store, new.id).await.unwrap(), []);
    }
    assert_eq!(back.content(contents[0].reference().hash).await.unwrap(), "prompt");
    assert!(transfer::copy(&file, &server, new.id).await.unwrap().was_there);

    // Another conversation with the same id is left unchanged.
    log.add(&file, [said(message(2, None, "kailai", &[], "more"))]).await.unwrap();
    let refused = transfer::copy(&file, &server, new.id).await;
    assert!(matches!(refused, Err(TransferError::Differs { .. })), "{refused:?}");
    assert_eq!(server.session(new.id).await.unwrap().state.last_message, MessageNumber(1));
}
