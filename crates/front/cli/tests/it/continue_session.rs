//! `convoke continue`: from another program's session, and from Convoke's own.

use std::path::Path;

use serde_json::{Value, json};

use crate::TestContext;

const ID: &str = "3f2a0000-0000-4000-8000-000000000001";
/// A key whose format gives it away.
const CANARY: &str =
    "sk-ant-api03-Zq8Xw2Lm5Rt7Yb4Nc6Vd9Kf1Hg3Js0Pa-Zq8Xw2Lm5Rt7Yb4Nc6Vd9Kf1Hg3Js0PaQeWuIoAsDf";

fn record(number: u32, kind: &str, cwd: &Path, message: &Value) -> String {
    let uuid = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
    let parent = number.checked_sub(1).filter(|it| *it > 0).map(uuid);
    let record = json!({
        "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": cwd, "sessionId": ID,
        "version": "2.1.325", "gitBranch": "main", "type": kind, "message": message, "uuid": uuid(number),
        "timestamp": format!("2026-11-02T10:00:{number:02}.000Z"),
    });
    format!("{record}\n")
}

/// Writes a session of Claude Code 2.1.x into a home, and a file that it edited into the directory.
fn with_session() -> TestContext {
    let context = TestContext::new().file("a.rs", "two\n");
    let cwd = context.path().canonicalize().unwrap();
    let person = |text: &str| json!({"role": "user", "content": text});
    let agent = |id: &str, content: Value| {
        json!({
            "id": id, "type": "message", "role": "assistant", "model": "claude-opus-4-5", "content": content,
            "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 5},
        })
    };
    let result = |id: &str, text: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]});
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let edit = json!({"file_path": cwd.join("a.rs"), "old_string": "one", "new_string": "two"});
    let recorded = json!({
        "filePath": cwd.join("a.rs"), "oldString": "one", "newString": "two",
        "structuredPatch": [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+two"]}],
    });
    let records = [
        record(1, "user", &cwd, &person(&format!("Migrate the database; the key is {CANARY}"))),
        record(
            2,
            "assistant",
            &cwd,
            &agent(
                "msg_1",
                json!([{"type": "thinking", "thinking": "hidden thoughts", "signature": "c2ln"}]),
            ),
        ),
        record(3, "assistant", &cwd, &agent("msg_1", json!([call("toolu_1", "Edit", edit)]))),
        record(4, "user", &cwd, &result("toolu_1", "The file was updated."))
            .replace("}\n", &format!(",\"toolUseResult\":{recorded}}}\n")),
        record(
            5,
            "assistant",
            &cwd,
            &agent("msg_2", json!([{"type": "text", "text": "The first table is moved."}])),
        ),
        record(6, "user", &cwd, &person("Now the second one.")),
    ];
    let project = cwd.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let directory = context.home().join(".claude/projects").join(project);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(format!("{ID}.jsonl")), records.concat()).unwrap();
    let home = context.home().to_string_lossy().into_owned();
    context.env("HOME", &home).env("USER", "kim")
}

