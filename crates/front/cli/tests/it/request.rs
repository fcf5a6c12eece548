//! `convoke request`.

use serde_json::Value;

use crate::context::TestContext;

const CONFIG: &str = r#"
model = "some-model"
model_context_window = 128000
approval_policy = "on-request"
developer_instructions = "Answer in verse."

[profiles.terse]
model = "gpt-5.2"
model_verbosity = "low"
"#;

const SKILL: &str = "---\nname: alpha\ndescription: The first letter.\n---\nSay A.\n";

const TOOLS: &str = r#"[{"type":"function","name":"look","description":"Looks.","strict":false,"parameters":{"type":"object","properties":{}}}]"#;

const ROLLOUT: &str = concat!(
    r#"{"timestamp":"t","type":"session_meta","payload":{"id":"0190-recorded","cwd":"/","base_instructions":{"text":"Be the recorded one."}}}"#,
    "\n",
    r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"first"}]}}"#,
    "\n",
    r#"{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"look","arguments":"{}","call_id":"c1"}}"#,
    "\n",
    r#"{"timestamp":"t","type":"turn_context","payload":{"model":"some-model"}}"#,
    "\n",
    r#"{"timestamp":"t","type":"response_item","payl"#,
);

fn project() -> TestContext {
    let project = TestContext::new()
        .file("repo/.git/HEAD", "ref: refs/heads/main\n")
        .file("repo/AGENTS.md", "Use tabs.\n")
        .file("repo/sub/AGENTS.md", "Use spaces.\n")
        .file(".codex/config.toml", CONFIG)
        .file(".codex/skills/alpha/SKILL.md", SKILL)
        .file("tools.json", TOOLS)
        .file("rollout.jsonl", ROLLOUT);
    let home = project.path().to_string_lossy().into_owned();
    project.env("HOME", &home)
}

const HERE: [&str; 7] =
    ["request", "--shell", "/bin/sh", "--cd", "repo/sub", "--tools", "tools.json"];

