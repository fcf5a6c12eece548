//! The JSON of every kind of event.

use std::collections::{BTreeMap, BTreeSet};

use convoke_core::{NewMessage, Speaker, SpeakerType};

use super::*;
use crate::agent_event::{
    FileChange, FileDiff, OwnerShare, Received, RequestPurpose, TodoItem, TodoState,
};
use crate::content::{Content, ContentHash};
use crate::memory::{Branch, Continued, Known};
use crate::resume::ResumeHandle;
use crate::usage::Usage;
use crate::verdict::{Failure, FailureReason};

/// One line for each sample, in order. Other programs read these names: lines are only added.
const GOLDEN: &str = include_str!("events.jsonl");

mod diagnostics {
    convoke_core::diagnostic_codes! {
        NOTED = "test.noted", Note, "A note.", "No action needed.";
    }
}

fn diagnostic() -> Diagnostic {
    let noted = Diagnostic::new(diagnostics::NOTED, "a note");
    Diagnostic { section: Some("NEXT".into()), count: Some(1), line: Some(2), ..noted }
}

fn usage() -> Usage {
    Usage { input: 10, cached: 4, cache_write: 1, output: 3, reasoning: 2 }
}

fn failed() -> Verdict {
    Verdict::Failed(Failure::new(FailureReason::RateLimit, "later"))
}

fn result(verdict: Verdict) -> AttemptResult {
    AttemptResult {
        at: Millis(8),
        verdict,
        partial: Some(Content::new("half").reference()),
        usage: Some(usage()),
        cost_usd: Some(0.1 + 0.2),
        model: Some("m".to_owned()),
        resume: Some(ResumeHandle { used: Some(usage()), ..ResumeHandle::new("s", "/project") }),
        diagnostics: vec![diagnostic()],
    }
}

fn turn(state: TurnState) -> Turn {
    Turn {
        id: TurnId(2),
        member: "max".into(),
        answers: MessageNumber(1),
        intent: Intent::P1,
        asker: "kailai".into(),
        state,
        reply: None,
        problem: None,
        attempts: 1,
        queued_at: Millis(5),
        ended_at: None,
    }
}

fn message() -> Message {
    let speaker = Speaker::new("max", "Max", SpeakerType::Ai);
    let said = NewMessage::new(speaker, "done \u{2028}\0 [NEXT: kailai]").to(["kailai"]);
    let message = said.with_id(MessageId::numbered(3));
    let policy = convoke_core::marker::TextPolicy::Preserve;
    let message = Message::new(MessageNumber(3), Some(MessageNumber(1)), message, policy);
    Message { turn: Some(TurnId(2)), asker: "kailai".into(), ..message }
}

fn attempt() -> Attempt {
    let [prompt, input] = ["prompt", "input"].map(|text| Content::new(text).reference());
    Attempt {
        turn: TurnId(2),
        number: 1,
        event: EventNumber(9),
        began_at: Millis(7),
        engine: "1.2.3".to_owned(),
        prompt,
        system: Some(prompt),
        input,
        ledger: input,
        diagnostics: vec![diagnostic()],
        ended: None,
    }
}

fn question() -> PermissionQuestion {
    PermissionQuestion {
        id: "2.1.q".to_owned(),
        tool: "Bash".to_owned(),
        summary: "ls".to_owned(),
        input: r#"{"command":"ls","n":1}"#.to_owned(),
        diff: Some("+a".to_owned()),
        directory: Some(Box::new("/project".into())),
        ..PermissionQuestion::default()
    }
}

