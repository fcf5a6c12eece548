//! The tables of a session are what its log adds up to.

use std::time::Duration;

use convoke_agent::adapter::Step;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::transfer::{export, fork, import};
use convoke_session::verify::{Difference, Problem, Row, rebuild};
use convoke_session::{NewMessage, Store};

use crate::test_session::{TestSession, does, says, unchecked};

/// Runs a conversation with a reply, a failed turn that is retried, a dropped turn and one of a person.
async fn talked() -> TestSession {
    let failed = std::sync::atomic::AtomicBool::new(false);
    let fails_once: crate::test_session::Act = std::sync::Arc::new(move |_| {
        if failed.swap(true, std::sync::atomic::Ordering::Relaxed) {
            vec![Step::Say("whole [NEXT: lee]".to_owned())]
        } else {
            vec![
                Step::Say("half".to_owned()),
                Step::Fail(Failure::new(FailureReason::Server, "overloaded")),
            ]
        }
    });
    let test = TestSession::new(
        "task = \"Review\"\n",
        &[("max", says(&["one [NEXT: sarah]", "[NEXT: lee]"])), ("sarah", fails_once)],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "begin [NEXT: max]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::TurnFailed { .. }), "{stop:?}");
    coordinator.retry(TurnId(2)).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::Addressed { .. }), "{stop:?}");
    coordinator
        .accept(NewMessage::from_person("lee", "go on [TEAM_TASK: Fix] [NEXT: max]"))
        .await
        .unwrap();
    coordinator.cancel_waiting().await.unwrap();
    coordinator.accept(NewMessage::from_person("kailai", "again [NEXT: max]")).await.unwrap();
    coordinator.run().await.unwrap();
    test
}

#[tokio::test]
async fn every_kind_of_session_is_what_its_log_tells() {
    let test = talked().await;
    let turns = test.store.turns_after(test.session, TurnId(0), 99).await.unwrap();
    let states: Vec<TurnState> = turns.iter().map(|turn| turn.state).collect();
    assert!(states.contains(&TurnState::Cancelled) && states.contains(&TurnState::Queued));
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), []);
    let copies = [None, Some(MessageNumber(2)), Some(MessageNumber(3))];
    for after in copies {
        let copy = SessionId::generate();
        fork(&test.store, test.session, after, copy, Millis(7), None).await.unwrap();
        assert_eq!(rebuild(&test.store, copy).await.unwrap(), [], "after {after:?}");
    }
    let mut text = Vec::new();
    export(&test.store, test.session, &mut text).await.unwrap();
    let new = convoke_conformance_store::new_session();
    let imported = import(&test.store, &*text, new, unchecked()).await.unwrap().session;
    assert_eq!(rebuild(&test.store, imported).await.unwrap(), []);
    test.store.rename(test.session, "another name").await.unwrap();
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), [], "a name is no event");
}

#[tokio::test]
async fn a_running_turn_and_one_that_was_interrupted_are_what_the_log_tells() {
    let steps = vec![Step::Say("I look.".to_owned()), Step::Wait(Duration::from_mins(10))];
    let test = TestSession::new("", &[("max", does(steps))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    let is_running = async {
        while test.store.open_turns(test.session).await.unwrap()[0].state != TurnState::Running {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        stop = coordinator.run() => panic!("{stop:?}"),
        () = is_running => {}
    }
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), []);
    drop(coordinator);
    drop(test.resume().await);
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), []);
}

#[tokio::test]
async fn a_row_that_was_changed_is_named() {
    use Problem::{Different, Missing, Unexpected};
    let message = |number| Row::Message(MessageNumber(number));
    let turn = |id| Row::Turn(TurnId(id));
    let attempt = |turn, number| Row::Attempt { turn: TurnId(turn), number };
    let cases: [(&str, Row, Problem); 15] = [
        ("UPDATE message SET content = 'x' WHERE number = 2", message(2), Different),
        (
            "UPDATE message SET rest = replace(rest, 'kailai', 'lee') WHERE number = 1",
            message(1),
            Different,
        ),
        ("DELETE FROM message WHERE number = 2", message(2), Missing),
        (
            "INSERT INTO message SELECT session, 99, answers, content, replace(rest, '\"messageNumber\":1,', \
             '\"messageNumber\":99,') FROM message WHERE number = 1",
            message(99),
            Unexpected,
        ),
        ("UPDATE turn SET state = 'failed' WHERE number = 1", turn(1), Different),
        ("UPDATE turn SET reply = 1 WHERE number = 2", turn(2), Different),
        ("UPDATE turn SET member = 'sarah' WHERE number = 1", turn(1), Different),
        ("UPDATE turn SET ended_at = 5 WHERE state = 'cancelled'", turn(4), Different),
        ("DELETE FROM turn WHERE number = 1", turn(1), Missing),
        (
            "INSERT INTO turn SELECT session, 99, member, answers, intent, asker, state, reply, problem, \
             attempts, queued_at, ended_at FROM turn WHERE number = 1",
            turn(99),
            Unexpected,
        ),
        (
            "UPDATE attempt SET record = replace(record, 'overloaded', 'x')",
            attempt(2, 1),
            Different,
        ),
        ("DELETE FROM attempt WHERE turn = 2 AND number = 2", attempt(2, 2), Missing),
        (
            "INSERT INTO attempt SELECT session, turn, 2, has_ended, replace(record, '\"number\":1', \
             '\"number\":2') FROM attempt WHERE turn = 1",
            attempt(1, 2),
            Unexpected,
        ),
        ("UPDATE session SET state = replace(state, 'Fix', 'Break')", Row::State, Different),
        ("UPDATE session SET directory = '/'", Row::Creation, Different),
    ];
    for (statement, row, problem) in cases {
        let test = talked().await;
        test.execute(statement).await;
        let found = rebuild(&test.store, test.session).await.unwrap();
        assert_eq!(found, [Difference { row, problem }], "{statement}");
    }
}

#[tokio::test]
async fn an_event_that_is_missing_is_named() {
    let test = talked().await;
    let head = test.store.session(test.session).await.unwrap().head;
    test.execute("DELETE FROM event WHERE number = (SELECT MAX(number) FROM event)").await;
    let missing = |number| Difference { row: Row::Event(number), problem: Problem::Missing };
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), [missing(head)]);
    test.execute("DELETE FROM event WHERE number = 2").await;
    let found = rebuild(&test.store, test.session).await.unwrap();
    assert_eq!(found, [missing(EventNumber(2)), missing(head)]);
    assert_eq!(found[0].to_string(), "event 2 is missing");
}
