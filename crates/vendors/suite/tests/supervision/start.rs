//! The start of a program, and what it inherits.

use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{HOST, TestHost, reason};

#[tokio::test]
async fn a_temporary_directory_may_lie_deeper_than_a_socket_can() {
    let test = TestHost::new();
    let deep = test.path().join("deep".repeat(50));
    std::fs::create_dir(&deep).unwrap();
    let host = Host { temp_root: deep, ..test.host() };
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), "echo here".to_owned()],
        ..Definition::built_in(AgentKind::Plain)
    };
    let outcome = agent(definition, host).start(test.turn_input("")).result().await;
    assert_eq!((outcome.reply.as_str(), outcome.verdict), ("here", Verdict::Done));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let test = TestHost::new();
    let definition = Definition {
        command: Some("no-such-agent".to_owned()),
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::from_program(HOST),
        env: Vec::new(),
        temp_root: test.path().to_owned(),
        state_dir: test.path().to_owned(),
        sandbox: SandboxSettings::default(),
        programs: convoke_vendors::programs(),
    };
    let outcome = agent(definition, host).start(test.turn_input("")).result().await;
    assert_eq!(reason(&outcome), Some(FailureReason::Start));
    assert!(outcome.verdict.to_string().contains("no-such-agent"));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_no_turn_that_failed() {
    let test = TestHost::new();
    let program = test.path().join("agent");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    let definition = Definition {
        command: Some(program.display().to_string()),
        ..Definition::built_in(AgentKind::Plain)
    };
    let outcome = agent(definition, test.host()).start(test.turn_input("")).result().await;
    assert_eq!(reason(&outcome), Some(FailureReason::Start), "{outcome:?}");
    assert!(outcome.verdict.to_string().contains(&program.display().to_string()));
}

/// Signal handling is inherited: a parent that ignores SIGCHLD must not keep Convoke from noticing the end of
/// its children.
#[tokio::test]
async fn an_agent_is_seen_to_end_also_where_the_ends_of_children_are_ignored() {
    let test = TestHost::new();
    for (script, done) in [("cat >/dev/null; echo yes", true), ("exit 3", false)] {
        let status = Command::new("env")
            .args(["--ignore-signal=CHLD", "--ignore-signal=PIPE", HOST, "plain", ""])
            .arg(test.path())
            .args(["/bin/sh", "-c", script])
            .status()
            .unwrap();
        assert_eq!(status.success(), done, "{script}");
    }
}

#[tokio::test]
async fn an_agent_gets_a_broken_pipe_as_a_signal_as_everywhere() {
    let test = TestHost::new();
    let outcome = test.run("(yes; echo $? >ended) | head -n 1", "").await;
    assert_eq!(outcome.reply, "y");
    // 128 plus the number of the signal; otherwise `yes` would report an error.
    let ended = std::fs::read_to_string(test.path().join("ended")).unwrap_or_default();
    assert_eq!(ended.trim(), "141");
}

/// A slow disk must not hold up the other turns of a runtime. Here the only thread for work that waits for the disk is
/// taken, so that a preparation which goes on would run on the runtime's own.
#[test]
fn while_a_turn_is_prepared_the_runtime_does_other_work() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
    let test = TestHost::new();
    let outcome = runtime.block_on(async {
        let (release, released) = sync_channel(1);
        let taken = tokio::task::spawn_blocking(move || released.recv());
        let turn = test.agent("touch started; echo here").start(test.turn_input(""));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!test.path().join("started").exists());
        release.send(()).unwrap();
        taken.await.unwrap().unwrap();
        turn.result().await
    });
    assert_eq!((outcome.reply.as_str(), outcome.verdict), ("here", Verdict::Done));
}