/// Returns an event of every kind.
fn kinds() -> Vec<EventKind> {
    let (turn_id, member) = (TurnId(2), MemberName::from("max"));
    let new = NewSession {
        id: "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap(),
        created_at: Millis(1),
        name: Some("a team".to_owned()),
        directory: "/project".to_owned(),
        team: "[[member]]\n".to_owned(),
        task: Some("a task".to_owned()),
        rehearsal: Some(Rehearsal::StandIn),
    };
    let state = State {
        task: None,
        last_message: MessageNumber(3),
        next_message_id: 4,
        last_turn: turn_id,
        last_finished: Some(MessageNumber(3)),
        in_a_row: 1,
        asker: Some("kailai".into()),
        memory: BTreeMap::default(),
    };
    let counts = ChangeCounts { files: 2, added: Some(3), removed: None };
    let mut kinds = vec![
        EventKind::created(&new),
        EventKind::Restored { state },
        EventKind::Opened { messages: 3, waiting: 1, interrupted: vec![turn_id] },
        EventKind::Message(Box::new(message())),
        EventKind::MessageWaits { from: "lee".into(), text: "hello".to_owned() },
        EventKind::Task { task: "go on".to_owned(), by: member.clone() },
        EventKind::queued(&turn(TurnState::Queued)),
        EventKind::TurnDropped { turn: turn_id, member: member.clone(), problem: "why".to_owned() },
        EventKind::TurnRetried { turn: turn_id, member: member.clone() },
        EventKind::TurnOffered {
            turn: turn_id,
            member: member.clone(),
            node: Some("gpu".to_owned()),
            problem: Some("no node is named gpu".to_owned()),
        },
        EventKind::started(&turn(TurnState::Running), &attempt(), 3, 1),
        EventKind::PermissionAsked {
            turn: turn_id,
            member: member.clone(),
            question: question(),
            answers: PermissionAnswer::OFFERED.to_vec(),
            expires_at: 99,
        },
        EventKind::PermissionAnswered {
            turn: turn_id,
            member: member.clone(),
            id: "2.1.q".to_owned(),
            answer: PermissionAnswer::Never,
            by: AnsweredBy::Person,
        },
        EventKind::FilesChanged {
            turn: turn_id,
            member: member.clone(),
            by: ChangedBy::Agent,
            counts,
        },
        EventKind::TurnInterrupted {
            turn: turn_id,
            member: member.clone(),
            attempt: 1,
            result: Box::new(result(failed())),
        },
        EventKind::ended(
            &turn(TurnState::Done),
            1,
            Millis(7),
            Some(MessageId::numbered(3)),
            AttemptResult::new(Millis(8), Verdict::Done),
        ),
        EventKind::Diagnostic { turn: None, diagnostic: diagnostic() },
    ];
    kinds.extend([failed(), Verdict::Cancelled, Verdict::Withdrawn, Verdict::TimedOut].map(
        |verdict| EventKind::ended(&turn(TurnState::Failed), 1, Millis(7), None, result(verdict)),
    ));
    kinds.extend(stops().map(EventKind::Stopped));
    kinds.extend(agent_events().into_iter().map(|kind| {
        let event = AgentEvent::own(kind);
        EventKind::Agent { turn: turn_id, member: member.clone(), event }
    }));
    let text = AgentEventKind::Text { text: "its own".into(), part: TextPart::Whole };
    let event = AgentEvent::new(Some("tool-1".into()), text);
    kinds.push(EventKind::Agent { turn: turn_id, member: member.clone(), event });
    kinds.extend(of_memory(turn_id, member));
    kinds
}

fn of_memory(turn_id: TurnId, member: MemberName) -> [EventKind; 3] {
    let known = Known {
        through: MessageNumber(4),
        left: vec![MessageNumber(2)],
        task: Some(ContentHash::new("a task")),
        texts: ContentHash::new("max"),
        workspaces: None,
    };
    let session = ResumeHandle {
        mark: Some("m".to_owned()),
        program: Some("claude".to_owned()),
        version: Some("2.1.325".to_owned()),
        window: Some(9),
        owner: "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().ok(),
        ..ResumeHandle::new("s", "/project")
    };
    let continues =
        Continued { session: "s".to_owned(), turn: TurnId(1), attempt: 1, branch: Branch::New };
    let memory = MemoryUse { continues: Some(continues), known: known.clone() };
    let turn = turn(TurnState::Running);
    let to = Remembered { turn: TurnId(1), attempt: 1, session, known };
    let reason = "forgotten".to_owned();
    [
        EventKind::started(&turn, &attempt(), 3, 1).using(Some(Box::new(memory))),
        EventKind::MemoryChanged {
            member: member.clone(),
            turn: turn_id,
            to: Some(Box::new(to)),
            reason: reason.clone(),
        },
        EventKind::MemoryChanged { member, turn: turn_id, to: None, reason },
    ]
}

fn stops() -> [StopReason; 8] {
    let person = || MemberName::from("kailai");
    let turns = vec![FailedTurn {
        turn: TurnId(2),
        member: "max".into(),
        asker: person(),
        outcome: failed(),
    }];
    [
        StopReason::Idle { person: person() },
        StopReason::Addressed { person: person(), turn: TurnId(3), answers: MessageNumber(3) },
        StopReason::TurnFailed { person: person(), turns },
        StopReason::Cancelled { person: person() },
        StopReason::Left,
        StopReason::TurnLimit { person: person(), limit: 10 },
        StopReason::Repetition { person: person(), member: "max".into(), times: 3 },
        StopReason::QueueFull { person: person(), limit: 10, left_out: 2 },
    ]
}

