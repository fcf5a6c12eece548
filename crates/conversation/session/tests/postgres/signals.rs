//! Turns that run in one process, cancelled and answered from others. Each store here is opened as a separate
//! process would.

use std::time::Duration;

use convoke_protocol::event::StopReason;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use convoke_protocol::session::NewSession;
use convoke_protocol::turn::TurnState;
use convoke_session::sharing::TurnSignal;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{Controls, Coordinator, Store, StoreError, TeamAgents};
use tokio::task::JoinHandle;

use super::agents::{Gate, Seen, asking_team, team};
use super::cluster::Cluster;
use super::sharing::{holder, offers, says, session};
use super::{expire, node};

/// Runs a turn of cody as a node does.
async fn start_node(
    store: &PostgresStore,
    session: SessionId,
    team_agents: TeamAgents,
) -> JoinHandle<bool> {
    let claimed = store.claim_offered("build-server", &offers("codex"), &[], &holder(7)).await;
    let (claimed, lease) = claimed.unwrap().unwrap();
    assert_eq!(claimed, session);
    let observer = Box::new(Seen::default());
    let coordinator =
        Coordinator::of_claim(store.clone(), session, lease, team_agents, observer).await.unwrap();
    tokio::spawn(async move { coordinator.run_claimed().await.unwrap() })
}

/// A process that follows a session and runs none of its turns.
struct Person {
    seen: Seen,
    controls: Controls,
    run: JoinHandle<StopReason>,
}

/// Opens a session, or creates one with a message for cody, and follows it.
async fn follow(store: &PostgresStore, new: &NewSession, is_first: bool) -> Person {
    let (seen, team_agents) = (Seen::default(), team(&[]));
    let observer = Box::new(seen.clone());
    let mut coordinator = if is_first {
        Coordinator::create(store.clone(), new.clone(), team_agents, observer).await.unwrap()
    } else {
        Coordinator::open(store.clone(), new.id, team_agents, observer).await.unwrap()
    };
    if is_first {
        coordinator.accept(says("go [NEXT: cody]")).await.unwrap();
    }
    let controls = coordinator.controls();
    let run = tokio::spawn(async move { coordinator.run().await.unwrap() });
    Person { seen, controls, run }
}

async fn only_turn(store: &PostgresStore, session: SessionId) -> (TurnState, u32) {
    let turns = store.turns_after(session, TurnId(0), 9).await.unwrap();
    assert_eq!(turns.len(), 1);
    (turns[0].state, turns[0].attempts)
}

fn cancelled() -> StopReason {
    StopReason::Cancelled { person: "ada".into() }
}

