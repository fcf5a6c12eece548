//! The end of a turn: no process that a child started keeps running.

use std::time::Duration;

use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{TestHost, WITH_TOOLS, codes, reason, runs, until};

#[tokio::test]
async fn a_child_that_closes_its_output_and_goes_on_is_ended() {
    let test = TestHost::new();
    let script = "echo $$ >>pids; echo so long; exec >&- 2>&-; sleep 1000";
    let outcome = test.run(script, "").await;
    assert_eq!(reason(&outcome), Some(FailureReason::Incomplete));
    assert!(!runs(test.pids()[0]));
}

#[tokio::test]
async fn what_a_child_detaches_ends_with_the_turn() {
    let test = TestHost::new();
    let script = "(setsid sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &) ; \
                  while [ ! -s pids ]; do sleep .01; done; echo done";
    let outcome = test.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
    assert_eq!(codes(&outcome), ["agent.processes-left"]);
    assert!(!runs(test.pids()[0]));
}

#[tokio::test]
async fn a_detached_child_that_holds_the_output_open_does_not_hold_the_turn() {
    let test = TestHost::new();
    let outcome = test.run("setsid sleep 1000 & echo done", "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
}

#[tokio::test]
async fn a_daemon_that_hides_well_ends_with_the_turn() {
    let test = TestHost::new();
    // Forked twice, in its own session, without Convoke's environment, output or directory.
    let hidden =
        r#"echo $$ >>"$1"; (trap '' HUP INT TERM; sleep 1000 & echo $! >>"$1"; wait) & wait"#;
    std::fs::write(test.path().join("hidden"), hidden).unwrap();
    let script = r#"
        dir=$PWD
        (cd /; setsid env -i /bin/sh "$dir/hidden" "$dir/pids" <&- >/dev/null 2>&1 &)
        while [ "$(grep -c . pids 2>/dev/null)" != 2 ]; do sleep .01; done
        echo done"#;
    let outcome = test.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
    assert_eq!(codes(&outcome), ["agent.processes-left"]);
    assert_eq!(test.pids().into_iter().filter(|&pid| runs(pid)).count(), 0);
}

/// A signal without a known name ends a tool, and then the agent itself.
#[tokio::test]
async fn an_end_by_a_nameless_signal_is_no_end_of_our_watch() {
    let test = TestHost::new();
    let script =
        "(sleep 1000 & kill -40 $!; wait $!); echo on; (setsid sh -c 'kill -40 $$' &) ; echo done";
    let outcome = test.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "on\ndone"));
    let outcome = test.run("echo half; kill -40 $$", "").await;
    assert_eq!(outcome.reply, "half");
    assert_eq!(reason(&outcome), Some(FailureReason::Incomplete), "{outcome:?}");
}

#[tokio::test]
async fn a_cancelled_turn_leaves_nothing_of_its_tools() {
    let test = TestHost::new();
    let turn = test.agent(WITH_TOOLS).start(test.turn_input(""));
    let pids = test.has_pids(3).await;
    turn.canceller().cancel();
    assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    assert_eq!(pids.iter().filter(|&&pid| runs(pid)).count(), 0);
}

#[tokio::test]
async fn a_child_that_ignores_every_signal_is_killed() {
    let test = TestHost::new();
    let script = format!("trap '' INT TERM HUP; {WITH_TOOLS}");
    let turn = test.agent(&script).start(test.turn_input(""));
    let pids = test.has_pids(3).await;
    turn.canceller().cancel();
    assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    assert_eq!(pids.iter().filter(|&&pid| runs(pid)).count(), 0);
}

#[tokio::test]
async fn a_turn_that_is_dropped_ends_its_child() {
    let test = TestHost::new();
    let turn = test.agent(WITH_TOOLS).start(test.turn_input(""));
    let pids = test.has_pids(3).await;
    drop(turn);
    until("the child went on", || !pids.iter().any(|&pid| runs(pid))).await;
}

#[tokio::test]
async fn two_hundred_cancelled_turns_leave_no_process() {
    let mut turns = tokio::task::JoinSet::new();
    for round in 0..200_u64 {
        if turns.len() >= 4 {
            turns.join_next().await.unwrap().unwrap();
        }
        turns.spawn(async move {
            let test = TestHost::new();
            // Every second one has to be killed.
            let script = match round % 2 {
                0 => WITH_TOOLS.to_owned(),
                _ => format!("trap '' INT; {WITH_TOOLS}"),
            };
            let mut turn_input = test.turn_input("hello");
            turn_input.limits.grace = Duration::from_millis(20);
            let turn = test.agent(&script).start(turn_input);
            // From the start of a turn to the middle of its tool call.
            let count = usize::try_from(round / 2 % 4).unwrap();
            test.has_pids(count).await;
            turn.canceller().cancel();
            let verdict = turn.result().await.verdict;
            let is_early = count == 0 && verdict == Verdict::Withdrawn;
            assert!(verdict == Verdict::Cancelled || is_early, "{verdict:?}");
            let left: Vec<i32> = test.pids().into_iter().filter(|&pid| runs(pid)).collect();
            assert!(left.is_empty(), "round {round} left {left:?}");
        });
    }
    while let Some(done) = turns.join_next().await {
        done.unwrap();
    }
}
