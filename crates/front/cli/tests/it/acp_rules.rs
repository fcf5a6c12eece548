//! The rules that any agent over ACP has to keep, each a test of `convoke acp`.

use serde_json::{Value, json};

use crate::context::TestContext;
use crate::editor::{Editor, TEAM, words};

fn started() -> (TestContext, Editor) {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let editor = Editor::start(&context, &["--rehearse"]);
    (context, editor)
}

fn session_of(message: &Value) -> Option<&str> {
    message["params"]["sessionId"].as_str()
}

#[test]
fn an_unsupported_version_is_answered_with_the_supported_one() {
    let (_context, mut editor) = started();
    for version in [0, 2, 99, 65_535] {
        let (_, hello) = editor.request("initialize", &json!({ "protocolVersion": version }));
        assert_eq!(hello["result"]["protocolVersion"], 1, "{hello}");
    }
    editor.close();
}

#[test]
fn a_capability_is_an_object_or_a_boolean_as_published() {
    let (_context, mut editor) = started();
    let (_, hello) = editor.request("initialize", &json!({ "protocolVersion": 1 }));
    let abilities = &hello["result"]["agentCapabilities"];
    assert!(abilities["loadSession"].is_boolean());
    for name in ["promptCapabilities", "mcpCapabilities", "sessionCapabilities"] {
        assert!(abilities[name].is_object(), "{name}: {abilities}");
    }
    for (name, ability) in abilities["sessionCapabilities"].as_object().unwrap() {
        assert!(ability.is_object(), "{name}: {ability}");
    }
    assert!(hello["result"]["authMethods"].is_array());
    editor.close();
}

#[test]
fn nothing_is_called_that_the_client_does_not_offer() {
    let (context, mut editor) = started();
    let session = editor.open(&context);
    let id = editor.send_prompt(&session, "@max @eva Read a file and run a command");
    let (before, _) = editor.until(id);
    let called: Vec<&Value> = before.iter().filter(|message| message.get("id").is_some()).collect();
    assert!(called.is_empty(), "{called:?}");
    assert!(before.iter().all(|message| message["method"] == "session/update"), "{before:?}");
    editor.close();
}

#[test]
fn extension_requests_are_answered_and_extension_notifications_are_not() {
    let (_context, mut editor) = started();
    editor.write(r#"{"jsonrpc":"2.0","method":"_test/notified","params":{}}"#);
    editor.write(r#"{"jsonrpc":"2.0","method":"unknown/notified"}"#);
    let (before, answer) = editor.request("_test/asked", &json!({ "x": 1 }));
    assert!(before.is_empty(), "{before:?}");
    assert_eq!(answer["error"]["code"], -32601);
    editor.close();
}

#[test]
fn an_id_is_returned_unchanged() {
    let (_context, mut editor) = started();
    for id in [json!("a b"), json!(0), json!(-7), json!(9_007_199_254_740_991_u64), json!("")] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "authenticate", "params": {} });
        editor.write(&request.to_string());
        assert_eq!(editor.next()["id"], id);
    }
    editor.close();
}

#[test]
fn a_session_is_announced_after_its_response() {
    let (context, mut editor) = started();
    // `open` fails if an update comes first.
    let (one, two) = (editor.open(&context), editor.open(&context));
    assert_ne!(one, two);
    editor.close();
}

#[test]
fn every_update_of_a_prompt_comes_before_its_response() {
    let (context, mut editor) = started();
    let session = editor.open(&context);
    for text in ["one", "two", "three"] {
        let (said, answer) = editor.prompt(&session, text);
        assert!(!said.is_empty() && answer["result"]["stopReason"] == "end_turn", "{answer}");
        let (before, _) = editor.request("authenticate", &json!({}));
        assert!(before.is_empty(), "{before:?}");
    }
    editor.close();
}

#[test]
fn updates_name_the_session_of_their_prompt() {
    let (context, mut editor) = started();
    let (one, two) = (editor.open(&context), editor.open(&context));
    let first = editor.send_prompt(&one, "first");
    let second = editor.send_prompt(&two, "second");
    let (mut before, mut answers) = (Vec::new(), 0);
    while answers < 2 {
        let message = editor.next();
        if message["method"].is_null() {
            assert!(message["id"] == first || message["id"] == second, "{message}");
            answers += 1;
        } else {
            before.push(message);
        }
    }
    for session in [&one, &two] {
        let own: Vec<Value> =
            before.iter().filter(|it| session_of(it) == Some(session)).cloned().collect();
        assert!(words(&own, "agent_message_chunk").contains("**max:** "), "{own:?}");
    }
    assert!(before.iter().all(|it| [Some(&*one), Some(&*two)].contains(&session_of(it))));
    editor.close();
}

#[test]
fn a_cancel_that_meets_the_end_of_a_turn_leaves_one_response() {
    let (context, mut editor) = started();
    let session = editor.open(&context);
    for round in 0..10 {
        let id = editor.send_prompt(&session, &format!("round {round}"));
        // Before the turn begins, while it runs, and when it is over.
        for _ in 0..round % 4 {
            editor.cancel(&session);
        }
        let (_, answer) = editor.until(id);
        let stopped = answer["result"]["stopReason"].as_str();
        assert!(matches!(stopped, Some("end_turn" | "cancelled")), "{answer}");
    }
    editor.cancel(&session);
    let (before, _) = editor.request("authenticate", &json!({}));
    assert!(before.iter().all(|it| it.get("id").is_none()), "answered twice: {before:?}");
    let (_, answer) = editor.prompt(&session, "still there?");
    assert!(answer["error"].is_null(), "{answer}");
    editor.close();
}

#[test]
fn a_cancel_for_an_unknown_session_is_ignored() {
    let (_context, mut editor) = started();
    editor.cancel("nobody");
    editor.write(r#"{"jsonrpc":"2.0","method":"session/cancel"}"#);
    let (before, answer) = editor.request("authenticate", &json!({}));
    assert!(before.is_empty() && answer["error"]["code"] == -32602, "{before:?} {answer}");
    editor.close();
}

#[test]
fn a_prompt_of_no_session_and_a_prompt_without_text_are_invalid() {
    let (context, mut editor) = started();
    let session = editor.open(&context);
    let text = json!([{ "type": "text", "text": "x" }]);
    let unknown = json!({ "sessionId": "nobody", "prompt": text });
    assert_eq!(editor.request("session/prompt", &unknown).1["error"]["code"], -32002);
    for params in [
        json!({ "prompt": text }),
        json!({ "sessionId": session }),
        json!({ "sessionId": session, "prompt": [] }),
        json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "" }] }),
    ] {
        let (_, refused) = editor.request("session/prompt", &params);
        assert_eq!(refused["error"]["code"], -32602, "{params}");
    }
    let (_, answer) = editor.prompt(&session, "x");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    editor.close();
}

#[test]
fn standard_output_carries_messages_only_whatever_is_logged() {
    let context = TestContext::new().file("convoke.toml", TEAM).env("DEBUG", "1");
    let mut editor = Editor::start(&context, &["--rehearse", "-vv"]);
    let session = editor.open(&context);
    // The reader of the editor fails on every line that is not a message.
    let (_, answer) = editor.prompt(&session, "Hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    editor.close();
}

#[test]
fn it_ends_with_its_input_even_while_a_prompt_runs() {
    let (context, mut editor) = started();
    let session = editor.open(&context);
    editor.send_prompt(&session, "Hello");
    // Fails if it ends with an error.
    editor.close();
}
