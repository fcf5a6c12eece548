//! A model server on bare sockets.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::KEY;

/// A request that called a model.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A model server of one machine: answers every call with one sentence, and keeps it. The first call can be
/// answered with a command for the shell of the program.
pub struct ModelServer {
    pub port: u16,
    pub calls: Arc<Mutex<Vec<Got>>>,
}

/// The fate of the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The provider refuses it: too many requests.
    Refused,
    /// The connection ends in the middle.
    Cut,
    /// It comes in pieces of a few bytes.
    Trickled,
}

impl ModelServer {
    pub fn start(command: Option<&'static str>) -> Self {
        Self::start_with(command, &[])
    }

    /// Starts a server whose first calls have these faults.
    pub fn start_with(command: Option<&'static str>, faults: &'static [Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Arc<Mutex<Vec<Got>>> = Arc::default();
        let kept = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, &kept, command, faults));
            }
        });
        Self { port, calls }
    }

    /// Returns the variables by which an agent of a kind uses this server, with a key.
    pub fn environment(&self, agent: &str) -> Vec<(&'static str, String)> {
        let key = KEY.to_owned();
        match agent {
            "claude" | "claude-acp" => {
                vec![("ANTHROPIC_API_KEY", key), ("ANTHROPIC_BASE_URL", self.url())]
            }
            "codex" => {
                vec![("CODEX_API_KEY", key), ("OPENAI_BASE_URL", format!("{}/v1", self.url()))]
            }
            _ => vec![("GEMINI_API_KEY", key), ("GOOGLE_GEMINI_BASE_URL", self.url())],
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Vec<Got>>, command: Option<&str>, faults: &[Fault]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((method, got)) = read_from(&mut reader) {
        let is_other = ["count", ":loadCodeAssist", ":list", ":retrieve", ":onboard", ":record"];
        let is_call = method == "POST" && !is_other.iter().any(|it| got.path.contains(it));
        // A program may ask for a title or a choice of models before it has the model act.
        let may_act = is_call && has_tools(&got.body);
        let command = command
            .filter(|_| may_act && !kept.lock().unwrap().iter().any(|it| has_tools(&it.body)));
        let (status, kind, body) = answer(&got, is_call, command);
        let mut fault = None;
        if is_call {
            let mut kept = kept.lock().unwrap();
            fault = faults.get(kept.len());
            kept.push(got);
        }
        if fault == Some(&Fault::Refused) {
            let refused = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\ncontent-length: 58\r\n\r\n{\"error\": {\"type\": \"rate_limit_error\", \"message\": \"slow\"}}";
            if stream.write_all(refused.as_bytes()).is_err() {
                return;
            }
            continue;
        }
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let body = if method == "HEAD" { String::new() } else { body };
        let mut whole = format!("{head}{body}");
        if fault == Some(&Fault::Cut) {
            whole.truncate(head.len() + body.len() / 2);
        }
        let pieces = if fault == Some(&Fault::Trickled) { 7 } else { whole.len() };
        for piece in whole.as_bytes().chunks(pieces) {
            if stream.write_all(piece).is_err() {
                return;
            }
            if pieces < whole.len() {
                // Each piece is a separate packet.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if fault == Some(&Fault::Cut) {
            return;
        }
    }
}

/// Reads a request: its method, and the rest.
pub fn read_from(reader: &mut impl BufRead) -> Option<(String, Got)> {
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

/// Returns whether a request offers tools.
fn has_tools(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let tools = body["tools"].as_array();
    let wrapped = body["request"]["tools"].as_array();
    tools.or(wrapped).is_some_and(|tools| !tools.is_empty())
}

fn answer(got: &Got, is_call: bool, command: Option<&str>) -> (&'static str, &'static str, String) {
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
        let tier = json!({"currentTier": {"id": "standard-tier", "name": "test"}, "cloudaicompanionProject": "test"});
        return ("200 OK", "application/json", tier.to_string());
    }
    if got.headers.iter().any(|(name, _)| name == "upgrade") {
        // As the relay answers, so that a program continues over HTTP in the same way.
        return ("426 Upgrade Required", "application/json", "{}".to_owned());
    }
    if !is_call {
        return ("200 OK", "application/json", r#"{"models": [], "data": []}"#.to_owned());
    }
    if path.ends_with("/messages") {
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1});
        if let Some(command) = command {
            let input = json!({"command": command, "description": "test"}).to_string();
            return events(&[
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "stop_reason": null, "usage": usage}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": input}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}}),
                json!({"type": "message_stop"}),
            ]);
        }
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
        let said = json!({"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": SAID, "annotations": []}]});
        let item = match command {
            Some(command) => {
                let arguments = json!({"cmd": command, "yield_time_ms": 60_000}).to_string();
                json!({"type": "function_call", "id": "f", "call_id": "c", "status": "completed", "name": "exec_command", "arguments": arguments})
            }
            None => said,
        };
        let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 104});
        return events(&[
            json!({"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress", "output": []}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}}),
        ]);
    }
    let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 4, "totalTokenCount": 104});
    let is_wrapped = path.contains("v1internal");
    let part_of = |part: Value| {
        let answer = json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage});
        if is_wrapped { json!({ "response": answer, "traceId": "t" }) } else { answer }
    };
    let part = |text: &str| part_of(json!({ "text": text }));
    if path.ends_with(":streamGenerateContent") {
        if let Some(command) = command {
            let call = json!({"functionCall": {"name": "run_shell_command", "args": {"command": command, "description": "test"}}});
            return events(&[part_of(call)]);
        }
        return events(&[part(SAID)]);
    }
    let classified = json!({"reasoning": "", "model_choice": "flash"}).to_string();
    ("200 OK", "application/json", part(&classified).to_string())
}
