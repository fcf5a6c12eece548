//! Children that do not behave: whatever they do, the turn ends, within its bounds, and nothing of them
//! is left.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Host, Script, StandIn, Step, agent};
use convoke_agent::config::{Definition, Kind, Protocol};
use convoke_agent::event::EventKind;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::{Limits, TurnInput};
use convoke_agent::verdict::{Failure, Reason};
use convoke_agent::{Agent, TurnResult, Verdict};
use tempfile::TempDir;

const HOST: &str = env!("CARGO_BIN_EXE_convoke-test-host");

/// A directory, and an agent that is a shell script which runs in it.
struct Stage {
    dir: TempDir,
}

impl Stage {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn agent(&self, script: &str) -> Box<dyn Agent> {
        let definition = Definition {
            command: Some("/bin/sh".to_owned()),
            args: vec!["-c".to_owned(), script.to_owned()],
            ..Definition::built_in(Kind::Plain)
        };
        agent(definition, self.host())
    }

    fn host(&self) -> Host {
        Host {
            guardian: Guardian::from_program(HOST),
            env: std::env::vars_os().collect(),
            temp_root: self.path().to_owned(),
            state_dir: self.path().to_owned(),
        }
    }

    fn turn_input(&self, prompt: &str) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, self.path());
        turn_input.limits = Limits {
            turn: Duration::from_mins(5),
            grace: Duration::from_millis(200),
            ..Limits::default()
        };
        turn_input
    }

    async fn run(&self, script: &str, prompt: &str) -> TurnResult {
        self.agent(script).start(self.turn_input(prompt)).result().await
    }

    /// Returns the processes whose ids the script has written to `pids`.
    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Waits until the script has written that many ids.
    async fn has_pids(&self, count: usize) -> Vec<i32> {
        until("the child never came up", || self.pids().len() >= count).await;
        self.pids()
    }
}

/// Waits until something holds.
async fn until(otherwise: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < patience, "{otherwise}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns whether a process runs; one that is dead and not yet reaped does not.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn codes(outcome: &TurnResult) -> Vec<&'static str> {
    let codes = outcome.diagnostics.iter();
    codes.map(|diagnostic| diagnostic.code.name()).collect()
}

fn reason(outcome: &TurnResult) -> Option<Reason> {
    match &outcome.verdict {
        Verdict::Failed(Failure { reason, .. }) => Some(*reason),
        _ => None,
    }
}

/// A script that starts a tool shell in a session of its own, as the CLIs do, and goes on itself.
const WITH_TOOLS: &str =
    "echo $$ >>pids; setsid sh -c 'echo $$ >>pids; sleep 1000 & echo $! >>pids; wait' & wait";

#[tokio::test]
async fn a_prompt_arrives_byte_for_byte_and_the_reply_comes_back() {
    let stage = Stage::new();
    let mut prompt = "/compact @/etc/hostname !ls 你好 👋 -x\r\n\t\u{0}".repeat(20_000);
    prompt.truncate(prompt.floor_char_boundary(768 << 10));
    let outcome = stage.run("cat >got; printf done", &prompt).await;
    assert_eq!(outcome.verdict, Verdict::Done);
    assert_eq!(outcome.reply, "done");
    assert!(std::fs::read(stage.path().join("got")).unwrap() == prompt.as_bytes());
}

#[tokio::test]
async fn a_child_that_writes_before_it_has_read_does_not_block() {
    let stage = Stage::new();
    let prompt = "x".repeat(700 << 10);
    let script = "head -c 3000000 /dev/zero | tr '\\0' '\\n'; cat >/dev/null; echo end";
    assert_eq!(stage.run(script, &prompt).await.verdict, Verdict::Done);
}

#[tokio::test]
async fn a_child_that_never_reads_does_not_block() {
    let stage = Stage::new();
    let prompt = "x".repeat(700 << 10);
    let outcome = stage.run("echo I do not listen", &prompt).await;
    assert_eq!(outcome.reply, "I do not listen");
}

#[tokio::test]
async fn a_flood_is_ended_at_its_limit() {
    let stage = Stage::new();
    for script in ["yes", "yes >&2", "tr '\\0' x </dev/zero"] {
        let mut turn_input = stage.turn_input("");
        turn_input.limits.output_bytes = 2 << 20;
        turn_input.limits.line_bytes = 1 << 20;
        turn_input.limits.reply_bytes = 100;
        let outcome = stage.agent(script).start(turn_input).result().await;
        assert_eq!(reason(&outcome), Some(Reason::Flood), "{script}");
        assert!(outcome.reply.len() <= 100);
    }
}

