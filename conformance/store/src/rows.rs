//! Rows for the checks.

use convoke_core::marker::Intent;
use convoke_core::{MessageId, NewMessage, Speaker, SpeakerType};
use convoke_protocol::content::Content;
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, Rehearsal, State};
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::Verdict;
use convoke_session::store::Commit;
use serde_json::json;

/// Creates a session with a new id.
pub fn new_session() -> NewSession {
    NewSession {
        id: SessionId::generate(),
        created_at: Millis(1_700_000_000_000),
        name: Some("a team".to_owned()),
        directory: "/project".to_owned(),
        team: "[[member]]\nname = \"max\"\nagent = \"claude\"\n".to_owned(),
        task: Some("a task".to_owned()),
        rehearsal: Some(Rehearsal::Cli),
    }
}

/// Creates a message.
pub fn message(
    number: u64,
    answers: Option<u64>,
    from: &str,
    to: &[&str],
    content: &str,
) -> Message {
    let kind = if from == "kailai" { SpeakerType::Human } else { SpeakerType::Ai };
    let mut said = NewMessage::new(Speaker::new(from, from, kind), content);
    if !to.is_empty() {
        said = said.to(to.iter().copied());
    }
    said.in_reply_to = answers.map(MessageId::numbered);
    Message {
        number: MessageNumber(number),
        answers: answers.map(MessageNumber),
        message: said.with_id(MessageId::numbered(number)),
    }
}

/// Creates a turn of max.
pub fn turn(id: u64, answers: u64, state: TurnState) -> Turn {
    Turn {
        id: TurnId(id),
        member: MemberName::from("max"),
        answers: MessageNumber(answers),
        intent: Intent::P3,
        asker: MemberName::from("kailai"),
        state,
        reply: None,
        problem: Some("none".to_owned()),
        attempts: 2,
        queued_at: Millis(5),
        ended_at: Some(Millis(6)),
    }
}

/// Creates an empty commit.
pub fn commit(on: EventNumber) -> Commit {
    Commit {
        on,
        at: Millis(1_700_000_000_001),
        state: State { next_message_id: 9, ..State::default() },
        ..Commit::default()
    }
}

/// Creates an attempt of a turn, with its prompt, input and ledger.
pub fn attempt(turn: u64, number: u32, of: &[Content; 3], has_ended: bool) -> Attempt {
    let [prompt, input, ledger] = of.each_ref().map(Content::reference);
    Attempt {
        turn: TurnId(turn),
        number,
        began_at: Millis(7),
        engine: "1.2.3".to_owned(),
        prompt,
        system: Some(prompt),
        input,
        ledger,
        diagnostics: json!([{"code": "context.dropped"}]),
        ended: has_ended.then(|| AttemptResult {
            at: Millis(8),
            verdict: Verdict::TimedOut,
            partial: Some(prompt),
            events: None,
            usage: None,
            cost_usd: Some(0.25),
            model: Some("m".to_owned()),
            resume: None,
            diagnostics: json!([]),
        }),
    }
}
