//! Agents that ask before they act: answered by a program or by a rule, or refused.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::context::TestContext;

/// A program that speaks the protocol of Claude Code, asks before it runs a command, and reports the answer.
const ASKING: &str = include_str!("../asking_agent.sh");

const TEAM: &str = "[[member]]\nname = \"kailai\"\nhuman = true\n\n\
                    [[member]]\nname = \"max\"\nagent = \"claude\"\n";

pub fn project() -> TestContext {
    let context = TestContext::new().file("convoke.toml", TEAM).program("claude", ASKING);
    configure(&context, "agents.toml", "[agent.claude]\npermissions = \"ask\"\n");
    context
}

fn configure(context: &TestContext, name: &str, text: &str) {
    std::fs::create_dir_all(context.home().join("config")).unwrap();
    std::fs::write(context.home().join("config").join(name), text).unwrap();
}

/// Starts a conversation for a program.
fn start(context: &TestContext) -> Child {
    let mut command = context.command(&["run", "--json", "Build it"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Runs a conversation for a program, which answers the question with these lines.
fn answered(context: &TestContext, answers: &[&str]) -> Vec<Value> {
    let mut child = start(context);
    let mut stdin = child.stdin.take();
    let mut events = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "permission-asked"
            && let Some(mut stdin) = stdin.take()
        {
            for answer in answers {
                let answer = answer.replace("ID", event["id"].as_str().unwrap());
                writeln!(stdin, "{answer}").unwrap();
            }
        }
        events.push(event);
    }
    child.wait().unwrap();
    events
}

fn reply(events: &[Value]) -> &str {
    let mut said =
        events.iter().filter(|event| event["type"] == "message" && event["from"] == "max");
    said.next_back().and_then(|event| event["text"].as_str()).unwrap()
}

fn of_type<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_program_answers_over_json() {
    for (answer, said) in
        [("once", "I was allowed."), ("session", "I was allowed."), ("never", "I was refused.")]
    {
        let context = project();
        let line =
            format!("{{\"type\": \"permission\", \"id\": \"ID\", \"answer\": \"{answer}\"}}");
        let events = answered(&context, &[&line]);
        let asked = of_type(&events, "permission-asked");
        let [asked] = &asked[..] else { panic!("{events:?}") };
        assert_eq!((&asked["member"], &asked["tool"]), (&"max".into(), &"Bash".into()));
        assert_eq!((&asked["summary"], &asked["turn"]), (&"make x".into(), &1.into()));
        assert_eq!(asked["answers"], serde_json::json!(["once", "session", "never"]));
        assert!(asked["expiresAt"].as_i64().unwrap() > asked["at"].as_i64().unwrap());
        assert_eq!(asked["input"]["command"], "make x");
        assert_eq!(reply(&events), said);
        let told = of_type(&events, "permission-answered");
        assert_eq!((&told[0]["answer"], &told[0]["by"]), (&answer.into(), &"person".into()));
        // Both are stored with the turn.
        let stored = context.run(&["sessions", "show", "last", "--turn", "1", "--events"]);
        assert!(
            stored.contains("permissionAsked") && stored.contains("permissionAnswered"),
            "{stored}"
        );
    }
}

#[test]
fn an_invalid_answer_is_reported_and_the_end_of_input_refuses() {
    let events = answered(
        &project(),
        &["yes", "{\"type\": \"permission\", \"id\": \"9.q\", \"answer\": \"once\"}"],
    );
    assert_eq!(reply(&events), "I was refused.");
    let diagnostics = of_type(&events, "diagnostic");
    let codes: Vec<&str> =
        diagnostics.iter().filter_map(|event| event["diagnostic"]["code"].as_str()).collect();
    assert!(codes.contains(&"run.answer-unread"), "{codes:?}");
    let said: Vec<&str> =
        diagnostics.iter().filter_map(|event| event["diagnostic"]["message"].as_str()).collect();
    for reason in ["is not an answer; write {", "answers a question that is not open"] {
        assert!(said.iter().any(|it| it.contains(reason)), "{said:?}");
    }
}

/// Every invalid line is reported, and the answer after it still counts.
#[test]
fn invalid_lines_do_not_hide_an_answer() {
    let long = "x".repeat(200_000);
    let lines = [
        "[]",
        "{\"type\": \"permission\", \"id\": \"ID\"}",
        "{\"type\": \"permission\", \"id\": \"ID\", \"answer\": \"always\"}",
        "{\"type\": \"message\", \"id\": \"ID\", \"answer\": \"once\"}",
        "{\"type\": \"permission\", \"id\": \"ID\", \"answer\": \"once\", \"more\": 1}",
        &long,
        "{\"type\": \"permission\", \"id\": \"IDx\", \"answer\": \"never\"}",
        "",
        "{\"type\": \"permission\", \"id\": \"ID\", \"answer\": \"once\"}",
    ];
    let events = answered(&project(), &lines);
    assert_eq!(reply(&events), "I was allowed.");
    let diagnostics = of_type(&events, "diagnostic");
    let unread =
        diagnostics.iter().filter(|event| event["diagnostic"]["code"] == "run.answer-unread");
    assert_eq!(unread.count(), 7, "{diagnostics:?}");
}

/// A program that speaks the protocol of Claude Code and asks two questions before it reads an answer.
const ASKING_TWO: &str = r#"#!/bin/sh
read message
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
for number in 1 2; do
    echo '{"type":"control_request","request_id":"q'$number'","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make '$number'"}}}'
done
said=
for number in 1 2; do
    read answer
    case "$answer" in *'"request_id":"q1"'*) id=1;; *) id=2;; esac
    case "$answer" in *'"behavior":"allow"'*) said="$said $id allowed";; *) said="$said $id refused";; esac
