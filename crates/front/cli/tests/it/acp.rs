//! `convoke acp`, driven as an editor drives it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::context::TestContext;
use crate::editor::{Editor, TEAM, words};

/// An ACP agent that asks before it runs a command, and reports the answer.
const ASKING: &str = r#"#!/bin/sh
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
say() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$1"; }
read -r line; answer 1 '{"protocolVersion":1}'
read -r line; answer 2 '{"sessionId":"s"}'
read -r line
printf '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute","title":"make","rawInput":{"command":"make x"}},"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}\n'
read -r line
case "$line" in *'"optionId":"y"'*) say allowed;; *) say refused;; esac
answer 3 '{"stopReason":"end_turn"}'
read -r line
"#;

fn configure(context: &TestContext, agents: &str) {
    std::fs::create_dir_all(context.home().join("config")).unwrap();
    std::fs::write(context.home().join("config/agents.toml"), agents).unwrap();
}

/// A team whose one agent is a program of the user's configuration.
pub fn with_agent(name: &str, script: &str, agent: &str) -> TestContext {
    let team = format!(
        "[[member]]\nname = \"kailai\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"{name}\"\n"
    );
    let context = TestContext::new().file("convoke.toml", team).program(name, script);
    configure(&context, &format!("[agent.{name}]\n{agent}"));
    context
}

#[test]
fn the_protocol_is_answered_and_nothing_else_is_written() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let (_, newer) = editor.request("initialize", &json!({"protocolVersion": 99}));
    assert_eq!(newer["result"]["protocolVersion"], 1);
    assert_eq!(newer["result"]["agentCapabilities"]["sessionCapabilities"]["resume"], json!({}));
    for params in [json!({}), json!({"methodId": "any"})] {
        let (_, refused) = editor.request("authenticate", &params);
        assert_eq!(refused["error"]["code"], -32602, "no method is offered: {refused}");
    }
    assert_eq!(editor.request("_vendor/odd", &json!({})).1["error"]["code"], -32601);
    let wrong = json!({"cwd": "relative"});
    assert_eq!(editor.request("session/new", &wrong).1["error"]["code"], -32602);
    let unknown = json!({"sessionId": "none", "prompt": [], "cwd": context.path()});
    for method in ["session/prompt", "session/close", "session/load", "session/resume"] {
        assert_eq!(editor.request(method, &unknown).1["error"]["code"], -32002, "{method}");
    }
    for (line, code) in [("{\"half\":", -32700), ("[]", -32600), ("{\"id\":1}", -32600)] {
        editor.write(line);
        let refused = editor.next();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(code)));
    }
    editor.write("");
    let typed = r#"{"type":"com.agentclientprotocol.rpc.JsonRpcRequest","jsonrpc":"2.0","id":"x","method":"authenticate"}"#;
    editor.write(typed);
    assert_eq!(editor.next()["id"], "x");
    editor.close();
}

#[test]
fn the_text_of_every_member_has_its_name() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let session = editor.open(&context);
    let (said, response) = editor.prompt(&session, "@max @eva Hello!");
    assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
    assert!(said.contains("**max:** ") && said.contains("**eva:** "), "{said}");

    let (who, _) = editor.prompt(&session, "/who");
    assert!(who.contains("- **max**: ") && who.contains("- **kailai**: a person"), "{who}");
    let (ledger, _) = editor.prompt(&session, "/ledger max");
    assert!(ledger.contains("**max**, turn 1") && ledger.contains("```"), "{ledger}");
    let (to, _) = editor.prompt(&session, "/to eva");
    assert!(to.contains("eva"), "{to}");
    let (said, _) = editor.prompt(&session, "And you?");
    assert!(said.contains("**eva:** ") && !said.contains("**max:** "), "{said}");
    let (undo, response) = editor.prompt(&session, "/undo");
    assert!(!undo.is_empty() && response["result"]["stopReason"] == "end_turn", "{undo}");
    let (idle, _) = editor.prompt(&session, "/cancel");
    assert!(idle.contains("No turn is running"), "{idle}");
    let (wrong, _) = editor.prompt(&session, "/nosuch");
    assert!(wrong.contains("nosuch") && wrong.contains("put a space"), "{wrong}");
    let (said, _) = editor.prompt(&session, " /who is it?");
    assert!(said.contains("**eva:** "), "a space makes it a message: {said}");
    editor.close();
}

