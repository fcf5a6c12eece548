//! Members that remember, with the user's own sessions: every request holds each message once, and nothing else of ours.

use serde_json::Value;

use crate::model_server::ModelServer;
use crate::unpacked;
use crate::user::User;

/// The reply of the server.
const REPLY: &str = "Behind the relay.";

/// Returns the last request, as text.
fn last_window(server: &ModelServer) -> String {
    let calls = server.calls.lock().unwrap();
    String::from_utf8(unpacked(calls.last().unwrap())).unwrap()
}

/// Asserts that each text is in a request once, in this order.
fn holds_once(cli: &str, window: &str, texts: &[&str]) {
    let mut at = 0;
    for text in texts {
        assert_eq!(window.matches(text).count(), 1, "{cli}: `{text}` in {window}");
        let found = window.find(text).unwrap();
        assert!(found > at, "{cli}: `{text}` is out of order");
        at = found;
    }
}

fn a_member_remembers(cli: &str, agent: &str, sessions: &str) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start(None);
    user.uses(&server, agent);
    user.env.push(("NO_PROXY", "127.0.0.1".to_owned()));
    user.adds_settings("memory = \"session\"\n");
    user.run(&["run", "word-alpha"]);
    for text in ["word-beta", "word-gamma"] {
        user.run(&["run", "--session", "last", text]);
    }
    let words = ["word-alpha", "word-beta", "word-gamma"];
    holds_once(cli, &last_window(&server), &words);
    assert_eq!(last_window(&server).matches(REPLY).count(), 2, "{cli}");

    // The session file of the program tells the same.
    let arguments = ["sessions", "show", "last", "--turn", "3", "--window", "--json"];
    let shown: Value = serde_json::from_str(&user.run(&arguments)).unwrap();
    let requests = shown["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 1, "{cli}: {shown}");
    assert!(requests[0]["rebuilt"].is_string() && requests[0]["source"].is_string(), "{shown}");
    holds_once(cli, &requests[0]["messages"].to_string(), &words);

    // A turn that is taken out is in no later window; its message is new again.
    user.run(&["undo", "--turn", "3", "--forget", "--yes"]);
    user.run(&["run", "--session", "last", "word-delta"]);
    holds_once(
        cli,
        &last_window(&server),
        &["word-alpha", "word-beta", "word-gamma", "word-delta"],
    );
    assert_eq!(last_window(&server).matches(REPLY).count(), 2, "{cli}");

    std::fs::remove_dir_all(user.home.path().join(sessions)).unwrap();
    let told = user.run(&["run", "--json", "--session", "last", "word-epsilon"]);
    assert!(told.contains("memory.lost"), "{cli}: {told}");
    holds_once(cli, &last_window(&server), &["word-gamma", "word-delta", "word-epsilon"]);
    let replayed = user.run(&["sessions", "replay", "--verify", "last"]);
    assert!(!replayed.contains("differs"), "{cli}: {replayed}");
}

#[test]
fn claude_2_1_325_continues_its_session() {
    a_member_remembers("claude-2.1.325", "claude", ".claude/projects");
}

#[test]
fn codex_0_98_continues_its_session() {
    a_member_remembers("codex-0.98.0", "codex", ".codex/sessions");
}

#[test]
fn codex_0_166_continues_its_session() {
    a_member_remembers("codex-0.166.0", "codex", ".codex/sessions");
}
