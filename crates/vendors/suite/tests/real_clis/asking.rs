//! The real CLIs ask before they act. For each, a turn is allowed, refused, left unanswered, and cancelled
//! while it waits.

use std::time::Duration;

use convoke_agent::approvals::Approvals;
use convoke_agent::turn_input::Permissions;
use convoke_agent::{TurnInput, TurnResult};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::script::Condition;
use convoke_rehearsal::{Answer, Reply, Script};
use convoke_team::PermissionRules;
use serde_json::json;

use crate::test_host::{Cli, TestHost};

/// The result of a turn whose agent asked.
struct AskedTurn {
    questions: Vec<PermissionQuestion>,
    answers: Vec<(PermissionAnswer, AnsweredBy)>,
    result: TurnResult,
}

fn asking(host: &TestHost) -> TurnInput {
    let mut turn_input = host.turn_input("make a file");
    turn_input.permissions = Permissions::Ask;
    turn_input
}

/// Runs a turn and answers each question; `None` gives no answer.
async fn run(
    host: &TestHost,
    turn_input: TurnInput,
    answer: Option<PermissionAnswer>,
) -> AskedTurn {
    run_answering(host, turn_input, |_| answer).await
}

async fn run_answering(
    host: &TestHost,
    turn_input: TurnInput,
    answer: impl Fn(&PermissionQuestion) -> Option<PermissionAnswer>,
) -> AskedTurn {
    let mut turn = host.agent.start(turn_input);
    let answerer = turn.answerer();
    let (mut questions, mut answers, mut expiring) = (Vec::new(), Vec::new(), Vec::new());
    let (mut started, mut finished) = (Vec::new(), Vec::new());
    while let Some(event) = turn.next().await {
        match event.kind {
            AgentEventKind::PermissionAsked { question, expires_at } => {
                // A question that a rule or an earlier answer decides does not expire.
                expiring.push(expires_at > 0);
                if let Some(answer) = answer(&question) {
                    answerer.answer(&question.id, answer);
                }
                questions.push(question);
            }
            AgentEventKind::PermissionAnswered { answer, by, .. } => answers.push((answer, by)),
            AgentEventKind::ToolStarted { id, .. } => started.push(id),
            AgentEventKind::ToolFinished { id, .. } => finished.push(id),
            _ => {}
        }
    }
    let waited = answers.iter().map(|(_, by)| {
        use AnsweredBy::{Nobody, Rule, Sandbox, Session};
        !matches!(by, Rule | Sandbox | Session | Nobody)
    });
    // Simultaneous questions may be answered in any order.
    let mut waited: Vec<bool> = waited.collect();
    waited.sort_unstable();
    expiring.sort_unstable();
    assert_eq!(expiring, waited);
    for id in started {
        assert!(finished.contains(&id), "every tool call has an end: {id}");
    }
    finished.sort();
    assert!(finished.is_sorted_by(|one, other| one < other), "each has one: {finished:?}");
    AskedTurn { questions, answers, result: turn.result().await }
}

async fn asks_before_it_runs_a_command(cli: Cli) {
    for (answer, is_made) in [(PermissionAnswer::Once, true), (PermissionAnswer::Never, false)] {
        let script = Script::new([cli.shell("touch made.txt"), Answer::say("Done.")]);
        let Some(host) = TestHost::new(cli, script).await else {
            return;
        };
        let asked = run(&host, asking(&host), Some(answer)).await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        assert_eq!(asked.result.reply, "Done.");
        let [question] = &asked.questions[..] else {
            panic!("{:?}", asked.questions);
        };
        assert_eq!(question.summary, "touch made.txt");
        assert!(question.is_command);
        assert_eq!(asked.answers, [(answer, AnsweredBy::Person)]);
        assert_eq!(host.work.path().join("made.txt").exists(), is_made, "{answer:?}");
    }
}