#[test]
fn a_session_is_loaded_with_its_messages_and_resumed_without() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let session = editor.open(&context);
    editor.prompt(&session, "my colour is blue");
    editor.close();
    let mut editor = Editor::start(&context, &[]);
    let params = json!({"sessionId": session, "cwd": context.path(), "mcpServers": []});
    let (before, loaded) = editor.request("session/load", &params);
    assert!(loaded["error"].is_null(), "{loaded}");
    assert_eq!(words(&before, "user_message_chunk"), "my colour is blue");
    assert!(words(&before, "agent_message_chunk").contains("**max:** "));
    // It began as a rehearsal, and stays one.
    editor.next();
    assert_eq!(editor.prompt(&session, "go on").1["result"]["stopReason"], "end_turn");
    let (before, resumed) = editor.request("session/resume", &params);
    assert!(before.is_empty() && resumed["error"].is_null(), "{before:?} {resumed}");
    let unknown = "00000000-0000-4000-8000-000000000000";
    let params = json!({"sessionId": unknown, "cwd": context.path()});
    assert_eq!(editor.request("session/load", &params).1["error"]["code"], -32002);
    editor.close();
}

#[test]
fn a_message_over_the_limit_is_refused_with_its_id() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let long = "x".repeat(65 << 20);
    let line = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"odd","params":{{"text":"{long}"}},{id}}}"#)
    };
    editor.write(&line(r#""id":"seven""#));
    let refused = editor.next();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("seven"), &json!(-32600)));
    assert!(refused["error"]["message"].as_str().unwrap().contains("too long"), "{refused}");
    editor.write(&line(r#""other":1"#));
    let refused = editor.next();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert_eq!(editor.request("_vendor/odd", &json!({})).1["error"]["code"], -32601);
    editor.close();
}

#[test]
fn pieces_of_a_text_that_come_in_quick_succession_are_one_update() {
    let script = "#!/bin/sh\ncat >/dev/null\ni=0\nwhile [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done\n";
    let context = with_agent("many", script, "kind = \"plain\"\ncommand = \"many\"\n");
    let mut editor = Editor::start(&context, &[]);
    let session = editor.open(&context);
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let (before, answer) = editor.request("session/prompt", &params);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = words(&before, "agent_message_chunk");
    let lines = said.lines().filter(|line| line.contains("line ")).count();
    assert_eq!(lines, 20_000);
    assert!(before.len() < 2_000, "{} updates", before.len());
    editor.close();
}

#[test]
fn a_session_without_messages_is_not_saved() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    editor.open(&context);
    editor.close();
    let listed = context.output(&["sessions", "list", "--json"], b"");
    assert!(!String::from_utf8(listed.stdout).unwrap().contains("\"id\""));
}

#[test]
fn a_directory_without_a_team_is_an_error_with_a_reason() {
    let context = TestContext::new();
    let mut editor = Editor::start(&context, &[]);
    let (_, refused) = editor.request("session/new", &json!({"cwd": context.path()}));
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("convoke.toml"), "{refused}");
    editor.close();
}

#[test]
fn the_team_is_that_of_the_editors_directory_wherever_the_command_was_started() {
    let other = TEAM.replace("max", "otto");
    for started_in in [TestContext::new(), TestContext::new().file("convoke.toml", other)] {
        let context = TestContext::new().file("convoke.toml", TEAM);
        let mut editor = Editor::start(&started_in, &["--rehearse"]);
        let session = editor.open(&context);
        let (who, _) = editor.prompt(&session, "/who");
        assert!(who.contains("**max**") && !who.contains("otto"), "{who}");
        editor.prompt(&session, "@max hello");
        let params = json!({"sessionId": session, "cwd": context.path(), "mcpServers": []});
        assert!(editor.request("session/load", &params).1["error"].is_null());
        let (said, _) = editor.prompt(&session, "@max again");
        assert!(said.contains("**max:** ") && !said.contains("belongs to"), "{said}");
        editor.close();
    }
}

#[test]
fn content_without_text_is_left_out_and_named() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let params = json!({"cwd": context.path(), "mcpServers": [{"name": "x", "command": "y", "args": [], "env": []}]});
    let (_, opened) = editor.request("session/new", &params);
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    editor.next();
    let prompt = json!([
        {"type": "text", "text": "Look at "},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "[NEXT: eva]\n"}},
    ]);
    let (before, response) =
        editor.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(response["result"]["stopReason"], "end_turn");
    let said = words(&before, "agent_message_chunk");
    assert!(said.contains("members read only text and images: image"), "{said}");
    assert!(said.contains("MCP servers of the editor are not passed on: 1"), "{said}");
    assert!(said.contains("**max:** ") && !said.contains("**eva:** "), "{said}");
    editor.close();
}

