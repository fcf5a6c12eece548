//! The stored progress of a turn while its agent runs.

use std::time::{Duration, Instant};

use convoke_agent::adapter::Step;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{EventKind, StopReason};
use convoke_protocol::id::{EventNumber, Millis, SessionId, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::running_text::AttemptProgress;
use convoke_session::transfer::{export, fork, import};
use convoke_session::{NewMessage, Store};

use crate::test_session::{TestSession, says, unchecked};

/// Returns whether the log has the end of a tool call.
async fn has_used_a_tool(test: &TestSession) -> bool {
    let log = test.store.events(test.session, EventNumber(0), 99).await.unwrap();
    log.iter().any(|event| match &event.kind {
        EventKind::Agent { event, .. } => matches!(event.kind, AgentEventKind::ToolFinished { .. }),
        _ => false,
    })
}

/// Runs a conversation whose agent stops in the middle of its second text, and drops it once that is stored, as
/// if the process had died.
async fn interrupted() -> TestSession {
    let first_time = std::sync::atomic::AtomicBool::new(true);
    let act: crate::test_session::Act = std::sync::Arc::new(move |_| {
        if !first_time.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return vec![Step::Say("whole".to_owned())];
        }
        let tool = Step::Tool { name: "sh".into(), input: "{}".into(), output: "ok".into() };
        let say = |text: &str| Step::Say(text.to_owned());
        vec![say("I look. [NEXT: sarah]"), tool, Step::Wait(Duration::from_mins(10)), say("never")]
    });
    let test = TestSession::new("", &[("max", act), ("sarah", says(&["hello"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    let is_stored = async {
        let began = Instant::now();
        while !has_used_a_tool(&test).await {
            assert!(began.elapsed() < Duration::from_mins(1), "nothing was stored");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        stop = coordinator.run() => panic!("{stop:?}"),
        () = is_stored => {}
    }
    drop(coordinator);
    test
}

#[tokio::test]
async fn what_had_come_of_a_turn_survives_the_end_of_the_process() {
    let test = interrupted().await;
    let mut coordinator = test.resume().await;
    let opened = test.events.lock().unwrap().iter().rev().find_map(|event| match &event.kind {
        EventKind::Opened { interrupted, .. } => Some(interrupted.clone()),
        _ => None,
    });
    assert_eq!(opened, Some(vec![TurnId(1)]), "the turn is offered again");
    let attempts = test.store.attempts(test.session, TurnId(1)).await.unwrap();
    let ended = attempts[0].ended.as_ref().unwrap();
    assert_eq!(
        ended.verdict.to_string(),
        "failed: ended early: Convoke was interrupted during this attempt"
    );
    let content = async |of: Option<convoke_protocol::content::ContentRef>| {
        test.store.content(of.unwrap().hash).await.unwrap()
    };
    assert_eq!(content(ended.partial).await, "I look. [NEXT: sarah]");
    let progress = AttemptProgress::read(&test.store, test.session, &attempts[0]).await.unwrap();
    let events = progress.events;
    assert!(events.contains("toolFinished") && !events.contains("delta"), "{events}");
    let left = test.store.pieces(test.session, TurnId(1), 1).await.unwrap();
    assert_eq!(left, "", "what the end holds is not kept twice");

    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    let expected = ["kailai: go", "max: whole"];
    assert_eq!(test.transcript(), expected, "markers of what was not finished are not obeyed");
    let attempts = test.store.attempts(test.session, TurnId(1)).await.unwrap();
    assert_eq!(attempts.len(), 2);
}

#[tokio::test]
async fn copies_of_an_interrupted_session_hold_what_had_come_too() {
    let test = interrupted().await;
    let copy = SessionId::generate();
    fork(&test.store, test.session, None, copy, Millis(7), None).await.unwrap();
    let mut text = Vec::new();
    export(&test.store, test.session, &mut text).await.unwrap();
    let new = convoke_conformance_store::new_session();
    let text = String::from_utf8(text).unwrap();
    let imported = import(&test.store, text.as_bytes(), new, unchecked()).await.unwrap().session;
    for session in [copy, imported] {
        let turn = test.store.open_turns(session).await.unwrap().remove(0);
        assert_eq!(turn.state, TurnState::Queued);
        let ended = test.store.attempts(session, turn.id).await.unwrap().remove(0).ended.unwrap();
        let partial = test.store.content(ended.partial.unwrap().hash).await.unwrap();
        assert_eq!(partial, "I look. [NEXT: sarah]");
    }
    let still_running = test.store.open_turns(test.session).await.unwrap().remove(0);
    assert_eq!(still_running.state, TurnState::Running, "a copy changes nothing of the original");
}
