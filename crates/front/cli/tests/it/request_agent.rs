//! `convoke request --agent`, with a program that stands for an agent.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::context::TestContext;

/// Sends a request as Codex would, which names its home, its arguments and its standard input, and notes what it
/// finds there; then it waits for an answer that nobody needs.
const CODEX: &str = r#"#!/bin/bash
url=${OPENAI_BASE_URL#http://}
host=${url%%/*}
said=$(cat)
{ ls -A "$CODEX_HOME"; cat "$CODEX_HOME/config.toml"; env; } >"$0.seen"
for file in "$CODEX_HOME"/*; do echo scribble >>"$file" 2>/dev/null; done
body='{"model":"gpt-x","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"home '$CODEX_HOME' and '$HOME', arguments '$*'"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"'$said'"}]}],"stream":true}'
exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
printf "POST /${url#*/}/responses HTTP/1.1\r\nhost: $host\r\ncontent-type: application/json\r\n" >&3
printf "content-length: ${#body}\r\n\r\n%s" "$body" >&3
sleep 100
"#;

const CONFIG: &str = "model = \"x\"\nmodel_provider = \"mine\"\n[model_providers.mine]\nname = \"Mine\"\nbase_url = \"https://mine.example\"\nexperimental_bearer_token = \"hunter2\"\n";

fn context() -> TestContext {
    let context = TestContext::new()
        .file("package.json", r#"{"name": "@openai/codex", "version": "0.200.1"}"#)
        .file("home/.codex/config.toml", CONFIG)
        .file("home/.codex/auth.json", "{\"OPENAI_API_KEY\": \"hunter2\"}")
        .file("home/.codex/AGENTS.md", "Be kind.\n")
        .own_program("codex", CODEX);
    let home = context.path().join("home").display().to_string();
    context.env("HOME", &home).env("OPENAI_API_KEY", "hunter2")
}

/// Returns every file below a directory with its content.
fn tree(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            let content = std::fs::read(&path).expect("a file");
            files.push((path, content));
        }
    }
    files.sort();
    files
}

#[test]
fn standard_output_is_the_body_with_the_users_own_paths() {
    let context = context();
    let home = context.path().join("home");
    let before = tree(&home);
    let output = context.output(&["request", "--agent", "codex", "-m", "m", "hello there"], b"");
    let body: Value = serde_json::from_slice(&output.stdout).expect("the body alone");
    let home_text = home.display();
    assert_eq!(
        body["input"][0]["content"][0]["text"],
        format!(
            "home {home_text}/.codex and {home_text}, arguments exec --skip-git-repo-check -m m -"
        )
    );
    assert_eq!(body["input"][1]["content"][0]["text"], "hello there");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.starts_with("codex 0.200.1  measured offline  gpt-x"), "{said}");
    assert_eq!(tree(&home), before, "nothing is written into the user's home");
}

#[test]
fn a_gateway_in_the_settings_of_claude_is_not_taken_for_its_vendor() {
    let script = "#!/bin/bash\nenv >\"$0.seen\"\nexit 1\n";
    let mark = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1";
    for (settings, is_first_party) in [
        (r#"{"env": {"ANTHROPIC_BASE_URL": "https://gateway.example"}}"#, false),
        (r#"{"env": {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}}"#, true),
        ("{}", true),
    ] {
        let context = TestContext::new()
            .file("package.json", r#"{"name": "@anthropic-ai/claude-code", "version": "2.1.325"}"#)
            .file("home/.claude/settings.json", settings)
            .own_program("claude", script);
        let home = context.path().join("home").display().to_string();
        // Without a sandbox, so that the program can write beside itself what it saw.
        let context = context.env("HOME", &home).env("CONVOKE_LANDLOCK_ABI", "0");
        context.output(&["request", "--agent", "claude", "hello"], b"");
        let seen = std::fs::read_to_string(context.path().join("bin/claude.seen")).expect("it ran");
        assert_eq!(seen.contains(mark), is_first_party, "{settings}: {seen}");
    }
}

#[test]
fn the_program_gets_the_configuration_and_no_credentials() {
    // Without a sandbox, so that the program can write beside itself what it saw.
    let context = context().env("CONVOKE_LANDLOCK_ABI", "0");
    context.output(&["request", "--agent", "codex", "hello"], b"");
    let seen = std::fs::read_to_string(context.path().join("bin/codex.seen")).expect("it ran");
    assert!(seen.contains("config.toml\n") && seen.contains("model_provider = \"mine\""), "{seen}");
    assert!(!seen.contains("auth.json") && !seen.contains("hunter2"), "{seen}");
    assert!(!seen.contains("mine.example"), "{seen}");
}

#[test]
fn json_has_the_body_the_ledger_and_the_version() {
    let context = context().file("AGENTS.md", "hello, rules of this project");
    let arguments = ["request", "--agent", "codex", "--json", "hello, rules of this project"];
    let output = context.output(&arguments, b"");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let facts = ["agent", "version", "measured"].map(|name| json[name].clone());
    assert_eq!(facts, [json!("codex"), json!("0.200.1"), json!(true)]);
    assert_eq!(json["body"]["model"], "gpt-x");
    let used = json["ledger"]["usedBytes"].as_u64().expect("a size");
    let entries = json["ledger"]["entries"].as_array().expect("entries");
    let sum: u64 = entries.iter().map(|entry| entry["keptBytes"].as_u64().expect("bytes")).sum();
    assert_eq!(sum, used);
    let body = json["body"].to_string();
    assert!(used >= body.len() as u64 - 8, "the ledger is of the whole body");
    let codes: Vec<_> = json["diagnostics"].as_array().expect("a list").iter().collect();
    assert_eq!(codes.len(), 1, "{codes:?}");
    assert_eq!(codes[0]["code"], "capture.trust-supplied");
}

#[test]
fn what_cannot_be_measured_is_named_and_explained() {
    let context = context().own_program("claude", "#!/bin/sh\necho 'Not logged in' >&2\nexit 1\n");
    let context = context.file("home/.gemini/x", "").file(".gemini/settings.json", "{}");
    let context = context.own_program("gemini", "#!/bin/sh\ntouch \"$0.ran\"\n");
    let run = |arguments: &[&str]| context.run(&[&["request", "--agent"], arguments].concat());
    let shown = [
        run(&["copilot", "x"]),
        run(&["codex", "x", "--shape", "codex@0.98"]),
        run(&["claude", "x", "--sandbox", "read-only"]),
        run(&["claude", "x", "--codex-home", "home"]),
        run(&["codex", "x", "--cd", "nowhere"]),
        run(&["claude", "x"]),
        run(&["gemini", "x"]),
        TestContext::new().run(&["request", "--agent", "codex", "x"]),
    ];
    insta::assert_snapshot!(shown.join("\n\n"));
    assert!(!context.path().join("bin/gemini.ran").exists(), "an untrusted project runs nothing");
}
