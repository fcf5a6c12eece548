//! Convoke, a guardian or a keeper is killed.

use std::process::Command;

use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{HOST, TestHost, WITH_TOOLS, reason, runs, until};

#[tokio::test]
async fn when_convoke_is_killed_its_agents_and_their_tools_end() {
    for _ in 0..20 {
        let test = TestHost::new();
        let mut convoke = Command::new(HOST)
            .args(["plain", ""])
            .arg(test.path())
            .args(["/bin/sh", "-c", WITH_TOOLS])
            .spawn()
            .unwrap();
        let pids = test.has_pids(3).await;
        convoke.kill().unwrap();
        convoke.wait().unwrap();
        until("an agent outlived Convoke", || !pids.iter().any(|&pid| runs(pid))).await;
        // The guardian removes the turn's directory, because Convoke cannot.
        let is_private = |name: &str| name.starts_with("convoke-");
        until("a private directory is left", || {
            let mut entries = std::fs::read_dir(test.path()).unwrap().flatten();
            !entries.any(|entry| is_private(&entry.file_name().to_string_lossy()))
        })
        .await;
    }
}

#[tokio::test]
async fn when_convoke_and_a_guardian_are_killed_together_nothing_is_left() {
    // Tool shells leave the session and lose their parent, and one also its environment.
    let script = "echo $$ >>pids; (setsid sh -c 'sleep 1000 & echo $! >>pids; echo $$ >>pids; wait' &); \
                  (setsid env -i sh -c 'echo $$ >>pids; exec /bin/sleep 1000' &); \
                  while :; do sleep 1; done";
    for round in 0..30 {
        let test = TestHost::new();
        let mut convoke = Command::new(HOST)
            .args(["plain", ""])
            .arg(test.path())
            .args(["/bin/sh", "-c", script])
            .spawn()
            .unwrap();
        let pids = test.has_pids(4).await;
        let keeper = parent(pids[0]);
        let guardian = parent(keeper);
        let convoke_id = i32::try_from(convoke.id()).unwrap();
        assert_eq!(parent(guardian), convoke_id);
        // Either of the two processes between Convoke and the agent is enough.
        let killed = if round % 2 == 0 { guardian } else { keeper };
        let ids = [convoke_id, killed].map(|id| id.to_string());
        assert!(Command::new("kill").arg("-9").args(ids).status().unwrap().success());
        convoke.wait().unwrap();
        until("a tool outlived Convoke and its guardian", || !pids.iter().any(|&pid| runs(pid)))
            .await;
        until("a private directory is left", || {
            let mut entries = std::fs::read_dir(test.path()).unwrap().flatten();
            !entries.any(|entry| entry.file_name().to_string_lossy().starts_with("convoke-"))
        })
        .await;
        until("a process of ours is left", || ![guardian, keeper].iter().any(|&pid| runs(pid)))
            .await;
    }
}

#[tokio::test]
async fn when_a_guardian_is_killed_the_agent_and_its_tools_end_too() {
    let test = TestHost::new();
    let turn = test.agent(WITH_TOOLS).start(test.turn_input(""));
    let pids = test.has_pids(3).await;
    let guardian = parent(parent(pids[0])).to_string();
    assert!(Command::new("kill").args(["-9", &guardian]).status().unwrap().success());
    assert_eq!(reason(&turn.result().await), Some(FailureReason::Incomplete));
    until("an agent outlived its guardian", || !pids.iter().any(|&pid| runs(pid))).await;
}

#[tokio::test]
async fn when_a_keeper_is_killed_the_turn_ends() {
    let test = TestHost::new();
    let turn = test.agent(WITH_TOOLS).start(test.turn_input(""));
    let pids = test.has_pids(3).await;
    let keeper = parent(pids[0]).to_string();
    assert!(Command::new("kill").args(["-9", &keeper]).status().unwrap().success());
    assert_ne!(turn.result().await.verdict, Verdict::Done);
    assert!(!pids.iter().any(|&pid| runs(pid)));
}

/// Returns the parent of a process.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}
