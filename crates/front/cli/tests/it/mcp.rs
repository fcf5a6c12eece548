//! `convoke mcp` outside of a conversation.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::context::TestContext;

/// Sends messages, closes the input, and returns the answers in the order of their ids.
fn answers(context: &TestContext, variables: &[(&str, &str)], messages: &[Value]) -> Vec<Value> {
    let mut child = context
        .command(&["mcp"])
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut answers: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

fn call(id: u32, name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_directory_is_explained_and_a_prompt_assembled() {
    let context = TestContext::new().file("AGENTS.md", "Be brief.\n");
    let version = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} });
    let input = json!({ "currentMessage": "Hello" });
    let answers = answers(
        &context,
        &[],
        &[
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
            call(3, "explain", &json!({ "agents": ["codex@0.98"] })),
            call(4, "explain", &json!({ "agents": ["cobol"] })),
            call(5, "assemble", &json!({ "agent": "codex", "input": input })),
            call(6, "assemble", &json!({ "agent": "codex", "input": { "maxBytes": -1 } })),
            call(7, "capture_diff", &json!({ "a": "nowhere", "b": "nowhere" })),
            call(8, "say", &json!({ "to": "max", "text": "x" })),
            call(9, "explain", &json!({ "directory": "/etc" })),
            call(
                10,
                "assemble",
                &json!({ "agent": "codex", "input": { "currentMesage": "Hello" } }),
            ),
            call(
                11,
                "assemble",
                &json!({ "agent": "codex", "input": { "currentMessage": "a", "x": 1 } }),
            ),
        ],
    );
    assert_eq!(answers.len(), 11);
    assert_eq!(
        answers[1]["result"]["tools"][3]["inputSchema"]["properties"]["input"]["properties"]["maxBytes"]
            ["default"],
        786_432
    );
    for (answer, field) in [(&answers[9], "currentMesage"), (&answers[10], "`input.x`")] {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(answer).contains(field), "{answer}");
    }
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    let listed = answers[1]["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = listed.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["explain", "review", "capture_diff", "assemble"]);
    let report: Value = serde_json::from_str(text(&answers[2])).unwrap();
    assert!(report["agents"][0]["loaded"][0]["path"].as_str().unwrap().ends_with("AGENTS.md"));
    assert!(answers[3]["result"]["isError"] == true && text(&answers[3]).contains("cobol"));
    let prompt: Value = serde_json::from_str(text(&answers[4])).unwrap();
    assert!(prompt["prompt"].as_str().unwrap().contains("Hello"), "{prompt}");
    assert_eq!(answers[5]["result"]["isError"], true, "{}", answers[5]);
    assert!(answers[6]["result"]["isError"] == true && text(&answers[6]).contains("nowhere"));
    assert_eq!(answers[7]["error"]["code"], -32602);
    // An argument that is not known would change nothing, and the answer be about something else.
    assert!(answers[8]["result"]["isError"] == true && text(&answers[8]).contains("directory"));
}

#[test]
fn a_turn_that_is_over_is_an_error_of_the_call() {
    let context = TestContext::new();
    let gone = [("CONVOKE_TEAM_SOCKET", "127.0.0.1:1"), ("CONVOKE_TEAM_SECRET", "x")];
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let answers =
        answers(&context, &gone, &[list, call(2, "say", &json!({ "to": "max", "text": "x" }))]);
    assert_eq!(answers[0]["result"]["tools"].as_array().unwrap().len(), 5);
    assert_eq!(answers[1]["result"]["isError"], true);
    assert!(text(&answers[1]).starts_with("cannot reach the conversation: "), "{answers:?}");
}
