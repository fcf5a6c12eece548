//! An editor that drives `convoke acp`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use convoke_conformance_acp as acp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::context::TestContext;

/// A team of a person and two agents.
pub const TEAM: &str = "[[member]]\nname = \"kailai\"\nhuman = true\n\n\
                        [[member]]\nname = \"max\"\nagent = \"claude\"\n\n\
                        [[member]]\nname = \"eva\"\nagent = \"codex\"\n";

/// An editor, and the command that it started. Every message of the command is checked by the official types.
pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    last: u64,
    /// The methods of the requests that wait, by their id as JSON.
    asked: RefCell<HashMap<String, String>>,
}

impl Editor {
    pub fn start(context: &TestContext, arguments: &[&str]) -> Self {
        let mut child = context
            .command(&[&["acp"], arguments].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                // Fails if the line is not a message of the protocol.
                let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
                assert_eq!(message["jsonrpc"], "2.0");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut editor =
            Self { stdin: child.stdin.take(), child, messages, last: 0, asked: RefCell::default() };
        let (_, hello) = editor.request("initialize", &json!({"protocolVersion": 1}));
        assert_eq!(hello["result"]["protocolVersion"], 1);
        editor
    }

    pub fn write(&mut self, line: &str) {
        let sent: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(method) = sent["method"].as_str().filter(|_| !sent["id"].is_null()) {
            self.asked.borrow_mut().insert(sent["id"].to_string(), method.to_owned());
        }
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&request.to_string());
        id
    }

    pub fn next(&self) -> Value {
        let message = self.messages.recv_timeout(Duration::from_mins(2)).expect("a message");
        let asked = match &message["method"] {
            Value::Null => self.asked.borrow_mut().remove(&message["id"].to_string()),
            _ => None,
        };
        acp::check(&message, asked.as_deref());
        message
    }

    /// Returns the messages before a response, and the response.
    pub fn until(&self, id: u64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id && message["method"].is_null() {
                return (before, message);
            }
            before.push(message);
        }
    }

    pub fn request(&mut self, method: &str, params: &Value) -> (Vec<Value>, Value) {
        let id = self.send(method, params);
        self.until(id)
    }

    pub fn open(&mut self, context: &TestContext) -> String {
        let (before, opened) =
            self.request("session/new", &json!({"cwd": context.path(), "mcpServers": []}));
        assert!(before.is_empty(), "{before:?}");
        let session = opened["result"]["sessionId"].as_str().expect("a session").to_owned();
        let announced = self.next();
        assert_eq!(announced["params"]["update"]["sessionUpdate"], "available_commands_update");
        session
    }

    pub fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Returns the words and the response of a prompt.
    pub fn prompt(&mut self, session: &str, text: &str) -> (String, Value) {
        let id = self.send_prompt(session, text);
        let (before, response) = self.until(id);
        (words(&before, "agent_message_chunk"), response)
    }

    pub fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        self.write(&cancel.to_string());
    }

    /// Sends SIGTERM, and waits for the end of the command.
    pub fn terminate(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// Closes the connection, and waits for the end of the command.
    pub fn close(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Returns the texts of the updates of a kind, joined.
pub fn words(messages: &[Value], kind: &str) -> String {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
}
