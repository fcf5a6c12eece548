//! `convoke doctor`, on machines that the tests make up.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::context::TestContext;

/// A machine with nothing on it but a home.
fn machine() -> TestContext {
    let context = TestContext::new().file("home/.keep", "");
    let home = context.path().join("home").to_string_lossy().into_owned();
    // Being root is told too, and tests may run as root.
    context.env("HOME", &home).env("IS_SANDBOX", "1")
}

/// Installs an agent as npm does: a link to a script in a package.
fn install(context: TestContext, command: &str, package: &str, version: &str) -> TestContext {
    let directory = format!("lib/node_modules/{package}");
    let manifest = format!(r#"{{"name": "{package}", "version": "{version}"}}"#);
    let context = context
        .file(&format!("{directory}/package.json"), manifest)
        .own_program("node", "#!/bin/sh\nexit 1\n")
        .file(&format!("{directory}/cli.js"), "#!/usr/bin/env node\n");
    let script = context.path().join(&directory).join("cli.js");
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, permissions).expect("permissions");
    std::os::unix::fs::symlink(&script, context.path().join("bin").join(command)).expect("a link");
    context
}

fn with_all() -> TestContext {
    let context = install(machine(), "claude", "@anthropic-ai/claude-code", "2.1.197");
    let context = install(context, "codex", "@openai/codex", "0.98.0");
    install(context, "gemini", "@google/gemini-cli", "0.61.0")
}