async fn shows_the_change_before_it_is_made(cli: Cli) {
    for (answer, content) in
        [(PermissionAnswer::Once, "new text\n"), (PermissionAnswer::Never, "old text\n")]
    {
        let script = |file: &str| {
            let (tool, input) = match cli.kind() {
                "claude" => ("Write", json!({"file_path": file, "content": "new text\n"})),
                "gemini" => ("write_file", json!({"file_path": file, "content": "new text\n"})),
                _ => (
                    "apply_patch",
                    json!(
                        "*** Begin Patch\n*** Update File: text.txt\n@@\n-old text\n+new text\n*** End Patch\n"
                    ),
                ),
            };
            // Claude reads a file before it writes it.
            let read = json!({ "file_path": file });
            let first = (cli.kind() == "claude").then(|| Answer::call("Read", read));
            Script::new(first.into_iter().chain([Answer::call(tool, input), Answer::say("Done.")]))
        };
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("text.txt");
        std::fs::write(&file, "old text\n").unwrap();
        let Some(mut host) = TestHost::new(cli, script(&file.display().to_string())).await else {
            return;
        };
        host.work = work;
        let asked = run(&host, asking(&host), Some(answer)).await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        let changes: Vec<&String> =
            asked.questions.iter().filter_map(|question| question.diff.as_ref()).collect();
        let [diff] = changes[..] else {
            panic!("{:?}", asked.questions);
        };
        assert!(diff.contains("-old text") && diff.contains("+new text"), "{diff}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content, "{answer:?}");
    }
}

async fn takes_no_answer_for_a_no(cli: Cli) {
    let script = Script::new([cli.shell("touch made.txt"), Answer::say("Done.")]);
    let Some(host) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = asking(&host);
    turn_input.limits.ask = Duration::from_millis(300);
    let asked = run(&host, turn_input, None).await;
    assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
    assert_eq!(asked.answers, [(PermissionAnswer::Never, AnsweredBy::Timeout)]);
    assert!(!host.work.path().join("made.txt").exists());
}

/// An answer for the session applies to the same command in later turns too; a rule applies before any
/// question.
async fn asks_once_for_a_session(cli: Cli) {
    let call = || cli.shell("touch made.txt");
    let script = Script::new([call(), call(), Answer::say("Done."), call(), Answer::say("Done.")]);
    let Some(host) = TestHost::new(cli, script).await else {
        return;
    };
    let approvals = Approvals::default();
    for expected in [
        vec![
            (PermissionAnswer::Session, AnsweredBy::Person),
            (PermissionAnswer::Session, AnsweredBy::Session),
        ],
        vec![(PermissionAnswer::Session, AnsweredBy::Session)],
    ] {
        let mut turn_input = asking(&host);
        turn_input.approvals = approvals.clone();
        let asked = run(&host, turn_input, Some(PermissionAnswer::Session)).await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        assert_eq!(asked.answers, expected);
    }

    let script = Script::new([cli.shell("touch ruled.txt"), Answer::say("Done.")]);
    let Some(host) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = asking(&host);
    let rules = PermissionRules { allow: vec!["touch *".to_owned()], never: Vec::new() };
    turn_input.approvals = Approvals::new(rules);
    let asked = run(&host, turn_input, None).await;
    assert_eq!(asked.answers, [(PermissionAnswer::Once, AnsweredBy::Rule)]);
    assert!(host.work.path().join("ruled.txt").exists(), "{:?}", asked.result);
}

/// Rules that the user keeps for the program's own sessions do not answer in place of a person, except those of
/// Codex, which are reported.
async fn asks_whatever_the_users_own_rules_allow(cli: Cli) {
    let script = Script::new([cli.shell("touch made.txt"), Answer::say("Done.")]);
    let Some(host) = TestHost::new(cli, script).await else {
        return;
    };
    let write = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let home = host.home.path();
    let allow = r#"{"permissions": {"allow": ["Bash(touch:*)", "Bash"]}}"#;
    let tools = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}},
                    "tools": {"allowed": ["run_shell_command"]}}"#;
    match cli.kind() {
        "claude" => {
            write(home.join(".claude/settings.json"), allow);
            write(host.work.path().join(".claude/settings.local.json"), allow);
        }
        "gemini" => {
            write(home.join(".gemini/settings.json"), tools);
            let policy = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\n";
            write(home.join(".gemini/policies/all.toml"), policy);
        }
        _ => {
            let rule = "prefix_rule(pattern=[\"touch\"], decision=\"allow\")\n";
            write(home.join("codex/rules/default.rules"), rule);
        }
    }
    let mut turn_input = asking(&host);
    turn_input.trust = convoke_agent::turn_input::Trust::Trusted;
    let asked = run(&host, turn_input, Some(PermissionAnswer::Never)).await;
    if cli.kind() == "codex" {
        let codes = crate::test_host::codes(&asked.result);
        assert!(codes.contains(&"permission.program-rules"), "{:?}", asked.result);
        assert!(asked.answers.is_empty() && host.work.path().join("made.txt").exists());
        return;
    }
    assert_eq!(
        asked.answers,
        [(PermissionAnswer::Never, AnsweredBy::Person)],
        "{:?}",
        asked.result
    );
    assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
    assert!(!host.work.path().join("made.txt").exists());
}

