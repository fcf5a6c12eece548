//! Sessions of other programs: found, counted, kept and forgotten.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TestContext;

const ID: &str = "7e4b0000-0000-4000-8000-000000000001";
const SECRET_ID: &str = "7e4c0000-0000-4000-8000-000000000002";

struct Fixture {
    context: TestContext,
    session: PathBuf,
}

impl Fixture {
    /// A session of Claude Code in the directory, and one in a directory that is private.
    fn new() -> Self {
        let context = TestContext::new().file("a.rs", "two\n").file("private/x", "");
        let cwd = context.path().canonicalize().unwrap();
        let session = write_session(&context, ID, &cwd, "Migrate the WALRUS table");
        write_session(&context, SECRET_ID, &cwd.join("private"), "Do not tell the PENGUIN");
        let home = context.home().to_string_lossy().into_owned();
        Self { context: context.env("HOME", &home), session }
    }

    fn configure(&self, text: &str) {
        let directory = self.context.home().join("config");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), text).unwrap();
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.context.output(&[arguments, &["--json"]].concat(), b"");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn found(&self, word: &str) -> usize {
        let found = self.json(&["sessions", "search", "--all", word]);
        found["others"].as_array().unwrap().len()
    }

    fn data(&self) -> PathBuf {
        self.context.home().join("data")
    }
}

fn write_session(context: &TestContext, id: &str, cwd: &Path, message: &str) -> PathBuf {
    let record = |kind: &str, number: u32, message: Value, more: Value| {
        let mut record = json!({
            "parentUuid": if number > 1 { json!(format!("{id}-{}", number - 1)) } else { Value::Null },
            "isSidechain": false, "cwd": cwd, "sessionId": id, "version": "2.1.197", "type": kind,
            "message": message, "uuid": format!("{id}-{number}"),
            "timestamp": format!("2026-11-02T10:00:0{number}.000Z"),
        });
        if !more.is_null() {
            record["toolUseResult"] = more;
        }
        format!("{record}\n")
    };
    let agent = |answer: &str, content: Value| {
        json!({
            "id": format!("msg_{answer}_{id}"), "role": "assistant", "model": "house-model", "content": content,
            "stop_reason": "end_turn", "usage": {"input_tokens": 2_000_000, "output_tokens": 100_000},
        })
    };
    let path = cwd.join("a.rs");
    let edit = json!({"type": "tool_use", "id": "t1", "name": "Edit", "input": {
        "file_path": path, "old_string": "one", "new_string": "two"}});
    let recorded = json!({"filePath": path, "oldString": "one", "newString": "two", "structuredPatch":
        [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+two"]}]});
    let result = json!([{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]);
    let records = [
        record("user", 1, json!({"role": "user", "content": message}), Value::Null),
        record("assistant", 2, agent("1", json!([edit])), Value::Null),
        record("user", 3, json!({"role": "user", "content": result}), recorded),
        record(
            "assistant",
            4,
            agent("2", json!([{"type": "text", "text": "Moved."}])),
            Value::Null,
        ),
    ];
    let project = cwd.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let directory = context.home().join(".claude/projects").join(project);
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{id}.jsonl"));
    fs::write(&path, records.concat()).unwrap();
    path
}

/// Returns every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_kept_session_outlives_its_file_and_comes_back_byte_for_byte() {
    let fixture = Fixture::new();
    let bytes = fs::read(&fixture.session).unwrap();
    let kept = fixture.json(&["sessions", "keep", "--all"]);
    assert_eq!((&kept["copied"], &kept["unchanged"]), (&json!(2), &json!(0)));
    let again = fixture.json(&["sessions", "keep", "claude:7e4b"]);
    assert_eq!((&again["copied"], &again["unchanged"]), (&json!(0), &json!(1)));
    assert!(fixture.data().join("kept").exists(), "the copies are in the data directory");
    fs::remove_file(&fixture.session).unwrap();
    assert_eq!(fixture.found("walrus"), 1);
    let shown = fixture.json(&["sessions", "show", "claude:7e4b", "--requests"]);
    assert_eq!(shown["requests"].as_array().unwrap().len(), 2);
    let usage = fixture.json(&["usage", "--by", "session"]);
    assert_eq!(usage["total"]["requests"], 4);
    let back = fixture.context.path().join("back");
    let back_name = back.to_string_lossy();
    let run = ["sessions", "keep", "--restore", &back_name, "claude:7e4b"];
    assert_eq!(fixture.context.output(&run, b"").status.code(), Some(0));
    assert!(fs::read(back.join(format!("{ID}.jsonl"))).unwrap() == bytes);
}

#[test]
fn what_is_forgotten_is_gone_from_the_index_and_the_copies() {
    let fixture = Fixture::new();
    fixture.json(&["sessions", "keep", "--all"]);
    assert_eq!(fixture.found("walrus"), 1);
    let forgotten = fixture.json(&["sessions", "forget", "claude:7e4b"]);
    assert_eq!(forgotten["forgotten"], 1);
    assert_eq!(fixture.found("walrus"), 0);
    for file in files(&fixture.data().join("index")) {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(6).any(|it| it == b"walrus"), "{}", file.display());
    }
    let kept = fixture.json(&["sessions", "keep", "--all"]);
    assert_eq!((&kept["copied"], &kept["unchanged"]), (&json!(0), &json!(1)));
    assert!(fixture.session.exists(), "the program's own file stays");
}

#[test]
fn an_excluded_directory_is_not_listed_counted_searched_or_kept() {
    let fixture = Fixture::new();
    assert_eq!(fixture.found("penguin"), 1);
    let private = fixture.context.path().canonicalize().unwrap().join("private");
    fixture.configure(&format!("[sessions]\nexclude = [{:?}]\n", private.to_string_lossy()));
    assert_eq!(fixture.found("penguin"), 0);
    assert_eq!(fixture.json(&["sessions", "list", "--all"])["total"], 1);
    assert_eq!(fixture.json(&["usage"])["total"]["requests"], 2);
    assert_eq!(fixture.json(&["sessions", "keep", "--all"])["copied"], 1);
    for file in files(&fixture.data().join("index")) {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(7).any(|it| it == b"penguin"), "{}", file.display());
    }
}

#[test]
fn a_price_of_the_user_counts_and_a_model_without_one_is_unknown() {
    let fixture = Fixture::new();
    assert_eq!(fixture.json(&["usage"])["total"]["cost"], Value::Null);
    fixture.configure("[prices.house-model]\ninput = 1.0\noutput = 10.0\n");
    let cost = fixture.json(&["usage"])["total"]["cost"]["amount"].as_f64().unwrap();
    assert!((cost - 4.0 * 3.0).abs() < 1e-9, "{cost}");
    fixture.configure("[price]\n");
    let output = fixture.context.output(&["usage"], b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("config.toml:1: "), "{stderr}");
}

#[test]
fn edits_are_shown_with_their_state_today() {
    let fixture = Fixture::new();
    let state = || {
        let shown = fixture.json(&["sessions", "show", "claude:7e4b", "--changes"]);
        shown["changes"][0]["today"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "as it left it");
    fs::write(fixture.context.path().join("a.rs"), "three\n").unwrap();
    assert_eq!(state(), "changed since");
    fs::remove_file(fixture.context.path().join("a.rs")).unwrap();
    assert_eq!(state(), "gone");
}
