//! The statements of a turn, counted by the server.

use convoke_session::{Coordinator, Store as _};

use super::agents::{Gate, Seen, team};
use super::cluster::Cluster;
use super::node;
use super::sharing::{holder, offers, says, session};

/// The turns whose statements are counted.
const TURNS: i64 = 8;
/// The maximum number of statements of a turn that answers a new message, from the claim to the release.
/// docs/scale.md names it.
const MAX_STATEMENTS: i64 = 55;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_takes_few_statements() {
    let cluster = Cluster::start_counting();
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&pool).await.unwrap();
    let (store, gate) = (node(&cluster).await, Gate::open());
    for _ in 0..TURNS {
        let new = session();
        store.create(new.clone()).await.unwrap();
        store.say(new.id, &says("go [NEXT: max]")).await.unwrap();
    }
    sqlx::raw_sql("SELECT pg_stat_statements_reset()").execute(&pool).await.unwrap();
    let team = team(&[("max", &gate)]);
    for _ in 0..TURNS {
        let claimed = store.claim_offered("one", &offers("claude"), &[], &holder(7)).await.unwrap();
        let (session, lease) = claimed.unwrap();
        let observer = Box::new(Seen::default());
        let coordinator =
            Coordinator::of_claim(store.clone(), session, lease, team.clone(), observer);
        assert!(coordinator.await.unwrap().run_claimed().await.unwrap());
    }
    // Statements caused by a clock or a new connection do not count.
    let counted: Vec<(String, i64)> = sqlx::query_as(
        "SELECT LEFT(query, 60), SUM(calls)::BIGINT FROM pg_stat_statements \
         WHERE query !~ 'pg_stat|^SET |^SELECT \\(EXTRACT|^LISTEN|FROM signal JOIN|^UPDATE lease SET until = clock' \
         GROUP BY 1 ORDER BY 2 DESC",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let total: i64 = counted.iter().map(|(_, calls)| calls).sum();
    assert!(total <= MAX_STATEMENTS * TURNS, "{total} statements of {TURNS} turns: {counted:#?}");
    let claims = counted.iter().filter(|(query, _)| query.starts_with("WITH next"));
    assert_eq!(claims.map(|(_, calls)| calls).sum::<i64>(), TURNS, "a claim is one statement");
}