/// Two calls in one reply are two questions, asked at once or one after the other, each with its own answer.
/// Codex 0.98 drops the first of two questions and applies an answer to the first to the second, so the first
/// is not asked and is reported.
async fn asks_for_each_of_two_calls(cli: Cli) {
    let (tool, one) = cli.shell_call("touch one.txt");
    let two = cli.shell_call("touch two.txt").1;
    for is_by_rule in [false, true] {
        let both = Reply::default().call(tool, one.clone()).call(tool, two.clone());
        let script = Script::new([both.into(), Answer::say("Done.")]);
        let Some(host) = TestHost::new(cli, script).await else {
            return;
        };
        let mut turn_input = asking(&host);
        if is_by_rule {
            let rules = PermissionRules { allow: vec!["touch one.txt".to_owned()], never: vec![] };
            turn_input.approvals = Approvals::new(rules);
        }
        let asked = run_answering(&host, turn_input, |question| {
            let is_first = question.summary == "touch one.txt";
            Some(if is_first { PermissionAnswer::Once } else { PermissionAnswer::Never })
        });
        let asked = asked.await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        let mut summaries: Vec<&str> =
            asked.questions.iter().map(|it| it.summary.as_str()).collect();
        summaries.sort_unstable();
        let dropped = crate::test_host::codes(&asked.result).contains(&"permission.dropped");
        assert_eq!(dropped, cli == Cli::Codex98, "{:?}", asked.result);
        if dropped {
            assert_eq!(summaries.len(), 1, "{summaries:?}");
        } else {
            assert_eq!(summaries, ["touch one.txt", "touch two.txt"]);
        }
        let made = ["one.txt", "two.txt"].map(|name| host.work.path().join(name).exists());
        assert_eq!(made, [summaries.contains(&"touch one.txt"), false], "{:?}", asked.result);
    }
}

/// Actions that the sandbox would block are refused without a question.
async fn asks_for_nothing_that_the_sandbox_stops(cli: Cli) {
    let outside_dir = tempfile::tempdir().unwrap();
    let outside = outside_dir.path().canonicalize().unwrap();
    for is_by_link in [false, true] {
        let work = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&outside, work.path().join("link")).unwrap();
        let directory = if is_by_link { work.path().join("link") } else { outside.clone() };
        let text = directory.join("made.txt").display().to_string();
        let call = match cli.kind() {
            "claude" => Answer::call("Write", json!({ "file_path": text, "content": "new" })),
            "gemini" => Answer::call("write_file", json!({ "file_path": text, "content": "new" })),
            _ => {
                let patch = format!("*** Begin Patch\n*** Add File: {text}\n+new\n*** End Patch\n");
                Answer::call("apply_patch", json!(patch))
            }
        };
        let script = Script::new([call, Answer::say("Done.")]);
        let Some(mut host) = TestHost::new(cli, script).await else {
            return;
        };
        host.work = work;
        let asked = run(&host, asking(&host), Some(PermissionAnswer::Once)).await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        let refused = (PermissionAnswer::Never, AnsweredBy::Sandbox);
        assert!(asked.answers.iter().all(|answer| *answer == refused), "{:?}", asked.answers);
        // Gemini itself refuses such a path.
        assert_eq!(asked.answers.is_empty(), cli == Cli::Gemini, "{:?}", asked.result);
        assert!(asked.questions.iter().all(|question| question.diff.is_none()));
        assert!(!outside.join("made.txt").exists());
    }
}

