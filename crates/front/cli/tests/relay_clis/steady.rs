//! Turns of one member begin with the same bytes: Convoke changes nothing that a provider has cached.

use serde_json::{Value, json};

use crate::model_server::{Got, ModelServer};
use crate::user::User;
use crate::{files_below, unpacked};

/// Returns the part before the conversation: tools, then the system text.
fn beginning(got: &Got) -> Value {
    let body: Value = serde_json::from_slice(&unpacked(got)).unwrap();
    let mut system = body["system"].clone();
    // Claude Code's line for billing differs in every request, and is not cached.
    let billing = system.as_array_mut().and_then(|system| system.first_mut());
    if let Some(billing) = billing {
        billing["text"] = Value::Null;
    }
    json!([body["tools"], body["instructions"], body["systemInstruction"], system])
}

fn begins_every_turn_alike(cli: &str, agent: &str) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start(None);
    user.uses(&server, agent);
    user.run(&["run", "--record", "wire", "Say \"hello\"."]);
    let first = server.calls.lock().unwrap().len();
    let second = user.run(&["run", "--session", "last", "--record", "wire", "Again."]);
    assert!(!second.contains("cache.broken"), "{cli}: {second}");
    let calls = server.calls.lock().unwrap().clone();
    // The last call of a turn is the one with the prompt; a program may ask for a choice of models before it.
    let (one, two) = (beginning(&calls[first - 1]), beginning(calls.last().unwrap()));
    assert!(calls.len() > first && one != json!([null, null, null, null]), "{cli}");
    assert_eq!(one, two, "{cli}");
    let cache = user.run(&["sessions", "show", "last", "--cache", "--json"]);
    let cache: Value = serde_json::from_str(&cache).unwrap();
    for request in cache["requests"].as_array().unwrap() {
        // The prompt itself is another one.
        let difference = &request["firstDifference"];
        assert_ne!(difference["cause"], "directory-changed", "{cli}: {request}");
        assert!(
            !difference["place"].as_str().unwrap_or("").starts_with("system"),
            "{cli}: {request}"
        );
    }
    // The private homes are removed with their turns.
    let mut left = Vec::new();
    files_below(user.temporary.path(), &mut left);
    left.retain(|path| path.to_string_lossy().contains("convoke-"));
    assert!(left.is_empty(), "{cli}: {left:?}");
}

#[test]
fn claude_2_1_197_begins_every_turn_alike() {
    begins_every_turn_alike("claude-2.1.197", "claude");
}

#[test]
fn claude_2_1_325_begins_every_turn_alike() {
    begins_every_turn_alike("claude-2.1.325", "claude");
}

#[test]
fn codex_0_98_begins_every_turn_alike() {
    begins_every_turn_alike("codex-0.98.0", "codex");
}

#[test]
fn codex_0_166_begins_every_turn_alike() {
    begins_every_turn_alike("codex-0.166.0", "codex");
}

#[test]
fn gemini_begins_every_turn_alike() {
    begins_every_turn_alike("gemini-0.61.0", "gemini");
}