#[tokio::test]
async fn a_line_without_end_is_shortened_and_the_rest_is_read() {
    let stage = Stage::new();
    let mut turn_input = stage.turn_input("");
    turn_input.limits.line_bytes = 1000;
    let script = "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end";
    let outcome = stage.agent(script).start(turn_input).result().await;
    assert_eq!(outcome.reply, format!("{}\nend", "x".repeat(1000)));
    assert_eq!(codes(&outcome), ["agent.reply-truncated", "agent.line-too-long"]);
    assert_eq!(outcome.diagnostics[0].bytes, Some(5_000_000 - 1000));
}

#[tokio::test]
async fn half_a_character_is_replaced_and_a_split_one_rejoined() {
    let stage = Stage::new();
    let outcome = stage.run("printf '\\344'; sleep .05; printf '\\275\\240'", "").await;
    assert_eq!((outcome.reply.as_str(), codes(&outcome).len()), ("你", 0));
    let outcome = stage.run("printf 'a\\344\\275'", "").await;
    assert_eq!(outcome.reply, "a\u{fffd}");
    assert_eq!(codes(&outcome), ["agent.output-damaged"]);
}

#[tokio::test]
async fn a_child_that_never_ends_runs_out_of_time() {
    let stage = Stage::new();
    let mut turn_input = stage.turn_input("");
    turn_input.limits.turn = Duration::from_hours(1);
    turn_input.limits.silence = Duration::from_hours(2);
    let script = "trap '' INT TERM HUP; echo $$ >>pids; echo half; while :; do sleep 1; done";
    let mut turn = stage.agent(script).start(turn_input);
    while !matches!(turn.next().await.unwrap().kind, EventKind::Text { .. }) {}
    // An hour later.
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(1)).await;
    tokio::time::resume();
    let outcome = turn.result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
    assert_eq!(outcome.reply, "half");
    assert!(!runs(stage.pids()[0]));
}

#[tokio::test]
async fn an_agent_that_tries_again_too_often_is_stopped() {
    let stage = Stage::new();
    // The shell takes codex's first argument for the name of its script.
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
        an_agent_is_stopped(&stage, &script).await;
    }
}

async fn an_agent_is_stopped(stage: &Stage, script: &str) {
    std::fs::write(stage.path().join("exec"), script).unwrap();
    std::fs::write(stage.path().join("attempts"), "").unwrap();
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        protocol: Protocol::Exec,
        ..Definition::built_in(Kind::Codex)
    };
    let mut turn_input = stage.turn_input("hello\n");
    turn_input.limits.retries = 2;
    let outcome = agent(definition, stage.host()).start(turn_input).result().await;
    assert_eq!(reason(&outcome), Some(Reason::Server), "{outcome:?}");
    assert!(outcome.verdict.to_string().contains("retry limit"), "{outcome:?}");
    let attempts = std::fs::read_to_string(stage.path().join("attempts")).unwrap_or_default();
    assert!(attempts.lines().count() <= 3, "{attempts}");
}

#[tokio::test]
async fn a_child_that_falls_silent_runs_out_of_time() {
    let stage = Stage::new();
    let mut turn_input = stage.turn_input("");
    turn_input.limits.silence = Duration::from_millis(300);
    let outcome = stage.agent("echo one; sleep 1000").start(turn_input).result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
}

#[tokio::test]
async fn a_child_that_closes_its_output_and_goes_on_is_ended() {
    let stage = Stage::new();
    let script = "echo $$ >>pids; echo so long; exec >&- 2>&-; sleep 1000";
    let outcome = stage.run(script, "").await;
    assert_eq!(reason(&outcome), Some(Reason::Incomplete));
    assert!(!runs(stage.pids()[0]));
}

#[tokio::test]
async fn what_a_child_detaches_ends_with_the_turn() {
    let stage = Stage::new();
    let script = "(setsid sh -c 'echo $$ >>pids; exec sleep 1000' >/dev/null 2>&1 &) ; \
                  while [ ! -s pids ]; do sleep .01; done; echo done";
    let outcome = stage.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
    assert_eq!(codes(&outcome), ["agent.processes-left"]);
    assert!(!runs(stage.pids()[0]));
}