fn agent_events() -> Vec<AgentEventKind<'static>> {
    let received = Received {
        handed_over_bytes: 1,
        requests: 2,
        bytes: 3,
        tokens: Some(4),
        uncounted: 5,
        shares: vec![OwnerShare { owner: "ours".to_owned(), bytes: 6 }],
        refused: 7,
        refusal: Some("busy".to_owned()),
    };
    let diff = Some(FileDiff { before: Some("a".into()), after: "b".into() });
    vec![
        AgentEventKind::Started { session: Some("s".into()), model: Some("m".into()) },
        AgentEventKind::Text { text: "whole".into(), part: TextPart::Whole },
        AgentEventKind::Text { text: "piece".into(), part: TextPart::Delta },
        AgentEventKind::Thinking { text: "hm".into(), part: TextPart::Whole },
        AgentEventKind::ToolStarted { id: "t".into(), name: "sh".into(), input: "{}".into() },
        AgentEventKind::ToolFinished { id: "t".into(), ok: true, output: "ok".into() },
        AgentEventKind::FileChange {
            changes: vec![FileChange { path: "a.rs".into(), change: "update".into(), diff }],
        },
        AgentEventKind::Todo {
            items: vec![TodoItem { text: "do".into(), state: TodoState::InProgress }],
        },
        AgentEventKind::Request {
            number: 1,
            purpose: RequestPurpose::Answer,
            bytes: 2,
            unchanged_bytes: 1,
        },
        AgentEventKind::Received(received),
        AgentEventKind::Usage(usage()),
        AgentEventKind::Retry {
            attempt: 1,
            max: Some(3),
            status: Some(529),
            wait: Some(Duration::from_secs(2)),
            reason: "overloaded".into(),
        },
        AgentEventKind::PermissionAsked { question: question(), expires_at: 99 },
        AgentEventKind::PermissionAnswered {
            id: "q".to_owned(),
            answer: PermissionAnswer::Once,
            by: AnsweredBy::Rule,
        },
        AgentEventKind::Warning(diagnostic()),
        AgentEventKind::Unknown { name: "new".into(), json: "{\"a\":1}".into() },
        AgentEventKind::Finished { verdict: Verdict::Done },
    ]
}

/// Returns the name of a kind. A new kind needs a sample too.
fn name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Created { .. } => "created",
        EventKind::Restored { .. } => "restored",
        EventKind::Opened { .. } => "opened",
        EventKind::Message(_) => "message",
        EventKind::MessageWaits { .. } => "message-waits",
        EventKind::Task { .. } => "task",
        EventKind::TurnQueued { .. } => "turn-queued",
        EventKind::TurnDropped { .. } => "turn-dropped",
        EventKind::TurnRetried { .. } => "turn-retried",
        EventKind::TurnOffered { .. } => "turn-offered",
        EventKind::TurnStarted { .. } => "turn-started",
        EventKind::Agent { .. } => "agent",
        EventKind::PermissionAsked { .. } => "permission-asked",
        EventKind::PermissionAnswered { .. } => "permission-answered",
        EventKind::FilesChanged { .. } => "files-changed",
        EventKind::MemoryChanged { .. } => "memory-changed",
        EventKind::TurnInterrupted { .. } => "turn-interrupted",
        EventKind::TurnEnded { .. } => "turn-ended",
        EventKind::Diagnostic { .. } => "diagnostic",
        EventKind::Stopped(_) => "stopped",
    }
}

/// The number of kinds in [`name`].
const KINDS: usize = 20;

fn events() -> Vec<Event> {
    let session = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
    let event = |(number, kind): (u64, EventKind)| Event {
        number: kind.is_logged().then_some(EventNumber(number)),
        migrated: number % 2 == 0,
        kind,
        session,
        at: Millis(1_700_000_000_000),
    };
    (1..).zip(kinds()).map(event).collect()
}

#[test]
fn every_kind_of_event_is_written_under_its_name() {
    let names: BTreeSet<&str> = kinds().iter().map(name).collect();
    assert_eq!(names.len(), KINDS);
    for event in events() {
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!(value["type"], name(&event.kind));
    }
}

#[test]
fn an_event_that_was_read_is_written_to_the_same_bytes() {
    for event in events() {
        let line = serde_json::to_string(&event).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let read: Event =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(read, event, "{line}");
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}

#[test]
fn the_names_in_the_json_of_an_event_do_not_change() {
    let lines: Vec<String> =
        events().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    for (line, golden) in lines.iter().zip(GOLDEN.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(lines.len(), GOLDEN.lines().count());
}

#[test]
fn fields_of_later_versions_are_ignored_and_missing_ones_of_earlier_versions_have_a_meaning() {
    let line = r#"{"type":"task","task":"x","by":"max","since":7,"session":"0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b","at":1}"#;
    let event: Event = serde_json::from_str(line).unwrap();
    assert_eq!((event.number, event.migrated), (None, false));
}

#[test]
fn the_input_of_a_question_is_written_to_the_same_bytes_whatever_it_is() {
    for input in ["", "ls", "7", "\"7\"", "\"{}\"", "\"ls\"", "null", "{\"b\":1,\"a\":[2.5]}", "{"]
    {
        let question = PermissionQuestion { input: input.to_owned(), ..question() };
        let line = serde_json::to_string(&question).unwrap();
        let read: PermissionQuestion = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line, "{input}");
    }
}

/// A cost is a sum of floats, whose last digits matter when archives are compared.
#[test]
fn every_digit_of_a_cost_comes_back() {
    let mut cost = 0.0_f64;
    for step in 1..20_000_u32 {
        cost += 1.0 / f64::from(step) / 1e3;
        let line = serde_json::to_string(&cost).unwrap();
        let read: f64 = serde_json::from_str(&line).unwrap();
        assert!(read.to_bits() == cost.to_bits(), "{cost} is read as {read}");
    }
}
