//! The queue between a conversation and a slow reader.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_conformance_store::new_session;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::TurnId;
use convoke_protocol::verdict::Verdict;
use convoke_redact::Redactor;
use convoke_session::event_queue::{EVENT_LIMIT, EventQueue, EventReceiver, merge_text};
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;

const PIECES: usize = 20_000;

/// An agent that writes its text in pieces, as fast as they are read.
struct Flood;

impl Agent for Flood {
    fn start(&self, _: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::for_env(&[]));
        tokio::spawn(async move {
            for number in 0..PIECES {
                let text = format!("{number} ").into();
                side.send(AgentEvent::own(AgentEventKind::Text { text, part: TextPart::Delta }))
                    .await;
            }
            let mut result = TurnResult::new(Verdict::Done);
            result.reply = all_pieces();
            side.finish(result).await;
        });
        turn
    }
}

fn all_pieces() -> String {
    (0..PIECES).map(|number| number.to_string() + " ").collect()
}

/// Reads all events once the queue is full. Returns the text, and the maximum number of queued events.
async fn read_late(mut events: EventReceiver<Event>) -> (String, usize) {
    let (mut text, mut most) = (String::new(), 0);
    while events.queued() < EVENT_LIMIT {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    loop {
        most = most.max(events.queued());
        let Some(event) = events.recv().await else { return (text, most) };
        if let EventKind::Agent { event, .. } = event.kind
            && let AgentEventKind::Text { text: piece, part: TextPart::Delta } = event.kind
        {
            text.push_str(&piece);
        }
    }
}

#[tokio::test]
async fn a_slow_reader_gets_everything_from_a_queue_of_bounded_length() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let team = Team::parse("[[member]]\nname = \"max\"\nagent = \"plain\"\n").unwrap();
    let flood = MemberAgent::new(Arc::new(Flood), directory.path());
    let team_agents = TeamAgents::new(team, HashMap::from([("max".into(), flood)]));
    let (queue, events) = EventQueue::new();
    let mut coordinator =
        Coordinator::create(store, new_session(), team_agents, Box::new(queue)).await.unwrap();
    coordinator.accept(NewMessage::from_person("user", "go [NEXT: max]")).await.unwrap();
    let run = async move {
        let stop = coordinator.run().await.unwrap();
        drop(coordinator);
        stop
    };
    let (stop, (text, most)) = tokio::join!(run, read_late(events));
    assert_eq!(stop, StopReason::Idle { person: "user".into() });
    assert_eq!(text, all_pieces());
    // At the end of the turn, queued reports are added without waiting.
    assert!(most <= EVENT_LIMIT + 512, "{most} events waited");
}

#[test]
fn pieces_of_a_text_are_merged_up_to_a_limit_and_nothing_else_is() {
    let (queue, mut events) = EventQueue::merging(merge_text);
    let piece = |turn: u64, text: &str, part| EventKind::Agent {
        turn: TurnId(turn),
        member: "max".into(),
        event: AgentEvent::own(AgentEventKind::Text { text: text.to_owned().into(), part }),
    };
    for number in 0..PIECES {
        queue.push(piece(1, &format!("{number} "), TextPart::Delta));
    }
    assert_eq!(events.queued(), all_pieces().len().div_ceil(16 << 10));
    queue.push(piece(1, "whole", TextPart::Whole));
    queue.push(piece(2, "another turn", TextPart::Delta));
    let mut texts = Vec::new();
    while let Some(EventKind::Agent { event, .. }) = events.try_recv() {
        if let AgentEventKind::Text { text, .. } = event.kind {
            texts.push(text.into_owned());
        }
    }
    assert_eq!(texts.split_off(texts.len() - 2), ["whole", "another turn"]);
    assert_eq!(texts.concat(), all_pieces());
}