#[tokio::test]
async fn a_detached_child_that_holds_the_output_open_does_not_hold_the_turn() {
    let stage = Stage::new();
    let outcome = stage.run("setsid sleep 1000 & echo done", "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
}

#[tokio::test]
async fn a_temporary_directory_may_lie_deeper_than_a_socket_can() {
    let stage = Stage::new();
    let deep = stage.path().join("deep".repeat(50));
    std::fs::create_dir(&deep).unwrap();
    let host = Host { temp_root: deep, ..stage.host() };
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), "echo here".to_owned()],
        ..Definition::built_in(Kind::Plain)
    };
    let outcome = agent(definition, host).start(stage.turn_input("")).result().await;
    assert_eq!((outcome.reply.as_str(), outcome.verdict), ("here", Verdict::Done));
}

#[tokio::test]
async fn a_child_that_has_ended_before_anybody_looks_is_heard() {
    for _ in 0..10 {
        let stage = Stage::new();
        let turn = stage.agent("echo $$ >>pids; echo quick").start(stage.turn_input(""));
        tokio::task::yield_now().await;
        // On one thread nobody else comes to look meanwhile.
        while stage.pids().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        let outcome = turn.result().await;
        assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "quick"));
    }
}

#[tokio::test]
async fn a_failing_command_fails_with_its_last_words() {
    let stage = Stage::new();
    let outcome = stage.run("echo the disk is full >&2; exit 3", "").await;
    let Verdict::Failed(failure) = &outcome.verdict else { panic!("it failed") };
    assert_eq!(failure.message, "ended with exit code 3: the disk is full");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let stage = Stage::new();
    let definition = Definition {
        command: Some("no-such-agent".to_owned()),
        ..Definition::built_in(Kind::Plain)
    };
    let host = Host {
        guardian: Guardian::from_program(HOST),
        env: Vec::new(),
        temp_root: stage.path().to_owned(),
        state_dir: stage.path().to_owned(),
    };
    let outcome = agent(definition, host).start(stage.turn_input("")).result().await;
    assert_eq!(reason(&outcome), Some(Reason::Start));
    assert!(outcome.verdict.to_string().contains("no-such-agent"));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_no_turn_that_failed() {
    let stage = Stage::new();
    let program = stage.path().join("agent");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    let definition = Definition {
        command: Some(program.display().to_string()),
        ..Definition::built_in(Kind::Plain)
    };
    let outcome = agent(definition, stage.host()).start(stage.turn_input("")).result().await;
    assert_eq!(reason(&outcome), Some(Reason::Start), "{outcome:?}");
    assert!(outcome.verdict.to_string().contains(&program.display().to_string()));
}

#[tokio::test]
async fn a_turn_with_no_time_ends_at_once_and_one_without_end_does_not_panic() {
    let stage = Stage::new();
    let mut turn_input = stage.turn_input("x");
    turn_input.limits.turn = Duration::ZERO;
    turn_input.limits.grace = Duration::ZERO;
    let outcome = stage.agent("echo $$ >>pids; sleep 1000").start(turn_input).result().await;
    assert_eq!(outcome.verdict, Verdict::TimedOut);
    assert!(!stage.pids().into_iter().any(runs));
    let mut turn_input = stage.turn_input("x");
    turn_input.limits.turn = Duration::MAX;
    turn_input.limits.silence = Duration::MAX;
    turn_input.limits.grace = Duration::MAX;
    let outcome = stage.agent("cat").start(turn_input).result().await;
    assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "x"));
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_seen_whole_every_time() {
    let stage = Stage::new();
    for round in 0..50 {
        let outcome = stage.run("printf quick; exit 0", "not read").await;
        assert_eq!(
            (outcome.verdict.as_str(), outcome.reply.as_str()),
            ("done", "quick"),
            "{round}"
        );
        let outcome = stage.run("exit 7", "not read").await;
        assert!(outcome.verdict.to_string().contains("exit code 7"), "{round}: {outcome:?}");
    }
}

#[tokio::test]
async fn output_over_its_limit_ends_a_turn_that_is_still_being_fed() {
    let stage = Stage::new();
    let mut turn_input = stage.turn_input(&"x".repeat(8 << 20));
    turn_input.limits.output_bytes = 1 << 20;
    let outcome = stage.agent("echo $$ >>pids; yes").start(turn_input).result().await;
    assert_eq!(reason(&outcome), Some(Reason::Flood));
    assert!(!stage.pids().into_iter().any(runs));
}

