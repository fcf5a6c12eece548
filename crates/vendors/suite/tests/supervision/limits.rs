//! Limits: time, output and retries.

use std::time::Duration;

use convoke_agent::adapter::agent;
use convoke_agent::config::{AgentKind, Definition, Protocol};
use convoke_agent::turn_input::{HeldUntil, TurnInput};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{TestHost, reason, runs};

#[tokio::test]
async fn a_flood_is_ended_at_its_limit() {
    let test = TestHost::new();
    for script in ["yes", "yes >&2", "tr '\\0' x </dev/zero"] {
        let mut turn_input = test.turn_input("");
        turn_input.limits.output_bytes = 2 << 20;
        turn_input.limits.line_bytes = 1 << 20;
        turn_input.limits.reply_bytes = 100;
        let outcome = test.agent(script).start(turn_input).result().await;
        assert_eq!(reason(&outcome), Some(FailureReason::Flood), "{script}");
        assert!(outcome.reply.len() <= 100);
    }
}

#[tokio::test]
async fn output_over_its_limit_ends_a_turn_that_is_still_being_fed() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input(&"x".repeat(8 << 20));
    turn_input.limits.output_bytes = 1 << 20;
    let outcome = test.agent("echo $$ >>pids; yes").start(turn_input).result().await;
    assert_eq!(reason(&outcome), Some(FailureReason::Flood));
    assert!(!test.pids().into_iter().any(runs));
}

#[tokio::test]
async fn a_child_that_never_ends_runs_out_of_time() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input("");
    turn_input.limits.turn = Duration::from_hours(1);
    turn_input.limits.silence = Duration::from_hours(2);
    let script = "trap '' INT TERM HUP; echo $$ >>pids; echo half; while :; do sleep 1; done";
    let mut turn = test.agent(script).start(turn_input);
    while !matches!(turn.next().await.unwrap().kind, AgentEventKind::Text { .. }) {}
    // An hour later.
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(1)).await;
    tokio::time::resume();
    let outcome = turn.result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
    assert_eq!(outcome.reply, "half");
    assert!(!runs(test.pids()[0]));
}

/// A process that was stopped may have extended its time without telling its guardian.
#[tokio::test]
async fn an_agent_that_its_guardian_ended_with_its_lease_had_none_whatever_came_later() {
    let test = TestHost::new();
    let in_time = |time| tokio::time::Instant::now() + time;
    let (extend, until) = tokio::sync::watch::channel(in_time(Duration::from_millis(300)));
    let held_until = HeldUntil::new(until);
    let mut turn_input = test.turn_input("");
    turn_input.held_until = Some(held_until.clone());
    let ended = test.agent("echo $$ >>pids; sleep 1000").start(turn_input).result().await;
    assert_eq!(ended.verdict.as_str(), "failed");
    assert!(!test.pids().into_iter().any(runs));
    extend.send_replace(in_time(Duration::from_hours(1)));
    assert!(held_until.is_over());

    // An agent that ends by itself in time has kept its held_until.
    let held_until = HeldUntil::new(extend.subscribe());
    let turn_input = TurnInput { held_until: Some(held_until.clone()), ..test.turn_input("") };
    assert_eq!(test.agent("echo done").start(turn_input).result().await.verdict, Verdict::Done);
    assert!(!held_until.is_over());
}

#[tokio::test]
async fn a_child_that_falls_silent_runs_out_of_time() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input("");
    turn_input.limits.silence = Duration::from_millis(300);
    let outcome = test.agent("echo one; sleep 1000").start(turn_input).result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
}

#[tokio::test]
async fn a_turn_with_no_time_ends_at_once_and_one_without_end_does_not_panic() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input("x");
    turn_input.limits.turn = Duration::ZERO;
    turn_input.limits.grace = Duration::ZERO;
    let outcome = test.agent("echo $$ >>pids; sleep 1000").start(turn_input).result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
    assert!(!test.pids().into_iter().any(runs));
    let mut turn_input = test.turn_input("x");
    turn_input.limits.turn = Duration::MAX;
    turn_input.limits.silence = Duration::MAX;
    turn_input.limits.grace = Duration::MAX;
    let outcome = test.agent("cat").start(turn_input).result().await;
    assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "x"));
}

#[tokio::test]
async fn an_agent_that_tries_again_too_often_is_stopped() {
    let test = TestHost::new();
    // The shell takes Codex's first argument as the name of its script.
    let counted = r#"{"type":"error","message":"Reconnecting... '$n'/5 (unexpected status 503)"}"#;
    let not_counted = r#"{"type":"error","message":"Reconnecting... (unexpected status 503)"}"#;
    for notice in [counted, not_counted] {
        let script = format!(
            "for n in 1 2 3 4 5; do
                echo '{notice}'
                echo $n >>attempts
                [ $n -le 2 ] || sleep 1000
            done"
        );
        an_agent_is_stopped(&test, &script).await;
    }
}

async fn an_agent_is_stopped(test: &TestHost, script: &str) {
    std::fs::write(test.path().join("exec"), script).unwrap();
    std::fs::write(test.path().join("attempts"), "").unwrap();
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        protocol: Protocol::Exec,
        ..Definition::built_in(AgentKind::Cli(convoke_vendors::programs().cli("codex").unwrap()))
    };
    let mut turn_input = test.turn_input("hello\n");
    turn_input.limits.retries = 2;
    let outcome = agent(definition, test.host()).start(turn_input).result().await;
    assert_eq!(reason(&outcome), Some(FailureReason::Server), "{outcome:?}");
    assert!(outcome.verdict.to_string().contains("retry limit"), "{outcome:?}");
    let attempts = std::fs::read_to_string(test.path().join("attempts")).unwrap_or_default();
    assert!(attempts.lines().count() <= 3, "{attempts}");
}
