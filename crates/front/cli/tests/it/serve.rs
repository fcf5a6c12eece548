//! `convoke serve` and `sessions export --html`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::context::TestContext;

/// A page that is being served; it ends with the test.
struct Page {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    fn open(context: &TestContext, arguments: &[&str]) -> Self {
        Self::serve(context, &[&["--port", "0"], arguments].concat())
    }

    fn serve(context: &TestContext, arguments: &[&str]) -> Self {
        let mut child = context
            .command(&[&["serve"], arguments].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim_end().split_once('#').expect("a token");
        let port = address.strip_prefix("http://127.0.0.1:").unwrap().trim_end_matches('/');
        Self { child, port: port.parse().unwrap(), token: token.to_owned() }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            self.token,
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.send("POST", path, &body.to_string());
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

fn team() -> TestContext {
    team_of("claude")
}

fn team_of(agent: &str) -> TestContext {
    let file = format!(
        "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"{agent}\"\n"
    );
    TestContext::new().file("convoke.toml", &file)
}

fn printed(context: &TestContext, arguments: &[&str]) -> Value {
    let output = context.output(arguments, b"");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_page_has_the_figures_of_the_terminal() {
    let context = team();
    context.output(&["run", "--rehearse", "What of the parser?"], b"");
    let page = Page::open(&context, &[]);
    let list = page.get("/api/sessions");
    let listed = printed(&context, &["sessions", "list", "--json"]);
    let session = list["sessions"][0]["id"].as_str().unwrap();
    for key in ["id", "turns", "messages", "beginning", "members", "costUsd"] {
        assert_eq!(list["sessions"][0][key], listed["sessions"][0][key], "{key}");
    }
    let base = format!("/api/sessions/{session}");
    assert_eq!(
        page.get(&format!("{base}/turns/1")),
        printed(&context, &["sessions", "show", "last", "--turn", "1", "--json"])
    );
    assert_eq!(
        page.get(&format!("{base}/changes")),
        printed(&context, &["changes", "last", "--json"])
    );
    assert_eq!(
        page.get(&format!("{base}/cache")),
        printed(&context, &["sessions", "show", "last", "--cache", "--json"])
    );
    assert_eq!(page.get("/api/explain")["agents"].as_array().unwrap().len(), 3);
}

#[test]
fn a_rehearsal_is_started_on_the_page_and_resumed_in_the_terminal() {
    let context = team();
    let page = Page::open(&context, &["--rehearse"]);
    let session = page.post("/api/sessions", &json!({}))["session"].as_str().unwrap().to_owned();
    let base = format!("/api/sessions/{session}");
    let say = json!({"person": "kim", "text": "Hello", "to": ["max"]});
    assert!(page.post(&format!("{base}/say"), &say)["message"].is_string());
    // The turn runs on its own; a message has its reply when the turn is done.
    while page.get(&base)["messages"].as_array().unwrap().len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    while page.send("POST", &format!("{base}/release"), "{}").0 != 200 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    while page.get(&base)["held"] == true {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let output = context.output(&["run", "--session", &session, "And now?"], b"");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(page.get(&base)["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn the_address_is_the_same_after_a_restart_until_a_new_token_is_made() {
    let context = TestContext::new();
    let address = |page: &Page| (page.port, page.token.clone());
    let first = Page::serve(&context, &[]);
    let known = address(&first);
    // Another server at the same time has an address of its own, which is not remembered.
    let second = Page::serve(&context, &[]);
    assert!(second.port != known.0 && second.token != known.1);
    drop((first, second));
    assert_eq!(address(&Page::serve(&context, &[])), known, "both were killed");
    let elsewhere = Page::open(&context, &[]);
    assert!(elsewhere.port != known.0 && elsewhere.token == known.1, "a port that was asked for");
    drop(elsewhere);

    let renewed = Page::serve(&context, &["--new-token"]);
    assert_ne!(renewed.token, known.1);
    let renewed_address = address(&renewed);
    drop(renewed);
    let mut page = Page::serve(&context, &[]);
    assert_eq!(address(&page), renewed_address);
    page.token = known.1;
    assert_eq!(page.send("GET", "/api/sessions", "").0, 401, "the old token is void");
    drop(page);

    let file = context.home().join("data/page.json");
    fs::remove_file(&file).unwrap();
    assert_ne!(Page::serve(&context, &[]).token, renewed_address.1);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let shown = context.run(&["serve"]);
    assert!(shown.contains("exit code: 2") && shown.contains("remove it"), "{shown}");
}

/// Returns a team whose only agent waits for the file `go`.
fn slow_team() -> TestContext {
    let context = team_of("slow");
    let config = context.home().join("config");
    fs::create_dir_all(&config).unwrap();
    let agent = "[agent.slow]\nkind = \"plain\"\ncommand = \"/bin/sh\"\npermissions = \"full\"\n\
                 args = [\"-c\", \"while ! [ -e go ]; do sleep 0.05; done; echo done $$\"]\n";
    fs::write(config.join("agents.toml"), agent).unwrap();
    context
}

/// Returns a session whose server was killed while `Second` and `Third` were pending.
fn with_pending_messages() -> TestContext {
    let context = slow_team();
    let page = Page::open(&context, &[]);
    let session = page.post("/api/sessions", &json!({}))["session"].clone();
    let base = format!("/api/sessions/{}", session.as_str().unwrap());
    let say = |text: &str| {
        let body = json!({"person": "kim", "text": text, "to": ["max"]});
        page.post(&format!("{base}/say"), &body)
    };
    assert_eq!(say("First")["waits"], false);
    while page.get(&base)["standing"]["open"][0]["state"] != "running" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for text in ["Second", "Third"] {
        assert_eq!(say(text)["waits"], true);
    }
    while page.get(&base)["standing"]["pending"].as_array().unwrap().len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(page.get(&base)["standing"]["pending"][0]["text"], "Second");
    drop(page);
    context
}

/// What was accepted is kept in the store: whoever opens the session next delivers it, in order and once.
#[test]
fn messages_accepted_while_a_turn_runs_survive_the_kill_of_the_server() {
    let openings: [(&[&str], &[u8]); 3] = [
        (&["sessions", "resume", "last"], b""),
        (&["chat", "--session", "last"], b"/go\n/quit\n"),
        (&["run", "--session", "last", "--to", "max", "Last"], b""),
    ];
    for (opening, input) in openings {
        let context = with_pending_messages();
        fs::write(context.path().join("go"), "").unwrap();
        let output = context.output(opening, input);
        assert!(output.status.success(), "{opening:?}: {output:?}");
        let stored = printed(&context, &["sessions", "show", "last", "--json"]);
        let said: Vec<&str> = stored["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["message"]["content"].as_str().unwrap())
            .filter(|text| !text.starts_with("done "))
            .collect();
        assert_eq!(said[..3], ["First", "Second", "Third"], "{opening:?}: {stored}");
        assert!(said.len() == 3 || said[3..] == ["Last"], "{opening:?}: {said:?}");
        let turns = stored["messages"].as_array().unwrap().len() - said.len();
        assert_eq!(turns, said.len(), "each has its reply: {stored}");
    }
}

/// Accepted messages that are not stored yet are shown; an export or a copy without them says so.
#[test]
fn messages_that_a_killed_server_left_are_shown_as_pending_and_are_in_no_copy_without_a_word() {
    let context = with_pending_messages();
    let shown = printed(&context, &["sessions", "show", "last", "--json"]);
    let pending: Vec<_> = shown["pending"].as_array().unwrap().iter().collect();
    assert_eq!(pending.len(), 2, "{shown}");
    assert_eq!(*pending[0], json!({"from": "kim", "to": ["max"], "text": "Second"}));
    let stdout = |output: Output| String::from_utf8(output.stdout).unwrap();
    let text = stdout(context.output(&["sessions", "show", "last"], b""));
    assert!(text.contains("kim → max  pending\n  Second\n"), "{text}");
    assert!(text.contains("\n2 messages are not stored yet; `"), "{text}");
    assert!(text.contains("convoke sessions resume "), "{text}");

    for reader in ["--html", "--markdown"] {
        let text = stdout(context.output(&["sessions", "export", "last", reader], b""));
        assert!(text.contains("Second") && text.contains("Third"), "{reader}: {text}");
    }
    let copies: [&[&str]; 4] = [
        &["sessions", "export", "last"],
        &["sessions", "export", "last", "--all"],
        &["sessions", "copy", "last", "--to", "sqlite:"],
        &["sessions", "fork", "last"],
    ];
    for copy in copies {
        let output = context.output(copy, b"");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{copy:?}: {errors}");
        let told = "messages.pending: not included: 2 messages are pending; `";
        assert!(errors.contains(told), "{copy:?}: {errors}");
        assert!(errors.contains("convoke sessions resume "), "{copy:?}: {errors}");
    }
}

#[test]
fn a_session_is_exported_as_one_html_file() {
    let context = team();
    context.output(&["run", "--rehearse", "What of <script>alert(1)</script>?"], b"");
    let output = context.output(&["sessions", "export", "last", "--html"], b"");
    let html = String::from_utf8(output.stdout).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"), "{html}");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
    for foreign in ["src=", "http://", "https://", "<link"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn bad_usage_is_named_and_explained() {
    let context = TestContext::new();
    let shown = context.run(&["serve", "--allow-host", "http://box"]);
    assert!(shown.contains("exit code: 2") && shown.contains("without http://"), "{shown}");
    let taken = Page::open(&context, &[]);
    let shown = context.run(&["serve", "--port", &taken.port.to_string()]);
    assert!(shown.contains("exit code: 2") && shown.contains("cannot listen"), "{shown}");
}

#[test]
fn a_conversation_of_the_terminal_has_a_page_on_which_people_take_part() {
    let context = team();
    let mut chat = context
        .command(&["chat", "--rehearse", "--page"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(chat.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("page: http://127.0.0.1:").expect("an address");
    let (address, token) = address.split_once('#').expect("a token");
    let (port, session) = address.split_once("/sessions/").expect("a session");
    let input = chat.stdin.take().unwrap();
    let mut output = BufReader::new(chat.stdout.take().unwrap());
    let page = Page { child: chat, port: port.parse().unwrap(), token: token.to_owned() };
    let base = format!("/api/sessions/{session}");
    let say = json!({"person": "kim", "text": "Said on the page", "to": ["max"]});
    assert!(page.post(&format!("{base}/say"), &say)["message"].is_string());
    // The terminal shows the message, and the page the reply.
    let mut shown = String::new();
    while !shown.contains("Said on the page") {
        assert!(output.read_line(&mut shown).unwrap() > 0, "{shown}");
    }
    while page.get(&base)["messages"].as_array().unwrap().len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(page.get("/api/sessions")["total"], 1);
    assert_eq!(page.send("POST", &format!("{base}/release"), "{}").0, 409);
    // The page ends with the chat.
    drop(input);
    output.read_to_string(&mut shown).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", page.port)).is_err());
}

/// The answer to a question counts in the session that it was asked in, and in no other.
#[test]
fn a_page_answers_for_the_person_of_one_session_only() {
    let context = crate::asking::project();
    let page = Page::open(&context, &[]);
    let [one, other] = [(); 2].map(|()| {
        let session = page.post("/api/sessions", &json!({}))["session"].clone();
        format!("/api/sessions/{}", session.as_str().unwrap())
    });
    let say = json!({"person": "kailai", "text": "Build it"});
    assert!(page.post(&format!("{one}/say"), &say)["message"].is_string());
    let question = loop {
        if let Some(question) = page.get(&one)["standing"]["questions"].get(0) {
            break question["question"]["id"].clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let answer = json!({"question": question, "answer": "once"});
    let (status, body) = page.send("POST", &format!("{other}/answer"), &answer.to_string());
    assert_eq!(status, 409, "{body}");
    let as_other = json!({"person": "max", "text": "Yes"});
    let (status, body) = page.send("POST", &format!("{one}/say"), &as_other.to_string());
    assert_eq!(status, 409, "{body}");
    assert!(page.get(&one)["standing"]["questions"][0].is_object(), "it is still open");
    page.post(&format!("{one}/answer"), &answer);
    let reply = loop {
        if let Some(reply) = page.get(&one)["messages"].get(1) {
            break reply["message"]["content"].clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(reply, "I was allowed.");
}

#[test]
fn open_without_a_session_says_where_to_look() {
    let context = TestContext::new();
    let nobody = context.home().join("nobody").display().to_string();
    for arguments in [
        &["open", "--no-browser", "--home", &nobody] as &[&str],
        &["open", "claude:0", "--no-browser", "--home", &nobody],
        &["open", "nobody:0", "--no-browser", "--home", &nobody],
    ] {
        let output = context.command(arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    let arguments = ["open", "--no-browser", "--home", &nobody];
    let output = context.command(&arguments).stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("`convoke sessions list --all`"), "{told}");
}
