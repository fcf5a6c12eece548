//! The actions of people on the page.

use convoke_agent::adapter::Step;
use convoke_protocol::verdict::{Failure, FailureReason};
use serde_json::{Value, json};

use crate::test_server::TestServer;

async fn act(server: &TestServer, path: &str, body: Value) -> Value {
    let response = server.post(path, &body).await;
    assert_eq!(response.status, 200, "{path}: {response:?}");
    response.json()
}

#[tokio::test]
async fn a_conversation_is_started_and_continued_on_the_page() {
    let server = TestServer::start().await;
    let session = act(&server, "/api/sessions", json!({})).await["session"].clone();
    let base = format!("/api/sessions/{}", session.as_str().unwrap());
    let mut stream = server.stream(session.as_str().unwrap().parse().unwrap(), None).await;
    let say = json!({"person": "kim", "text": "Hello", "to": ["max"]});
    let said = act(&server, &format!("{base}/say"), say).await;
    assert!(said["message"].is_string(), "{said}");
    assert_eq!(stream.next_named("message").await.data["message"]["content"], "Hello");
    let reply = stream.next_named("message").await.data;
    assert_eq!(
        (&reply["message"]["content"], &reply["turn"]),
        (&json!("Looks good to me."), &json!(1))
    );
}

#[tokio::test]
async fn parameters_that_are_invalid_are_refused_in_json() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let response = server.get(&format!("/api/sessions/{session}/messages?before=abc")).await;
    assert_eq!(response.status, 400, "{response:?}");
    assert!(response.json()["error"].as_str().unwrap().contains("before"), "{response:?}");
}

#[tokio::test]
async fn only_people_of_the_team_can_send_messages() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    for person in ["max", "nobody", ""] {
        let say = json!({"person": person, "text": "Hello"});
        let response = server.post(&format!("/api/sessions/{session}/say"), &say).await;
        assert_eq!(response.status, 409, "{person}: {response:?}");
        assert!(response.body.contains("kim"), "{response:?}");
    }
    let empty = json!({"person": "kim", "text": " "});
    assert_eq!(server.post(&format!("/api/sessions/{session}/say"), &empty).await.status, 400);
}

#[tokio::test]
async fn a_message_to_an_unknown_member_or_to_its_author_is_refused() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let path = format!("/api/sessions/{session}/say");
    for (to, why) in [("nobody", "the members are kim, max"), ("Kim", "is the author")] {
        let response =
            server.post(&path, &json!({"person": "kim", "text": "Hello", "to": ["max", to]})).await;
        assert_eq!(response.status, 409, "{to}: {response:?}");
        assert!(response.body.contains(why), "{response:?}");
    }
}

#[tokio::test]
async fn a_failed_turn_is_retried() {
    let failure = Failure::new(FailureReason::Incomplete, "it broke");
    let turns = vec![vec![Step::Fail(failure)], vec![Step::Say("Now it works.".to_owned())]];
    let server = TestServer::with(turns).await;
    let session = server.conversation("Hello").await;
    let base = format!("/api/sessions/{session}");
    let html = server.html(&base).await;
    assert!(html.contains("Turns without a reply") && html.contains("it broke"), "{html}");
    let mut stream = server.stream(session, None).await;
    act(&server, &format!("{base}/retry"), json!({"turn": 1})).await;
    assert_eq!(stream.next_named("message").await.data["message"]["content"], "Now it works.");
    let again = server.post(&format!("{base}/retry"), &json!({"turn": 1})).await;
    assert_eq!(again.status, 409, "{again:?}");
    let attempts = server.json(&format!("{base}/turns/1")).await["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_released_session_is_free_for_others() {
    let server = TestServer::with(Vec::new()).await;
    let session = server.conversation("Hello").await;
    let base = format!("/api/sessions/{session}");
    act(&server, &format!("{base}/continue"), json!({})).await;
    assert!(server.json(&base).await["held"].as_bool().unwrap());
    act(&server, &format!("{base}/release"), json!({})).await;
    let mut stream = server.stream(session, None).await;
    while stream.next_named("standing").await.data["held"] == true {}
    drop(server.hold(Some(session)).await);
}

#[tokio::test]
async fn a_session_is_forked_and_renamed() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let base = format!("/api/sessions/{session}");
    let copy = act(&server, &format!("{base}/fork"), json!({"after": 1})).await;
    let copy = server.json(&format!("/api/sessions/{}", copy["session"].as_str().unwrap())).await;
    assert_eq!(copy["messages"].as_array().unwrap().len(), 1);
    act(&server, &format!("{base}/rename"), json!({"name": "another"})).await;
    assert_eq!(server.json("/api/sessions").await["total"], 2);
    let long = json!({"name": "x".repeat(300)});
    assert_eq!(server.post(&format!("{base}/rename"), &long).await.status, 400);
}

#[tokio::test]
async fn a_question_is_answered_in_its_own_session_only() {
    let server = TestServer::with(Vec::new()).await;
    let session = server.conversation("Hello").await;
    let answer = json!({"question": "1.1", "answer": "once"});
    let path = format!("/api/sessions/{session}/answer");
    // Not a session of this page.
    assert_eq!(server.post(&path, &answer).await.status, 409);
    act(&server, &format!("/api/sessions/{session}/continue"), json!({})).await;
    // Not an open question.
    assert_eq!(server.post(&path, &answer).await.status, 409);
    let unknown = json!({"question": "1.1", "answer": "always"});
    assert_eq!(server.post(&path, &unknown).await.status, 422);
}