/// The limits of the machine that the tests run on are nobody's business.
fn examine(context: &TestContext, options: &[&str]) -> String {
    let shown = context.run(&[&["doctor"], options].concat());
    let lines = shown.lines().map(|line| match line.strip_prefix("  limit") {
        Some(rest) => {
            let what =
                rest.trim_start().trim_start_matches(|of: char| of.is_ascii_digit() || of == ',');
            format!("  limit     [N]{}", what.trim_start_matches("no limit"))
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_machine_without_agents_is_told_what_to_install() {
    insta::assert_snapshot!(examine(&machine(), &[]));
}

#[test]
fn a_member_with_a_command_of_its_own_can_run_a_turn() {
    let team = "[[member]]\nname = \"max\"\nagent = \"mine\"\n";
    let context = machine().file("convoke.toml", team);
    let config = context.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    let agent = "[agent.mine]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\n";
    std::fs::write(config.join("agents.toml"), agent).unwrap();
    let shown = examine(&context, &[]);
    assert!(shown.contains("max should be able to run a turn."), "{shown}");
    assert!(!shown.contains("doctor.no-agent"), "{shown}");
}

#[test]
fn a_store_that_cannot_be_used_is_a_problem() {
    let context = machine();
    let data = context.home().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("sessions.db"), "not a database").unwrap();
    let shown = examine(&context, &[]);
    assert!(shown.starts_with("exit code: 1") && shown.contains("(doctor.store)"), "{shown}");
    let context = machine();
    std::fs::write(context.home().join("data"), "no directory").unwrap();
    let shown = examine(&context, &[]);
    assert!(shown.contains("data cannot be written (doctor.store)"), "{shown}");
}

#[test]
fn a_provider_that_codex_has_a_key_for_is_a_sign_in() {
    let config = "model_provider = \"mine\"\n[model_providers.mine]\nenv_key = \"MY_KEY\"\n";
    let context = install(machine(), "codex", "@openai/codex", "0.98.0")
        .file("home/.codex/config.toml", config);
    assert!(examine(&context, &[]).contains("Set MY_KEY"));
    let shown = examine(&context.env("MY_KEY", "hunter2"), &[]);
    assert!(shown.contains("MY_KEY is set") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn agents_that_are_installed_and_signed_in_would_run() {
    let context = with_all()
        .env("ANTHROPIC_API_KEY", "hunter2")
        .env("GEMINI_API_KEY", "hunter2")
        .file("home/.codex/auth.json", "hunter2")
        .file("CLAUDE.md", "Be brief.\n")
        .file("AGENTS.md", "Be brief.\n");
    private(&context, "home/.codex/auth.json");
    let shown = examine(&context, &[]);
    assert!(!shown.contains("hunter2"));
    insta::assert_snapshot!(shown);
}

#[test]
fn whatever_would_go_wrong_is_found() {
    let context = install(machine(), "claude", "@anthropic-ai/claude-code", "2.1.50");
    let context = install(context, "codex", "@openai/codex", "0.200.0")
        .own_program("gemini", "#!/usr/bin/env python9\n")
        .env("ANTHROPIC_API_KEY", "hunter2")
        .env("OPENAI_API_KEY", "hunter2")
        .env("HTTPS_PROXY", "http://me:hunter2@proxy.example.com:3128")
        .env("https_proxy", "http://other.example.com:3128")
        .env("ANTHROPIC_BASE_URL", "https://gateway.example.com/v1?key=hunter2")
        .env("TMPDIR", "/nonexistent")
        .file("home/.claude/.credentials.json", "hunter2");
    let shown = examine(&context, &[]);
    assert!(!shown.contains("hunter2"));
    insta::assert_snapshot!(shown);
}

#[test]
fn a_configuration_that_every_run_refuses_is_a_problem() {
    let context =
        with_all().env("CONVOKE_CONFIG_DIR", "config").env("ANTHROPIC_API_KEY", "hunter2");
    let context = context.file("config/agents.toml", "[agent.claude]\ncomand = \"x\"\n");
    let output = context.output(&["doctor", "--json"], b"");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| it["code"] == "doctor.configuration").unwrap();
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("agents.toml") && message.contains("comand"), "{message}");
    assert_eq!(found["level"], "problem");
    let shown = context.output(&["doctor"], b"");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("No agent could run a turn until the problem of this machine is fixed."),
        "{shown}"
    );
    let context = context.file("config/agents.toml", "[agent.claude]\nmodel = \"x\"\n");
    assert_eq!(context.output(&["doctor"], b"").status.code(), Some(0));
}

#[test]
fn a_program_that_is_asked_is_believed_by_its_exact_words() {
    for (answer, code) in [("Not logged in", 1), ("Logged in using ChatGPT", 0), ("logged in?", 1)]
    {
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = login ] && echo '{answer}' >&2 && exit {code}\necho 'codex-cli 0.98.0'\n"
        );
        let context = machine().own_program("codex", &script).file("home/.codex/auth.json", "x");
        private(&context, "home/.codex/auth.json");
        let shown = examine(&context, &["--agent", "codex", "--ask"]);
        insta::assert_snapshot!(
            format!(
                "asked_{code}_{}",
                answer.split(' ').next().unwrap_or_default().trim_end_matches('?')
            ),
            shown
        );
    }
}

#[test]
fn json_has_it_all() {
    let context = with_all().env("CODEX_API_KEY", "hunter2").env("HTTPS_PROXY", "http://proxy:1");
    let output = context.output(&["doctor", "--json", "--agent", "codex"], b"");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut report: Value = serde_json::from_str(&text).expect("JSON");
    for limit in report["limits"].as_array_mut().expect("limits") {
        limit["most"] = Value::Null;
    }
    insta::assert_snapshot!(context.masked(&serde_json::to_string_pretty(&report).expect("JSON")));
}