/// The parent's way with signals is inherited: one that ignores the ends of its children must not keep
/// us from seeing ours.
#[tokio::test]
async fn an_agent_is_seen_to_end_also_where_the_ends_of_children_are_ignored() {
    let stage = Stage::new();
    for (script, done) in [("cat >/dev/null; echo yes", true), ("exit 3", false)] {
        let status = Command::new("env")
            .args(["--ignore-signal=CHLD", "--ignore-signal=PIPE", HOST, "plain", ""])
            .arg(stage.path())
            .args(["/bin/sh", "-c", script])
            .status()
            .unwrap();
        assert_eq!(status.success(), done, "{script}");
    }
}

#[tokio::test]
async fn an_agent_gets_a_broken_pipe_as_a_signal_as_everywhere() {
    let stage = Stage::new();
    let outcome = stage.run("(yes; echo $? >ended) | head -n 1", "").await;
    assert_eq!(outcome.reply, "y");
    // 128 and the number of the signal; `yes` would complain of an error instead.
    let ended = std::fs::read_to_string(stage.path().join("ended")).unwrap_or_default();
    assert_eq!(ended.trim(), "141");
}

#[tokio::test]
async fn a_daemon_that_hides_well_ends_with_the_turn() {
    let stage = Stage::new();
    // Forked twice, in a session of its own, without our environment, its output or its directory.
    let hidden =
        r#"echo $$ >>"$1"; (trap '' HUP INT TERM; sleep 1000 & echo $! >>"$1"; wait) & wait"#;
    std::fs::write(stage.path().join("hidden"), hidden).unwrap();
    let script = r#"
        dir=$PWD
        (cd /; setsid env -i /bin/sh "$dir/hidden" "$dir/pids" <&- >/dev/null 2>&1 &)
        while [ "$(grep -c . pids 2>/dev/null)" != 2 ]; do sleep .01; done
        echo done"#;
    let outcome = stage.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "done"));
    assert_eq!(codes(&outcome), ["agent.processes-left"]);
    assert_eq!(stage.pids().into_iter().filter(|&pid| runs(pid)).count(), 0);
}

/// A signal without a name in our tables ends a tool, and then the agent itself.
#[tokio::test]
async fn an_end_by_a_nameless_signal_is_no_end_of_our_watch() {
    let stage = Stage::new();
    let script =
        "(sleep 1000 & kill -40 $!; wait $!); echo on; (setsid sh -c 'kill -40 $$' &) ; echo done";
    let outcome = stage.run(script, "").await;
    assert_eq!((outcome.verdict.as_str(), outcome.reply.as_str()), ("done", "on\ndone"));
    let outcome = stage.run("echo half; kill -40 $$", "").await;
    assert_eq!(outcome.reply, "half");
    assert_eq!(reason(&outcome), Some(Reason::Incomplete), "{outcome:?}");
}

#[tokio::test]
async fn secrets_of_the_environment_are_not_in_error_messages() {
    let stage = Stage::new();
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".into(), "echo key $MY_TOKEN refused >&2; exit 1".into()],
        env: [("MY_TOKEN".to_owned(), "correct-horse".to_owned())].into(),
        ..Definition::built_in(Kind::Plain)
    };
    let host = Host {
        guardian: Guardian::from_program(HOST),
        env: std::env::vars_os().collect(),
        temp_root: stage.path().to_owned(),
        state_dir: stage.path().to_owned(),
    };
    let outcome = agent(definition, host).start(stage.turn_input("")).result().await;
    let text = format!("{outcome:?}");
    assert!(text.contains("key [redacted] refused"), "{text}");
    assert!(!text.contains("correct-horse"));
}

#[tokio::test]
async fn a_cancelled_turn_leaves_nothing_of_its_tools() {
    let stage = Stage::new();
    let turn = stage.agent(WITH_TOOLS).start(stage.turn_input(""));
    let pids = stage.has_pids(3).await;
    turn.canceller().cancel();
    assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    assert_eq!(pids.iter().filter(|&&pid| runs(pid)).count(), 0);
}

#[tokio::test]
async fn a_child_that_ignores_every_signal_is_killed() {
    let stage = Stage::new();
    let script = format!("trap '' INT TERM HUP; {WITH_TOOLS}");
    let turn = stage.agent(&script).start(stage.turn_input(""));
    let pids = stage.has_pids(3).await;
    turn.canceller().cancel();
    assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    assert_eq!(pids.iter().filter(|&&pid| runs(pid)).count(), 0);
}

