//! Misbehaving ACP agents, each a shell script.

use std::time::Duration;

use convoke_agent::adapter::agent;
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::turn_input::Permissions;
use convoke_agent::{Agent, TurnInput, TurnResult};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{FailureReason, Verdict};

use crate::test_host::{TestHost, codes, reason, runs, until};

/// Functions of the scripts: `get` reads a message, the others write one.
pub const SPEECH: &str = r#"
get() { read -r line || exit 0; printf '%s\n' "$line" >>got; }
put() { printf '%s\n' "$1"; }
answer() { put '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
update() { put '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
say() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
ask() { put '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":'"$1"',"options":[{"optionId":"all","kind":"allow_always"},{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'; }
hello() { get; answer 1 '{"protocolVersion":1,"agentCapabilities":{}}'; get; }
begin() { hello; answer 2 '{"sessionId":"s1"}'; get; }
done_with() { answer 3 '{"stopReason":"end_turn"}'; get; }
"#;

pub fn script(test: &TestHost, script: &str) -> Box<dyn Agent> {
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), format!("{SPEECH}\n{script}")],
        ..Definition::built_in(AgentKind::Acp)
    };
    agent(definition, test.host())
}

async fn run(test: &TestHost, words: &str, turn_input: TurnInput) -> TurnResult {
    script(test, words).start(turn_input).result().await
}

pub fn got(test: &TestHost) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(test.path().join("got")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_turn_over_acp_sends_the_prompt_byte_for_byte() {
    let test = TestHost::new();
    let prompt = "a \u{0} \u{1b}[1m \r\n \u{202e} \"\\ @x !y #z 你好\n ";
    let words = "begin; say 'It is '; say 'four.'; done_with";
    let result = run(&test, words, test.turn_input(prompt)).await;
    assert_eq!(
        (&result.verdict, result.reply.as_str()),
        (&Verdict::Done, "It is four."),
        "{result:?}"
    );
    assert_eq!(result.resume.unwrap().session, "s1");
    let got = got(&test);
    let methods: Vec<&str> = got.iter().map(|it| it["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt"]);
    assert_eq!(got[0]["params"]["protocolVersion"], 1);
    let none = serde_json::json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    assert_eq!(got[0]["params"]["clientCapabilities"], none);
    assert_eq!(got[2]["params"]["prompt"], serde_json::json!([{"type": "text", "text": prompt}]));
}

#[tokio::test]
async fn an_unsupported_version_is_reported() {
    let test = TestHost::new();
    let words = "get; answer 1 '{\"protocolVersion\":2}'; get";
    let result = run(&test, words, test.turn_input("x")).await;
    assert_eq!(reason(&result), Some(FailureReason::Other));
    assert!(result.verdict.to_string().contains("version 2 of ACP"), "{result:?}");
}

#[tokio::test]
async fn updates_come_in_any_order_and_unknown_ones_are_counted() {
    let test = TestHost::new();
    let words = "hello
        update '{\"sessionUpdate\":\"available_commands_update\"}'
        say early
        answer 2 '{\"sessionId\":\"s1\"}'; get
        echo 'a line of noise'
        update '{\"sessionUpdate\":\"hologram\"}'
        put '{\"jsonrpc\":\"2.0\",\"method\":\"vendor/odd\",\"params\":{}}'
        put '{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/odd\"}'
        put '{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"fs/read_text_file\",\"params\":{\"path\":\"/etc/passwd\"}}'; get
        put '{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"craft/queue\"}'; get
        put '{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"stopReason\":\"end_turn\"}}'
        say hello
        answer 3 '{\"stopReason\":\"end_turn\"}'
        update '{\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2}'; get";
    let result = run(&test, words, test.turn_input("x")).await;
    assert_eq!((&result.verdict, result.reply.as_str()), (&Verdict::Done, "hello"), "{result:?}");
    let codes = codes(&result);
    assert_eq!(
        codes.iter().filter(|code| **code == "agent.event-unknown").count(),
        5,
        "{result:?}"
    );
    assert!(codes.contains(&"agent.output-noise"), "{codes:?}");
    let refused: Vec<_> =
        got(&test).into_iter().filter(|it| it["error"]["code"] == -32601).collect();
    assert_eq!((&refused[0]["id"], &refused[1]["id"]), (&77.into(), &"x".into()));
}

#[tokio::test]
async fn an_edit_outside_of_the_directory_is_refused_by_its_permissions() {
    let test = TestHost::new();
    for (permissions, path, option) in [
        (Permissions::Full, "/etc/passwd", "yes"),
        (Permissions::Edit, "/etc/passwd", "no"),
        (Permissions::Edit, "inside.txt", "yes"),
        (Permissions::ReadOnly, "inside.txt", "no"),
    ] {
        let _ = std::fs::remove_file(test.path().join("got"));
        let call = format!(
            r#"{{"toolCallId":"1","kind":"edit","title":"Edit","locations":[{{"path":"{path}"}}]}}"#
        );
        // The script prints what it received, because the directory may be read-only.
        let words = format!(
            "begin; ask '{call}'; read -r line; say \"$(echo \"$line\" | sed 's/.*optionId\":\"//; s/\".*//')\"; done_with"
        );
        let mut turn_input = test.turn_input("x");
        turn_input.permissions = permissions;
        let words = words.replace("begin;", "get() { read -r line || exit 0; }; begin;");
        let result = run(&test, &words, turn_input).await;
        assert_eq!(result.reply, option, "{permissions:?} {path}: {result:?}");
        assert_eq!(codes(&result).contains(&"agent.tool-denied"), option == "no");
    }
}

#[tokio::test]
async fn a_person_is_asked_and_the_option_is_chosen_by_its_kind() {
    use convoke_protocol::permission::PermissionAnswer;
    for (given, option) in [(PermissionAnswer::Once, "yes"), (PermissionAnswer::Never, "no")] {
        let test = TestHost::new();
        let call =
            r#"{"toolCallId":"1","kind":"execute","title":"List","rawInput":{"command":"ls -l"}}"#;
        let words = format!("begin; ask '{call}'; get; say done; done_with");
        let mut turn_input = test.turn_input("x");
        turn_input.permissions = Permissions::Ask;
        let mut turn = script(&test, &words).start(turn_input);
        let answerer = turn.answerer();
        let mut asked = Vec::new();
        while let Some(event) = turn.next().await {
            if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
                answerer.answer(&question.id, given);
                asked.push((question.summary, question.is_command));
            }
        }
        assert_eq!(asked, [("ls -l".to_owned(), true)]);
        let got = got(&test);
        assert_eq!(got[3]["id"], "q");
        assert_eq!(got[3]["result"]["outcome"]["optionId"], option);
    }
}