#[test]
fn images_of_the_editor_go_with_the_message() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let context = context.file("pic.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let session = editor.open(&context);
    let prompt = json!([
        {"type": "text", "text": "Compare @pic.png with "},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]);
    let (_, response) =
        editor.request("session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(response["result"]["stopReason"], "end_turn");
    editor.close();
    let shown = context.run(&["sessions", "show", "last"]);
    assert!(shown.contains("Compare pic.png with image-1.png"), "{shown}");
    assert!(shown.contains("+ pic.png, 16 bytes"), "{shown}");
    assert!(shown.contains("+ image-1.png, 8 bytes"), "{shown}");
}

/// An agent that never ends by itself, and writes the ids of its processes.
const SLOW: &str =
    "#!/bin/sh\necho $$ >>pids\ncat >/dev/null\necho working\nsleep 1000 &\necho $! >>pids\nwait\n";

fn running(context: &TestContext) -> Vec<i32> {
    let text = std::fs::read_to_string(context.path().join("pids")).unwrap_or_default();
    let pids = text.lines().filter_map(|line| line.parse::<i32>().ok());
    let runs = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    pids.filter(runs).collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_prompt_is_cancelled_at_any_time_and_twice() {
    let context =
        with_agent("slow", SLOW, "kind = \"plain\"\ncommand = \"slow\"\npermissions = \"full\"\n");
    let team = std::fs::read_to_string(context.path().join("convoke.toml")).unwrap();
    let context = context.file("convoke.toml", team);
    let mut editor = Editor::start(&context, &[]);
    let session = editor.open(&context);
    // With nothing to cancel, nothing happens.
    editor.cancel(&session);
    let id = editor.send_prompt(&session, "work");
    wait_for("the agent never ran", || running(&context).len() == 2);
    let busy = editor.prompt(&session, "more").1;
    assert_eq!(busy["error"]["code"], -32600, "{busy}");
    editor.cancel(&session);
    editor.cancel(&session);
    let (_, response) = editor.until(id);
    assert_eq!(response["result"]["stopReason"], "cancelled", "{response}");
    wait_for("a process is left", || running(&context).is_empty());
    // A cancel that comes before the turn has started ends it all the same.
    for _ in 0..3 {
        let id = editor.send_prompt(&session, "work");
        editor.cancel(&session);
        let (_, response) = editor.until(id);
        assert_eq!(response["result"]["stopReason"], "cancelled", "{response}");
        wait_for("a process is left", || running(&context).is_empty());
    }
    // By the request itself, where the editor cancels requests; another one's id cancels nothing.
    let id = editor.send_prompt(&session, "work");
    wait_for("the agent never ran", || running(&context).len() == 2);
    for request in [json!("other"), json!(id)] {
        let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request}});
        assert!(!running(&context).is_empty());
        editor.write(&cancel.to_string());
    }
    let (_, response) = editor.until(id);
    assert_eq!(response["result"]["stopReason"], "cancelled", "{response}");
    wait_for("a process is left", || running(&context).is_empty());
    // The session continues.
    let who = editor.prompt(&session, "/who").0;
    assert!(who.contains("**max**: slow") && !who.contains("Next:"), "{who}");
    assert!(editor.prompt(&session, "/who is it").0.contains("takes no argument"));
    // Closing a session cancels its prompt.
    let id = editor.send_prompt(&session, "work");
    wait_for("the agent never ran", || running(&context).len() == 2);
    let (before, closed) = editor.request("session/close", &json!({"sessionId": session}));
    assert_eq!(closed["result"], json!({}), "{closed}");
    let ended = before.iter().find(|it| it["id"] == id).expect("the prompt is answered first");
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    wait_for("a process is left", || running(&context).is_empty());
    editor.close();
}

#[test]
fn an_unknown_name_addresses_no_member() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let session = editor.open(&context);
    let (said, response) = editor.prompt(&session, "@mx have a look");
    assert_eq!(response["result"]["stopReason"], "end_turn");
    assert!(
        said.contains("@mx: no member or file has that name") && !said.contains("**max:**"),
        "{said}"
    );
    assert!(editor.prompt(&session, "@max have a look").0.contains("**max:**"));
    editor.close();
}

#[test]
fn an_editor_that_disconnects_during_a_turn_leaves_no_process() {
    let context =
        with_agent("slow", SLOW, "kind = \"plain\"\ncommand = \"slow\"\npermissions = \"full\"\n");
    for end in [Editor::close, Editor::terminate] {
        let mut editor = Editor::start(&context, &[]);
        let session = editor.open(&context);
        editor.send_prompt(&session, "work");
        wait_for("the agent never ran", || running(&context).len() == 2);
        end(editor);
        wait_for("a process is left", || running(&context).is_empty());
    }
}

