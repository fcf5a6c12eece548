//! Input and output: whatever a child reads and writes, the turn continues and all output is read.

use std::time::Duration;

use convoke_agent::Agent as _;
use convoke_agent::adapter::{Host, Script, StandIn, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_protocol::verdict::Verdict;

use crate::test_host::{HOST, TestHost, codes};

#[tokio::test]
async fn a_prompt_arrives_byte_for_byte_and_the_reply_comes_back() {
    let test = TestHost::new();
    let mut prompt = "/compact @/etc/hostname !ls 你好 👋 -x\r\n\t\u{0}".repeat(20_000);
    prompt.truncate(prompt.floor_char_boundary(768 << 10));
    let outcome = test.run("cat >got; printf done", &prompt).await;
    assert_eq!(outcome.verdict, Verdict::Done);
    assert_eq!(outcome.reply, "done");
    assert!(std::fs::read(test.path().join("got")).unwrap() == prompt.as_bytes());
}

#[tokio::test]
async fn a_child_that_writes_before_it_has_read_does_not_block() {
    let test = TestHost::new();
    let prompt = "x".repeat(700 << 10);
    let script = "head -c 3000000 /dev/zero | tr '\\0' '\\n'; cat >/dev/null; echo end";
    assert_eq!(test.run(script, &prompt).await.verdict, Verdict::Done);
}

#[tokio::test]
async fn a_child_that_never_reads_does_not_block() {
    let test = TestHost::new();
    let prompt = "x".repeat(700 << 10);
    let outcome = test.run("echo I do not listen", &prompt).await;
    assert_eq!(outcome.reply, "I do not listen");
}

#[tokio::test]
async fn a_line_without_end_is_shortened_and_the_rest_is_read() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input("");
    turn_input.limits.line_bytes = 1000;
    let script = "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end";
    let outcome = test.agent(script).start(turn_input).result().await;
    assert_eq!(outcome.reply, format!("{}\nend", "x".repeat(1000)));
    assert_eq!(codes(&outcome), ["agent.reply-truncated", "agent.line-too-long"]);
    assert_eq!(outcome.diagnostics[0].bytes, Some(5_000_000 - 1000));
}

#[tokio::test]
async fn half_a_character_is_replaced_and_a_split_one_rejoined() {
    let test = TestHost::new();
    let outcome = test.run("printf '\\344'; sleep .05; printf '\\275\\240'", "").await;
    assert_eq!((outcome.reply.as_str(), codes(&outcome).len()), ("你", 0));
    let outcome = test.run("printf 'a\\344\\275'", "").await;
    assert_eq!(outcome.reply, "a\u{fffd}");
    assert_eq!(codes(&outcome), ["agent.output-damaged"]);
}

#[tokio::test]
async fn a_child_that_has_ended_before_anybody_looks_is_heard() {
    for _ in 0..10 {
        let test = TestHost::new();
        let turn = test.agent("echo $$ >>pids; echo quick").start(test.turn_input(""));
        test.has_pids(1).await;
        // On a single thread, no other task runs meanwhile.
        std::thread::sleep(Duration::from_millis(50));
        let outcome = turn.result().await;
        assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "quick"));
    }
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_seen_whole_every_time() {
    let test = TestHost::new();
    for round in 0..50 {
        let outcome = test.run("printf quick; exit 0", "not read").await;
        assert_eq!(
            (outcome.verdict.as_str(), outcome.reply.as_str()),
            ("done", "quick"),
            "{round}"
        );
        let outcome = test.run("exit 7", "not read").await;
        assert!(outcome.verdict.to_string().contains("exit code 7"), "{round}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_failing_command_fails_with_its_last_words() {
    let test = TestHost::new();
    let outcome = test.run("echo the disk is full >&2; exit 3", "").await;
    let Verdict::Failed(failure) = &outcome.verdict else { panic!("it failed") };
    assert_eq!(failure.message, "ended with exit code 3: the disk is full");
}

#[tokio::test]
async fn secrets_of_the_environment_are_not_in_error_messages() {
    let test = TestHost::new();
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".into(), "echo key $MY_TOKEN refused >&2; exit 1".into()],
        env: [("MY_TOKEN".to_owned(), "correct-horse".to_owned())].into(),
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::from_program(HOST),
        env: std::env::vars_os().collect(),
        temp_root: test.path().to_owned(),
        state_dir: test.path().to_owned(),
        sandbox: SandboxSettings::default(),
        programs: convoke_vendors::programs(),
    };
    let outcome = agent(definition, host).start(test.turn_input("")).result().await;
    let text = format!("{outcome:?}");
    assert!(text.contains("key [redacted] refused"), "{text}");
    assert!(!text.contains("correct-horse"));
}

#[tokio::test]
async fn an_agent_that_ends_without_text_is_reported() {
    let test = TestHost::new();
    let silent = test.run("cat >/dev/null; echo ' '", "hello").await;
    assert_eq!(
        (silent.verdict.clone(), codes(&silent)),
        (Verdict::Done, vec!["agent.reply-empty"])
    );
    let stand_in = StandIn::new(Script { turns: vec![Vec::new()] });
    let silent = stand_in.start(test.turn_input("hello")).result().await;
    assert_eq!(
        (silent.verdict.clone(), codes(&silent)),
        (Verdict::Done, vec!["agent.reply-empty"])
    );
}
