//! The transport over standard input and output: one message per line.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{Cancellation, Generation, Server};
use crate::lines::lines;

/// The maximum number of simultaneous calls.
const OPEN_CALLS: usize = 32;
/// The maximum number of messages in a batch.
pub const MAX_BATCH: usize = 100;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INTERNAL_ERROR: i64 = -32603;
const BUSY: i64 = -32000;

/// The running calls, by id as JSON.
type Calls = HashMap<String, Cancellation>;

/// Serves one client until its input ends and its calls are answered. A line of more than `max_line_bytes` is
/// refused.
pub fn serve(
    input: impl BufRead,
    output: impl Write + Send,
    server: &Server,
    max_line_bytes: u64,
) -> io::Result<()> {
    let output = Mutex::new(output);
    let calls = Mutex::new(Calls::default());
    let (output, calls) = (&output, &calls);
    std::thread::scope(|threads| {
        for line in lines(input, max_line_bytes) {
            let bytes = match line?.bytes {
                Ok(bytes) => bytes,
                Err(long) => {
                    write(output, &refusal(&Value::Null, INVALID_REQUEST, &long.to_string()))?;
                    continue;
                }
            };
            let Ok(message) = serde_json::from_slice::<Value>(&bytes) else {
                write(output, &refusal(&Value::Null, PARSE_ERROR, "the line is not JSON"))?;
                continue;
            };
            // Version 2025-03-26 has batches. Each message of a batch is answered separately.
            let messages = match message {
                Value::Array(messages) if (1..=MAX_BATCH).contains(&messages.len()) => messages,
                message => vec![message],
            };
            for message in messages {
                let id = message["id"].clone();
                match (message["method"].as_str(), &id) {
                    (Some(method), Value::String(_) | Value::Number(_)) => {
                        let generation = Generation::from_request(&message);
                        if method != "tools/call" {
                            write(output, &server.answer(generation, &message))?;
                            continue;
                        }
                        let cancellation = match begin(calls, &id) {
                            Ok(cancellation) => cancellation,
                            Err(why) => {
                                write(output, &refusal(&id, BUSY, why))?;
                                continue;
                            }
                        };
                        threads.spawn(move || {
                            let call = || server.answer_call(generation, &message, &cancellation);
                            // A panic must not leave the client without an answer.
                            let answer =
                                catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
                                    refusal(&id, INTERNAL_ERROR, "the call failed: it panicked")
                                });
                            lock(calls).remove(&id.to_string());
                            if !cancellation.is_cancelled() {
                                // A disconnected client needs no answer.
                                let _ = write(output, &answer);
                            }
                        });
                    }
                    (Some("notifications/cancelled"), Value::Null) => {
                        cancel(calls, &message["params"]["requestId"]);
                    }
                    (Some(_), Value::Null) => {}
                    // A response, although no request was sent.
                    (None, _) if message.is_object() && !message["id"].is_null() => {}
                    _ => {
                        let why = "the line is not a JSON-RPC message, or a batch of too many";
                        write(output, &refusal(&Value::Null, INVALID_REQUEST, why))?;
                    }
                }
            }
        }
        Ok(())
    })
}

fn begin(calls: &Mutex<Calls>, id: &Value) -> Result<Cancellation, &'static str> {
    let mut calls = lock(calls);
    if calls.len() >= OPEN_CALLS {
        return Err("too many calls are running");
    }
    match calls.entry(id.to_string()) {
        Entry::Occupied(_) => Err("a call with this id is already running"),
        Entry::Vacant(free) => Ok(free.insert(Cancellation::default()).clone()),
    }
}

fn cancel(calls: &Mutex<Calls>, id: &Value) {
    let cancelled = lock(calls).get(&id.to_string()).cloned();
    if let Some(cancellation) = cancelled {
        cancellation.cancel();
    }
}