/// Tool calls of a sub-agent are asked about too.
async fn asks_for_a_sub_agent(cli: Cli) {
    for (answer, is_made) in [(PermissionAnswer::Once, true), (PermissionAnswer::Never, false)] {
        let with =
            |text: &str| Condition { contains: Some(text.to_owned()), ..Condition::default() };
        let input = json!({"description": "sub", "prompt": "SUBPROMPT do it", "subagent_type": "general-purpose"});
        let script = Script::new([
            Answer::call("Agent", input).when(with("make a file")),
            Answer::say("Done.").when(with("make a file")),
            cli.shell("touch made.txt").when(with("SUBPROMPT")),
            Answer::say("The sub-agent is done.").when(with("SUBPROMPT")),
        ]);
        let Some(host) = TestHost::new(cli, script).await else {
            return;
        };
        let asked = run(&host, asking(&host), Some(answer)).await;
        assert_eq!(asked.result.verdict, Verdict::Done, "{:?}", asked.result);
        assert_eq!(asked.answers, [(answer, AnsweredBy::Person)], "{:?}", asked.questions);
        assert_eq!(asked.questions[0].summary, "touch made.txt");
        assert_eq!(host.work.path().join("made.txt").exists(), is_made, "{answer:?}");
    }
}

/// A turn that is cancelled while it waits ends without the action that it asked for.
async fn is_cancelled_while_it_waits(cli: Cli) {
    let script = Script::new([cli.shell("touch made.txt"), Answer::say("Done.")]);
    let Some(host) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn = host.agent.start(asking(&host));
    let canceller = turn.canceller();
    let mut is_withdrawn = false;
    while let Some(event) = turn.next().await {
        match event.kind {
            AgentEventKind::PermissionAsked { .. } => canceller.cancel(),
            AgentEventKind::PermissionAnswered { by, .. } => {
                is_withdrawn = by == AnsweredBy::Withdrawn;
            }
            _ => {}
        }
    }
    let result = turn.result().await;
    assert_eq!(result.verdict, Verdict::Cancelled, "{result:?}");
    assert!(is_withdrawn && !host.work.path().join("made.txt").exists());
    assert_eq!(host.processes(), [0; 0]);
}

for_each_cli! {
    claude_197: Cli::Claude197 => [asks_before_it_runs_a_command, shows_the_change_before_it_is_made,
        takes_no_answer_for_a_no, asks_once_for_a_session, is_cancelled_while_it_waits,
        asks_whatever_the_users_own_rules_allow, asks_for_nothing_that_the_sandbox_stops, asks_for_each_of_two_calls, asks_for_a_sub_agent];
    claude_325: Cli::Claude325 => [asks_before_it_runs_a_command, shows_the_change_before_it_is_made,
        takes_no_answer_for_a_no, asks_once_for_a_session, is_cancelled_while_it_waits,
        asks_whatever_the_users_own_rules_allow, asks_for_nothing_that_the_sandbox_stops, asks_for_each_of_two_calls, asks_for_a_sub_agent];
    gemini: Cli::Gemini => [asks_before_it_runs_a_command, shows_the_change_before_it_is_made,
        takes_no_answer_for_a_no, asks_once_for_a_session, is_cancelled_while_it_waits,
        asks_whatever_the_users_own_rules_allow, asks_for_nothing_that_the_sandbox_stops, asks_for_each_of_two_calls];
    codex_098: Cli::Codex98 => [asks_before_it_runs_a_command, shows_the_change_before_it_is_made,
        takes_no_answer_for_a_no, asks_once_for_a_session, is_cancelled_while_it_waits,
        asks_whatever_the_users_own_rules_allow, asks_for_nothing_that_the_sandbox_stops, asks_for_each_of_two_calls];
    codex_166: Cli::Codex166 => [asks_before_it_runs_a_command, shows_the_change_before_it_is_made,
        takes_no_answer_for_a_no, asks_once_for_a_session, is_cancelled_while_it_waits,
        asks_whatever_the_users_own_rules_allow, asks_for_nothing_that_the_sandbox_stops, asks_for_each_of_two_calls];
}