#[tokio::test]
async fn an_agent_that_dies_with_an_open_question_ends_the_question() {
    use convoke_protocol::permission::AnsweredBy;
    let test = TestHost::new();
    let call =
        r#"{"toolCallId":"1","kind":"execute","title":"List","rawInput":{"command":"ls -l"}}"#;
    let mut turn_input = test.turn_input("x");
    turn_input.permissions = Permissions::Ask;
    let mut turn = script(&test, &format!("begin; ask '{call}'; kill -9 $$")).start(turn_input);
    let (mut asked, mut ended) = (Vec::new(), Vec::new());
    while let Some(event) = turn.next().await {
        match event.kind {
            AgentEventKind::PermissionAsked { question, .. } => asked.push(question.id),
            AgentEventKind::PermissionAnswered { id, by, .. } => ended.push((id, by)),
            _ => {}
        }
    }
    assert_eq!(asked.len(), 1);
    assert_eq!(ended, [(asked[0].clone(), AnsweredBy::Withdrawn)]);
}

#[tokio::test]
async fn a_question_without_an_option_that_holds_once_is_reported() {
    let test = TestHost::new();
    let words = r#"begin
        put '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"1","kind":"read"},"options":[{"optionId":"all","kind":"allow_always"}]}}'
        get; say done; done_with"#;
    let result = run(&test, words, test.turn_input("x")).await;
    assert_eq!(got(&test)[3]["result"]["outcome"]["outcome"], "cancelled");
    assert!(codes(&result).contains(&"agent.tool-denied"), "{result:?}");
}

