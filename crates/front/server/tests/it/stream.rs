//! The stream of a session: nothing is lost and nothing comes twice.

use std::time::Duration;

use convoke_agent::adapter::Step;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::content::Content;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, Millis, SessionId, TurnId};
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use convoke_protocol::turn::Attempt;
use convoke_session::store::Piece;
use convoke_session::{Commit, NewMessage, Store as _};
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

/// The log of a session that another process writes.
struct OtherProcess<'s> {
    server: &'s TestServer,
    session: SessionId,
}

impl OtherProcess<'_> {
    /// Stores events, and a piece of the text of turn 1.
    async fn store(&self, kinds: Vec<EventKind>, piece: Option<(u64, &str)>) {
        let stored = self.server.store.session(self.session).await.unwrap();
        let (mut head, mut state) = (stored.head, stored.state);
        let number = |kind: EventKind| {
            state.apply(&kind);
            head = head.next();
            let (session, number) = (self.session, Some(head));
            Event { kind, session, at: Millis(1), number, migrated: false }
        };
        let events = kinds.into_iter().map(number).collect();
        let pieces = piece.into_iter().map(|(position, text)| Piece {
            turn: TurnId(1),
            attempt: 1,
            position,
            text: text.to_owned(),
        });
        let pieces = pieces.collect();
        let contents = vec![Content::new("{}")];
        let on = stored.head;
        let commit = Commit { on, events, state, contents, pieces, ..Commit::default() };
        self.server.store.commit(self.session, commit).await.unwrap();
    }
}

#[tokio::test]
async fn the_text_tools_and_questions_of_another_process_appear() {
    let server = TestServer::with(Vec::new()).await;
    let mut held = server.hold(None).await;
    let session = held.coordinator.session();
    held.coordinator.accept(NewMessage::from_person("kim", "Go").to(["max"])).await.unwrap();
    let other = OtherProcess { server: &server, session };
    let mut viewer = server.stream(session, None).await;
    let turn = server.store.open_turns(session).await.unwrap().remove(0);
    let content = Content::new("{}").reference();
    let attempt = Attempt {
        turn: turn.id,
        number: 1,
        event: EventNumber(0),
        began_at: Millis(1),
        engine: "1.2.3".to_owned(),
        prompt: content,
        system: None,
        input: content,
        ledger: content,
        diagnostics: Vec::new(),
        ended: None,
    };
    let does = |kind| EventKind::of_agent(&turn, 1, AgentEvent::own(kind));
    let (id, name, input) = ("t1".into(), "read".into(), "{}".into());
    let tool = does(AgentEventKind::ToolStarted { id, name, input });
    other.store(vec![EventKind::started(&turn, &attempt, 0, 1), tool], Some((0, "one "))).await;
    let (mut text, mut steps) = (String::new(), 0);
    let mut see = async |until: &str, steps_until: usize| {
        while text != until || steps < steps_until {
            let event = viewer.next_named("live").await;
            assert_eq!(event.data["offset"].as_u64().unwrap(), text.len() as u64, "{event:?}");
            text += event.data["text"].as_str().unwrap_or_default();
            steps += event.data["steps"].as_array().map_or(0, Vec::len);
        }
    };
    see("one ", 1).await;
    other.store(Vec::new(), Some((4, "two"))).await;
    see("one two", 1).await;
    let whole = AgentEventKind::Text { text: "one two".into(), part: TextPart::Whole };
    let question = PermissionQuestion {
        id: "q1".to_owned(),
        tool: "bash".to_owned(),
        summary: "rm -r build".to_owned(),
        ..PermissionQuestion::default()
    };
    let expires_at = i64::MAX;
    let asked = does(AgentEventKind::PermissionAsked { question, expires_at });
    other.store(vec![does(whole), asked], None).await;
    let mut viewer = server.stream(session, None).await;
    let questions = async |viewer: &mut EventStream, count: usize| loop {
        let standing = viewer.next_named("standing").await.data;
        if standing["questions"].as_array().unwrap().len() == count {
            break standing["questions"].clone();
        }
    };
    let open = questions(&mut viewer, 1).await;
    assert_eq!(open[0]["question"]["summary"], "rm -r build", "{open}");
    let (id, answer, by) = ("q1".to_owned(), PermissionAnswer::Once, AnsweredBy::Person);
    other.store(vec![does(AgentEventKind::PermissionAnswered { id, answer, by })], None).await;
    questions(&mut viewer, 0).await;
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
