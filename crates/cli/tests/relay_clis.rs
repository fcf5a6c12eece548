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
const REFRESH: &str = "rt-relay-zyxwvutsrqponmlk9876543210";

/// A way to sign in, with credentials that are nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignIn {
    /// A key in the environment.
    Key,
    /// The token of an account in the environment.
    Token,
    /// The program's own file with the tokens of an account.
    File,
}

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
        let is_call = method == "POST"
            && !got.path.contains("count")
            && (!got.path.contains("/v1internal:") || got.path.contains("enerateContent"));
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
        ("200 OK", "text/event-stream", lines.collect::<Vec<_>>().concat())
    };
    let path = got.path.split('?').next().unwrap();
    if path.ends_with(":loadCodeAssist") {
        let loaded = json!({"currentTier": {"id": "free-tier", "name": "free"}, "allowedTiers": [], "cloudaicompanionProject": "project"});
        return ("200 OK", "application/json", loaded.to_string());
    }
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
    let is_code_assist = path.contains("/v1internal:");
    let part = |text: &str| {
        let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage});
        if is_code_assist { json!({"response": answer, "traceId": "t"}) } else { answer }
    };
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

/// A token as accounts of Codex have it: its claims are read by the program, and its signature by nobody here.
fn jwt(secret: &str) -> String {
    use base64::Engine as _;
    let encoded = |value: Value| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string().as_bytes())
    };
    let auth = json!({"chatgpt_plan_type": "pro", "chatgpt_account_id": "account", "chatgpt_user_id": "user"});
    let claims = json!({"exp": 4_102_444_800_u64, "email": "nobody@example.com", "https://api.openai.com/auth": auth});
    format!("{}.{}.{secret}", encoded(json!({"alg": "none", "typ": "JWT"})), encoded(claims))
}

/// A user of an agent who is signed in, and whose endpoint is the server.
fn user(cli: &str, agent: &str, sign_in: SignIn, server: &ModelServer) -> Option<User> {
    let directory = installed(cli)?;
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let home = TempDir::new().unwrap();
    let write = |path: &str, text: Value| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.to_string()).unwrap();
    };
    let key = KEY.to_owned();
    let mut env = match agent {
        "claude" => vec![("ANTHROPIC_BASE_URL", server.url())],
        "codex" => vec![("OPENAI_BASE_URL", format!("{}/v1", server.url()))],
        _ => vec![],
    };
    let future_ms = 4_102_444_800_000_u64;
    match (agent, sign_in) {
        ("claude", SignIn::Key) => env.push(("ANTHROPIC_API_KEY", key)),
        ("claude", SignIn::Token) => env.push(("CLAUDE_CODE_OAUTH_TOKEN", key)),
        ("claude", SignIn::File) => write(
            ".claude/.credentials.json",
            json!({"claudeAiOauth": {"accessToken": KEY, "refreshToken": REFRESH, "expiresAt": future_ms, "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}}),
        ),
        ("codex", SignIn::Key) => env.push(("CODEX_API_KEY", key)),
        ("codex", _) => write(
            ".codex/auth.json",
            json!({"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": {"id_token": jwt("id"), "access_token": jwt(KEY), "refresh_token": REFRESH, "account_id": "account"}, "last_refresh": "2099-01-01T00:00:00Z"}),
        ),
        (_, SignIn::Key) => {
            env.extend([("GEMINI_API_KEY", key), ("GOOGLE_GEMINI_BASE_URL", server.url())]);
            write(
                ".gemini/settings.json",
                json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
            );
        }
        (_, _) => env.extend([
            ("GOOGLE_GENAI_USE_GCA", "true".to_owned()),
            ("GOOGLE_CLOUD_ACCESS_TOKEN", key),
            ("CODE_ASSIST_ENDPOINT", server.url()),
        ]),
    }
    Some(User { home, project: TempDir::new().unwrap(), path, env })
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

fn what_is_recorded_is_what_arrived(cli: &str, agent: &str, sign_in: SignIn) {
    let server = ModelServer::start();
    let Some(user) = user(cli, agent, sign_in, &server) else { return };
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
        let hash = Sha256::digest(&got.body);
        let hash = hash.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
        assert_eq!(stored["sentSha256"], hash, "{cli}");
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

fn a_program_by_hand_is_captured_on_its_way(cli: &str, agent: &str) {
    let server = ModelServer::start();
    let Some(mut user) = user(cli, agent, SignIn::Key, &server) else { return };
    user.env.push(("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()));
    let saved = user.home.path().join("saved");
    let to = saved.display().to_string();
    let mut arguments = vec!["capture", "--live", "--json", "--save", &to, "--", agent];
    arguments.extend(match agent {
        "codex" => ["exec", "Say hello."],
        _ => ["-p", "Say hello."],
    });
    let shown: Value = serde_json::from_str(&user.run(&arguments)).unwrap();
    let calls = server.calls.lock().unwrap().clone();
    assert!(!calls.is_empty(), "{cli}");
    assert_eq!(shown["agent"], agent);
    assert_eq!(shown["requests"].as_array().unwrap().len(), calls.len(), "{cli}: {shown}");
    assert!(shown["account"]["yourBytes"].as_u64() > Some(0), "{cli}: {shown}");
    let mut files = Vec::new();
    files_below(&saved, &mut files);
    let bodies: Vec<Value> = files
        .iter()
        .filter(|path| path.file_name().is_some_and(|name| name != "capture.json"))
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect();
    assert_eq!(bodies.len(), calls.len(), "{cli}");
    for got in &calls {
        let arrived = masked(agent, &unpacked(got));
        assert!(bodies.contains(&arrived), "{cli}: {arrived}");
        let credentials = got.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(credentials, 1, "{cli}: {:?}", got.headers);
    }
    has_no_credentials(&saved, cli);
}

#[test]
fn claude_2_1_197_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("claude-2.1.197", "claude", SignIn::Key);
}

#[test]
fn claude_2_1_325_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("claude-2.1.325", "claude", SignIn::Key);
}

#[test]
fn codex_0_98_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("codex-0.98.0", "codex", SignIn::Key);
}

#[test]
fn codex_0_166_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("codex-0.166.0", "codex", SignIn::Key);
}

#[test]
fn gemini_is_recorded_as_it_arrived() {
    what_is_recorded_is_what_arrived("gemini-0.61.0", "gemini", SignIn::Key);
}

#[test]
fn a_claude_account_is_recorded_without_its_tokens() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        what_is_recorded_is_what_arrived(cli, "claude", SignIn::Token);
        what_is_recorded_is_what_arrived(cli, "claude", SignIn::File);
    }
}

#[test]
fn a_chatgpt_account_is_recorded_without_its_tokens() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        what_is_recorded_is_what_arrived(cli, "codex", SignIn::File);
    }
}

#[test]
fn a_google_account_is_recorded_without_its_token() {
    what_is_recorded_is_what_arrived("gemini-0.61.0", "gemini", SignIn::Token);
}

#[test]
fn claude_by_hand_is_captured_on_its_way() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        a_program_by_hand_is_captured_on_its_way(cli, "claude");
    }
}

#[test]
fn codex_by_hand_is_captured_on_its_way() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        a_program_by_hand_is_captured_on_its_way(cli, "codex");
    }
}

#[test]
fn gemini_by_hand_is_captured_on_its_way() {
    a_program_by_hand_is_captured_on_its_way("gemini-0.61.0", "gemini");
}