#[tokio::test]
async fn an_answer_is_none_to_a_question_that_is_asked_later() {
    use convoke_protocol::permission::PermissionAnswer;
    let test = TestHost::new();
    let call = r#"{"toolCallId":"1","kind":"execute","title":"List","rawInput":{"command":"ls"}}"#;
    let words = format!("begin; ask '{call}'; get; ask '{call}'; get; say done; done_with");
    let mut turn_input = test.turn_input("x");
    turn_input.permissions = Permissions::Ask;
    let mut turn = script(&test, &words).start(turn_input);
    let answerer = turn.answerer();
    // The second answer to the first question comes before the second question, which has the same id.
    let mut answers = [vec![PermissionAnswer::Once; 2], vec![PermissionAnswer::Never]].into_iter();
    while let Some(event) = turn.next().await {
        if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
            for answer in answers.next().expect("two questions") {
                answerer.answer(&question.id, answer);
            }
        }
    }
    let got = got(&test);
    let options: Vec<_> = got[3..].iter().map(|it| &it["result"]["outcome"]["optionId"]).collect();
    assert_eq!(options, ["yes", "no"]);
}

#[tokio::test]
async fn an_agent_that_floods_is_killed() {
    let test = TestHost::new();
    let mut turn_input = test.turn_input("x");
    turn_input.limits.output_bytes = 1 << 20;
    let words = "begin; while :; do say 0123456789012345678901234567890123456789; done";
    let result = run(&test, words, turn_input).await;
    assert_eq!(reason(&result), Some(FailureReason::Flood), "{:?}", result.verdict);
}

#[tokio::test]
async fn an_agent_that_never_answers_runs_out_of_time() {
    let test = TestHost::new();
    for words in ["sleep 1000", "hello; sleep 1000", "begin; sleep 1000"] {
        let mut turn_input = test.turn_input("x");
        turn_input.limits.silence = Duration::from_millis(300);
        let result = run(&test, words, turn_input).await;
        assert_eq!(result.verdict, Verdict::TimedOut, "{words}");
    }
}

#[tokio::test]
async fn an_agent_that_dies_in_the_middle_of_a_prompt_has_ended_early() {
    let test = TestHost::new();
    for words in ["exit 3", "begin; say half; echo 'no memory' >&2; exit 3", "begin; kill -9 $$"] {
        let result = run(&test, words, test.turn_input("x")).await;
        assert_eq!(reason(&result), Some(FailureReason::Incomplete), "{words}: {result:?}");
    }
}

#[tokio::test]
async fn a_cancelled_agent_is_asked_and_leaves_no_process() {
    let test = TestHost::new();
    let tool = "setsid sh -c 'echo $$ >>pids; sleep 1000' & ";
    let polite = "get; answer 3 '{\"stopReason\":\"cancelled\"}'; get";
    let rude = "trap '' INT TERM; while :; do sleep 1; done";
    // An agent that answers has the time for it, however busy the machine is.
    for (ending, grace) in [(polite, Duration::from_mins(5)), (rude, Duration::from_millis(200))] {
        let _ = std::fs::remove_file(test.path().join("pids"));
        let words = format!("echo $$ >>pids; begin; {tool} say working; {ending}");
        let mut turn_input = test.turn_input("x");
        turn_input.limits.grace = grace;
        let turn = script(&test, &words).start(turn_input);
        let pids = test.has_pids(2).await;
        turn.canceller().cancel();
        let result = turn.result().await;
        assert_eq!(result.verdict, Verdict::Cancelled, "{result:?}");
        until("a process is left", || !pids.iter().any(|pid| runs(*pid))).await;
    }
    let cancels = got(&test).into_iter().filter(|it| it["method"] == "session/cancel");
    assert_eq!(cancels.count(), 1);
}

#[tokio::test]
async fn an_agent_that_is_not_signed_in_says_how_to() {
    let test = TestHost::new();
    let words = "get; answer 1 '{\"protocolVersion\":1,\"authMethods\":[{\"id\":\"l\",\"name\":\"Log in\",\"description\":\"Run x login\"}]}'
        get; put '{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}'; get";
    let result = run(&test, words, test.turn_input("x")).await;
    assert_eq!(reason(&result), Some(FailureReason::SignedOut));
    assert!(!result.verdict.is_sent());
    assert!(result.verdict.to_string().contains("Log in (Run x login)"), "{result:?}");
    assert!(got(&test).iter().all(|it| it["method"] != "authenticate"));
}