fn lock(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn write(output: &Mutex<impl Write>, message: &Value) -> io::Result<()> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(output, "{message}")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use serde_json::Map;

    use super::*;
    use crate::mcp::{Tool, ToolResult, Tools};

    /// Tools that echo, and that answer only when two calls run at the same time.
    struct Echo(Barrier);

    impl Tools for Echo {
        fn list(&self) -> Vec<Tool> {
            vec![Tool {
                name: "echo".to_owned(),
                description: "Echoes.".to_owned(),
                schema: json!({ "type": "object" }),
                only_reads: true,
            }]
        }

        fn call(
            &self,
            name: &str,
            arguments: Map<String, Value>,
            cancellation: &Cancellation,
        ) -> Option<ToolResult> {
            match name {
                "echo" => {}
                "panic" => panic!("on purpose"),
                "meet" => drop(self.0.wait()),
                "wait" => {
                    let (sender, cancelled) = std::sync::mpsc::channel();
                    cancellation.on_cancel(move || sender.send(()).unwrap());
                    cancelled.recv().unwrap();
                }
                _ => return None,
            }
            Some(ToolResult { text: Value::Object(arguments).to_string(), is_error: false })
        }

        fn instructions(&self) -> &'static str {
            "Echoes."
        }
    }

    fn served(input: &str) -> Vec<Value> {
        let server = Server::new(Arc::new(Echo(Barrier::new(2))), "test", "1");
        let mut output = Vec::new();
        serve(input.as_bytes(), &mut output, &server, 10_000).unwrap();
        let output = String::from_utf8(output).unwrap();
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn answered(request: &Value) -> Value {
        let answers = served(&format!("{request}\n"));
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].clone()
    }

    #[test]
    fn a_client_that_opens_a_connection_gets_its_version() {
        for (asked, given) in [
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
            let answer = answered(
                &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
            );
            assert_eq!(answer["result"]["protocolVersion"], given);
            assert_eq!(answer["result"]["capabilities"], json!({ "tools": {} }));
        }
        assert_eq!(
            answered(&json!({ "jsonrpc": "2.0", "id": "a", "method": "ping" }))["result"],
            json!({})
        );
        let listed = answered(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
        assert_eq!(listed["result"]["tools"][0]["name"], "echo");
        assert!(listed["result"].get("resultType").is_none());
    }

    #[test]
    fn a_client_that_names_its_version_needs_no_connection() {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = |method: &str, meta: &Value| {
            let params = json!({ "name": "echo", "arguments": {}, "_meta": meta });
            answered(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
        };
        let found = request("server/discover", &meta);
        assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
        for method in ["tools/list", "tools/call"] {
            assert_eq!(request(method, &meta)["result"]["resultType"], "complete");
        }
        assert_eq!(request("ping", &meta)["error"]["code"], -32601);
        let mut newer = meta.clone();
        newer["io.modelcontextprotocol/protocolVersion"] = "2027-01-01".into();
        let refused = request("tools/list", &newer);
        assert_eq!(refused["error"]["code"], -32022);
        assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
        let mut lacking = meta;
        lacking.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(request("tools/list", &lacking)["error"]["code"], -32602);
        assert_eq!(request("server/discover", &json!({}))["error"]["code"], -32602);
    }

    #[test]
    fn a_call_that_panics_is_answered_and_the_next_is_served() {
        let call = |id: u32, name: &str| {
            let params = json!({ "name": name, "arguments": {} });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        let mut answers = served(&format!("{}\n{}\n", call(1, "panic"), call(2, "echo")));
        answers.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(answers[0]["error"]["code"], INTERNAL_ERROR, "{answers:?}");
        assert_eq!((&answers[1]["id"], answers[1]["error"].is_null()), (&json!(2), true));
    }

    #[test]
    fn calls_run_at_the_same_time_and_each_is_answered_once() {
        let call = |id: u32| {
            let params = json!({ "name": "meet", "arguments": { "id": id } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        let mut answers = served(&format!("{}\n{}\n", call(1), call(2)));
        answers.sort_by_key(|answer| answer["id"].as_u64());
        for (answer, id) in answers.iter().zip(1..) {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!((answer["id"].as_u64(), text), (Some(id), &*format!("{{\"id\":{id}}}")));
        }
        // Also in a batch with other messages.
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
        let batch = json!([call(1), initialized, ping, call(2), 7]);
        let mut ids: Vec<Value> =
            served(&format!("{batch}\n")).iter().map(|answer| answer["id"].clone()).collect();
        ids.sort_by_key(Value::as_u64);
        assert_eq!(ids, [Value::Null, json!(1), json!(2), json!(3)]);
        let large = json!(vec![json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }); 101]);
        let answers = served(&format!("{large}\n"));
        assert_eq!((answers.len(), &answers[0]["error"]["code"]), (1, &json!(INVALID_REQUEST)));
        // A cancelled call is not answered.
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        let answers = served(&format!("{}\n{cancel}\n{}\n", call(1), call(2)));
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0]["id"], 2);
    }

    #[test]
    fn a_cancelled_call_ends_without_an_answer_and_its_tool_is_notified() {
        let params = json!({ "name": "wait", "arguments": {} });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let cancel = |id: u32| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        let input = format!("{call}\n{}\n{}\n", cancel(7), cancel(1));
        assert_eq!(served(&input), Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_request_is_refused_or_passed_over() {
        for (line, code) in [
            ("noise", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            ("3", INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, -32601),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#, -32602),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#,
                -32602,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
        ] {
            let answers = served(&format!("{line}\n"));
            assert_eq!(answers[0]["error"]["code"], code, "{line}");
        }
        let long = format!("{:?}\n", "x".repeat(20_000));
        assert_eq!(served(&long)[0]["error"]["code"], INVALID_REQUEST);
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            "",
        ] {
            assert_eq!(served(&format!("{line}\n")), Vec::<Value>::new(), "{line}");
        }
    }
}
