//! The stream of a session: nothing is lost and nothing comes twice.

use std::time::Duration;

use convoke_agent::adapter::Step;
use convoke_session::NewMessage;
use serde_json::json;

use crate::client::EventStream;
use crate::test_server::TestServer;

async fn message_number(stream: &mut EventStream) -> u64 {
    let event = stream.next_named("message").await;
    let number = event.data["number"].as_u64().unwrap();
    assert_eq!(event.id.as_deref(), Some(number.to_string().as_str()));
    number
}

#[tokio::test]
async fn a_stream_continues_after_the_last_event_that_was_seen() {
    let mut server = TestServer::with(Vec::new()).await;
    let session = server.conversation("One").await;
    let mut stream = server.stream(session, Some("0")).await;
    assert_eq!(message_number(&mut stream).await, 1);
    assert_eq!(message_number(&mut stream).await, 2);
    let mut held = server.hold(Some(session)).await;
    held.coordinator.accept(NewMessage::from_person("kim", "Two").to(["max"])).await.unwrap();
    assert_eq!(message_number(&mut stream).await, 3);
    // The server dies in the middle of the turn, and the turn ends without it.
    server.restart().await;
    held.coordinator.run().await.unwrap();
    let mut stream = server.stream(session, Some("3")).await;
    assert_eq!(message_number(&mut stream).await, 4);
    held.coordinator.accept(NewMessage::from_person("kim", "Three").to(["max"])).await.unwrap();
    held.coordinator.run().await.unwrap();
    assert_eq!(message_number(&mut stream).await, 5);
    assert_eq!(message_number(&mut stream).await, 6);
}

#[tokio::test]
async fn two_viewers_see_a_turn_of_the_page_as_it_is_written() {
    let words = "one two three four five";
    let turns = vec![vec![
        Step::Tool { name: "read".to_owned(), input: "{}".to_owned(), output: "a file".to_owned() },
        Step::Say(words.to_owned()),
        Step::Wait(Duration::from_hours(1)),
    ]];
    let server = TestServer::with(turns).await;
    let session = server.hold(None).await.coordinator.session();
    let mut viewers = [server.stream(session, None).await, server.stream(session, None).await];
    let say = json!({"person": "kim", "text": "Go", "to": ["max"]});
    let said = server.post(&format!("/api/sessions/{session}/say"), &say).await;
    assert_eq!(said.status, 200, "{said:?}");
    for viewer in &mut viewers {
        let mut text = String::new();
        let mut steps = 0;
        while text != words {
            let event = viewer.next_named("live").await;
            assert_eq!(event.data["offset"].as_u64().unwrap(), text.len() as u64, "{event:?}");
            text += event.data["text"].as_str().unwrap();
            steps += event.data["steps"].as_array().map_or(0, Vec::len);
        }
        assert!(steps > 0);
    }
    // One who comes later sees all of it too.
    let mut late = server.stream(session, None).await;
    assert_eq!(late.next_named("live").await.data["text"], words);
    let cancelled = server.post(&format!("/api/sessions/{session}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    loop {
        let standing = late.next_named("standing").await.data;
        if let Some(turn) = standing["unanswered"].get(0) {
            assert_eq!(turn["state"], "cancelled", "{standing}");
            break;
        }
    }
}

#[tokio::test]
async fn a_session_of_another_process_is_followed() {
    let turns = vec![vec![Step::Say("one two".to_owned()), Step::Wait(Duration::from_hours(1))]];
    let server = TestServer::with(turns).await;
    let mut held = server.hold(None).await;
    let session = held.coordinator.session();
    let controls = held.coordinator.controls();
    let mut viewer = server.stream(session, None).await;
    held.coordinator.accept(NewMessage::from_person("kim", "Go").to(["max"])).await.unwrap();
    let running = tokio::spawn(async move {
        held.coordinator.run().await.unwrap();
        held
    });
    let mut text = String::new();
    while text != "one two" {
        text += viewer.next_named("live").await.data["text"].as_str().unwrap();
    }
    let standing = server.json(&format!("/api/sessions/{session}")).await["standing"].clone();
    assert_eq!((&standing["held"], &standing["heldHere"]), (&json!(true), &json!(false)));
    let html = server.html(&format!("/api/sessions/{session}")).await;
    assert!(html.contains("Another process runs this session"), "{html}");
    let say = json!({"person": "kim", "text": "Stop", "to": ["max"]});
    let refused = server.post(&format!("/api/sessions/{session}/say"), &say).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("held by process"), "{refused:?}");
    controls.leave();
    drop(running.await.unwrap());
}

#[tokio::test]
async fn viewers_at_different_places_get_every_message_once() {
    let server = TestServer::with(Vec::new()).await;
    let session = server.conversation("0").await;
    let mut held = server.hold(Some(session)).await;
    let mut late = server.stream(session, None).await;
    for number in 1..30 {
        let message = NewMessage::from_person("kim", number.to_string()).to(["max"]);
        held.coordinator.accept(message).await.unwrap();
        held.coordinator.run().await.unwrap();
    }
    for expected in 3..=60 {
        assert_eq!(message_number(&mut late).await, expected);
    }
    // More than the store reads at a time, and more than is kept for others.
    for from in [0, 10, 59] {
        let mut viewer = server.stream(session, Some(&from.to_string())).await;
        for expected in from + 1..=60 {
            assert_eq!(message_number(&mut viewer).await, expected);
        }
    }
}
