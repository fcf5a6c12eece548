//! The server scenarios of the official conformance suite of MCP that apply to a server of tools, against the handler of
//! `convoke mcp` behind a transport over HTTP, which the suite needs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use convoke_pipe::mcp::{Cancellation, Generation, Server, Tool, ToolResult, Tools};
use serde_json::{Map, Value, json};

/// The scenarios, with the version of the protocol that each is run in.
const SCENARIOS: [(&str, &str); 12] = [
    ("server-initialize", "2025-06-18"),
    ("server-initialize", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-06-18"),
    ("tools-list", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("tools-call-simple-text", "2025-11-25"),
    ("tools-call-simple-text", "2026-07-28"),
    ("tools-call-error", "2025-11-25"),
    ("tools-call-error", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
];

/// The checks of `server-stateless` that need a tool which asks its client for something. No tool here does.
const NOT_TESTABLE: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

/// The tools that the scenarios call.
struct Fixtures;

impl Tools for Fixtures {
    fn list(&self) -> Vec<Tool> {
        let tool = |name: &str| Tool {
            name: name.to_owned(),
            description: "For tests.".to_owned(),
            schema: json!({ "type": "object", "properties": {} }),
            only_reads: true,
        };
        vec![tool("test_simple_text"), tool("test_error_handling")]
    }

    fn call(&self, name: &str, _: Map<String, Value>, _: &Cancellation) -> Option<ToolResult> {
        let (text, is_error) = match name {
            "test_simple_text" => ("This is a simple text response for testing.", false),
            "test_error_handling" => ("This tool intentionally returns an error for testing", true),
            _ => return None,
        };
        Some(ToolResult { text: text.to_owned(), is_error })
    }

    fn instructions(&self) -> &'static str {
        "For tests."
    }
}

/// A request over HTTP.
struct Request {
    method: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut input = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            input.read_line(&mut line).ok().filter(|count| *count > 0)?;
            Some(line.trim_end().to_owned())
        };
        let method = line()?.split(' ').next()?.to_owned();
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|length| length.parse().ok());
        input.take(length.unwrap_or(0)).read_to_end(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the status and the body of the response.
    fn answer(&self, server: &Server) -> (u16, Option<Value>) {
        if self.method != "POST" {
            return (405, None);
        }
        let Ok(message) = serde_json::from_slice::<Value>(&self.body) else { return (400, None) };
        if message["id"].is_null() {
            return (202, None);
        }
        let names_version = self.header("mcp-protocol-version") == Some("2026-07-28");
        let generation =
            if names_version { Generation::Named } else { Generation::from_request(&message) };
        if generation == Generation::Named
            && let Some(why) = self.mismatch(&message)
        {
            let error = json!({ "code": -32020, "message": why });
            return (400, Some(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })));
        }
        let answer = server.answer(generation, &message);
        let status = match (generation, answer["error"]["code"].as_i64()) {
            (Generation::Named, Some(-32601)) => 404,
            (Generation::Named, Some(_)) => 400,
            _ => 200,
        };
        (status, Some(answer))
    }

    /// Returns the header that contradicts the body.
    fn mismatch(&self, message: &Value) -> Option<&'static str> {
        let params = &message["params"];
        let version = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let differs = |header: &str, value: &Value| {
            value.as_str().is_some_and(|value| self.header(header) != Some(value))
        };
        if differs("mcp-protocol-version", version) {
            return Some("the version of the header is another");
        }
        if differs("mcp-method", &message["method"]) {
            return Some("the method of the header is another");
        }
        let has_name = message["method"] == "tools/call";
        (has_name && differs("mcp-name", &params["name"]))
            .then_some("the name of the header is another")
    }
}

/// Serves on a loopback port until the process ends, and returns the address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Arc::new(Server::new(Arc::new(Fixtures), "convoke", "1"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, server) = (stream.unwrap(), server.clone());
            std::thread::spawn(move || {
                let Some(request) = Request::read(&stream) else { return };
                let (status, body) = request.answer(&server);
                let body = body.map_or(String::new(), |body| body.to_string());
                // The client may have disconnected.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    address
}

#[test]
fn the_server_scenarios_of_the_conformance_suite_pass() {
    let Some(clients) = super::installed() else { return };
    let suite = clients.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let (address, home) = (serve(), tempfile::tempdir().unwrap());
    for (scenario, version) in SCENARIOS {
        let output = Command::new("node")
            .arg(&suite)
            .args(["server", "--url", &address, "--scenario", scenario, "--spec-version", version])
            .current_dir(home.path())
            .env("PATH", super::path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let failed = text.lines().filter(|line| line.contains("FAILURE"));
        let failed: Vec<&str> =
            failed.filter_map(|line| line.split('[').find(|it| it.starts_with("sep-"))).collect();
        let failed: Vec<&str> =
            failed.iter().filter_map(|it| it.split_whitespace().next()).collect();
        if scenario == "server-stateless" {
            assert_eq!(failed, NOT_TESTABLE, "{text}");
            assert!(text.contains("Passed: 21/25"), "{text}");
        } else {
            assert!(output.status.success(), "{scenario} in {version}: {text}");
            assert!(text.contains("Passed: ") && failed.is_empty(), "{text}");
        }
    }
}