#[test]
fn a_finding_can_be_denied_and_a_name_can_be_wrong() {
    let context = with_all().env("CODEX_API_KEY", "x").env("ANTHROPIC_API_KEY", "x");
    let shown = [
        examine(&context, &["--agent", "codex,gemini", "--deny", "doctor.not-signed-in"]),
        examine(&context, &["--agent", "cursor"]),
        examine(&context, &["--deny", "doctor.not-signed-inn"]),
    ];
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn an_acp_agent_is_listed_where_it_is_installed() {
    let context = machine().own_program("copilot", "#!/bin/sh\nexit 1\n");
    let shown = examine(&context, &["--agent", "copilot,kimi"]);
    assert!(shown.contains("copilot (ACP)") && shown.contains("/login"), "{shown}");
    assert!(shown.contains("copilot can run a turn if signed in."), "{shown}");
    assert!(!shown.contains("kimi"), "{shown}");
}

#[test]
fn acp_agents_of_ones_own_are_listed_with_what_is_missing() {
    let agents = "[agent.mine]\nkind = \"acp\"\ncommand = \"my-agent\"\n\n\
                  [agent.gone]\nkind = \"acp\"\ncommand = \"/nonexistent/agent\"\n";
    let team = "[[member]]\nname = \"max\"\nagent = \"acp\"\ncommand = \"./agents/max\"\n\n\
                [[member]]\nname = \"kim\"\nagent = \"mine\"\n\n\
                [[member]]\nname = \"lee\"\nagent = \"qwen\"\n";
    let context = machine()
        .file("config/agents.toml", agents)
        .file("convoke.toml", team)
        .program("my-agent", "#!/bin/sh\nexit 1\n");
    let config = context.path().join("config");
    let context = context.env("CONVOKE_CONFIG_DIR", &config.to_string_lossy());
    let untrusted = examine(&context, &["--agent", "mine,gone,max,qwen"]);
    assert!(untrusted.contains("mine (ACP)"), "{untrusted}");
    assert!(untrusted.contains("`/nonexistent/agent` is not an executable file"), "{untrusted}");
    assert!(untrusted.contains("no program is named that may run here"), "{untrusted}");
    assert!(untrusted.contains("npm install -g @qwen-code/qwen-code"), "{untrusted}");
    assert!(untrusted.contains("mine can run a turn if signed in."), "{untrusted}");
    context.output(&["trust", "--yes"], b"");
    let trusted = examine(&context, &["--agent", "max"]);
    assert!(trusted.contains("agents/max` is not an executable file"), "{trusted}");
    let output = context.output(&["doctor", "--agent", "gone", "--json"], b"");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["acp"][0]["findings"][0]["code"], "doctor.not-installed");
}

/// Claude Code of a version that nobody knows: one flag is gone, and one event has another name.
const UNKNOWN_CLAUDE: &str = r#"#!/bin/bash
if [ "$1" = --version ]; then echo "9.9.9 (Claude Code)"; exit; fi
for argument in "$@"; do
    if [ "$argument" = --include-partial-messages ]; then
        echo "error: unknown option '--include-partial-messages'" >&2
        exit 1
    fi
done
read -r line
echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
echo '{"type":"agent_message","message":{"id":"1","model":"m","content":[{"type":"text","text":"Hello."}]},"session_id":"s"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Hello.","session_id":"s"}'
"#;

#[test]
fn a_program_that_could_not_be_asked_is_named_with_the_reason() {
    let context = machine()
        .own_program("claude", UNKNOWN_CLAUDE)
        .env("ANTHROPIC_API_KEY", "hunter2")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file(".git/config", "[include]\n path = /proc/self/cwd/more\n");
    let output = context.output(&["doctor", "--agent", "claude", "--ask", "--json"], b"");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["agents"][0]["findings"].as_array().unwrap();
    for code in ["doctor.version-unknown", "doctor.sign-in-unasked"] {
        let finding = findings.iter().find(|it| it["code"] == code);
        let message = finding.unwrap_or(&Value::Null)["message"].as_str().unwrap_or_default();
        assert!(message.contains("/proc/self/cwd/more"), "{code}: {report:#}");
    }
}