#[tokio::test]
async fn a_session_is_loaded_and_what_it_repeats_is_no_part_of_the_reply() {
    let test = TestHost::new();
    let words = "get; answer 1 '{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true}}'
        get; say before; answer 2 '{}'; say after; get; say new; answer 3 '{\"stopReason\":\"end_turn\"}'; get";
    let mut turn_input = test.turn_input("x");
    turn_input.resume = Some(ResumeHandle::new("s1", test.path()));
    let result = run(&test, words, turn_input).await;
    assert_eq!((&result.verdict, result.reply.as_str()), (&Verdict::Done, "new"), "{result:?}");
    assert_eq!(got(&test)[1]["method"], "session/load");
}

#[tokio::test]
async fn mode_and_model_are_chosen_by_name() {
    let test = TestHost::new();
    let offered = r#"{"sessionId":"s1","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":"p","name":"Plan"}]},
        "models":{"currentModelId":"small","availableModels":[{"modelId":"small"},{"modelId":"big"}]}}"#.replace('\n', "");
    let words = format!(
        "hello; answer 2 '{offered}'; get; answer 3 null; get; answer 4 '{{}}'; get; say hi; answer 5 '{{\"stopReason\":\"end_turn\"}}'; get"
    );
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), format!("{SPEECH}\n{words}")],
        mode: Some("plan".to_owned()),
        ..Definition::built_in(AgentKind::Acp)
    };
    for (model, verdict) in [
        ("big", "done"),
        ("huge", "failed: unknown model: the agent has no model `huge`; it has small, big"),
    ] {
        let mut turn_input = test.turn_input("x");
        turn_input.model = Some(model.to_owned());
        let result = agent(definition.clone(), test.host()).start(turn_input).result().await;
        assert_eq!(result.verdict.to_string(), verdict);
    }
    let got = got(&test);
    assert_eq!(
        (&got[2]["method"], &got[2]["params"]["modeId"]),
        (&"session/set_mode".into(), &"p".into())
    );
    assert_eq!(
        (&got[3]["method"], &got[3]["params"]["modelId"]),
        (&"session/set_model".into(), &"big".into())
    );
}

#[tokio::test]
async fn a_program_that_stays_after_its_turn_is_ended_and_that_is_no_disagreement() {
    let test = TestHost::new();
    // The agent ends only when asked to, like one with its own MCP server.
    let words = "trap 'echo asked >ended; exit 7' TERM; begin; say done
        answer 3 '{\"stopReason\":\"end_turn\"}'; while :; do sleep 0.05; done";
    let mut turn_input = test.turn_input("x");
    turn_input.limits.grace = Duration::from_mins(5);
    let result = run(&test, words, turn_input).await;
    assert_eq!((&result.verdict, result.reply.as_str()), (&Verdict::Done, "done"), "{result:?}");
    assert!(!codes(&result).contains(&"agent.exit-disagrees"), "{result:?}");
    assert_eq!(std::fs::read_to_string(test.path().join("ended")).unwrap(), "asked\n");
}

#[tokio::test]
async fn an_agent_that_closes_its_output_in_a_turn_is_reported() {
    let test = TestHost::new();
    let words = "begin; exec >&-; while :; do sleep 0.05; done";
    let mut turn_input = test.turn_input("x");
    turn_input.limits.grace = Duration::from_millis(100);
    let result = run(&test, words, turn_input).await;
    assert_eq!(reason(&result), Some(FailureReason::Incomplete), "{result:?}");
    let told = result.verdict.to_string();
    assert!(told.contains("closed its output before the turn was complete"), "{told}");
}

#[tokio::test]
async fn a_turn_that_was_cancelled_before_it_began_starts_no_program() {
    let test = TestHost::new();
    let turn = script(&test, "touch started; begin; done_with").start(test.turn_input("x"));
    turn.canceller().cancel();
    let result = turn.result().await;
    assert_eq!(result.verdict, Verdict::Withdrawn, "{result:?}");
    assert!(!test.path().join("started").exists());
}
