//! People at other machines than their agents: they cancel turns, answer questions, and see the messages of others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use convoke_protocol::id::TurnId;
use convoke_protocol::turn::TurnState;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{NewMessage, Store as _};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::cluster::Cluster;
use super::create;
use super::machine::{Machine, Running};

const TEAM: &str = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n\
                    node = \"server\"\n";

/// A program that speaks the protocol of Claude Code, asks before it runs a command, and reports the answer.
const ASKING: &str = include_str!("../asking_agent.sh");

/// Returns the machine of a person and that of the agent, which have the same project.
fn machines(cluster: &Cluster) -> (Machine, Machine, String) {
    // Every machine knows the agent by name.
    let laptop = Machine::new(&cluster.url()).file("convoke.toml", TEAM).agent("exit 1");
    let server = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    let map = server.map_from(&laptop);
    (laptop, server, map)
}

fn event(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_node_are_answered_at_another_machine_or_refused() {
    let cluster = Cluster::start();
    let (laptop, server, map) = machines(&cluster);
    let server = server.agent_of_kind("claude", "ask", ASKING);
    let node = server.node(&["--name", "server", "--offer", "worker", "--map", &map]);
    node.wait_for("runs turns of worker");

    // A command without input cannot answer, so the question is refused at once.
    let refused = laptop.run(&["run", "--json", "Build it"]);
    assert!(refused.contains("I was refused."), "{refused}\n{}", node.output());
    assert!(refused.contains(r#""by":"nobody""#), "{refused}");

    let mut run = laptop.start(&["run", "--json", "--session", "last", "Build it"]);
    let asked = event(&run.wait_for("permission-asked"));
    assert_eq!((&asked["member"], &asked["summary"]), (&"max".into(), &"make x".into()));
    assert_eq!((&asked["turn"], &asked["input"]["command"]), (&2.into(), &"make x".into()));
    let listed = laptop.run(&["nodes"]);
    assert!(listed.contains("\n    waits for an answer: Bash: make x\n"), "{listed}");
    assert!(laptop.run(&["nodes", "--json"]).contains(r#""questions":["Bash: make x"]"#));
    // A message is not an answer.
    let session = asked["session"].as_str().unwrap().parse().unwrap();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    store.say(session, &NewMessage::from_person("ada", "once")).await.unwrap();
    let answer = json!({"type": "permission", "id": asked["id"], "answer": "session"});
    run.write(&answer.to_string());
    run.wait_for("I was allowed.");
    let answered = event(&run.wait_for("permission-answered"));
    assert_eq!((&answered["answer"], &answered["by"]), (&"session".into(), &"person".into()));
    assert!(!laptop.run(&["nodes"]).contains("waits for an answer"));
    run.input = None;
    assert_eq!(run.end(), Some(0), "{:?}", run.lines());
    node.wait_for("asks to use Bash: make x");

    // The node remembers the answer for the session.
    let again = laptop.run(&["run", "--json", "--session", "last", "--to", "max", "Again"]);
    assert!(again.contains("I was allowed.") && again.contains(r#""by":"session""#), "{again}");
    assert_eq!(node.end(), Some(0));
    server.assert_no_process_is_left();
}

/// The page that a machine serves.
struct Page {
    port: u16,
    token: String,
}

impl Page {
    fn of(serve: &Running) -> Self {
        let line = serve.wait_for("http://127.0.0.1:");
        let (address, token) = line.split_once('#').unwrap();
        let port = address.rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
        Self { port, token: token.trim_end().to_owned() }
    }

    /// Sends a request, and returns the connection with its response.
    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let Self { port, token } = self;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
        write!(
            stream,
            "{method} /api/sessions/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut response = String::new();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &body).read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {response}");
        serde_json::from_str(body).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_node_is_answered_on_the_page_of_another_machine() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let (laptop, server, map) = machines(&cluster);
    let server = server.agent_of_kind("claude", "ask", ASKING);
    let node = server.node(&["--name", "server", "--offer", "worker", "--map", &map]);
    node.wait_for("runs turns of worker");
    let id = create(&store, TEAM, &laptop.path().display().to_string()).await.to_string();
    let serve = laptop.start(&["serve", "--port", "0"]);
    let page = Page::of(&serve);
    // A viewer of the page can be asked.
    let viewer = page.send("GET", &format!("{id}/stream"), "");
    super::wait_until("the page is attended", || {
        let attended = store.is_attended(id.parse().unwrap());
        tokio::task::block_in_place(|| Handle::current().block_on(attended)).unwrap()
    });
    let message = json!({"person": "ada", "text": "Build it", "to": ["max"]});
    page.answer("POST", &format!("{id}/say"), &message);
    let mut question = Value::Null;
    super::wait_until("the question is on the page", || {
        let shown = page.answer("GET", &id, &Value::Null);
        question = shown["standing"]["questions"][0]["question"].clone();
        !question.is_null()
    });
    assert_eq!((&question["tool"], &question["summary"]), (&"Bash".into(), &"make x".into()));
    let answer = json!({"question": question["id"], "answer": "once"});
    page.answer("POST", &format!("{id}/answer"), &answer);
    node.wait_for("turn 1 of max: allowed (person)");
    super::wait_until("the reply is on the page", || {
        let shown = page.answer("GET", &id, &Value::Null);
        shown.to_string().contains("I was allowed.")
    });
    drop(viewer);
    serve.signal(Signal::SIGTERM);
    assert_eq!(node.end(), Some(0));
    server.assert_no_process_is_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_node_is_cancelled_at_another_machine() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let (laptop, server, map) = machines(&cluster);
    let server = server.agent("echo $$ >> \"$LOG\"; sleep 600; echo done");
    let node = server.node(&["--name", "server", "--offer", "worker", "--map", &map]);
    node.wait_for("runs turns of worker");
    let mut run = laptop.start(&["run", "--json", "Build it"]);
    let started = event(&run.wait_for("turn-started"));
    super::wait_until("the agent runs", || !server.log().is_empty());
    run.signal(Signal::SIGINT);
    run.wait_for(r#""reason":"cancelled""#);
    assert_eq!(run.end(), Some(1), "{:?}", run.lines());
    let session = started["session"].as_str().unwrap().parse().unwrap();
    let turns = store.turns_after(session, TurnId(0), 9).await.unwrap();
    assert_eq!((turns.len(), turns[0].state), (1, TurnState::Cancelled));
    // The agent has ended, and the node continues.
    assert!(laptop.run(&["nodes"]).starts_with("server: ready"), "{}", node.output());
    assert_eq!(node.end(), Some(0));
    server.assert_no_process_is_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_turn_shows_its_reason_and_offers_no_retry() {
    const WAITS: &str = "max waits for node server: no node `server` is ready";
    let cluster = Cluster::start();
    let (laptop, ..) = machines(&cluster);
    let mut run = laptop.start(&["run", "Build it"]);
    run.wait_for(WAITS);
    run.signal(Signal::SIGINT);
    let advice = run.wait_for("continue this session");
    assert!(advice.contains("--session") && !advice.contains("--retry"), "{advice}");
    assert_eq!(run.end(), Some(1), "{:?}", run.lines());

    let mut editor = laptop.start(&["acp"]);
    editor.write(&request(1, "initialize", &json!({"protocolVersion": 1})));
    editor.write(&request(2, "session/new", &json!({"cwd": laptop.path(), "mcpServers": []})));
    let session = event(&editor.wait_for(r#""id":2"#))["result"]["sessionId"].clone();
    let text = json!([{"type": "text", "text": "Build it"}]);
    editor.write(&request(3, "session/prompt", &json!({"sessionId": session, "prompt": text})));
    let update = event(&editor.wait_for(WAITS));
    assert_eq!(update["params"]["update"]["sessionUpdate"], "agent_thought_chunk");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    editor.write(&cancel.to_string());
    assert_eq!(event(&editor.wait_for(r#""id":3"#))["result"]["stopReason"], "cancelled");
    close(&mut editor);
}

fn request(number: u32, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_others_appear_as_they_arrive() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let (laptop, server, _) = machines(&cluster);
    let server = server.agent("echo all is well");
    let session = create(&store, TEAM, &server.path().display().to_string()).await;
    let id = session.to_string();
    let node = server.node(&["--name", "server", "--offer", "worker"]);
    node.wait_for("runs turns of worker");
    // Neither of them does anything.
    let mut chat = server.start(&["chat", "--json", "--session", &id]);
    chat.wait_for("opened");
    let mut editor = server.start(&["acp"]);
    editor.write(&request(1, "initialize", &json!({"protocolVersion": 1})));
    let load = json!({"sessionId": id, "cwd": server.path(), "mcpServers": []});
    editor.write(&request(2, "session/load", &load));
    editor.wait_for(r#""id":2"#);
    store.say(session, &NewMessage::from_person("ada", "How is it? [NEXT: max]")).await.unwrap();
    for screen in [&chat, &editor] {
        screen.wait_for("How is it?");
        screen.wait_for("all is well");
    }
    let update = event(&editor.wait_for("How is it?"));
    assert_eq!(update["method"], "session/update");
    close(&mut chat);
    close(&mut editor);
    assert_eq!(node.end(), Some(0));
    drop(laptop);
}

/// Ends the input of a command, which ends it.
fn close(running: &mut Running) {
    running.input = None;
    assert_eq!(running.end(), Some(0), "{:?}", running.lines());
}
