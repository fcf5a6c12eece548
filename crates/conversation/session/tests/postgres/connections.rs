//! The connections of a process, and the errors and the clock of the server.

use std::time::Duration;

use convoke_agent::clock::now;
use convoke_conformance_store::new_session;
use convoke_core::Timestamp;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis};
use convoke_protocol::permission::PermissionAnswer;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::{ServerFailure, SessionHold as _};
use convoke_session::{Coordinator, Store as _, StoreError};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::task::JoinHandle;

use crate::agents::{Seen, asking_team, team};
use crate::cluster::Cluster;
use crate::sharing::{says, session};
use crate::{holder, node};

async fn connection(cluster: &Cluster) -> sqlx::Result<PgConnection> {
    let options: PgConnectOptions = cluster.url().parse().unwrap();
    options.connect().await
}

/// Counts the connections of Convoke.
async fn connections(observer: &mut PgConnection) -> i64 {
    let (count,): (i64,) =
        sqlx::query_as("SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'convoke'")
            .fetch_one(observer)
            .await
            .unwrap();
    count
}

/// Waits until Convoke has so many connections: a closed one disappears some time later.
async fn has_connections(observer: &mut PgConnection, expected: i64) {
    let settled = async {
        while connections(observer).await != expected {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let is_settled = tokio::time::timeout(Duration::from_mins(1), settled).await.is_ok();
    assert!(is_settled, "{} connections instead of {expected}", connections(observer).await);
}

/// Waits until Convoke has so many connections for five seconds: neither a look at the session nor a sign of life opens
/// another one.
async fn keeps_connections(observer: &mut PgConnection, expected: i64) {
    let settled = async {
        let mut looks = 0;
        while looks < 50 {
            looks = if connections(observer).await == expected { looks + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let is_settled = tokio::time::timeout(Duration::from_mins(1), settled).await.is_ok();
    assert!(is_settled, "{} connections instead of {expected}", connections(observer).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection_is_asked_again_until_it_has_one() {
    let cluster = Cluster::start_crowded();
    let mut others = Vec::new();
    let refused = loop {
        match connection(&cluster).await {
            Ok(other) => others.push(other),
            Err(error) => break StoreError::from(error),
        }
    };
    assert_eq!(refused.server_failure(), Some(ServerFailure::TooManyConnections));
    assert!(refused.is_transient(), "{refused}");
    let url = cluster.url();
    let opening = tokio::spawn(async move { PostgresStore::open(&url, None).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!opening.is_finished(), "it waits");
    for other in others {
        other.close().await.unwrap();
    }
    let store = opening.await.unwrap().unwrap();
    store.create(new_session()).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_holds_no_session_has_one_connection_besides_the_listening_one() {
    let cluster = Cluster::start();
    let mut observer = connection(&cluster).await.unwrap();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let new = new_session();
    store.create(new.clone()).await.unwrap();
    let read_at_once = || async {
        let reads = (0..16).map(|_| {
            let (store, id) = (store.clone(), new.id);
            tokio::spawn(async move { store.session(id).await.unwrap() })
        });
        for read in reads.collect::<Vec<_>>() {
            read.await.unwrap();
        }
    };
    read_at_once().await;
    has_connections(&mut observer, 1).await;
    let _commits = store.listen().await.unwrap();
    read_at_once().await;
    has_connections(&mut observer, 2).await;
    // The holder of a session keeps those that it uses at the same time.
    let lease = store.hold(new.id, holder(1)).await.unwrap();
    read_at_once().await;
    assert!(connections(&mut observer).await >= 2);
    lease.release().await;
    for _ in 0..16 {
        store.session(new.id).await.unwrap();
    }
    has_connections(&mut observer, 2).await;
    store.close().await;
}

/// A server has few connections, and there may be many followers.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_follower_has_one_connection_and_sees_what_comes_next() {
    type Follows = fn(Coordinator<PostgresStore>) -> JoinHandle<()>;
    const FOLLOWERS: i64 = 3;
    let cluster = Cluster::start();
    let mut observer = connection(&cluster).await.unwrap();
    let follows: [(bool, Follows); 2] = [
        (false, |mut it| tokio::spawn(async move { it.wake().await.unwrap() })),
        // The turn of another process runs.
        (true, |mut it| tokio::spawn(async move { drop(it.run().await.unwrap()) })),
    ];
    for (is_held, follow) in follows {
        let new = session();
        let store = node(&cluster).await;
        store.create(new.clone()).await.unwrap();
        store.close().await;
        if is_held {
            let lease = "INSERT INTO lease (session, epoch, until, pid, host, since) \
                         VALUES ($1, 1, clock_timestamp() + INTERVAL '1 hour', 1, 'there', 0)";
            sqlx::query(lease).bind(new.id.to_string()).execute(&mut observer).await.unwrap();
        }
        let (mut stores, mut followers) = (Vec::new(), Vec::new());
        for _ in 0..FOLLOWERS {
            let store = node(&cluster).await;
            let there =
                Coordinator::open(store.clone(), new.id, team(&[]), Box::new(Seen::default()));
            followers.push(follow(there.await.unwrap()));
            stores.push(store);
        }
        keeps_connections(&mut observer, FOLLOWERS).await;
        if is_held {
            let ended = "UPDATE lease SET until = clock_timestamp()";
            sqlx::raw_sql(ended).execute(&mut observer).await.unwrap();
        }
        let store = node(&cluster).await;
        store.say(new.id, &says("Hello.")).await.unwrap();
        for follower in followers {
            follower.await.unwrap();
        }
        stores.push(store);
        for store in stores {
            store.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_is_that_of_the_database() {
    let cluster = Cluster::start();
    let mut observer = connection(&cluster).await.unwrap();
    // A clock that is an hour ahead hides the server's own.
    sqlx::raw_sql(
        "CREATE SCHEMA skewed; \
         CREATE FUNCTION skewed.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS \
         $$ SELECT pg_catalog.clock_timestamp() + INTERVAL '1 hour' $$; \
         ALTER DATABASE postgres SET search_path = skewed, pg_catalog, public",
    )
    .execute(&mut observer)
    .await
    .unwrap();
    let lease = Duration::from_secs(3);
    let store = PostgresStore::open_with_lease(&cluster.url(), None, lease).await.unwrap();
    let hour = 3_600_000;
    let hours_ahead = |at: Millis| (at.0 - now().0 + hour / 2) / hour;
    let is_ahead = |at: Millis| hours_ahead(at) == 1;
    assert!(is_ahead(store.now()));
    // Messages are stored with it.
    let (new, seen) = (session(), Box::new(Seen::default()));
    let coordinator = Coordinator::create(store.clone(), new.clone(), team(&[]), seen).await;
    let mut coordinator = coordinator.unwrap();
    coordinator.accept(says("Hello.")).await.unwrap();
    let messages = store.messages_after(new.id, MessageNumber(0), 1).await.unwrap();
    let said_at = messages[0].message.timestamp.as_ref().and_then(Timestamp::millis);
    assert!(said_at.is_some_and(is_ahead), "{said_at:?}");
    // So is the time to answer a question.
    let (asking, seen) = (session(), Seen::default());
    let view = Box::new(seen.clone());
    let created = Coordinator::create(store.clone(), asking.clone(), asking_team(), view).await;
    let mut asked = created.unwrap();
    asked.accept(says("go [NEXT: cody]")).await.unwrap();
    let controls = asked.controls();
    let run = tokio::spawn(async move { asked.run().await.unwrap() });
    seen.wait_for("asked 1.1.q: make x").await;
    controls.answer("1.1.q", PermissionAnswer::Once);
    run.await.unwrap();
    let events = store.events(asking.id, EventNumber(0), 100).await.unwrap();
    let asked = events.iter().find_map(|event| match event.kind {
        EventKind::PermissionAsked { expires_at, .. } => Some((event.at, expires_at)),
        _ => None,
    });
    let (at, expires_at) = asked.unwrap();
    assert!((1..=60_000).contains(&(expires_at - at.0)), "{at:?} {expires_at}");
    // A clock that is set is noticed while the connection stays open.
    sqlx::raw_sql(
        "CREATE OR REPLACE FUNCTION skewed.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS \
         $$ SELECT pg_catalog.clock_timestamp() + INTERVAL '3 hours' $$; \
         UPDATE skewed.lease SET until = until + INTERVAL '9 hours'",
    )
    .execute(&mut observer)
    .await
    .unwrap();
    let noticed = async {
        while hours_ahead(store.now()) != 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), noticed).await.unwrap();
    drop(coordinator);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_server_names_no_line_of_its_source() {
    let cluster = Cluster::start();
    let url = cluster.url().replace("/postgres?", "/none?");
    let error = PostgresStore::open(&url, None).await.unwrap_err();
    assert_eq!(error.to_string(), "the database failed: database \"none\" does not exist");
    assert_eq!(error.server_failure(), Some(ServerFailure::NoDatabase));
    assert!(std::error::Error::source(&error).is_none());
}
