//! The JSON form of events, which other programs read.

use convoke_agent::adapter::Step;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::NewMessage;
use serde_json::{Value, json};

use crate::test_session::{TestSession, does, says};

/// Runs a conversation and returns its events as JSON, without what differs between runs.
async fn events(test: TestSession, text: &str) -> Vec<Value> {
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", text)).await.unwrap();
    coordinator.run().await.unwrap();
    let events = test.events.lock().unwrap();
    let mut events: Vec<Value> =
        events.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert!(events.is_sorted_by_key(|event| event["at"].as_i64().unwrap()), "{events:?}");
    for event in &mut events {
        assert_eq!(event["session"], test.session.to_string(), "{event}");
        for (key, value) in event.as_object_mut().unwrap() {
            if ["session", "elapsedMs", "hash"].contains(&key.as_str()) {
                *value = json!("…");
            }
            if let Some(hash) = value.get_mut("hash") {
                *hash = json!("…");
            }
        }
    }
    events.retain(|event| event["type"] != "agent");
    events
}

/// Adds the fields that every event has: the session, and the tick of the test clock.
fn at(tick: i64, mut event: Value) -> Value {
    event["session"] = json!("…");
    event["at"] = json!(tick);
    event
}

#[tokio::test]
async fn a_turn_is_reported_step_by_step() {
    let test =
        TestSession::new("briefing = false", &[("max", says(&["fine [TEAM_TASK: go on]"]))]).await;
    assert_eq!(
        events(test, "go [NEXT: max, bob]").await,
        [
            at(1001, json!({"type": "opened", "messages": 0, "waiting": 0, "interrupted": []})),
            at(
                1002,
                json!({"type": "message", "id": "msg-1", "number": 1, "from": "kailai", "to": ["max"],
                "inReplyTo": null, "text": "go"})
            ),
            at(
                1002,
                json!({"type": "diagnostic", "turn": null, "diagnostic": {
                "code": "marker.unresolved", "severity": "loss", "section": "NEXT",
                "message": "[NEXT: bob]: no member has that name; members: kailai, lee, max"}})
            ),
            at(
                1002,
                json!({"type": "turn-queued", "turn": 1, "member": "max", "answers": 1, "intent": "P2"})
            ),
            at(
                1004,
                json!({"type": "turn-started", "turn": 1, "member": "max", "answers": 1, "attempt": 1,
                "prompt": {"hash": "…", "bytes": 12}, "system": null, "tokensEstimate": 3,
                "context": 0})
            ),
            at(
                1020,
                json!({"type": "message", "id": "msg-2", "number": 2, "from": "max", "to": [],
                "inReplyTo": "msg-1", "text": "fine"})
            ),
            at(1020, json!({"type": "task", "task": "go on", "by": "max"})),
            at(
                1020,
                json!({"type": "turn-ended", "turn": 1, "member": "max", "state": "done",
                "outcome": {"verdict": "done"}, "reply": "msg-2", "partialBytes": 0,
                "usage": null,
                "costUsd": null, "elapsedMs": "…"})
            ),
            at(1021, json!({"type": "stopped", "reason": "idle", "person": "kailai"})),
        ]
    );
}

#[tokio::test]
async fn a_failure_says_what_and_whom_it_concerns() {
    let steps = vec![
        Step::Say("half".to_owned()),
        Step::Fail(Failure::new(FailureReason::Server, "overloaded")),
    ];
    let test = TestSession::new("", &[("max", does(steps))]).await;
    let events = events(test, "go [NEXT: max]").await;
    let failed = json!({"verdict": "failed", "reason": "server", "message": "overloaded"});
    assert_eq!(events[4]["outcome"], failed);
    assert_eq!(events[4]["partialBytes"], 4);
    assert_eq!(
        events[5],
        at(
            1015,
            json!({"type": "stopped", "reason": "turn-failed", "person": "kailai", "turns": [
            {"turn": 1, "member": "max", "asker": "kailai", "outcome": failed}]})
        )
    );
}
