//! ACP agents that use Convoke to read files and run commands, each a shell script.

use std::path::Path;

use convoke_agent::adapter::agent;
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::sandbox::Enforcer;
use convoke_agent::turn_input::Permissions;
use convoke_agent::{TurnInput, TurnResult};
use convoke_conformance_acp::official::{
    CreateTerminalRequest, EnvVariable, JsonRpcMessage, KillTerminalRequest, ReadTextFileRequest,
    ReleaseTerminalRequest, Request, RequestId, TerminalOutputRequest, WaitForTerminalExitRequest,
    WriteTextFileRequest,
};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::verdict::{FailureReason, Verdict};
use serde_json::Value;

use crate::acp::{SPEECH, got};
use crate::test_host::{TestHost, codes, reason, runs};

/// `req METHOD PARAMS` sends a request and reads the next message, `create COMMAND` starts a command.
const REQUESTS: &str = r#"
send() { put '{"jsonrpc":"2.0","id":"r","method":"'"$1"'","params":{"sessionId":"s1",'"$2"'}}'; }
req() { send "$1" "$2"; get; }
create() { req terminal/create '"command":"'"$1"'"'"$2"; }
on() { req "terminal/$1" '"terminalId":"client-terminal-'"$2"'"'; }
"#;

fn definition(script: &str) -> Definition {
    Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), format!("{SPEECH}\n{REQUESTS}\n{script}")],
        client_files: true,
        client_terminal: true,
        ..Definition::built_in(AgentKind::Acp)
    }
}

fn start(test: &TestHost, script: &str, turn_input: TurnInput) -> convoke_agent::AgentTurn {
    agent(definition(script), test.host()).start(turn_input)
}

async fn run(test: &TestHost, script: &str) -> (TurnResult, Vec<Value>) {
    let result = start(test, script, test.turn_input("x")).result().await;
    let results = got(test).into_iter().filter(|it| it["id"] == "r").collect();
    (result, results)
}

#[tokio::test]
async fn files_and_terminals_are_advertised_and_a_command_is_run_to_its_end() {
    let test = TestHost::new();
    let script = r#"begin
        create 'echo hello; echo $NAME >&2; exit 3' ',"env":[{"name":"NAME","value":"a b"}]'
        on wait_for_exit 1; on output 1; on release 1; on output 1
        create printf ',"args":["%s|","a b","c"]'; on wait_for_exit 2; on output 2
        say done; done_with"#;
    let (result, got) = run(&test, script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    let hello = &crate::acp::got(&test)[0]["params"]["clientCapabilities"];
    assert_eq!(
        *hello,
        serde_json::json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true})
    );
    assert_eq!(got[0]["result"]["terminalId"], "client-terminal-1");
    assert_eq!(got[1]["result"], serde_json::json!({"exitCode": 3}));
    let output = got[2]["result"]["output"].as_str().unwrap();
    assert!(output.contains("hello\n") && output.contains("a b\n"), "{output:?}");
    assert_eq!(got[2]["result"]["exitStatus"]["exitCode"], 3);
    assert_eq!(got[2]["result"]["truncated"], false);
    assert!(got[4]["error"].is_object(), "a released terminal is forgotten: {}", got[4]);
    assert_eq!(got[7]["result"]["output"], "a b|c|");
    assert!(!codes(&result).contains(&"agent.processes-left"), "{result:?}");
}

/// Returns a request written by the official types, as a script sends it.
fn official(method: &str, params: impl serde::Serialize) -> String {
    let request =
        Request { id: RequestId::Str("r".to_owned()), method: method.into(), params: Some(params) };
    let message = serde_json::to_string(&JsonRpcMessage::wrap(request)).unwrap();
    format!("put '{message}'; get")
}

