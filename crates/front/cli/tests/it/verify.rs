//! `convoke explain --verify`, with a program that stands for Codex.

use serde_json::Value;

use crate::context::TestContext;

/// Sends the text of the file `sent`, as Codex would.
const CODEX: &str = r#"#!/bin/bash
url=${OPENAI_BASE_URL#http://}
host=${url%%/*}
body=$(cat "${0%/*}/../sent")
exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
printf "POST /${url#*/}/responses HTTP/1.1\r\nhost: $host\r\ncontent-type: application/json\r\n" >&3
printf "content-length: ${#body}\r\n\r\n%s" "$body" >&3
sleep 100
"#;

fn sends(text: &str) -> String {
    let content = serde_json::json!([{"type": "input_text", "text": text}]);
    let message = serde_json::json!({"type": "message", "role": "user", "content": content});
    serde_json::json!({"model": "m", "input": [message], "stream": true}).to_string()
}

fn context() -> TestContext {
    let context = TestContext::new()
        .file("package.json", r#"{"name": "@openai/codex", "version": "0.170.2"}"#)
        .file("home/.codex/config.toml", "[skills.bundled]\nenabled = false\n")
        .file("repo/.git/HEAD", "ref: refs/heads/main\n")
        .file("repo/AGENTS.md", "Use tabs in this repository.\n")
        .file("repo/CLAUDE.md", "Rules for somebody else here.\n")
        .own_program("codex", CODEX);
    let home = context.path().join("home").display().to_string();
    context.env("HOME", &home)
}

fn explain(context: &TestContext, more: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["explain", "repo", "--agent", "codex"], more].concat();
    let output = context.output(&arguments, b"");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Returns `verified`, the version, the edition and the differences of the report.
fn facts(context: &TestContext, more: &[&str]) -> (Value, String, String, usize) {
    let (_, text) = explain(context, &[&["--json"], more].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let agent = &report["agents"][0];
    let differences = agent["diagnostics"].as_array().expect("a list").iter();
    let differences = differences.filter(|it| it["code"] == "explain.differs").count();
    let text = |name: &str| agent[name].as_str().expect("a text").to_owned();
    (agent["verified"].clone(), text("version"), text("rulesOf"), differences)
}

#[test]
fn a_right_explanation_is_verified_and_remembered_for_the_version_and_the_tree() {
    let right = sends("<INSTRUCTIONS>\nUse tabs in this repository.\n\n</INSTRUCTIONS>");
    let context = context().file("sent", right);
    let edition = || "codex@0.166".to_owned();
    let version = || "0.170.2".to_owned();
    assert_eq!(facts(&context, &[]), (Value::Null, version(), edition(), 0));
    let (code, shown) = explain(&context, &["--verify"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("✓ Codex 0.170.2: verified"), "{shown}");
    let (_, shown) = explain(&context, &[]);
    assert!(shown.contains("✓ Codex 0.170.2: verified"), "it is remembered: {shown}");
    assert_eq!(facts(&context, &[]), (true.into(), version(), edition(), 0));

    let context = context.file("repo/AGENTS.md", "Use spaces in this repository.\n");
    assert_eq!(facts(&context, &[]).0, Value::Null, "another tree");
    let context = context.file("repo/AGENTS.md", "Use tabs in this repository.\n");
    assert_eq!(facts(&context, &[]).0, true, "the same tree again");
    let newer = r#"{"name": "@openai/codex", "version": "0.171.0"}"#;
    let context = context.file("package.json", newer);
    assert_eq!(facts(&context, &[]).0, Value::Null, "another version");
    let mode = |path: std::path::PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(context.home().join("data/verified")), 0o700);
}

#[test]
fn a_wrong_explanation_names_the_file_and_the_bytes() {
    let wrong = sends("Use tabs in thi\n\nRules for somebody else here.");
    let context = context().file("sent", wrong);
    let (code, shown) = explain(&context, &["--verify"]);
    assert_eq!(code, Some(1), "{shown}");
    let repo = context.path().join("repo").canonicalize().expect("it is there");
    let repo = repo.display();
    for line in [
        "✗ Codex 0.170.2: it sends something else".to_owned(),
        format!("{repo}/AGENTS.md is explained with 29 bytes, and 15 bytes arrived"),
        format!("{repo}/CLAUDE.md is explained as not loaded"),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    let (verified, _, _, differences) = facts(&context, &[]);
    assert_eq!((verified, differences), (false.into(), 2), "it is remembered");
}

#[test]
fn skills_are_compared_by_name_and_description() {
    let skill = "---\nname: deploy\ndescription: Ships it to the servers.\n---\nbody\n";
    let list = |line: &str| {
        sends(&format!("Use tabs in this repository.\n\n### Available skills\n{line}\n</skills>"))
    };
    let right = list("- deploy: Ships it to the servers. (file: r0/deploy/SKILL.md)");
    let context = context().file("repo/.agents/skills/deploy/SKILL.md", skill).file("sent", right);
    let (code, shown) = explain(&context, &["--verify"]);
    assert_eq!(code, Some(0), "{shown}");
    let cut =
        list("- deploy: Ships it (file: r0/deploy/SKILL.md)\n- other: Else. (file: r0/o/SKILL.md)");
    let context = context.file("sent", cut);
    let (code, shown) = explain(&context, &["--verify"]);
    assert_eq!(code, Some(1), "{shown}");
    for line in [
        "the description of the skill deploy is explained with 24 bytes, and 8 bytes arrived",
        "the skill other arrived and is not explained",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
}