fn here(more: &[&'static str]) -> Vec<&'static str> {
    HERE.iter().chain(more).copied().collect()
}

fn body(project: &TestContext, arguments: &[&str]) -> Value {
    let output = project.output(arguments, b"");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 2, "{arguments:?}: {said}");
    assert!(said.contains("shape codex@0.98, pack convoke"), "{said}");
    serde_json::from_slice(&output.stdout).expect("a JSON body")
}

/// Returns the texts of all items.
fn texts(body: &Value) -> Vec<String> {
    let items = body["input"].as_array().expect("items").iter();
    let parts = items.flat_map(|item| item["content"].as_array().cloned().unwrap_or_default());
    parts.map(|part| part["text"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn standard_output_is_the_body_alone() {
    let project = project();
    let mut body = body(&project, &here(&["Use $alpha"]));
    let instructions = body["instructions"].as_str().unwrap().len();
    assert!(instructions > 1000, "the built-in pack has instructions");
    body["instructions"] = "[INSTRUCTIONS]".into();
    let shown = serde_json::to_string_pretty(&body).unwrap();
    let directory = project.path().canonicalize().unwrap();
    let shown = shown.replace(&*directory.to_string_lossy(), "[DIRECTORY]");
    insta::assert_snapshot!(shown);
}

#[test]
fn the_same_directory_gives_the_same_bytes() {
    let project = project();
    let once = project.output(&here(&["hello"]), b"").stdout;
    assert_eq!(once, project.output(&here(&["hello"]), b"").stdout);
}

#[test]
fn the_prompt_comes_from_standard_input_to_the_byte() {
    let project = project();
    let input = "  several\n\nlines \u{1f600}\n";
    for arguments in [here(&["-"]), here(&[])] {
        let output = project.output(&arguments, input.as_bytes());
        let body: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(texts(&body).last().unwrap(), input);
    }
}

#[test]
fn the_ledger_adds_up_to_the_body() {
    let project = project();
    let plain = project.output(&here(&["hello"]), b"").stdout;
    let json = project.output(&here(&["hello", "--json"]), b"").stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["path"], "/responses");
    assert_eq!(json["body"], serde_json::from_slice::<Value>(&plain).unwrap());
    let entries = json["ledger"]["entries"].as_array().unwrap();
    let sum: u64 = entries.iter().map(|entry| entry["keptBytes"].as_u64().unwrap()).sum();
    assert_eq!(sum, plain.len() as u64);
    assert_eq!(json["ledger"]["usedBytes"], sum);
    let mut sections: Vec<_> =
        entries.iter().map(|entry| entry["section"].as_str().unwrap()).collect();
    sections.retain(|section| *section != "envelope");
    sections.dedup();
    assert_eq!(
        sections,
        [
            "instructions",
            "permissions",
            "developer-instructions",
            "user-instructions",
            "environment",
            "user",
            "tools",
        ]
    );
}

#[test]
fn explain_leaves_standard_output_as_it_is() {
    let project = project();
    let plain = project.output(&here(&["hello"]), b"");
    let explained = project.output(&here(&["hello", "--explain"]), b"");
    assert_eq!(plain.stdout, explained.stdout);
    let table = String::from_utf8(explained.stderr).unwrap();
    assert!(table.starts_with("POST /responses\nshape codex@0.98, pack convoke\n"), "{table}");
    for named in ["sandbox_mode", "repo/AGENTS.md", "repo/sub/AGENTS.md", "skills", "tools"] {
        assert!(table.contains(named), "{named} is in\n{table}");
    }
}

#[test]
fn codex_exec_never_asks_unless_told_to() {
    let project = project();
    let cases = [
        (here(&["x"]), "policy is `never`"),
        (here(&["x", "-c", "approval_policy=untrusted"]), "policy is `never`"),
        (here(&["x", "--full-auto"]), "policy is `never`"),
        (here(&["x", "--ask-for-approval", "on-request"]), "policy is `on-request`"),
        (here(&["x", "-a", "untrusted"]), "policy is `unless-trusted`"),
        (here(&["x"]), "`read-only`"),
        (here(&["x", "--sandbox", "workspace-write"]), "`workspace-write`"),
        (here(&["x", "--full-auto", "--add-dir", "/extra"]), "`/extra`"),
        (here(&["x", "--dangerously-bypass-approvals-and-sandbox"]), "`danger-full-access`"),
    ];
    for (arguments, expected) in cases {
        let permissions = texts(&body(&project, &arguments)).remove(0);
        assert!(permissions.contains(expected), "{arguments:?}:\n{permissions}");
    }
}

#[test]
fn configuration_profiles_and_overrides_hold_as_in_codex() {
    let project = project();
    let cases = [
        (here(&["x"]), "/model", "some-model"),
        (here(&["x", "--profile", "terse"]), "/model", "gpt-5.2"),
        (here(&["x", "--profile", "terse"]), "/text/verbosity", "low"),
        (here(&["x", "-p", "terse", "-m", "other"]), "/model", "other"),
        (here(&["x", "-c", "model=third"]), "/model", "third"),
        (here(&["x", "-c", "developer_instructions='No.'"]), "/input/1/content/0/text", "No."),
        (here(&["x", "--output-schema", "tools.json"]), "/text/format/name", "codex_output_schema"),
    ];
    for (arguments, place, expected) in cases {
        let body = body(&project, &arguments);
        let found = body.pointer(place).and_then(Value::as_str);
        assert_eq!(found, Some(expected), "{arguments:?}");
    }
    let empty_home = project.file("home/AGENTS.md", "Home rules.");
    let body = body(&empty_home, &here(&["x", "--codex-home", "home"]));
    assert_eq!(body["model"], "gpt-5.2-codex");
    assert!(texts(&body)[1].contains("Home rules."));
}

#[test]
fn the_chat_wire_is_another_mapping_of_the_same_prompt() {
    let project = project();
    let body = body(&project, &here(&["hello", "--wire", "chat"]));
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "developer", "developer", "user", "user", "user"]);
    assert_eq!(messages[5]["content"], "hello");
    assert_eq!(body["tools"][0]["function"]["name"], "look");
}

#[test]
fn a_recorded_thread_is_continued() {
    let project = project();
    let output = project.output(&here(&["second", "--rollout", "rollout.jsonl"]), b"");
    let body: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(body["instructions"], "Be the recorded one.");
    assert_eq!(body["prompt_cache_key"], "0190-recorded");
    let kinds: Vec<_> = body["input"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(kinds[..3], ["message", "function_call", "function_call_output"]);
    assert_eq!(body["input"][2]["output"], "aborted");
    let texts = texts(&body);
    assert_eq!((&*texts[0], &*texts[texts.len() - 1]), ("first", "second"));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
}

#[test]
fn a_thread_of_another_version_is_refused_unless_a_shape_is_named() {
    let newer = ROLLOUT.replace("\"cwd\":\"/\"", "\"cwd\":\"/\",\"cli_version\":\"0.166.0\"");
    let same = newer.replace("0.166.0", "0.98.3");
    let project = project().file("newer.jsonl", newer).file("same.jsonl", same);
    insta::assert_snapshot!(project.run(&here(&["second", "--rollout", "newer.jsonl"])), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: --rollout: it was recorded by Codex 0.166.0, and the request would have the shape codex@0.98; to continue it in this shape anyway, pass --shape codex@0.98
    ");
    for arguments in [
        here(&["second", "--rollout", "newer.jsonl", "--shape", "codex@0.98"]),
        here(&["second", "--rollout", "same.jsonl"]),
    ] {
        assert_eq!(project.output(&arguments, b"").status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn an_installed_codex_of_another_version_is_named_in_every_output() {
    let script = "#!/bin/sh\nexit 9\n";
    let package = r#"{"name": "@openai/codex", "version": "0.166.0"}"#;
    let project = project().file("package.json", package).own_program("codex", script);
    let said = String::from_utf8(project.output(&here(&["hi"]), b"").stderr).unwrap();
    assert_eq!(
        said,
        "POST /responses\nshape codex@0.98, pack convoke; codex 0.166.0 is installed: --agent codex shows its own request\n"
    );
    let json: Value =
        serde_json::from_slice(&project.output(&here(&["hi", "--json"]), b"").stdout).unwrap();
    let named = ["shape", "pack", "installed", "measured"].map(|name| json[name].clone());
    assert_eq!(
        named,
        ["codex@0.98".into(), "convoke".into(), "0.166.0".into(), Value::from(false)]
    );
}

#[test]
fn a_terminal_shows_the_parts_and_not_the_body() {
    let project = project().env("NO_COLOR", "1");
    let Some(shown) = project.on_a_terminal(&here(&["hello"]), "") else { return };
    assert!(shown.starts_with("POST /responses\r\nshape codex@0.98, pack convoke"), "{shown}");
    assert!(shown.contains("── user  input[2].content[0]"), "{shown}");
    assert!(shown.contains("repo/AGENTS.md") && shown.contains("\nUse tabs.\r\n"), "{shown}");
    assert!(shown.contains("── tool look") && !shown.contains("\"input\":["), "{shown}");
}

#[test]
fn a_full_thread_is_compacted_first() {
    let usage = r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"total_tokens":900000},"total_token_usage":{"total_tokens":900000}}}}"#;
    let whole = ROLLOUT.rsplit_once('\n').unwrap().0;
    let project = project().file("full.jsonl", format!("{whole}\n{usage}\n"));
    // A provider of our own: the built-in one compacts threads itself.
    let provider = [
        "second",
        "--rollout",
        "full.jsonl",
        "-c",
        "model_provider=mine",
        "-c",
        "model_providers.mine={name='Mine',base_url='http://127.0.0.1'}",
        "--deny",
        "thread.compacts",
    ];
    let output = project.output(&here(&provider), b"");
    assert_eq!(output.status.code(), Some(3));
    let body: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(body["tools"], serde_json::json!([]));
    assert!(texts(&body).last().unwrap().starts_with("This conversation is about to be shortened"));
}

#[test]
fn a_model_of_which_nothing_is_known_is_named() {
    let project = project().file(".codex/config.toml", "");
    let output = project.output(&here(&["hi", "-m", "gpt-5.2-codx", "--json"]), b"");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["diagnostics"], serde_json::json!([]), "its family is known");
    let unknown = here(&["hi", "-m", "nosuchmodel", "--json", "--deny", "model.unknown"]);
    let output = project.output(&unknown, b"");
    assert_eq!(output.status.code(), Some(3));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["diagnostics"][0]["code"], "model.unknown");
    let message = answer["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("`nosuchmodel`") && message.contains("128000 tokens"), "{message}");
}

#[test]
fn a_denied_diagnostic_is_exit_code_3() {
    let project = project();
    let without_tools = ["request", "--shell", "/bin/sh", "x", "--deny", "tools.missing"];
    assert_eq!(project.output(&without_tools, b"").status.code(), Some(3));
    let cut = ["x", "-c", "project_doc_max_bytes=4", "--deny", "agents-md.truncated"];
    assert_eq!(project.output(&here(&cut), b"").status.code(), Some(3));
    assert_eq!(
        project.output(&here(&["x", "--deny", "tools.missing"]), b"").status.code(),
        Some(0)
    );
}

#[test]
fn bad_input_is_named_and_explained() {
    let project = project()
        .file("bad.json", "{\"a\":\n")
        .file("object.json", "{}")
        .file("untyped.json", "[{\"type\":\"function\"},{\"name\":\"x\"}]")
        .file("not-a-record.jsonl", "{\"type\":\"response_item\",\"payload\":{}}\n")
        .file("torn-home/config.toml", "model = \n")
        .file("typed-home/config.toml", "project_doc_max_bytes = \"many\"\n")
        .file("pack/pack.toml", "name = \"mine\"\nshape = \"codex@0.98\"\n")
        .file("odd-pack/pack.toml", "name = \"odd\"\nshape = \"codex@7\"\n");
    let cases: &[(&str, &[&'static str])] = &[
        ("an unknown shape", &["x", "--shape", "codex@0.1"]),
        ("an unknown sandbox", &["x", "--sandbox", "none"]),
        ("an unknown policy", &["x", "--ask-for-approval", "always"]),
        ("an unknown wire", &["x", "--wire", "smoke"]),
        ("an unknown code", &["x", "--deny", "tools.mising"]),
        ("an override without a value", &["x", "-c", "model"]),
        ("an unknown profile", &["x", "--profile", "loud"]),
        ("an unknown provider", &["x", "-c", "model_provider=nobody"]),
        ("no pack", &["x", "--pack", "nowhere"]),
        ("a pack that lacks a file", &["x", "--pack", "pack"]),
        ("a pack of an unknown shape", &["x", "--pack", "odd-pack"]),
        ("tools that are no JSON", &["x", "--tools", "bad.json"]),
        ("tools that are no list", &["x", "--tools", "object.json"]),
        ("a tool without a type", &["x", "--tools", "untyped.json"]),
        ("tools that are not there", &["x", "--tools", "none.json"]),
        ("models that are none", &["x", "--models", "untyped.json"]),
        ("a schema that is no JSON", &["x", "--output-schema", "bad.json"]),
        ("a schema on the Chat wire", &["x", "--wire", "chat", "--output-schema", "object.json"]),
        ("a rollout that is none", &["x", "--rollout", "not-a-record.jsonl"]),
        ("a home that is not there", &["x", "--codex-home", "nowhere"]),
        ("a configuration that is no TOML", &["x", "--codex-home", "torn-home"]),
        ("a key of the wrong type", &["x", "--codex-home", "typed-home"]),
        ("instructions that are not there", &["x", "-c", "model_instructions_file=none.md"]),
        ("a directory that is not there", &["x", "--cd", "nowhere"]),
        ("no prompt", &[]),
    ];
    let run = |(name, arguments): &(&str, &[&'static str])| {
        let all: Vec<_> = ["request"].iter().chain(*arguments).copied().collect();
        format!("## {name}\n{}", project.run(&all))
    };
    insta::assert_snapshot!(cases.iter().map(run).collect::<Vec<_>>().join("\n\n"));
    let bytes = project.run_with_input(&["request"], b"ab\xff");
    insta::assert_snapshot!("a_prompt_that_is_not_utf8", bytes);
}
