//! The real CLIs behind the relay, with a model server that is written here on bare sockets: the bytes that
//! arrive there are the bytes that are recorded, and the key is in the forwarded header alone.
//! `scripts/install-clis` installs the CLIs; where they are missing a test says that it is skipped, and fails
//! if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod accounts;
mod addresses;
mod by_hand;
mod confined;
mod faults;
#[path = "../installed/mod.rs"]
mod installed;
mod memory;
mod model_server;
mod sign_in;
mod steady;
mod user;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::model_server::{Got, ModelServer};
use self::user::User;

const KEY: &str = "sk-relay-0123456789abcdefghijklmnop";
const REFRESH: &str = "rt-relay-zyxwvutsrqponmlk9876543210";

/// Returns a body as it is stored.
fn masked(agent: &str, body: &[u8]) -> Value {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    let places: &[&str] = match agent {
        "claude" | "claude-acp" => &["/metadata/user_id"],
        "codex" | "codex-acp" => &["/client_metadata", "/prompt_cache_key"],
        _ => &["/project", "/user_prompt_id", "/request/session_id"],
    };
    for place in places {
        if let Some(value) = body.pointer_mut(place) {
            *value = json!("[masked]");
        }
    }
    let billing = body.pointer_mut("/system/0/text");
    let billing = billing.filter(|it| it.as_str().unwrap().starts_with("x-anthropic-billing"));
    if let Some(billing) = billing {
        *billing = json!("[masked]");
    }
    body
}

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files_below(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

/// Returns a body without its compression.
fn unpacked(got: &Got) -> Vec<u8> {
    let encoding = got.headers.iter().find(|(name, _)| name == "content-encoding");
    match encoding.map(|(_, value)| value.as_str()) {
        Some("zstd") => {
            let mut body = Vec::new();
            let decoder = ruzstd::decoding::StreamingDecoder::new(&got.body[..]);
            decoder.unwrap().read_to_end(&mut body).unwrap();
            body
        }
        _ => got.body.clone(),
    }
}

/// Nothing below a directory contains a credential.
fn has_no_credentials(directory: &Path, cli: &str) {
    let mut files = Vec::new();
    files_below(directory, &mut files);
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        for secret in [KEY, REFRESH] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{cli}: a credential is in {}", file.display());
        }
    }
}

fn what_is_recorded_is_what_arrived(cli: &str, agent: &str) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start(None);
    user.uses(&server, agent);
    is_recorded(&user, &server, cli, agent);
}

/// Runs one turn with the relay, and compares the recorded requests with those that arrived.
fn is_recorded(user: &User, server: &ModelServer, cli: &str, agent: &str) {
    let shown = user.run(&["run", "--record", "wire", "Say \"hello\"."]);
    assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
    assert!(shown.contains("the model received"), "{cli}: {shown}");

    let calls = server.calls.lock().unwrap().clone();
    let lines = user.run(&["sessions", "show", "last", "--turn", "1", "--request", "--json"]);
    let stored: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stored.len(), calls.len(), "{cli}");
    // Requests that are under way at the same time may arrive in another order than they were begun in.
    for got in &calls {
        let hash = Sha256::digest(&got.body);
        let hash = hash.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
        let stored = stored.iter().find(|stored| stored["sentSha256"] == hash);
        let stored = stored.unwrap_or_else(|| panic!("{cli}: a request was not recorded: {hash}"));
        assert_eq!(stored["bytes"], got.body.len());
        let arrived = masked(agent, &unpacked(got)).to_string();
        let body: Value = serde_json::from_str(stored["body"].as_str().unwrap()).unwrap();
        assert_eq!(body.to_string(), arrived, "{cli}");
        assert_eq!((&stored["status"], &stored["ended"]), (&json!(200), &json!("answered")));
        assert_eq!(stored["usage"]["cached"], 90, "{cli}");
        let credentials = got.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(credentials, 1, "{cli}: {:?}", got.headers);
    }
    has_no_credentials(&user.home.path().join("data"), cli);
    let cache = user.run(&["sessions", "show", "last", "--cache", "--json"]);
    let cache: Value = serde_json::from_str(&cache).unwrap();
    assert_eq!(cache["requests"].as_array().unwrap().len(), calls.len());
}

#[test]
fn claude_2_1_197_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("claude-2.1.197", "claude");
}

#[test]
fn claude_2_1_325_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("claude-2.1.325", "claude");
}

#[test]
fn codex_0_98_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("codex-0.98.0", "codex");
}

#[test]
fn codex_0_166_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("codex-0.166.0", "codex");
}

#[test]
fn gemini_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("gemini-0.61.0", "gemini");
}

#[test]
fn claude_over_acp_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("claude-agent-acp-0.99.1", "claude-acp");
}

#[test]
fn gemini_over_acp_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("gemini-0.61.0", "gemini-acp");
}

#[test]
fn codex_over_acp_is_recorded_as_it_arrived() {
    let cli = "codex-acp-2.6.0";
    let Some(user) = User::new(cli, "codex-acp", "read-only") else { return };
    let server = ModelServer::start(None);
    let directory = user.home.path().join(".codex");
    std::fs::create_dir(&directory).unwrap();
    let config = format!("openai_base_url = \"{}/v1\"\n", server.url());
    std::fs::write(directory.join("config.toml"), config).unwrap();
    let key = json!({ "auth_mode": "apikey", "OPENAI_API_KEY": KEY });
    std::fs::write(directory.join("auth.json"), key.to_string()).unwrap();
    is_recorded(&user, &server, cli, "codex-acp");
}

/// A program with an unknown endpoint runs unrecorded, which is reported.
#[test]
fn an_agent_that_cannot_be_pointed_to_a_relay_is_named() {
    let Some(user) = User::new("copilot-1.0.102", "copilot", "read-only") else { return };
    let team = "record = \"wire\"\n[[member]]\nname = \"max\"\nagent = \"copilot\"\n";
    std::fs::write(user.project.path().join("convoke.toml"), team).unwrap();
    let shown = user.command(&["run", "--record", "wire", "Hello."]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stderr).into_owned()
        + &String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("`copilot` cannot be pointed to a relay"), "{shown}");
    let member = "[[member]]\nname = \"max\"\nagent = \"copilot\"\nrecord = \"wire\"\n";
    std::fs::write(user.project.path().join("convoke.toml"), member).unwrap();
    let checked = user.command(&["check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(2));
    let why = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(why.contains("whose requests cannot be recorded"), "{why}");
}
