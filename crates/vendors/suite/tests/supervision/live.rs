//! Programs that stay from turn to turn.

use std::time::Duration;

use convoke_agent::turn_input::{Permissions, SessionMemory, Trust};
use convoke_agent::{TurnInput, TurnResult};
use convoke_protocol::id::{SessionId, ThreadId};
use convoke_protocol::memory::Branch;
use convoke_protocol::verdict::Verdict;

use crate::acp::{got, script};
use crate::test_host::{TestHost, runs, until};

/// Answers two prompts, and names its process in each.
const TWO_TURNS: &str = "begin; say \"first of $$\"; answer 3 '{\"stopReason\":\"end_turn\"}'; get; \
     say \"second of $$\"; answer 4 '{\"stopReason\":\"end_turn\"}'; get";

fn remembering(test: &TestHost, thread: &ThreadId, prompt: &str, idle: Duration) -> TurnInput {
    let mut turn_input = test.turn_input(prompt);
    turn_input.thread = Some(thread.clone());
    turn_input.memory = Some(SessionMemory { branch: Branch::Same, idle });
    turn_input
}

fn thread() -> ThreadId {
    ThreadId::of_member(SessionId::generate(), "max")
}

/// Returns the process that a reply names.
fn process(result: &TurnResult) -> i32 {
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    result.reply.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_next_turn_of_a_member_runs_in_the_same_program() {
    let (test, thread) = (TestHost::new(), thread());
    let agent = script(&test, TWO_TURNS);
    let input = |prompt| remembering(&test, &thread, prompt, Duration::from_mins(1));
    let first = agent.start(input("one")).result().await;
    let handle = first.resume.clone().unwrap();
    assert!(runs(process(&first)) && agent.holds(&thread, &handle));
    let second = agent.start(TurnInput { resume: Some(handle), ..input("two") }).result().await;
    assert_eq!(process(&second), process(&first));
    assert_eq!(second.reply, format!("second of {}", process(&first)));
    let methods = got(&test);
    let methods: Vec<_> = methods.iter().map(|it| it["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt", "session/prompt"]);
    let process = process(&second);
    drop(agent);
    until("the program still runs", || !runs(process)).await;
}

#[tokio::test]
async fn a_program_ends_if_it_may_do_something_else_in_the_next_turn() {
    let (test, thread) = (TestHost::new(), thread());
    let cases: [fn(&mut TurnInput); 3] = [
        |input| input.trust = Trust::Trusted,
        |input| input.permissions = Permissions::Edit,
        |input| input.memory = Some(SessionMemory { branch: Branch::New, idle: Duration::MAX }),
    ];
    for change in cases {
        let agent = script(&test, TWO_TURNS);
        let mut input = remembering(&test, &thread, "one", Duration::from_mins(1));
        input.trust = Trust::Untrusted;
        let first = agent.start(input.clone()).result().await;
        let mut next = TurnInput { resume: first.resume.clone(), ..input };
        change(&mut next);
        // The script knows no other session, so this turn fails in a process of its own.
        agent.start(next).result().await;
        assert!(!runs(process(&first)), "one session has one writer");
    }
}

#[tokio::test]
async fn a_program_without_a_turn_ends_in_time() {
    let (test, thread) = (TestHost::new(), thread());
    let agent = script(&test, TWO_TURNS);
    let input = remembering(&test, &thread, "one", Duration::from_millis(50));
    let first = agent.start(input).result().await;
    let process = process(&first);
    until("the program still runs", || !runs(process)).await;
    let handle = first.resume.unwrap();
    until("the program is still held", || !agent.holds(&thread, &handle)).await;
}