#[tokio::test]
async fn a_turn_that_is_dropped_ends_its_child() {
    let stage = Stage::new();
    let turn = stage.agent(WITH_TOOLS).start(stage.turn_input(""));
    let pids = stage.has_pids(3).await;
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
            let stage = Stage::new();
            // Every other one has to be killed.
            let script = match round % 2 {
                0 => WITH_TOOLS.to_owned(),
                _ => format!("trap '' INT; {WITH_TOOLS}"),
            };
            let mut turn_input = stage.turn_input("hello");
            turn_input.limits.grace = Duration::from_millis(20);
            let turn = stage.agent(&script).start(turn_input);
            // From the first moment of a turn to the middle of its tool call.
            let count = usize::try_from(round / 2 % 4).unwrap();
            stage.has_pids(count).await;
            turn.canceller().cancel();
            assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
            let left: Vec<i32> = stage.pids().into_iter().filter(|&pid| runs(pid)).collect();
            assert!(left.is_empty(), "round {round} left {left:?}");
        });
    }
    while let Some(done) = turns.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn when_convoke_is_killed_its_agents_and_their_tools_end() {
    for _ in 0..20 {
        let stage = Stage::new();
        let mut convoke = Command::new(HOST)
            .args(["plain", ""])
            .arg(stage.path())
            .args(["/bin/sh", "-c", WITH_TOOLS])
            .spawn()
            .unwrap();
        let pids = stage.has_pids(3).await;
        convoke.kill().unwrap();
        convoke.wait().unwrap();
        until("an agent outlived Convoke", || !pids.iter().any(|&pid| runs(pid))).await;
        // The guardian clears the turn's directory away, which Convoke no longer can.
        let is_private = |name: &str| name.starts_with("convoke-");
        until("a private directory is left", || {
            let mut entries = std::fs::read_dir(stage.path()).unwrap().flatten();
            !entries.any(|entry| is_private(&entry.file_name().to_string_lossy()))
        })
        .await;
    }
}

/// Returns the parent of a process.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn when_convoke_and_a_guardian_are_killed_together_nothing_is_left() {
    // Tool shells leave the session and lose their parent, and one its environment too.
    let script = "echo $$ >>pids; (setsid sh -c 'sleep 1000 & echo $! >>pids; echo $$ >>pids; wait' &); \
                  (setsid env -i sh -c 'echo $$ >>pids; exec /bin/sleep 1000' &); \
                  while :; do sleep 1; done";
    for round in 0..30 {
        let stage = Stage::new();
        let mut convoke = Command::new(HOST)
            .args(["plain", ""])
            .arg(stage.path())
            .args(["/bin/sh", "-c", script])
            .spawn()
            .unwrap();
        let pids = stage.has_pids(4).await;
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
            let mut entries = std::fs::read_dir(stage.path()).unwrap().flatten();
            !entries.any(|entry| entry.file_name().to_string_lossy().starts_with("convoke-"))
        })
        .await;
        until("a process of ours is left", || ![guardian, keeper].iter().any(|&pid| runs(pid)))
            .await;
    }
}

#[tokio::test]
async fn when_a_guardian_is_killed_the_agent_and_its_tools_end_too() {
    let stage = Stage::new();
    let turn = stage.agent(WITH_TOOLS).start(stage.turn_input(""));
    let pids = stage.has_pids(3).await;
    let guardian = parent(parent(pids[0])).to_string();
    assert!(Command::new("kill").args(["-9", &guardian]).status().unwrap().success());
    assert_eq!(reason(&turn.result().await), Some(Reason::Incomplete));
    until("an agent outlived its guardian", || !pids.iter().any(|&pid| runs(pid))).await;
}

#[tokio::test]
async fn when_a_keeper_is_killed_the_turn_ends() {
    let stage = Stage::new();
    let turn = stage.agent(WITH_TOOLS).start(stage.turn_input(""));
    let pids = stage.has_pids(3).await;
    let keeper = parent(pids[0]).to_string();
    assert!(Command::new("kill").args(["-9", &keeper]).status().unwrap().success());
    assert_ne!(turn.result().await.verdict, Verdict::Done);
    assert!(!pids.iter().any(|&pid| runs(pid)));
}

