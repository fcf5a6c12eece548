//! Every command reports the same figures about sent texts.

use serde_json::Value;

use crate::context::TestContext;
use crate::model::{Model, answer, repository};
use convoke_rehearsal::Answer;

/// An address without a listener.
const NOBODY: &str = "http://127.0.0.1:1/v1";

/// A team whose agents cannot be reached: a program that does not exist, and a model at an address without a listener.
fn out_of_reach(agent: &str) -> TestContext {
    let team = format!(
        "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"mo\"\nagent = \"{agent}\"\n"
    );
    let agents = format!(
        "[agent.api]\nbase-url = \"{NOBODY}\"\nmodel = \"m\"\ncontext-window = 128000\n\
         [agent.gone]\nkind = \"plain\"\ncommand = \"/nonexistent/program\"\npermissions = \"full\"\n"
    );
    let context = TestContext::new();
    let config = context.home().join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("agents.toml"), agents).expect("a file");
    let home = context.path().join("home").display().to_string();
    context.file("convoke.toml", team).env("HOME", &home)
}

fn json_lines(output: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(output);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_turn_that_was_never_sent_has_no_bytes_anywhere() {
    for agent in ["api", "gone"] {
        let context = out_of_reach(agent);
        let shown = context.run(&["run", "Hello"]);
        assert!(shown.starts_with("exit code: 1"), "{shown}");
        assert!(!shown.contains(" sent 1") && !shown.contains("request,"), "{shown}");
        assert!(!shown.contains("bytes sent"), "no table of zeros, {agent}: {shown}");

        let events = context.output(&["run", "--json", "Hello"], b"").stdout;
        let events = json_lines(&events);
        let summary = events.last().expect("a summary");
        let member = &summary["members"][0];
        assert_eq!(
            (&member["sentBytes"], &member["requests"]),
            (&0.into(), &Value::Null),
            "{agent}"
        );
        assert_eq!(member["sentTokensEstimate"], 0, "{agent}");
        assert!(events.iter().all(|event| event["type"] != "request"), "{agent}");

        let turn = context.run(&["sessions", "show", "last", "--turn", "1"]);
        assert!(turn.contains("sent            0 bytes"), "{agent}: {turn}");
        let turn =
            context.output(&["sessions", "show", "last", "--turn", "1", "--json"], b"").stdout;
        assert_eq!(json_lines(&turn)[0]["sentBytes"], 0, "{agent}");

        let chat = context.output(&["chat", "--json"], b"Hello\n").stdout;
        let chat = json_lines(&chat);
        assert_eq!(chat.last().expect("a summary")["members"][0]["sentBytes"], 0, "{agent}");
    }
}

#[test]
fn a_request_whose_connection_was_refused_was_not_sent() {
    let context = out_of_reach("api");
    context.output(&["run", "Hello"], b"");
    let stored =
        context.output(&["sessions", "show", "last", "--turn", "1", "--request", "--json"], b"");
    let stored = &json_lines(&stored.stdout)[0];
    assert_eq!((&stored["bytes"], &stored["ended"]), (&0.into(), &"unsent".into()), "{stored}");
    assert!(stored["body"].as_str().expect("a body").contains("Hello"), "it is kept all the same");
    let turn = context.run(&["sessions", "show", "last", "--turn", "1"]);
    assert!(turn.contains("request 1, answer, 0 bytes sent"), "{turn}");
    assert!(turn.contains("nothing was sent"), "{turn}");

    let asked = context.run(&["ask", "Hello"]);
    assert!(asked.contains("nothing was sent; the request is stored"), "{asked}");
    let asked = answer(&context, &["Hello"]);
    assert_eq!(asked["requests"], Value::Array(Vec::new()), "{asked}");
    assert_eq!(asked["outcome"]["reason"], "unreachable", "{asked}");
    let listed = context.output(&["ask", "--threads", "--json"], b"").stdout;
    for thread in json_lines(&listed)[0]["threads"].as_array().expect("threads") {
        assert_eq!((&thread["requests"], &thread["bytes"]), (&0.into(), &0.into()), "{thread}");
    }
}

#[test]
fn the_list_of_threads_adds_up() {
    let model = Model::new(["One.", "Two.", "Three."].map(Answer::say));
    let context = repository(&model);
    answer(&context, &["First?"]);
    answer(&context, &["--thread", "last", "Second?"]);
    answer(&context, &["Alone?"]);
    let listed = context.output(&["ask", "--threads", "--json"], b"").stdout;
    let listed = json_lines(&listed);
    let threads = listed[0]["threads"].as_array().expect("threads");
    let sent: usize = model.bodies().iter().map(String::len).sum();
    let sum: u64 = threads.iter().filter_map(|thread| thread["bytes"].as_u64()).sum();
    assert_eq!(sum, sent as u64, "{threads:?}");
    for thread in threads {
        let id = thread["thread"].as_str().expect("an id");
        let stored = context.output(&["ask", "--thread", id, "--request", "--json"], b"").stdout;
        let stored = json_lines(&stored);
        let sum: u64 = stored.iter().filter_map(|request| request["bytes"].as_u64()).sum();
        assert_eq!((&thread["requests"], &thread["bytes"]), (&stored.len().into(), &sum.into()));
    }
    let shown = context.run(&["ask", "--threads"]);
    assert!(shown.contains("2 requests, ") && shown.contains(" bytes sent"), "{shown}");
}

#[test]
fn costs_and_counted_tokens_are_shown_by_turn_member_and_session() {
    let claude = "#!/bin/sh\nread message\n\
        printf '%s\\n' '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"tools\":[]}' \
        '{\"type\":\"assistant\",\"message\":{\"id\":\"1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"Yes.\"}],\"usage\":{\"input_tokens\":900,\"output_tokens\":12}},\"session_id\":\"s\",\"parent_tool_use_id\":null}' \
        '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Yes.\",\"session_id\":\"s\",\"num_turns\":1,\"duration_ms\":1,\"total_cost_usd\":0.0123,\"usage\":{\"input_tokens\":900,\"output_tokens\":12}}'\n";
    let team = "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"claude\"\n";
    let context = TestContext::new().file("convoke.toml", team).program("claude", claude);
    let home = context.path().join("home").display().to_string();
    let context = context.env("HOME", &home);
    let shown = context.run(&["run", "Is it safe?"]);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    assert!(shown.contains("a prompt of ") && shown.contains("about "), "our estimate: {shown}");
    assert!(shown.contains("counted 900 tokens in, 12 out"), "of the turn: {shown}");
    assert!(shown.contains(" s, $0.0123)"), "of the turn: {shown}");
    let row = shown.lines().rfind(|line| line.starts_with("max  ")).expect("a row");
    assert!(row.contains("900") && row.ends_with("$0.0123"), "of the member: {shown}");
    let events = context.output(&["run", "--session", "last", "--json", "And now?"], b"").stdout;
    let events = json_lines(&events);
    let ended = events.iter().find(|event| event["type"] == "turn-ended").expect("an end");
    assert_eq!((&ended["costUsd"], &ended["usage"]["input"]), (&0.0123.into(), &900.into()));
    let member = &events.last().expect("a summary")["members"][0];
    assert_eq!(member["costUsd"], 0.0123);
    assert_eq!(member["countedTokens"]["input"], 900);
    assert!(member["sentTokensEstimate"].as_u64() > Some(0), "{member}");
    let session = context.run(&["sessions", "show", "last"]);
    assert!(session.contains("cost: $0.0246 (max $0.0246)"), "{session}");
    let session = context.output(&["sessions", "show", "last", "--json"], b"").stdout;
    assert_eq!(json_lines(&session)[0]["costs"][0]["costUsd"], 0.0246);
    let turn = context.run(&["sessions", "show", "last", "--turn", "1"]);
    assert!(turn.contains("counted 900 tokens in") && turn.contains("cost    $0.0123"), "{turn}");
    assert!(context.run(&["sessions", "list"]).contains("$0.0246"));
}

#[test]
fn a_program_that_is_not_signed_in_has_sent_nothing() {
    let claude = "#!/bin/sh\nread message\n\
        printf '%s\\n' '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"tools\":[]}' \
        '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"Not logged in · Please run /login\",\"session_id\":\"s\",\"num_turns\":1,\"duration_ms\":1,\"total_cost_usd\":0,\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}'\nexit 1\n";
    let gemini = "#!/bin/sh\ncat >/dev/null\n\
        echo \"Please set an Auth method in your $HOME/.gemini/settings.json or specify GEMINI_API_KEY\" >&2\nexit 41\n";
    let team = "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"claude\"\nagent = \"claude\"\n\n\
        [[member]]\nname = \"gemini\"\nagent = \"gemini\"\n";
    let context = TestContext::new().file("convoke.toml", team).program("claude", claude);
    let context = context.program("gemini", gemini);
    let home = context.path().join("home").display().to_string();
    let context = context.env("HOME", &home);
    for (member, command) in [("claude", "claude auth login"), ("gemini", "GEMINI_API_KEY")] {
        let shown = context.run(&["run", "--to", member, "Hello"]);
        assert!(shown.starts_with("exit code: 1"), "{shown}");
        assert!(shown.contains("not signed in: ") && shown.contains(command), "{shown}");
        assert!(!shown.contains("/convoke-"), "no directory that is gone: {shown}");
        assert!(!shown.contains("bytes sent"), "no table of zeros: {shown}");
        let turn = context.run(&["sessions", "show", "last", "--turn", "1"]);
        assert!(turn.contains("sent            0 bytes"), "{turn}");
    }
}

#[test]
fn a_request_in_an_unsupported_wire_format_stays_stored() {
    let model = Model::new([Answer::error(405), Answer::say("Yes.")]);
    let context = TestContext::new()
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .env("OPENAI_BASE_URL", &format!("{}/v1", model.server().base_url()))
        .env("OPENAI_API_KEY", "correct-horse-battery");
    let home = context.path().join("home").display().to_string();
    let context = context.env("HOME", &home);
    let asked = answer(&context, &["--model", "m", "Is it safe?"]);
    assert_eq!(asked["reply"], "Yes.", "{asked}");
    assert_eq!(asked["requests"].as_array().map(Vec::len), Some(2), "{asked}");
    let sent: usize = model.bodies().iter().map(String::len).sum();
    let listed = context.output(&["ask", "--threads", "--json"], b"").stdout;
    let threads = &json_lines(&listed)[0]["threads"];
    assert_eq!(threads.as_array().map(Vec::len), Some(1), "{threads}");
    let thread = &threads[0];
    assert_eq!((&thread["requests"], &thread["bytes"]), (&2.into(), &sent.into()), "{thread}");
    let stored = context.output(&["ask", "--thread", "last", "--request", "--json"], b"").stdout;
    let paths: Vec<Value> =
        json_lines(&stored).iter().map(|request| request["path"].clone()).collect();
    assert_eq!(paths, ["/responses", "/chat/completions"]);
}