#[tokio::test]
async fn requests_and_answers_are_those_of_the_official_types() {
    let test = TestHost::new();
    let path = test.path().join("f");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let terminal = "client-terminal-3";
    let command = CreateTerminalRequest::new("s1", "sh")
        .args(vec!["-c".to_owned(), "printf $A; exec sleep 1000".to_owned()])
        .env(vec![EnvVariable::new("A", "b")])
        .cwd(test.path().to_owned())
        .output_byte_limit(1000);
    let kill = "terminal/kill";
    let steps = [
        (
            "fs/read_text_file",
            official("fs/read_text_file", ReadTextFileRequest::new("s1", &path).line(2).limit(1)),
        ),
        (
            "fs/write_text_file",
            official("fs/write_text_file", WriteTextFileRequest::new("s1", &path, "x")),
        ),
        ("terminal/create", official("terminal/create", command)),
        (
            "terminal/output",
            official("terminal/output", TerminalOutputRequest::new("s1", terminal)),
        ),
        (kill, official(kill, KillTerminalRequest::new("s1", terminal))),
        (
            "terminal/wait_for_exit",
            official("terminal/wait_for_exit", WaitForTerminalExitRequest::new("s1", terminal)),
        ),
        (
            "terminal/output",
            official("terminal/output", TerminalOutputRequest::new("s1", terminal)),
        ),
        (
            "terminal/release",
            official("terminal/release", ReleaseTerminalRequest::new("s1", terminal)),
        ),
        (
            "terminal/release",
            official("terminal/release", ReleaseTerminalRequest::new("s1", terminal)),
        ),
    ];
    let requests: Vec<&str> = steps.iter().map(|(_, request)| request.as_str()).collect();
    let script = format!("begin\n{}\nsay done; done_with", requests.join("\n"));
    let (result, got) = run(&test, &script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    assert_eq!(got.len(), steps.len(), "{got:?}");
    for ((method, _), answer) in steps.iter().zip(&got) {
        convoke_conformance_acp::check(answer, Some(method));
    }
    assert_eq!(got[0]["result"]["content"], "two\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    assert!(got[3]["result"]["exitStatus"].is_null() && got[6]["result"]["exitStatus"].is_object());
    assert!(got[8]["error"]["code"] == -32602, "{}", got[8]);
}

#[tokio::test]
async fn a_command_is_killed_and_its_output_is_kept() {
    let test = TestHost::new();
    let script = r#"begin
        create 'echo $$ >>pids; echo up; sleep 1000 & echo $! >>pids; wait'
        while [ "$(wc -l <pids 2>/dev/null || echo 0)" -lt 2 ]; do sleep 0.01; done
        on kill 1; on wait_for_exit 1; on output 1; say done; done_with"#;
    let (result, got) = run(&test, script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    assert_eq!(got[2]["result"], serde_json::json!({"signal": "SIGKILL"}));
    assert_eq!(got[3]["result"]["output"], "up\n");
    assert!(!test.pids().iter().any(|pid| runs(*pid)));
}

#[tokio::test]
async fn an_output_is_cut_at_a_character_and_a_flood_is_killed() {
    let test = TestHost::new();
    let script = r#"begin
        create 'printf aé你好' ',"outputByteLimit":7'; on wait_for_exit 1; on output 1
        create 'yes 0123456789' ',"outputByteLimit":100'; on wait_for_exit 2; on output 2
        say done; done_with"#;
    let mut turn_input = test.turn_input("x");
    turn_input.limits.output_bytes = 4 << 20;
    let result = start(&test, script, turn_input).result().await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    let got: Vec<Value> = got(&test).into_iter().filter(|it| it["id"] == "r").collect();
    assert_eq!(got[2]["result"]["output"], "你好");
    assert_eq!(got[2]["result"]["truncated"], true);
    assert_eq!(got[4]["result"]["signal"], "SIGKILL");
    let flood = got[5]["result"]["output"].as_str().unwrap();
    assert!(flood.len() <= 100 && flood.contains("0123456789"), "{flood:?}");
}

#[tokio::test]
async fn commands_that_are_left_running_end_with_the_turn() {
    let test = TestHost::new();
    let busy = "setsid sh -c 'echo $$ >>pids; sleep 1000'";
    let wait = r#"while [ "$(wc -l <pids 2>/dev/null || echo 0)" -lt 2 ]; do sleep 0.01; done"#;
    for ending in ["say done; done_with", "exit 3"] {
        let _ = std::fs::remove_file(test.path().join("pids"));
        let script = format!("begin; create \"{busy}\"; create \"{busy}\"; {wait}; {ending}");
        let result = start(&test, &script, test.turn_input("x")).result().await;
        let pids = test.pids();
        assert_eq!(pids.len(), 2);
        assert!(!pids.iter().any(|pid| runs(*pid)), "a command outlived its turn");
        let left = result.diagnostics.iter().find(|it| it.code.name() == "agent.processes-left");
        assert!(left.is_some_and(|it| it.message.contains("left running: 2")), "{result:?}");
    }
}

#[tokio::test]
async fn a_cancel_ends_the_commands_of_an_agent() {
    let test = TestHost::new();
    let script = r#"begin; create 'echo $$ >>pids; sleep 1000'; send terminal/wait_for_exit '"terminalId":"client-terminal-1"'
        get; get; answer 3 '{"stopReason":"cancelled"}'; get"#;
    let turn = start(&test, script, test.turn_input("x"));
    let pids = test.has_pids(1).await;
    turn.canceller().cancel();
    let result = turn.result().await;
    assert_eq!(result.verdict, Verdict::Cancelled, "{result:?}");
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[tokio::test]
async fn commands_have_a_limit_and_unknown_terminals_are_refused() {
    let test = TestHost::new();
    let script = r#"begin
        on output 7; create 'exit 0' ',"cwd":"/"'; create 'exit 0' ',"env":[{"name":"A=B","value":"x"}]'
        i=0; while [ $i -lt 17 ]; do create 'sleep 1000'; i=$((i+1)); done
        say done; done_with"#;
    let (result, got) = run(&test, script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    let refused: Vec<bool> = got.iter().map(|it| it["error"].is_object()).collect();
    let mut expected = vec![true; 3];
    expected.extend([false; 16]);
    expected.push(true);
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn a_person_is_asked_before_a_command_is_run() {
    if !Enforcer::on_this_machine(None, None).is_kernel() {
        return;
    }
    for (given, is_run) in [(PermissionAnswer::Once, true), (PermissionAnswer::Never, false)] {
        let test = TestHost::new();
        let mut turn_input = test.turn_input("x");
        turn_input.permissions = Permissions::Ask;
        let script = "begin; create 'echo x >made'; on wait_for_exit 1; say done; done_with";
        let mut turn = start(&test, script, turn_input);
        let answerer = turn.answerer();
        let mut asked = Vec::new();
        while let Some(event) = turn.next().await {
            if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
                answerer.answer(&question.id, given);
                asked.push((question.summary, question.is_command));
            }
        }
        assert_eq!(asked, [("echo x >made".to_owned(), true)]);
        assert_eq!(test.path().join("made").exists(), is_run);
    }
}

#[tokio::test]
async fn a_command_is_confined_like_its_agent() {
    if !Enforcer::on_this_machine(None, None).is_kernel() {
        return;
    }
    let test = TestHost::new();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().display();
    // Each step that loads a missing library would complain.
    let env = r#","env":[{"name":"LD_PRELOAD","value":"/nowhere.so"},{"name":"A","value":"b"}]"#;
    let script = format!(
        "begin
        create 'echo x >inside; echo x >{path}/planted; echo $A' '{env}'; on wait_for_exit 1; on output 1
        say done; done_with"
    );
    for permissions in [Permissions::Edit, Permissions::ReadOnly] {
        let _ = std::fs::remove_file(test.path().join("got"));
        let _ = std::fs::remove_file(test.path().join("inside"));
        let mut turn_input = test.turn_input("x");
        turn_input.permissions = permissions;
        // The script cannot write files where the agent may only read.
        let script = match permissions {
            Permissions::ReadOnly => format!("get() {{ read -r line || exit 0; }}; {script}")
                .replace("begin\n", "get() { read -r line || exit 0; }; begin\n"),
            _ => script.clone(),
        };
        let result = start(&test, &script, turn_input).result().await;
        assert_eq!(result.verdict, Verdict::Done, "{result:?}");
        assert_eq!(test.path().join("inside").exists(), permissions == Permissions::Edit);
        assert!(!Path::new(&format!("{path}/planted")).exists());
        if permissions == Permissions::Edit {
            let got: Vec<Value> = got(&test).into_iter().filter(|it| it["id"] == "r").collect();
            let output = got[2]["result"]["output"].as_str().unwrap();
            assert!(output.contains("b\n"), "{output}");
        }
    }
}

#[tokio::test]
async fn a_link_that_changes_all_the_time_never_leads_out() {
    let test = TestHost::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "secret").unwrap();
    let path = outside.path().display();
    let cwd = test.path().display();
    let script = format!(
        r#"mkdir sub; echo open >sub/f; begin
        (while :; do mv sub real && ln -s {path} sub && rm sub && mv real sub; done) 2>/dev/null &
        i=0; while [ $i -lt 200 ]; do
            req fs/read_text_file '"path":"{cwd}/sub/f"'
            req fs/write_text_file '"path":"{cwd}/sub/g","content":"x"'
            i=$((i+1)); done
        kill $!; say done; done_with"#
    );
    let (result, got) = run(&test, &script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    assert_eq!(got.len(), 400);
    assert!(got.iter().all(|it| it["result"]["content"] != "secret"));
    assert!(!outside.path().join("g").exists());
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let test = TestHost::new();
    let path = test.path().join("f");
    std::fs::write(&path, "x").unwrap();
    let script = format!(
        "begin; i=0; while [ $i -lt 300 ]; do send fs/read_text_file '\"path\":\"{}\"'; i=$((i+1)); done
        while [ $i -gt 0 ]; do get; i=$((i-1)); done; say done; done_with",
        path.display()
    );
    let (result, got) = run(&test, &script).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    assert_eq!(got.iter().filter(|it| it["result"]["content"] == "x").count(), 300);
}

#[tokio::test]
async fn an_agent_that_never_reads_its_answers_has_flooded() {
    let test = TestHost::new();
    let path = test.path().join("big");
    std::fs::write(&path, "x".repeat(4 << 20)).unwrap();
    let script = format!(
        "begin; while :; do send fs/read_text_file '\"path\":\"{}\"'; done",
        path.display()
    );
    let result = start(&test, &script, test.turn_input("x")).result().await;
    assert_eq!(reason(&result), Some(FailureReason::Flood), "{result:?}");
}
