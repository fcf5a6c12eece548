//! Tasks of Claude Code that continue after an answer.

use std::time::Duration;

use convoke_agent::Agent;
use convoke_agent::adapter::agent;
use convoke_agent::config::{AgentKind, Definition};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Verdict;

use crate::test_host::{TestHost, codes};

#[tokio::test]
async fn a_turn_that_is_queued_when_the_input_ends_is_waited_for() {
    let test = TestHost::new();
    // Longer than a process may continue after its turn.
    let script =
        "tasks \"$agent\"; tasks; result one; cat >/dev/null; sleep 12; echo \"$init\"; result two";
    let outcome = claude(&test, script).start(test.turn_input("hello")).result().await;
    assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "two"));
}

#[tokio::test]
async fn shells_that_run_on_are_ended_when_their_time_is_over() {
    let test = TestHost::new();
    let script = "tasks \"$shell\"; result one; echo \"$retry\"; read -r line; echo \"$line\" >asked; tasks; exit 0";
    let (hour, longer) = (Duration::from_hours(1), Duration::from_hours(2));
    for (background, turn_limit) in [(hour, longer), (longer, hour)] {
        let mut turn_input = test.turn_input("hello");
        turn_input.limits.background = background;
        turn_input.limits.turn = turn_limit;
        turn_input.limits.silence = longer;
        let mut turn = claude(&test, script).start(turn_input);
        // Output that was written after the answer is read after it.
        while !matches!(turn.next().await.unwrap().kind, AgentEventKind::Retry { .. }) {}
        tokio::time::pause();
        tokio::time::advance(hour).await;
        tokio::time::resume();
        let outcome = turn.result().await;
        assert_eq!((&outcome.verdict, outcome.reply.as_str()), (&Verdict::Done, "one"));
        assert_eq!(codes(&outcome), ["agent.tasks-ended"]);
        let asked = std::fs::read_to_string(test.path().join("asked")).unwrap();
        assert!(asked.contains("end_session"), "{asked}");
        std::fs::remove_file(test.path().join("asked")).unwrap();
    }
}

#[tokio::test]
async fn a_cancel_ends_the_tasks_of_an_agent_that_has_answered() {
    for tasks in ["$shell", "$agent"] {
        let test = TestHost::new();
        let script = format!(
            "tasks \"{tasks}\"; result one; echo \"$retry\"; read -r line; echo \"$line\" >asked; tasks; exit 0"
        );
        let mut turn_input = test.turn_input("hello");
        turn_input.limits.grace = Duration::from_mins(5);
        let mut turn = claude(&test, &script).start(turn_input);
        // Output that was written after the answer is read after it.
        while !matches!(turn.next().await.unwrap().kind, AgentEventKind::Retry { .. }) {}
        turn.canceller().cancel();
        let outcome = turn.result().await;
        assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Cancelled, "one"));
        let asked = std::fs::read_to_string(test.path().join("asked")).unwrap();
        assert!(asked.contains("end_session"), "{asked}");
    }
}

/// A program that behaves like Claude Code; output after the end of its input counts too.
fn claude(test: &TestHost, script: &str) -> Box<dyn Agent> {
    use std::os::unix::fs::PermissionsExt;
    let program = test.path().join("claude");
    let events = r#"
result() { echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"'"$1"'"}'; }
tasks() { echo '{"type":"system","subtype":"background_tasks_changed","tasks":['"$1"']}'; }
shell='{"task_type":"local_bash"}' agent='{"task_type":"local_agent"}'
init='{"type":"system","subtype":"init"}'
retry='{"type":"system","subtype":"api_retry","attempt":1,"error":"busy"}'
read -r prompt
"#;
    std::fs::write(&program, format!("#!/bin/sh\n{events}{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = Some(program.display().to_string());
    agent(
        Definition {
            command,
            ..Definition::built_in(AgentKind::Cli(
                convoke_vendors::programs().cli("claude").unwrap(),
            ))
        },
        test.host(),
    )
}
