//! Convoke, a guardian or a keeper is killed.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{HOST, TestHost, WITH_TOOLS, reason, runs, until};

#[tokio::test]
async fn when_convoke_is_killed_its_agents_and_their_tools_end() {
    for _ in 0..20 {
        let test = TestHost::new();
        let mut convoke = host()
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
        until("a private directory is left", || private_dirs(&test).is_empty()).await;
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
        let mut convoke = host()
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
        // Between the two signals, the guardian may notice the first, and end itself and its keeper.
        let ids = [convoke_id, killed].map(|id| id.to_string());
        Command::new("kill").arg("-9").args(ids).output().unwrap();
        convoke.wait().unwrap();
        until("a tool outlived Convoke and its guardian", || !pids.iter().any(|&pid| runs(pid)))
            .await;
        until("a private directory is left", || private_dirs(&test).is_empty()).await;
        until("a process of ours is left", || ![guardian, keeper].iter().any(|&pid| runs(pid)))
            .await;
    }
}

/// A loaded machine ends a killed process late. Until then, it accepts reports that it does not read.
#[tokio::test]
async fn when_a_keeper_is_killed_and_convoke_ends_much_later_nothing_is_left() {
    let test = TestHost::new();
    let (mut convoke, pids) = convoke_with_tools(&test).await;
    let (keeper, convoke_id) = (parent(pids[0]), i32::try_from(convoke.id()).unwrap());
    signal("-STOP", convoke_id);
    signal("-KILL", keeper);
    until("an agent outlived its keeper", || !pids.iter().any(|&pid| runs(pid))).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    convoke.kill().unwrap();
    convoke.wait().unwrap();
    until("a private directory is left", || private_dirs(&test).is_empty()).await;
}

#[tokio::test]
async fn when_a_guardian_is_killed_after_its_keeper_has_ended_nothing_is_left() {
    let test = TestHost::new();
    let (mut convoke, pids) = convoke_with_tools(&test).await;
    let keeper = parent(pids[0]);
    let guardian = parent(keeper);
    // So many files that they are not removed in an instant.
    for dir in private_dirs(&test) {
        (0..30_000).for_each(|n| std::fs::write(dir.join(n.to_string()), "").unwrap());
    }
    convoke.kill().unwrap();
    convoke.wait().unwrap();
    until("the keeper did not end", || !runs(keeper)).await;
    // It may have ended as well.
    let _ = Command::new("kill").args(["-KILL", &guardian.to_string()]).output().unwrap();
    until("the guardian did not end", || !runs(guardian)).await;
    assert_eq!(private_dirs(&test), Vec::<PathBuf>::new());
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

/// A keeper starts an agent, and then reports its process id.
#[tokio::test]
async fn when_a_keeper_ends_before_it_has_reported_its_agent_nothing_is_left() {
    let test = TestHost::new();
    let mut convoke = host()
        .args(["plain", ""])
        .arg(test.path())
        .args(["/bin/sh", "-c", "true"])
        .env("CONVOKE_TEST_KEEPER_ENDS", "1")
        .spawn()
        .unwrap();
    assert!(!convoke.wait().unwrap().success());
    let pids = test.has_pids(1).await;
    assert!(!pids.iter().any(|&pid| runs(pid)), "a tool outlived its keeper");
    assert_eq!(private_dirs(&test), Vec::<PathBuf>::new());
}

/// Returns a Convoke whose temporary root is the directory of its turn.
fn host() -> Command {
    let mut host = Command::new(HOST);
    host.env_remove("TMPDIR");
    host
}

/// Starts Convoke with an agent and its tools, and returns the ids of those.
async fn convoke_with_tools(test: &TestHost) -> (Child, Vec<i32>) {
    let convoke = host()
        .args(["plain", ""])
        .arg(test.path())
        .args(["/bin/sh", "-c", WITH_TOOLS])
        .spawn()
        .unwrap();
    (convoke, test.has_pids(3).await)
}

/// Returns the private directories of a Convoke whose temporary root is the test's directory.
fn private_dirs(test: &TestHost) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(test.path()).unwrap().flatten();
    let is_private = |name: &str| name.starts_with("convoke-");
    let private = entries.filter(|entry| is_private(&entry.file_name().to_string_lossy()));
    private.map(|entry| entry.path()).collect()
}

fn signal(name: &str, pid: i32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Returns the parent of a process.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}
