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
        // The times of the test clock depend on how many steps an agent's events are stored in.
        for place in ["/message/timestamp", "/endedAt"] {
            let at = event["at"].clone();
            if let Some(time) = event.pointer_mut(place) {
                assert_eq!(time.take(), at);
            }
        }
        for (key, value) in event.as_object_mut().unwrap() {
            if ["session", "at", "elapsedMs", "hash"].contains(&key.as_str()) {
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

/// Adds the fields that every event of the log has: the session, the time, and its number.
fn numbered(number: u64, mut event: Value) -> Value {
    event["session"] = json!("…");
    event["at"] = json!("…");
    event["number"] = json!(number);
    event
}

#[tokio::test]
async fn a_turn_is_reported_step_by_step() {
    let test =
        TestSession::new("briefing = false", &[("max", says(&["fine [TEAM_TASK: go on]"]))]).await;
    let team = test.team.clone();
    let mut events = events(test, "go [NEXT: max, bob]").await;
    let ended = events.iter_mut().find(|event| event["type"] == "turn-ended").unwrap();
    assert_eq!(ended["resume"].take()["session"], "stand-in-0");
    let person = json!({"roleId": "kailai", "roleName": "kailai", "type": "human"});
    let agent = json!({"roleId": "max", "roleName": "max", "type": "ai"});
    let expected = [
        numbered(
            1,
            json!({"type": "created", "name": "test", "directory": "/work", "team": team, "task": null,
            "rehearsal": null}),
        ),
        numbered(2, json!({"type": "opened", "messages": 0, "waiting": 0, "interrupted": []})),
        numbered(
            3,
            json!({"type": "message", "id": "msg-1", "messageNumber": 1, "from": "kailai", "to": ["max"],
            "inReplyTo": null, "answers": null, "turn": null, "asker": "kailai", "text": "go",
            "message": {"id": "msg-1", "content": "go [NEXT: max, bob]", "speaker": person,
            "timestamp": null, "routing": {"resolvedAddressees": ["max"]}}}),
        ),
        numbered(
            4,
            json!({"type": "diagnostic", "turn": null, "diagnostic": {
            "code": "marker.unresolved", "severity": "loss", "section": "NEXT",
            "message": "[NEXT: bob]: no member has that name; members: kailai, lee, max"}}),
        ),
        numbered(
            5,
            json!({"type": "turn-queued", "turn": 1, "member": "max", "answers": 1, "intent": "P2",
            "asker": "kailai"}),
        ),
        numbered(
            6,
            json!({"type": "turn-started", "turn": 1, "member": "max", "answers": 1, "attempt": 1,
            "prompt": {"hash": "…", "bytes": 12}, "system": null, "tokensEstimate": 3,
            "context": 0, "engine": env!("CARGO_PKG_VERSION"), "input": {"hash": "…", "bytes": 360},
            "ledger": {"hash": "…", "bytes": 406}, "diagnostics": [], "inARow": 1}),
        ),
        numbered(
            10,
            json!({"type": "message", "id": "msg-2", "messageNumber": 2, "from": "max", "to": [],
            "inReplyTo": "msg-1", "answers": 1, "turn": 1, "asker": "kailai", "text": "fine",
            "message": {"id": "msg-2", "content": "fine [TEAM_TASK: go on]", "speaker": agent,
            "timestamp": null, "inReplyTo": "msg-1"}}),
        ),
        numbered(11, json!({"type": "task", "task": "go on", "by": "max"})),
        numbered(
            12,
            json!({"type": "turn-ended", "turn": 1, "member": "max", "attempt": 1, "state": "done",
            "outcome": {"verdict": "done"}, "reply": "msg-2", "partialBytes": 0,
            "usage": null,
            "costUsd": null, "endedAt": null, "partial": null, "model": null, "resume": null,
            "agentDiagnostics": [], "elapsedMs": "…"}),
        ),
        numbered(13, json!({"type": "stopped", "reason": "idle", "person": "kailai"})),
    ];
    for (event, expected) in events.iter().zip(&expected) {
        assert_eq!(event, expected);
    }
    assert_eq!(events.len(), expected.len());
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
    let ended = events.iter().find(|event| event["type"] == "turn-ended").unwrap();
    assert_eq!(ended["outcome"], failed);
    assert_eq!(ended["partialBytes"], 4);
    let mut stopped = events.last().unwrap().clone();
    let number = stopped["number"].take();
    assert_eq!(number.as_u64(), Some(ended["number"].as_u64().unwrap() + 1));
    assert_eq!(
        stopped,
        json!({"type": "stopped", "reason": "turn-failed", "person": "kailai", "turns": [
        {"turn": 1, "member": "max", "asker": "kailai", "outcome": failed}],
        "session": "…", "at": "…", "number": null})
    );
}
