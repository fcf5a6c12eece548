//! Endpoints that refuse, disconnect and stall, behind the relay: the failures are recorded, and nothing is sent twice.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::has_no_credentials;
use crate::model_server::{Fault, ModelServer};
use crate::user::User;

const FAULTS: &[Fault] = &[Fault::Refused, Fault::Cut, Fault::Trickled, Fault::Trickled];

/// Runs turns until the endpoint has answered whole: a program may try again itself, or leave that to Convoke, or fail.
fn faults_are_recorded_as_they_happened(cli: &str, agent: &str) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start_with(None, FAULTS);
    user.uses(&server, agent);
    let mut shown = String::new();
    for turn in 0..FAULTS.len() {
        let session: &[&str] = if turn == 0 { &[] } else { &["--session", "last"] };
        let arguments = [&["run", "--record", "wire"], session, &["Say \"hello\"."]].concat();
        let output = user.command(&arguments).output().unwrap();
        shown += &String::from_utf8(output.stdout).unwrap();
        if shown.contains("Behind the relay.") {
            break;
        }
    }
    assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
    assert!(shown.contains("refused (429: slow)"), "{cli}: {shown}");

    let calls = server.calls.lock().unwrap().clone();
    let cache = user.run(&["sessions", "show", "last", "--cache", "--json"]);
    let cache: Value = serde_json::from_str(&cache).unwrap();
    let mut turns: Vec<u64> = (cache["requests"].as_array().unwrap().iter())
        .map(|request| request["turn"].as_u64().unwrap())
        .collect();
    turns.dedup();
    let mut stored: Vec<Value> = Vec::new();
    for turn in turns {
        let turn = turn.to_string();
        let lines = user.run(&["sessions", "show", "last", "--turn", &turn, "--request", "--json"]);
        stored.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    // Nothing is sent twice, and nothing is lost.
    assert_eq!(stored.len(), calls.len(), "{cli}");
    for (stored, got) in stored.iter().zip(&calls) {
        let hash = Sha256::digest(&got.body);
        let hash = hash.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
        assert_eq!(stored["sentSha256"], hash, "{cli}");
    }
    let ends: Vec<_> = stored.iter().map(|it| json!([it["status"], it["ended"]])).collect();
    assert_eq!(ends[..2], [json!([429, "failed"]), json!([200, "failed"])], "{cli}");
    assert!(ends[2..].iter().all(|end| *end == json!([200, "answered"])), "{cli}: {ends:?}");
    for directory in [user.home.path(), user.project.path()] {
        has_no_credentials(directory, cli);
    }
}

#[test]
fn claude_2_1_197_meets_faults() {
    faults_are_recorded_as_they_happened("claude-2.1.197", "claude");
}

#[test]
fn claude_2_1_325_meets_faults() {
    faults_are_recorded_as_they_happened("claude-2.1.325", "claude");
}

#[test]
fn codex_0_98_meets_faults() {
    faults_are_recorded_as_they_happened("codex-0.98.0", "codex");
}

#[test]
fn codex_0_166_meets_faults() {
    faults_are_recorded_as_they_happened("codex-0.166.0", "codex");
}

#[test]
fn gemini_meets_faults() {
    faults_are_recorded_as_they_happened("gemini-0.61.0", "gemini");
}