#[test]
fn questions_reach_the_editor_and_any_other_response_refuses() {
    for (outcome, said) in [
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "once"}}}), "allowed"),
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "no"}}}), "refused"),
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "never"}}}), "refused"),
        (json!({"result": {"outcome": {"outcome": "cancelled"}}}), "refused"),
        (json!({"error": {"code": -32601, "message": "no"}}), "refused"),
    ] {
        let context = with_agent(
            "asking",
            ASKING,
            "kind = \"acp\"\ncommand = \"asking\"\npermissions = \"ask\"\n",
        );
        let team = std::fs::read_to_string(context.path().join("convoke.toml")).unwrap();
        let context = context.file("convoke.toml", team);
        let mut editor = Editor::start(&context, &[]);
        let session = editor.open(&context);
        let id = editor.send_prompt(&session, "build it");
        let question = loop {
            let message = editor.next();
            if message["method"] == "session/request_permission" {
                break message;
            }
        };
        assert_eq!(question["params"]["toolCall"]["title"], "max: make x");
        assert_eq!(question["params"]["toolCall"]["kind"], "execute");
        let mut answer = json!({"jsonrpc": "2.0", "id": question["id"]});
        answer.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        editor.write(&answer.to_string());
        let (before, response) = editor.until(id);
        assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
        let words = words(&before, "agent_message_chunk");
        assert!(words.contains(said), "{words}");
        editor.close();
    }
}

#[test]
fn a_refusal_applies_once_and_an_answer_for_the_session_is_not_asked_again() {
    let agent = "kind = \"acp\"\ncommand = \"asking\"\npermissions = \"ask\"\n";
    let context = with_agent("asking", ASKING, agent);
    let mut editor = Editor::start(&context, &[]);
    let session = editor.open(&context);
    for (option, is_asked, said) in [
        ("no", true, "refused"),
        ("none of them", true, "refused"),
        ("session", true, "allowed"),
        ("", false, "allowed"),
    ] {
        let id = editor.send_prompt(&session, "build it");
        let mut before = Vec::new();
        let response = loop {
            let message = editor.next();
            if message["method"] == "session/request_permission" {
                let options = message["params"]["options"].as_array().unwrap();
                let kinds: Vec<&str> =
                    options.iter().map(|option| option["kind"].as_str().unwrap()).collect();
                let all = ["allow_once", "allow_always", "reject_once", "reject_always"];
                assert_eq!(kinds, all);
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome});
                editor.write(&answer.to_string());
            }
            if message["id"] == id && message["method"].is_null() {
                break message;
            }
            before.push(message);
        };
        assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
        let asked = before.iter().filter(|it| it["method"] == "session/request_permission");
        assert_eq!(asked.count(), usize::from(is_asked), "{option}");
        assert!(!before.iter().any(|it| it["method"] == "$/cancel_request"), "{before:?}");
        let words = words(&before, "agent_message_chunk");
        assert!(words.contains(said), "{option}: {words}");
    }
    editor.close();
}

#[test]
fn failures_are_reported() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let (_, refused) = editor.request("session/new", &json!({"cwd": "/nonexistent/directory"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let session = editor.open(&context);
    let image = json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
    let (_, refused) =
        editor.request("session/prompt", &json!({"sessionId": session, "prompt": image}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("image"), "{refused}");
    let (said, _) = editor.prompt(&session, "/task Ship it");
    assert!(said.contains("addresses no agent"), "{said}");
    editor.prompt(&session, "@max hello");
    // A session belongs to the directory that it began in.
    let elsewhere = TestContext::new();
    let params = json!({"sessionId": session, "cwd": elsewhere.path(), "mcpServers": []});
    let (_, loaded) = editor.request("session/load", &params);
    assert!(loaded["error"].is_null(), "{loaded}");
    let (said, _) = editor.prompt(&session, "@max again");
    let directory = context.path().canonicalize().unwrap();
    assert!(said.contains(&format!("belongs to {}", directory.display())), "{said}");
    editor.close();
}

#[test]
fn a_turn_that_fails_is_an_error_of_the_prompt() {
    let context = with_agent(
        "broken",
        "#!/bin/sh\necho 'no memory' >&2\nexit 3\n",
        "kind = \"plain\"\ncommand = \"broken\"\npermissions = \"full\"\n",
    );
    let mut editor = Editor::start(&context, &[]);
    let session = editor.open(&context);
    let (_, response) = editor.prompt(&session, "work");
    let message = response["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("max: failed") && message.contains("no memory"), "{response}");
    editor.close();
}