#[tokio::test]
async fn the_stand_in_answers_from_its_script_and_then_with_an_account() {
    let stage = Stage::new();
    let stand_in = StandIn::new(Script::replies(["First."]));
    let first = stand_in.start(stage.turn_input("hello")).result().await;
    assert_eq!((first.reply.as_str(), first.verdict), ("First.", Verdict::Done));
    let mut turn_input = stage.turn_input("hello\nthere");
    turn_input.system = Some("Be kind.".to_owned());
    turn_input.resume = first.resume;
    let second = stand_in.start(turn_input).result().await;
    assert_eq!(
        second.reply,
        "I was sent a prompt of 11 bytes in 2 lines and a system text of 8 bytes, in a resumed session."
    );
}

#[tokio::test]
async fn the_stand_in_is_cancelled_hundreds_of_times_and_never_goes_on() {
    let stage = Stage::new();
    let children = || {
        let text = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        text.split_whitespace().count()
    };
    let before = children();
    for _ in 0..300 {
        let stand_in = StandIn::new(Script {
            turns: vec![vec![
                Step::Say("I begin".to_owned()),
                Step::Wait(Duration::from_secs(1000)),
                Step::Say("never said".to_owned()),
            ]],
        });
        let mut turn = stand_in.start(stage.turn_input("hello"));
        while let Some(event) = turn.next().await {
            if matches!(event.kind, EventKind::Text { .. }) {
                turn.canceller().cancel();
            }
            assert!(!format!("{event:?}").contains("never"));
        }
        assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    }
    assert_eq!(children(), before);
}

/// A program that speaks as Claude Code does; what it says after the end of its input counts too.
fn claude(stage: &Stage, script: &str) -> Box<dyn Agent> {
    use std::os::unix::fs::PermissionsExt;
    let program = stage.path().join("claude");
    let events = r#"
result() { echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"'"$1"'"}'; }
tasks() { echo '{"type":"system","subtype":"background_tasks_changed","tasks":['"$1"']}'; }
shell='{"task_type":"local_bash"}' agent='{"task_type":"local_agent"}'
init='{"type":"system","subtype":"init"}'
read -r prompt
"#;
    std::fs::write(&program, format!("#!/bin/sh\n{events}{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = Some(program.display().to_string());
    agent(Definition { command, ..Definition::built_in(Kind::Claude) }, stage.host())
}

#[tokio::test]
async fn a_turn_that_is_queued_when_the_input_ends_is_waited_for() {
    let stage = Stage::new();
    // More time than a process has that is over.
    let script =
        "tasks \"$agent\"; tasks; result one; cat >/dev/null; sleep 12; echo \"$init\"; result two";
    let outcome = claude(&stage, script).start(stage.turn_input("hello")).result().await;
    assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "two"));
}

#[tokio::test]
async fn shells_that_run_on_are_ended_when_their_time_is_over() {
    let stage = Stage::new();
    let script = "echo $$ >>pids; tasks \"$shell\"; result one; read -r line; echo \"$line\" >asked; tasks; exit 0";
    for (background, turn) in [(200, 300_000), (300_000, 3000)] {
        let mut turn_input = stage.turn_input("hello");
        turn_input.limits.background = Duration::from_millis(background);
        turn_input.limits.turn = Duration::from_millis(turn);
        let outcome = claude(&stage, script).start(turn_input).result().await;
        assert_eq!((&outcome.verdict, outcome.reply.as_str()), (&Verdict::Done, "one"));
        assert_eq!(codes(&outcome), ["agent.tasks-ended"]);
        let asked = std::fs::read_to_string(stage.path().join("asked")).unwrap();
        assert!(asked.contains("end_session"), "{asked}");
    }
}

#[tokio::test]
async fn a_cancel_ends_the_tasks_of_an_agent_that_has_answered() {
    for tasks in ["$shell", "$agent"] {
        let stage = Stage::new();
        let script = format!(
            "tasks \"{tasks}\"; result one; echo $$ >>pids; read -r line; echo \"$line\" >asked; tasks; exit 0"
        );
        let turn = claude(&stage, &script).start(stage.turn_input("hello"));
        stage.has_pids(1).await;
        // The answer was written before the id, and may not have been read yet.
        tokio::time::sleep(Duration::from_millis(300)).await;
        turn.canceller().cancel();
        let outcome = turn.result().await;
        assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Cancelled, "one"));
        let asked = std::fs::read_to_string(stage.path().join("asked")).unwrap();
        assert!(asked.contains("end_session"), "{asked}");
    }
}