/// Returns the rows of a table that belong to a session.
async fn rows(cluster: &Cluster, table: &str, session: SessionId) -> i64 {
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let sql = format!("SELECT COUNT(*) FROM {table} WHERE session = $1");
    let count = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(session.to_string());
    count.fetch_one(&pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_runs_elsewhere_is_cancelled_from_here() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let (new, gate) = (session(), Gate::closed());
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&server, new.id, team(&[("cody", &gate)])).await;
    person.seen.wait_for("started 1.1").await;
    person.controls.cancel_turn();
    assert_eq!(person.run.await.unwrap(), cancelled());
    assert!(running.await.unwrap());
    assert_eq!(only_turn(&laptop, new.id).await, (TurnState::Cancelled, 1));
    assert!(person.seen.lines().contains(&"ended 1 cancelled".to_owned()));
    // The conversation has stopped for all processes, and no request is left.
    let state = laptop.shared_state(new.id).await.unwrap();
    assert_eq!((state.continues, state.stopped), (false, Some(cancelled())));
    assert_eq!(rows(&cluster, "signal", new.id).await, 0);
    assert_eq!(laptop.cancel_turns(new.id).await.unwrap(), 0, "no turn runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_for_a_node_is_offered_no_more_when_it_is_cancelled() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    person.controls.cancel_turn();
    assert_eq!(person.run.await.unwrap(), cancelled());
    let claimed = server.claim_offered("build-server", &offers("codex"), &[], &holder(7)).await;
    assert!(claimed.unwrap().is_none());
    assert_eq!(only_turn(&laptop, new.id).await, (TurnState::Queued, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_whose_process_is_lost_does_not_run_again() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let (new, gate) = (session(), Gate::closed());
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&server, new.id, team(&[("cody", &gate)])).await;
    person.seen.wait_for("started 1.1").await;
    // The process is gone before it has seen the request.
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    server.close().await;
    assert_eq!(laptop.cancel_turns(new.id).await.unwrap(), 1);
    person.controls.cancel_turn();
    assert_eq!(person.run.await.unwrap(), cancelled());
    assert_eq!(only_turn(&laptop, new.id).await, (TurnState::Cancelled, 1));
    assert_eq!(rows(&cluster, "signal", new.id).await, 0);
    assert!(person.seen.lines().contains(&"ended 1 cancelled".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_wherever_people_are_and_the_first_answer_counts() {
    let cluster = Cluster::start();
    let (laptop, phone) = (node(&cluster).await, node(&cluster).await);
    let server = node(&cluster).await;
    let new = session();
    let first = follow(&laptop, &new, true).await;
    first.seen.wait_for("offered 1 cody build-server").await;
    let second = follow(&phone, &new, false).await;
    second.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&server, new.id, asking_team()).await;
    first.seen.wait_for("asked 1.1.q: make x").await;
    second.seen.wait_for("asked 1.1.q: make x").await;
    let question = QuestionId::parse("1.1.q").unwrap();
    // Neither a message nor an answer to another attempt answers the question.
    first.controls.interject(says("once")).await.unwrap();
    let other = QuestionId { attempt: 2, ..question.clone() };
    assert!(!phone.answer_question(new.id, &other, PermissionAnswer::Once).await.unwrap());
    assert!(laptop.answer_question(new.id, &question, PermissionAnswer::Session).await.unwrap());
    assert!(!phone.answer_question(new.id, &question, PermissionAnswer::Never).await.unwrap());
    assert!(running.await.unwrap());
    let stop = StopReason::Idle { person: "ada".into() };
    assert_eq!(first.run.await.unwrap(), stop);
    assert_eq!(second.run.await.unwrap(), stop);
    for seen in [&first.seen, &second.seen] {
        let lines = seen.lines();
        assert!(lines.contains(&"answered 1.1.q: session by person".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with("cody: told session")), "{lines:?}");
    }
    assert_eq!(rows(&cluster, "signal", new.id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_given_here_reaches_an_agent_elsewhere() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&server, new.id, asking_team()).await;
    person.seen.wait_for("asked 1.1.q: make x").await;
    person.controls.answer("1.1.q", PermissionAnswer::Once);
    assert!(running.await.unwrap());
    person.seen.wait_for("cody: told once").await;
    person.seen.wait_for("answered 1.1.q: once by person").await;
    // A person who no longer takes part is not asked.
    person.run.await.unwrap();
    laptop.close().await;
    assert_eq!(rows(&cluster, "attendance", new.id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_rules_answer_where_nobody_can_be_asked() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    let person = follow(&laptop, &new, true).await;
    // A process follows that cannot answer.
    person.controls.set_attended(false);
    person.seen.wait_for("offered 1 cody build-server").await;
    while laptop.is_attended(new.id).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let running = start_node(&server, new.id, asking_team()).await;
    assert!(running.await.unwrap());
    person.seen.wait_for("answered 1.1.q: never by nobody").await;
    person.seen.wait_for("cody: told never").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_refused_when_the_last_person_has_gone() {
    let cluster = Cluster::start();
    let (laptop, server) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&server, new.id, asking_team()).await;
    person.seen.wait_for("asked 1.1.q: make x").await;
    person.controls.set_attended(false);
    assert!(running.await.unwrap());
    person.seen.wait_for("answered 1.1.q: never by nobody").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_lease_was_claimed_takes_no_answer_and_no_cancel() {
    let cluster = Cluster::start();
    let (laptop, stale, fresh) = (node(&cluster).await, node(&cluster).await, node(&cluster).await);
    let (new, gate) = (session(), Gate::closed());
    let person = follow(&laptop, &new, true).await;
    person.seen.wait_for("offered 1 cody build-server").await;
    let running = start_node(&stale, new.id, team(&[("cody", &gate)])).await;
    person.seen.wait_for("started 1.1").await;
    // An answer to a question that was never asked is stored, so that the row stays.
    let question = QuestionId::parse("1.1.q").unwrap();
    assert!(laptop.answer_question(new.id, &question, PermissionAnswer::Once).await.unwrap());
    let answer = TurnSignal::Answer(question, PermissionAnswer::Once);
    assert_eq!(stale.signals(new.id).await.unwrap(), std::slice::from_ref(&answer));
    assert!(matches!(laptop.signals(new.id).await, Err(StoreError::HoldLost { .. })));
    // A later answer is reported as late.
    person.controls.answer("1.1.q", PermissionAnswer::Never);
    person.seen.wait_for("answer.late").await;

    expire(&cluster, &new.id.to_string()).await;
    let lease = fresh.hold(new.id, holder(8)).await.unwrap();
    match stale.signals(new.id).await {
        Ok(taken) => assert_eq!(taken, []),
        Err(error) => assert!(matches!(error, StoreError::HoldLost { .. }), "{error}"),
    }
    assert_eq!(fresh.signals(new.id).await.unwrap(), [answer]);
    assert!(running.await.is_err(), "its turn ended with its lease");
    drop(lease);
    person.controls.leave();
    person.run.await.unwrap();
}
