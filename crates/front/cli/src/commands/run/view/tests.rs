//! Tests of the output of a run.

use std::time::Duration;

use convoke_conformance_store::shown as recorded;
use convoke_protocol::content::Content;
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};

use super::*;
use crate::terminal::on_terminal;

fn started(turn: u64, member: &str) -> EventKind {
    EventKind::TurnStarted {
        turn: TurnId(turn),
        member: member.into(),
        answers: MessageNumber(1),
        attempt: 1,
        prompt: Content::new("prompt").reference(),
        system: None,
        tokens_estimate: 2,
        context: 0,
        engine: "0.1.0".to_owned(),
        input: Content::new("{}").reference(),
        ledger: Content::new("[]").reference(),
        diagnostics: Vec::new(),
        in_a_row: 0,
        memory: None,
    }
}

fn agent(turn: u64, member: &str, kind: AgentEventKind<'static>) -> EventKind {
    let event = convoke_protocol::agent_event::AgentEvent::own(kind);
    EventKind::Agent { turn: TurnId(turn), member: member.into(), event }
}

fn piece(text: &'static str) -> AgentEventKind<'static> {
    AgentEventKind::Text { text: text.into(), part: TextPart::Delta }
}

fn shown(columns: Option<usize>, act: impl FnOnce(&mut View<&mut Vec<u8>>)) -> String {
    let mut out = Vec::new();
    let layout = Layout { paint: Paint::Plain, columns, parallel: false, quiet: None };
    act(&mut View::new(&mut out, layout));
    on_terminal(&out).replace('\u{1b}', "ESC")
}

#[test]
fn the_live_line_is_hidden_while_a_question_is_open() {
    let asked = |id: &str, answers: &[PermissionAnswer]| EventKind::PermissionAsked {
        turn: TurnId(1),
        member: "max".into(),
        question: PermissionQuestion {
            id: id.to_owned(),
            tool: "Bash".to_owned(),
            summary: "make".to_owned(),
            ..PermissionQuestion::default()
        },
        answers: answers.to_vec(),
        expires_at: 0,
    };
    let answered = |id: &str| EventKind::PermissionAnswered {
        turn: TurnId(1),
        member: "max".into(),
        id: id.to_owned(),
        answer: PermissionAnswer::Once,
        by: AnsweredBy::Person,
    };
    let screen = shown(Some(60), |view| {
        view.show(&started(1, "max")).unwrap();
        // Answered by a rule.
        view.show(&asked("1", &[])).unwrap();
        view.show(&answered("1")).unwrap();
        view.show(&asked("2", &PermissionAnswer::OFFERED)).unwrap();
        view.tick().unwrap();
    });
    let asks = "make\n    Bash: make: once, session or never? (o/s/n)\n";
    assert!(screen.ends_with(asks), "{screen}");
    assert_eq!(screen.matches("once, session or never").count(), 1);
    // One at a time; the answer is for the one shown last.
    let screen = shown(Some(60), |view| {
        view.show(&started(1, "max")).unwrap();
        view.show(&asked("2", &PermissionAnswer::OFFERED)).unwrap();
        view.show(&asked("3", &PermissionAnswer::OFFERED_ONCE)).unwrap();
        view.show(&answered("2")).unwrap();
    });
    let (first, second) =
        screen.split_once("max was allowed (once, person): Bash: make\n").unwrap();
    assert_eq!(first.matches("asks to use").count(), 1, "{screen}");
    assert!(second.ends_with("make\n    Bash: make: once or never? (o/n)\n"), "{screen}");
    let screen = shown(Some(60), |view| {
        view.show(&started(1, "max")).unwrap();
        view.show(&asked("2", &PermissionAnswer::OFFERED)).unwrap();
        view.show(&answered("2")).unwrap();
        view.tick().unwrap();
    });
    assert!(screen.contains("max working"), "{screen}");
}

#[test]
fn the_live_line_is_cleared_for_text_and_redrawn_between_lines() {
    let screen = shown(Some(60), |view| {
        view.tick().unwrap();
        view.show(&started(1, "max")).unwrap();
        view.tick().unwrap();
        view.show(&agent(1, "max", piece("Hello "))).unwrap();
        // Not in the middle of a line.
        view.tick().unwrap();
        view.show(&agent(1, "max", piece("there\n"))).unwrap();
        view.tick().unwrap();
    });
    assert_eq!(
        screen,
        "\nmax  turn 1, answers message 1 · a prompt of about 2 tokens, 6 bytes\n\
         \rESC[2K  ⠋ max working · 0.0 s · 0 events\rESC[2K  Hello there\n\
         \rESC[2K  ⠋ max writing · 0.0 s · 2 events"
    );
}

#[test]
fn a_file_gets_no_live_line() {
    let screen = shown(None, |view| {
        view.show(&started(1, "max")).unwrap();
        view.tick().unwrap();
        view.show(&agent(1, "max", piece("Hello"))).unwrap();
    });
    assert!(screen.ends_with("bytes\n  Hello"), "{screen}");
}

#[test]
fn a_retried_request_is_reported_with_its_reason_and_wait() {
    let again = AgentEventKind::Retry {
        attempt: 1,
        max: Some(4),
        status: Some(503),
        wait: Some(Duration::from_mins(2)),
        reason: "busy \u{1b}[31m(status 503)".into(),
    };
    let screen = shown(None, |view| {
        view.show(&started(1, "max")).unwrap();
        view.show(&agent(1, "max", piece("Hel"))).unwrap();
        view.show(&agent(1, "max", again)).unwrap();
        view.show(&agent(1, "max", piece("Hello"))).unwrap();
    });
    let told = "attempt 1 of 4 failed: busy ";
    let wait = "(status 503); retrying in 2 min 00 s\n  Hello";
    assert!(screen.contains(&format!("bytes\n  Hel\n  {told}")), "{screen}");
    assert!(screen.ends_with(wait) && !screen.contains("ESC"), "{screen}");
}

#[test]
fn absurd_token_counts_do_not_overflow() {
    let usage = convoke_protocol::usage::Usage { input: u64::MAX, output: 1, ..Default::default() };
    let screen = shown(Some(200), |view| {
        view.show(&started(1, "max")).unwrap();
        view.show(&agent(1, "max", AgentEventKind::Usage(usage))).unwrap();
        view.tick().unwrap();
    });
    assert!(screen.ends_with("18,446,744,073,709,551,615 tokens"), "{screen}");
}

#[test]
fn a_live_line_is_never_wider_than_the_screen() {
    let screen = shown(Some(30), |view| {
        view.show(&started(1, "a-member-with-a-rather-long-name")).unwrap();
        view.tick().unwrap();
    });
    let live = screen.rsplit("ESC[2K").next().unwrap();
    assert_eq!(live.chars().count(), 29);
    let screen = shown(Some(30), |view| {
        view.show(&started(1, &"漢".repeat(20))).unwrap();
        view.tick().unwrap();
    });
    let live = screen.rsplit("ESC[2K").next().unwrap();
    assert_eq!(live, format!("  ⠋ {}", "漢".repeat(12)));
}

#[tokio::test]
async fn the_facts_of_recorded_logs_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let store = recorded::recorded_store(directory.path()).await.unwrap();
    for (session, events) in recorded::logs(&store).await.unwrap() {
        let mut out = Vec::new();
        let layout =
            Layout { paint: Paint::Plain, columns: Some(1000), parallel: false, quiet: None };
        let mut view = View::new(&mut out, layout);
        for event in &events {
            view.show(&event.kind).unwrap();
            view.tick().unwrap();
        }
        recorded::check("run", session, &events, &String::from_utf8_lossy(&out));
    }
}
