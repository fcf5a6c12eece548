//! The real CLIs behind the relay, with a model server that is written here on bare sockets: the bytes that
//! arrive there are the bytes that are recorded, and the key is in the forwarded header alone.
//! `scripts/install-clis` installs the CLIs; where they are missing a test says that it is skipped, and fails
//! if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says aloud that it is skipped"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const KEY: &str = "sk-relay-0123456789abcdefghijklmnop";

/// A request that called a model.
#[derive(Debug, Clone)]
struct Got {
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A model server of one machine: answers every call with one sentence, and keeps it.
struct ModelServer {
    port: u16,
    calls: Arc<Mutex<Vec<Got>>>,
}

impl ModelServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Arc<Mutex<Vec<Got>>> = Arc::default();
        let kept = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { port, calls }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Vec<Got>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((method, got)) = read(&mut reader) {
        let is_call = method == "POST" && !got.path.contains("count");
        let (status, kind, body) = answer(&got, is_call);
        if is_call {
            kept.lock().unwrap().push(got);
        }
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let body = if method == "HEAD" { String::new() } else { body };
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Got)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            None => break,
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((method, Got { path, headers, body }))
}

fn answer(got: &Got, is_call: bool) -> (&'static str, &'static str, String) {
    const SAID: &str = "Behind the relay.";
    let events = |events: &[Value]| {
        let lines = events.iter().map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        });
        ("200 OK", "text/event-stream", lines.collect::<String>())
    };
    let path = got.path.split('?').next().unwrap();
    if !is_call {
        return ("200 OK", "application/json", r#"{"models": [], "data": []}"#.to_owned());
    }
    if path.ends_with("/messages") {
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1});
        return events(&[
            json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": null, "usage": usage}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SAID}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}),
            json!({"type": "message_stop"}),
        ]);
    }
    if path.ends_with("/responses") {
        let item = json!({"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": SAID, "annotations": []}]});
        let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 104});
        return events(&[
            json!({"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress", "output": []}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}}),
        ]);
    }
    let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 4, "totalTokenCount": 104});
    let part = |text: &str| json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage});
    if path.ends_with(":streamGenerateContent") {
        return events(&[part(SAID)]);
    }
    let classified = json!({"reasoning": "", "model_choice": "flash"}).to_string();
    ("200 OK", "application/json", part(&classified).to_string())
}

fn installed(cli: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache =
        std::env::var_os("CONVOKE_CLIS").map_or(root.join("target/clis"), |at| root.join(at));
    let directory = cache.join(cli).join("node_modules/.bin");
    if directory.exists() {
        return Some(directory.canonicalize().unwrap());
    }
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "{cli} is not in {}; run scripts/install-clis", cache.display());
    eprintln!("skipped: {cli} is not installed; run scripts/install-clis");
    None
}

struct User {
    home: TempDir,
    project: TempDir,
    path: String,
    env: Vec<(&'static str, String)>,
}

impl User {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            // Nothing that is meant for this machine goes to a proxy.
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{error}");
        text
    }
}

/// Returns a body as it is stored.
fn masked(agent: &str, body: &[u8]) -> Value {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    let places: &[&str] = match agent {
        "claude" => &["/metadata/user_id"],
        "codex" => &["/client_metadata", "/prompt_cache_key"],
        _ => &[],
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

fn what_is_recorded_is_what_arrived(cli: &str, agent: &str) {
    let Some(directory) = installed(cli) else { return };
    let server = ModelServer::start();
    let key = KEY.to_owned();
    let env = match agent {
        "claude" => vec![("ANTHROPIC_API_KEY", key), ("ANTHROPIC_BASE_URL", server.url())],
        "codex" => {
            vec![("CODEX_API_KEY", key), ("OPENAI_BASE_URL", format!("{}/v1", server.url()))]
        }
        _ => vec![("GEMINI_API_KEY", key), ("GOOGLE_GEMINI_BASE_URL", server.url())],
    };
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let user = User { home: TempDir::new().unwrap(), project: TempDir::new().unwrap(), path, env };
    let team = format!("[[member]]\nname = \"max\"\nagent = \"{agent}\"\n");
    std::fs::write(user.project.path().join("convoke.toml"), team).unwrap();
    let shown = user.run(&["run", "--record", "wire", "Say \"hello\"."]);
    assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
    assert!(shown.contains("the model received"), "{cli}: {shown}");

    let calls = server.calls.lock().unwrap().clone();
    let lines = user.run(&["sessions", "show", "last", "--turn", "1", "--request", "--json"]);
    let stored: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stored.len(), calls.len(), "{cli}");
    for (stored, got) in stored.iter().zip(&calls) {
        let hash: String = Sha256::digest(&got.body).iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(stored["sentSha256"], hash, "{cli}");
        assert_eq!(stored["bytes"], got.body.len());
        let arrived = masked(agent, &got.body).to_string();
        let body: Value = serde_json::from_str(stored["body"].as_str().unwrap()).unwrap();
        assert_eq!(body.to_string(), arrived, "{cli}");
        assert_eq!((&stored["status"], &stored["ended"]), (&json!(200), &json!("answered")));
        assert_eq!(stored["usage"]["cached"], 90, "{cli}");
        let credentials = got.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(credentials, 1, "{cli}: {:?}", got.headers);
    }
    let mut files = Vec::new();
    files_below(&user.home.path().join("data"), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "{cli}: the key is in {}", file.display());
    }
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