fn stdout(context: &TestContext, arguments: &[&str]) -> String {
    let output = context.output(arguments, b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_handover_is_printed_for_pasting() {
    let context = with_session();
    let text = stdout(&context, &["continue", "claude:3f2a", "--print"]);
    let places: Vec<usize> = [
        "This is a handover: ",
        "Migrate the database; the key is [redacted]",
        "Now the second one.",
        "The first table is moved.",
        "a.rs: update; as it left it\n> @@ -1 +1 @@\n> -one\n> +two\n",
        "</handover>",
        "Nothing that the person and the agent wrote was left out",
        "1 piece of reasoning",
    ]
    .iter()
    .map(|words| text.find(words).unwrap_or_else(|| panic!("{words} in {text}")))
    .collect();
    assert!(places.is_sorted(), "{text}");
    for behind in [CANARY, "hidden thoughts", "toolu_1", "c2ln"] {
        assert!(!text.contains(behind), "{behind} in {text}");
    }
}

#[test]
fn the_ledger_adds_up_to_the_handover() {
    let context = with_session();
    for budget in ["400", "600", "20000"] {
        let arguments =
            ["continue", "claude:3f2a", "--with", "codex", "--print", "--json", "--budget", budget];
        let value: Value = serde_json::from_str(&stdout(&context, &arguments)).unwrap();
        let text = value["text"].as_str().unwrap();
        let kept = value["ledger"]["entries"].as_array().unwrap().iter();
        let kept: u64 = kept.map(|entry| entry["keptBytes"].as_u64().unwrap()).sum();
        assert_eq!(kept, text.len() as u64);
        assert!(kept.div_ceil(4) <= budget.parse().unwrap(), "{kept} bytes of {budget} tokens");
        assert_eq!((&value["with"], &value["from"]), (&json!("codex"), &json!("claude")));
    }
}

#[test]
fn a_session_starts_in_the_original_directory_and_can_be_continued_again() {
    let context = with_session();
    let elsewhere = context.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let arguments =
        ["continue", "claude:3f2a", "--with", "codex", "--rehearse", "--json", "Finish it."];
    let output = context.command(&arguments).current_dir(&elsewhere).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let events: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let message = events.iter().find(|event| event["type"] == "message").unwrap();
    assert_eq!((&message["from"], &message["to"]), (&json!("you"), &json!(["codex"])));
    let text = message["text"].as_str().unwrap();
    assert!(text.starts_with("Finish it.\n\nThis is a handover: "), "{text}");
    let reply = events.iter().find(|event| event["type"] == "message" && event["from"] == "codex");
    assert!(reply.is_some(), "{events:?}");

    // The next handover has the messages of both sessions, and one frame.
    let again =
        stdout(&context, &["continue", "last", "--with", "gemini", "--print", "And test it."]);
    assert_eq!(again.matches("This is a handover: ").count(), 1, "{again}");
    assert!(again.contains("<handover from=\"claude:3f2a0000 → convoke:"), "{again}");
    for (number, words) in [(2, "Now the second one."), (3, "Finish it.")] {
        assert!(again.contains(&format!("### Message {number}\n> {words}")), "{again}");
    }
    assert!(again.contains("### After message 3, by codex\n> "), "{again}");

    let resumed = stdout(&context, &["run", "--session", "last", "Go on."]);
    assert!(resumed.contains("codex"), "{resumed}");
}

#[test]
fn the_program_itself_can_resume_its_session() {
    let context = with_session();
    let run = |arguments: &[&str]| context.run(&[&["continue", "claude:3f2a"], arguments].concat());
    let unnamed = run(&[]);
    assert!(unnamed.starts_with("exit code: 2"), "{unnamed}");
    assert!(unnamed.contains("say who goes on with it: --with AGENT"), "{unnamed}");
    assert!(unnamed.contains("claude --resume"), "{unnamed}");
    let same = run(&["--with", "claude", "--dry-run"]);
    assert!(same.starts_with("exit code: 0"), "{same}");
    assert!(same.contains("claude would go on with claude:"), "{same}");
    assert!(same.contains("claude can go on with its own session"), "{same}");
    let other = run(&["--with", "codex", "--dry-run", "--explain"]);
    assert!(!other.contains("its own session"), "{other}");
    assert!(other.contains("never handed over"), "{other}");
    let unknown = run(&["--with", "codx", "--dry-run"]);
    assert!(unknown.contains("no agent is called `codx`; did you mean `codex`?"), "{unknown}");
}

#[test]
fn a_directory_that_is_gone_is_an_error_with_advice() {
    let context = with_session();
    let gone = context.home().join("gone");
    let moved = context.path().to_owned();
    let path = std::fs::read_dir(context.home().join(".claude/projects")).unwrap().next().unwrap();
    let path = path.unwrap().path().join(format!("{ID}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let cwd = moved.canonicalize().unwrap();
    std::fs::write(&path, text.replace(&*cwd.to_string_lossy(), &gone.to_string_lossy())).unwrap();
    let shown = context.run(&["continue", "claude:3f2a", "--with", "codex", "--dry-run"]);
    assert!(shown.starts_with("exit code: 2"), "{shown}");
    assert!(shown.contains("is gone") && shown.contains("--here"), "{shown}");
    let here =
        stdout(&context, &["continue", "claude:3f2a", "--with", "codex", "--here", "--print"]);
    // Its files are looked for where the directory is now.
    assert!(here.contains("a.rs: ") && here.contains("as it left it"), "{here}");
}