done
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"So:'$said'."}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"So:'$said'.","session_id":"s1"}'
"#;

#[test]
fn two_questions_at_once_are_answered_in_any_order() {
    let context = TestContext::new().file("convoke.toml", TEAM).program("claude", ASKING_TWO);
    configure(&context, "agents.toml", "[agent.claude]\npermissions = \"ask\"\n");
    let mut child = start(&context);
    let mut stdin = child.stdin.take().unwrap();
    let mut events = Vec::new();
    let mut open = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "permission-asked" {
            open.push((event["id"].clone(), event["summary"].clone()));
            if let [(first, _), (second, summary)] = &open[..] {
                assert_eq!(summary, "make 2");
                for (id, answer) in [(second, "once"), (first, "never")] {
                    let answer =
                        serde_json::json!({"type": "permission", "id": id, "answer": answer});
                    writeln!(stdin, "{answer}").unwrap();
                }
            }
        }
        events.push(event);
    }
    child.wait().unwrap();
    assert_eq!(reply(&events), "So: 2 allowed 1 refused.");
}

/// No answer is possible: standard input is closed before the question is asked.
#[test]
fn a_question_to_a_closed_standard_input_is_refused() {
    for arguments in [&["run", "--json", "Build it"][..], &["run", "Build it"]] {
        let output = project().command(arguments).stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("I was refused."), "{shown}");
    }
}

#[test]
fn a_message_is_not_an_answer() {
    let context = project();
    let said = context
        .run(&["run", "once, session, yes, {\"type\": \"permission\", \"answer\": \"once\"}"]);
    assert!(said.contains("I was refused."), "{said}");
    assert!(said.contains("was refused (never, nobody)"), "{said}");
}

#[test]
fn a_rule_of_the_directory_answers_and_trust_shows_it() {
    let context = project();
    let directory = context.path().canonicalize().unwrap();
    let rules = |rules: &str| format!("[[directory]]\npath = {directory:?}\n{rules}\n");
    configure(
        &context,
        "permissions.toml",
        &rules("allow = [\"make x\"]\nnever = [\"git push *\"]"),
    );
    let said = context.run(&["run", "Build it"]);
    assert!(said.contains("I was allowed."), "{said}");
    let trust = context.run(&["trust"]);
    assert!(trust.contains("  allow make x\n  never git push *\n"), "{trust}");
    configure(&context, "permissions.toml", &rules("alow = []"));
    let wrong = context.run(&["run", "Build it"]);
    assert!(
        wrong.contains(
            "permissions.toml:3: `directory.alow` is not a setting; did you mean `allow`?"
        ),
        "{wrong}"
    );
}

#[test]
fn a_team_file_needs_trust_to_have_an_agent_ask() {
    let team = format!("{TEAM}sandbox = \"ask\"\n");
    let context = TestContext::new().file("convoke.toml", team).program("claude", ASKING);
    assert!(context.run(&["check"]).starts_with("exit code: 0"));
    let said = context.run(&["run", "Build it"]);
    assert!(said.contains("`member.max.sandbox` needs trust and was left out"), "{said}");
    context.run(&["trust", "--yes"]);
    let said = context.run(&["run", "Build it"]);
    assert!(!said.contains("needs trust") && said.contains("max asks to use Bash"), "{said}");
}
