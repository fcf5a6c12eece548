//! The end of a turn: cancelled, killed, or after background tasks.

use std::time::Duration;

use convoke_agent::turn_input::Permissions;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::script::Condition;
use convoke_rehearsal::{Answer, End, Reply, Script};
use serde_json::json;

use crate::test_host::{
    Cli, TestHost, codes, codex_settings, environment, runs, until, until_text,
};

pub async fn cancels_without_a_trace(cli: Cli) {
    for _ in 0..2 {
        let hang = Reply::default().say("I begin ").end(End::Hang);
        let Some(test) = TestHost::new(cli, Script::default().with_default(hang.into())).await
        else {
            return;
        };
        let mut turn = test.agent.start(test.turn_input("hello"));
        let streams = !matches!(cli, Cli::Codex98Exec | Cli::Codex166Exec);
        if streams {
            until_text(&mut turn).await;
        } else {
            assert!(test.server.has_model_calls(1, Duration::from_mins(3)).await);
        }
        turn.canceller().cancel();
        let outcome = turn.result().await;
        assert_eq!(outcome.verdict, Verdict::Cancelled);
        assert_eq!(outcome.reply.trim_end(), if streams { "I begin" } else { "" });
        assert_eq!(test.processes(), [0; 0]);
    }
    for _ in 0..2 {
        let tool = "echo $$ >>pids; sleep 1000 & echo $! >>pids; wait";
        let Some(test) = TestHost::new(cli, Script::new([cli.shell(tool)])).await else {
            return;
        };
        let mut turn_input = test.turn_input("hello");
        turn_input.permissions = Permissions::Full;
        let turn = test.agent.start(turn_input);
        until("the tool never ran", || test.pids().len() >= 2).await;
        let pids = test.pids();
        turn.canceller().cancel();
        assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
        assert_eq!(pids.iter().filter(|&&pid| runs(pid)).count(), 0);
        assert_eq!(test.processes(), [0; 0]);
    }
}

pub async fn ends_when_convoke_is_killed(cli: Cli) {
    let tool = "echo $$ >>pids; sleep 1000 & echo $! >>pids; wait";
    let Some(test) = TestHost::new(cli, Script::new([cli.shell(tool)])).await else {
        return;
    };
    let mut convoke = std::process::Command::new(env!("CARGO_BIN_EXE_convoke-test-host"))
        .args([cli.kind(), cli.model()])
        .arg(test.work.path())
        .arg(cli.program().unwrap())
        .args(codex_settings(cli, &test.server.base_url()))
        .env_clear()
        .envs(environment(&test.server, test.home.path()))
        .spawn()
        .unwrap();
    until("the tool never ran", || test.pids().len() >= 2).await;
    convoke.kill().unwrap();
    convoke.wait().unwrap();
    until("something outlived Convoke", || test.processes().is_empty()).await;
}

/// The tasks run longer than a process may continue after its turn.
pub async fn waits_for_sub_agents(cli: Cli) {
    let Some(test) = TestHost::new(cli, background(sub_agent())).await else {
        return;
    };
    let outcome = test.run(test.turn_input(PROMPT)).await;
    assert_eq!((&outcome.verdict, outcome.reply.as_str()), (&Verdict::Done, FINAL));
    assert_eq!(test.processes(), [0; 0]);
}

pub async fn waits_for_background_shells(cli: Cli) {
    let script = background(background_shell("sleep 12; echo done"));
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = test.turn_input(PROMPT);
    turn_input.permissions = Permissions::Full;
    let outcome = test.run(turn_input).await;
    assert_eq!((&outcome.verdict, outcome.reply.as_str()), (&Verdict::Done, FINAL));
    assert!(!codes(&outcome).contains(&"agent.tasks-ended"));
    assert_eq!(test.processes(), [0; 0]);
}

pub async fn ends_shells_that_never_end(cli: Cli) {
    let script = background(background_shell("echo $$ >>pids; sleep 1000"));
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = test.turn_input(PROMPT);
    turn_input.permissions = Permissions::Full;
    turn_input.limits.background = Duration::from_secs(5);
    let outcome = test.run(turn_input).await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    assert_eq!(outcome.reply, "INTERIM: launched, I will report.");
    assert!(codes(&outcome).contains(&"agent.tasks-ended"));
    assert_eq!(test.pids().iter().filter(|&&pid| runs(pid)).count(), 0);
    assert_eq!(test.processes(), [0; 0]);
}

pub async fn cancels_background_tasks_without_a_trace(cli: Cli) {
    for task in [sub_agent(), background_shell("echo $$ >>pids; sleep 1000")] {
        let Some(test) = TestHost::new(cli, background(task)).await else {
            return;
        };
        let mut turn_input = test.turn_input(PROMPT);
        turn_input.permissions = Permissions::Full;
        let mut turn = test.agent.start(turn_input);
        while let Some(event) = turn.next().await {
            // The first answer is counted, and the task keeps running.
            if matches!(event.kind, AgentEventKind::Usage(_)) {
                break;
            }
        }
        turn.canceller().cancel();
        let outcome = turn.result().await;
        assert_eq!(outcome.verdict, Verdict::Cancelled, "{outcome:?}");
        assert_eq!(outcome.reply, "INTERIM: launched, I will report.");
        assert!(!codes(&outcome).contains(&"agent.processes-left"), "{outcome:?}");
        assert_eq!(test.processes(), [0; 0]);
    }
}

/// The final answer, with a route that must not be lost.
const FINAL: &str = "FINAL: found 42. [NEXT: kai]";

/// Text in the request of the turn that the program starts after a task has ended.
const NOTIFICATION: &str = r"<task-notification>\n<task-id>";

/// Text in the prompt, and therefore in every request of the main thread.
const PROMPT: &str = "PROMPT hello";

/// Returns a script in which the model starts a task, answers, and answers again when the task has ended.
fn background(task: Answer) -> Script {
    let with = |text: &str| Condition { contains: Some(text.to_owned()), ..Condition::default() };
    let in_sub_agent = Reply::default().wait(Duration::from_secs(12)).say("SUBRESULT is 42.");
    Script::new([
        Answer::say(FINAL).when(with(NOTIFICATION)),
        task.when(with(PROMPT)),
        Answer::say("INTERIM: launched, I will report.").when(with(PROMPT)),
        Answer::from(in_sub_agent).when(with("SUBPROMPT")),
    ])
}

fn sub_agent() -> Answer {
    Answer::call(
        "Agent",
        json!({"description": "sub", "prompt": "SUBPROMPT do it", "subagent_type": "general-purpose"}),
    )
}

fn background_shell(command: &str) -> Answer {
    let input = json!({"command": command, "description": "test", "run_in_background": true});
    Answer::call("Bash", input)
}
