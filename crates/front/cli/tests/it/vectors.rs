//! Conformance from outside: the vectors, through the binary.

use serde_json::{Value, json};

use crate::context::TestContext;

fn vectors(file: &str) -> Vec<Value> {
    let folders = convoke_conformance::own("CONVOKE_VECTORS", &["vectors"]);
    let path = folders.last().expect("a folder").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let vectors: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!vectors.is_empty(), "{} holds no vectors", path.display());
    vectors
}

/// Runs a command over lines of JSON and returns its answers.
fn run(arguments: &[&str], lines: impl Iterator<Item = Value>) -> Vec<Value> {
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    let output = TestContext::new().output(arguments, lines.join("\n").as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn call(id: usize, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn assemble_answers_every_vector() {
    let vectors = vectors("assemble.jsonl");
    let answers = run(&["assemble"], vectors.iter().cloned());
    assert_eq!(vectors.len(), answers.len());
    for (vector, answer) in vectors.iter().zip(&answers) {
        assert_eq!(vector["name"], answer["name"]);
        let expected = &vector["expect"];
        if expected.get("prompt").is_some() {
            assert_eq!(expected["prompt"], answer["prompt"], "{}", vector["name"]);
            assert_eq!(expected["systemFlag"], answer["systemFlag"], "{}", vector["name"]);
        } else if expected.get("error").is_some() {
            assert_eq!(answer["error"]["code"], "budget.too-small", "{}", vector["name"]);
        }
    }
}

#[test]
fn rpc_cleans_and_scans_every_vector() {
    for (file, policy) in [("strip.jsonl", "compat"), ("preserve.jsonl", "preserve")] {
        let vectors = vectors(file);
        let calls = vectors.iter().enumerate().flat_map(|(id, vector)| {
            let text = &vector["text"];
            [call(id, "stripAllMarkers", &json!([text])), call(id, "scan", &json!([text]))]
        });
        let answers = run(&["rpc", "--text", policy], calls);
        for (vector, answers) in vectors.iter().zip(answers.chunks(2)) {
            assert_eq!(vector["expect"], answers[0]["result"], "{}", vector["name"]);
            let mut scan = answers[1]["result"].clone();
            let text = scan.as_object_mut().expect("an object").shift_remove("text");
            assert_eq!(Some(&vector["expect"]), text.as_ref(), "{}", vector["name"]);
            if let Some(expected) = vector.get("scan") {
                assert_eq!(expected, &scan, "{}", vector["name"]);
            }
        }
    }
}

#[test]
fn rpc_plays_every_script() {
    for vector in vectors("context.jsonl") {
        let steps = vector["steps"].as_array().expect("steps");
        let configure = call(0, "configure", &json!([vector["options"]]));
        let calls = steps.iter().enumerate().map(|(index, step)| {
            let method = step["method"].as_str().expect("a method");
            call(index + 1, method, &step["params"])
        });
        let lines = run(&["rpc"], std::iter::once(configure).chain(calls));
        let (events, answers): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.get("method").is_some());
        for (step, answer) in steps.iter().zip(&answers[1..]) {
            let expected = step.get("error").or_else(|| step.get("result")).expect("an outcome");
            assert_eq!(expected, &outcome(step, answer), "{} {step}", vector["name"]);
        }
        let events: Vec<Value> = events.iter().map(|event| compared_event(event)).collect();
        assert_eq!(vector["events"], json!(events), "{}", vector["name"]);
    }
}

/// Reduces an answer to the fields that vectors compare.
fn outcome(step: &Value, answer: &Value) -> Value {
    if let Some(error) = answer.get("error") {
        return error["message"].clone();
    }
    let result = &answer["result"];
    let ids = |messages: &Value| {
        messages.as_array().expect("a list").iter().map(|message| message["id"].clone()).collect()
    };
    match step["method"].as_str().expect("a method") {
        "addMessage" => json!({"id": result["id"]}),
        "getMessages" => Value::Array(ids(result)),
        "getLatestMessage" => result.get("id").cloned().unwrap_or(Value::Null),
        "exportSnapshot" => {
            let mut snapshot = result.clone();
            snapshot.as_object_mut().expect("an object").shift_remove("timestamp");
            snapshot
        }
        _ => result.clone(),
    }
}

fn compared_event(event: &Value) -> Value {
    let param = &event["params"][0];
    match event["method"].as_str() {
        Some("messageAdded") => json!(["messageAdded", param["id"]]),
        method => json!([method, param]),
    }
}