#[test]
fn an_unknown_version_is_tried_and_its_changes_are_named() {
    let context =
        machine().own_program("claude", UNKNOWN_CLAUDE).env("ANTHROPIC_API_KEY", "hunter2");
    let shown = examine(&context, &["--agent", "claude"]);
    assert!(!shown.contains("hunter2"));
    insta::assert_snapshot!(shown);
    let output = context.output(&["doctor", "--agent", "claude", "--json"], b"");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["agents"][0]["findings"].as_array().unwrap();
    let codes: Vec<_> = findings.iter().map(|it| it["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["doctor.version-unmeasured", "doctor.flag-gone", "doctor.event-changed"]);
}

#[test]
fn a_program_that_dies_is_reported_with_its_exit_code_and_its_words() {
    let dies = "#!/bin/sh\n[ \"$1\" = --version ] && { echo 9.9.9; exit; }\n\
                echo 'boom: cannot load libfoo.so' >&2; exit 127\n";
    let context = machine().own_program("claude", dies).env("ANTHROPIC_API_KEY", "x");
    let shown = examine(&context, &["--agent", "claude"]);
    assert!(shown.contains("boom: cannot load libfoo.so") && shown.contains("127"), "{shown}");
    assert!(shown.contains("doctor.trial-failed"), "{shown}");
    assert!(!shown.contains("doctor.event-changed"), "{shown}");
}

#[test]
fn flags_that_only_some_turns_need_are_tried_too() {
    for flag in ["--append-system-prompt-file", "--model", "--mcp-config", "--resume"] {
        let script = UNKNOWN_CLAUDE.replace("--include-partial-messages", flag);
        let context = machine().own_program("claude", &script).env("ANTHROPIC_API_KEY", "x");
        let shown = examine(&context, &["--agent", "claude"]);
        assert!(shown.contains(&format!("no longer accepts `{flag}`")), "{shown}");
    }
}

#[test]
fn a_version_that_was_measured_is_tried_only_when_asked_for() {
    let script = UNKNOWN_CLAUDE.replace("9.9.9", "2.1.325");
    let context = machine().own_program("claude", &script).env("ANTHROPIC_API_KEY", "x");
    let plain = examine(&context, &["--agent", "claude"]);
    assert!(!plain.contains("doctor.flag-gone"), "{plain}");
    let verified = examine(&context, &["--agent", "claude", "--verify"]);
    assert!(verified.contains("doctor.flag-gone"), "{verified}");
}

#[test]
fn nothing_is_written_into_the_home() {
    let context = with_all();
    examine(&context, &[]);
    let entries = std::fs::read_dir(context.path().join("home")).expect("a home");
    assert_eq!(entries.count(), 1);
}

fn private(context: &TestContext, path: &str) {
    let permissions = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(context.path().join(path), permissions).expect("permissions");
}

/// An untrusted directory withholds the project's CLAUDE.md from Claude, and `doctor` and `run` both say so.
#[test]
fn an_instruction_file_that_a_run_withholds_is_named() {
    let context = with_all().file("CLAUDE.md", "Use tabs.\n").file("GEMINI.md", "Use tabs.\n");
    let untrusted = examine(&context, &[]);
    assert!(untrusted.contains("is started without"), "{untrusted}");
    assert!(untrusted.contains("agent.instructions-unread"), "{untrusted}");
    assert!(!untrusted.contains("CLAUDE.md (10 bytes)"), "{untrusted}");
    assert!(untrusted.contains("GEMINI.md (9 bytes)"), "{untrusted}");
    context.run(&["trust", "--yes"]);
    let trusted = examine(&context, &[]);
    assert!(!trusted.contains("is started without"), "{trusted}");
    assert!(trusted.contains("CLAUDE.md (9 bytes)"), "{trusted}");
}

/// `ask` reads instruction files from the root of the repository down, and trust in the root counts for both.
#[test]
fn a_directory_of_a_trusted_repository_is_trusted_like_its_root() {
    let context = with_all()
        .file("shop/.git/HEAD", "ref: refs/heads/main\n")
        .file("shop/CLAUDE.md", "Use tabs.\n")
        .file("shop/cart/.keep", "");
    let here = |arguments: &[&str]| {
        let mut command = context.command(arguments);
        let output =
            command.current_dir(context.path().join("shop/cart")).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let untrusted = here(&["doctor"]);
    assert!(untrusted.contains("is started without"), "{untrusted}");
    context.run(&["trust", "--yes", "shop"]);
    let trusted = here(&["doctor"]);
    assert!(!trusted.contains("is started without"), "{trusted}");
}
