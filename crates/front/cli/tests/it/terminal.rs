//! Hostile text through every command, on a real terminal: nothing but text and our own colours arrives.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use convoke_rehearsal::Answer;
use serde_json::json;

use crate::context::TestContext;
use crate::model::{Model, repository};

/// Clipboard, title, device control, a C1 control, direction, invisible characters, and a carriage return.
const HOSTILE: &str = "\u{1b}]52;c;aGk=\u{7}\u{1b}]0;t\u{7}\u{1b}Pq\u{1b}\\\u{9b}2J\u{202e}evil\u{2066}\u{200b}\u{feff}\u{e0041}x";

/// The control sequences that the command itself may send.
const OURS: [&str; 9] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[1;31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\r\u{1b}[2K",
];

/// Returns the text with TOML escapes.
fn toml(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_graphic() && c != '\\' {
                c.to_string()
            } else {
                format!("\\U{:08X}", u32::from(c))
            }
        })
        .collect()
}

fn context() -> TestContext {
    let hostile = toml(HOSTILE);
    let team = format!(
        "name = \"{hostile}\"\ntask = \"{hostile}\"\n\n[[member]]\nname = \"kai\"\nhuman = true\n\n\
         [[member]]\nname = \"max\"\nagent = \"claude\"\ninstructions = \"{hostile}\"\nrole-summary = \"{hostile}\"\n"
    );
    let context = TestContext::new().file("convoke.toml", team).file("AGENTS.md", HOSTILE);
    let context = context.file(&format!("{HOSTILE}/AGENTS.md"), HOSTILE);
    let context = context.file(&format!("{HOSTILE}/convoke.toml"), "nonsense = 1\n");
    context.file(".claude/rules/\u{1b}]0;t\u{7}.md", "@missing\u{1b}[2J.md\n")
}

/// A project whose agent replies with hostile text, complains in it, and writes files with such names and contents. A
/// program that stands for Codex sends such text to its model.
fn with_programs() -> TestContext {
    let context = context()
        .file("hostile", HOSTILE)
        .file("body.json", request())
        .file("snapshot.json", snapshot())
        .file(&format!(".claude/skills/{HOSTILE}/SKILL.md"), format!("---\nname: {HOSTILE}\n---\n"))
        .program("codex", CODEX);
    let agent = r#"[agent.claude]
kind = "plain"
command = "/bin/sh"
permissions = "edit"
args = ["-c", 'cat hostile; cat hostile >&2; mkdir "$(cat hostile)+"; cat hostile >>"$(cat hostile)+/x"; echo " [NEXT: "$(cat hostile)"]"']
"#;
    let config = context.home().join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("agents.toml"), agent).expect("a file");
    context
}

/// Sends `body.json` as Codex would.
const CODEX: &str = r#"#!/bin/bash
if [ "$1" = --version ]; then cat hostile; exit; fi
url=${OPENAI_BASE_URL#http://}
host=${url%%/*}
exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
printf "POST /${url#*/}/responses HTTP/1.1\r\nhost: $host\r\ncontent-type: application/json\r\n" >&3
printf "connection: close\r\ncontent-length: $(wc -c <body.json)\r\n\r\n" >&3
cat body.json >&3
cat <&3
cat hostile
cat hostile >&2
"#;

/// The body of a request with hostile text wherever a program chooses it.
fn request() -> String {
    let item = |role: &str, kind: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": HOSTILE}]});
    json!({
        "model": HOSTILE,
        "instructions": HOSTILE,
        "input": [item(HOSTILE, "input_text"), item("user", HOSTILE), item("user", "input_text")],
        "tools": [{"type": "function", "name": HOSTILE, "description": HOSTILE}, {"type": HOSTILE}],
        "stream": true,
    })
    .to_string()
}

/// A session of others whose members, texts and recipients are hostile.
fn snapshot() -> String {
    let message = json!({
        "id": "msg-1",
        "content": HOSTILE,
        "speaker": {"roleId": HOSTILE, "roleName": HOSTILE, "type": "ai"},
        "routing": {"rawNextMarkers": [HOSTILE], "resolvedAddressees": [HOSTILE]},
    });
    json!({"version": 1, "teamTask": HOSTILE, "messages": [message]}).to_string()
}

/// Runs the command on a separate terminal and returns every byte that the terminal received. Standard input is the
/// file after `<`.
fn on_terminal(context: &TestContext, directory: &Path, arguments: &[&str]) -> String {
    let output = terminal(context, directory, arguments)
        .stdin(Stdio::null())
        .output()
        .expect("script, of the package bsdutils");
    String::from_utf8(output.stdout).expect("a terminal is sent UTF-8")
}

fn terminal(context: &TestContext, directory: &Path, arguments: &[&str]) -> Command {
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words = std::iter::once(env!("CARGO_BIN_EXE_convoke")).chain(arguments.iter().copied());
    let words = words.map(|word| if word == "<" { word.to_owned() } else { quote(word) });
    let line = format!("stty rows 40 cols 100; exec {}", words.collect::<Vec<_>>().join(" "));
    let mut command = Command::new("script");
    command
        .args(["-qefc", &line, "/dev/null"])
        .current_dir(directory)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", context.home().join("bin").display()))
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        // The usual one waits for a key.
        .env("PAGER", "cat")
        .env("HOME", context.home())
        .env("THE_KEY", "correct-horse-battery")
        .env("CONVOKE_DATA_DIR", context.home().join("data"))
        .env("CONVOKE_CONFIG_DIR", context.home().join("config"));
    command
}

/// Returns the bytes that are neither text nor our own control sequences.
fn foreign(shown: &str) -> Vec<char> {
    let mut text = shown.replace("\r\n", "\n");
    for ours in OURS {
        text = text.replace(ours, "");
    }
    text.chars().filter(|&c| c != '\n' && c != '\t' && convoke_chat::is_dangerous(c)).collect()
}

/// Runs commands on a terminal, one after the other.
fn shows_text_only(context: &TestContext, directory: &Path, commands: &[&[&str]]) {
    for arguments in commands {
        let shown = on_terminal(context, directory, arguments);
        assert!(!shown.is_empty(), "{arguments:?} shows nothing");
        assert_eq!(foreign(&shown), Vec::<char>::new(), "{arguments:?}\n{shown:?}");
    }
}

/// The commands in a project whose texts, names and settings are hostile.
const IN_PROJECT: &[&[&str]] = &[
    &["run", "--rehearse", HOSTILE],
    &["run", "--rehearse", "--json", HOSTILE],
    &["run", "--session", HOSTILE, HOSTILE],
    &["chat", "--session", HOSTILE],
    &["chat", "--json", "--session", "last"],
    &["prompt", "--for", "max", "--session", "last", "--system"],
    &["prompt", "--for", "max", "--session", "last", "--explain"],
    &["prompt", "--for", "max", "--session", "last", "--json"],
    &["prompt", "--for", HOSTILE],
    &["check"],
    &["request", HOSTILE],
    &["request", "--explain", HOSTILE],
    &["request", "--json", HOSTILE],
    &["explain"],
    &["explain", "--json"],
    &["trust"],
    &["trust", "--json"],
    &["init"],
    &["init", "--json"],
    &["node", "--offer", HOSTILE],
    &["node", "--json", "--name", HOSTILE],
    &["nodes"],
    &["nodes", "--json"],
    &["open", HOSTILE],
    &["open", "--json", HOSTILE],
    &["usage"],
    &["usage", "--json", "--home", HOSTILE],
    &["serve", "--allow-host", HOSTILE],
    &["serve", "--json", "--allow-host", HOSTILE],
    &["sessions", "list"],
    &["sessions", "list", "--json"],
    &["continue", "last", "--with", "codex", "--print", "--explain", HOSTILE],
    &["continue", "last", "--with", "codex", "--print", "--json", HOSTILE],
    &["continue", "last", "--with", "codex", "--dry-run", "--explain"],
    &["continue", HOSTILE, "--with", HOSTILE],
    &["sessions", "show", "last"],
    &["sessions", "show", "last", "--json"],
    &["sessions", "show", "last", "--turn", "1"],
    &["sessions", "show", "last", "--turn", "1", "--prompt"],
    &["sessions", "show", "last", "--turn", "1", "--explain"],
    &["sessions", "show", HOSTILE],
    &["sessions", "export", "last"],
    &["sessions", "copy", HOSTILE, "--to", HOSTILE],
    &["sessions", "copy", "--json", "last", "--to", HOSTILE],
    &["acp", "<", "calls.jsonl"],
    &["mcp", "<", "calls.jsonl"],
    &["mcp", "--json", "<", "calls.jsonl"],
    &["sessions", "fork", "last"],
    &["sessions", "fork", "last", "--json"],
    &["sessions", "replay", "last", "--verify"],
    &["sessions", "replay", "last", "--json"],
    &["sessions", "import", HOSTILE],
    &["sessions", "rm", HOSTILE],
    &["ask", "--base-url", HOSTILE, HOSTILE],
    &["ask", "--threads"],
    &["capture", "--", HOSTILE],
    &["capture", "--", "/bin/echo", HOSTILE],
    &["assemble", "<", "assemble.jsonl"],
    &["assemble", "--json", "<", "assemble.jsonl"],
    &["rpc", "<", "calls.jsonl"],
    &["rpc", "--json", "<", "calls.jsonl"],
    &["rpc", "--text", HOSTILE],
    &["docs"],
    &["docs", HOSTILE],
    &["docs", "sessions"],
    &["docs", "--json"],
    &["completions", "bash"],
    &["completions", HOSTILE],
    &["man"],
    &[HOSTILE],
];

/// The commands in a directory whose name is hostile.
const BELOW: &[&[&str]] = &[
    &["run", "--rehearse", "hi"],
    &["check"],
    &["check", "--json"],
    &["explain"],
    &["doctor"],
    &["doctor", "--json"],
    &["trust"],
    &["init"],
];

/// The commands after turns of programs whose output and files are hostile.
const WITH_PROGRAMS: &[&[&str]] = &[
    &["watch", "--", HOSTILE],
    &["run", HOSTILE],
    &["run", "--session", "last", "--to", "max", "again"],
    &["run", "--session", "last", "--json", "--to", "max", "again"],
    &["sessions", "resume", "last", "--to", "max", HOSTILE],
    &["sessions", "resume", "last", "--json", "--to", "max", HOSTILE],
    &["changes"],
    &["changes", "--json"],
    &["changes", "last", "--turn", "1"],
    &["changes", HOSTILE],
    &["undo"],
    &["undo", "last", "--turn", "1"],
    &["undo", "--json"],
    &["undo", "--yes"],
    &["undo", HOSTILE],
    &["redo"],
    &["redo", "--json"],
    &["redo", "--yes"],
    &["sessions", "show", "last"],
    &["sessions", "show", "last", "--turn", "1"],
    &["sessions", "show", "last", "--turn", "1", "--changes"],
    &["sessions", "show", "last", "--turn", "1", "--events"],
    &["sessions", "show", "last", "--turn", "1", "--partial"],
    &["sessions", "show", "last", "--turn", "1", "--request"],
    &["sessions", "show", "last", "--cache"],
    &["sessions", "search", "evil"],
    &["sessions", "search", "evil", "--json"],
    &["sessions", "search", HOSTILE],
    &["sessions", "diff", "last", "1", "2"],
    &["sessions", "diff", "last", "1", "2", "--json"],
    &["sessions", "verify", "last"],
    &["sessions", "verify", "--json"],
    &["sessions", "migrate"],
    &["sessions", "migrate", "--json", "--store", HOSTILE],
    &["sessions", "compact", "last", "max"],
    &["sessions", "compact", "last", HOSTILE, "--json"],
    &["sessions", "export", "last", "--markdown"],
    &["sessions", "export", "last", "--all"],
    &["sessions", "export", "last", "--log"],
    &["sessions", "rename", "last", HOSTILE],
    &["sessions", "rename", "last", "\u{202e}evil\u{200b}", "--json"],
    &["sessions", "list"],
    &["sessions", "rm", "last"],
    &["sessions", "rm", "last", "--yes"],
    &["sessions", "restore"],
    &["sessions", "restore", "--json"],
    &["sessions", "restore", HOSTILE],
    &["sessions", "import", "body.json"],
    &["sessions", "import", "snapshot.json"],
    &["sessions", "import", "snapshot.json", "--json"],
    &["sessions", "show", "last"],
    &["sessions", "rm", "last", "--yes", "--json"],
    &["trust", "--yes"],
    &["trust", "--list"],
    &["trust", "--revoke"],
    &["request", "--agent", "codex", HOSTILE],
    &["request", "--agent", "codex", "--explain", HOSTILE],
    &["request", "--agent", "codex", "--json", HOSTILE],
    &["capture", "--save", "one", "--", "codex", HOSTILE],
    &["capture", "--live", "--as", "codex", "--", "codex", HOSTILE],
    &["capture", "--json", "--", "codex", HOSTILE],
    &["capture", "--full", "--", "codex", HOSTILE],
    &["capture", "--diff", "one", "one", "--full"],
    &["explain", "--agent", "codex", "--verify"],
    &["doctor"],
    &["doctor", "--json"],
];

/// The commands about a workspace whose files are hostile, and conflict with those of the project.
const WITH_WORKSPACE: &[&[&str]] = &[
    &["changes"],
    &["changes", "--json"],
    &["changes", "apply", "max", "--dry-run"],
    &["changes", "apply", "max"],
    &["changes", "apply", "max", "--json"],
    &["changes", "apply", HOSTILE],
    &["changes", "discard", "max"],
    &["changes", "discard", "max", "--json"],
    &["changes", "discard", HOSTILE],
    &["sessions", "fork", "last"],
];

/// The commands with a model that answers hostile text.
const WITH_MODEL: &[&[&str]] = &[
    &["ask", "Hello"],
    &["ask", "--explain", "Hello"],
    &["ask", "--json", "Hello"],
    &["ask", "--threads"],
    &["ask", "--threads", "--json"],
    &["ask", "--thread", "last", "--request"],
];

#[test]
fn no_command_sends_a_terminal_anything_but_text() {
    let context = context();
    let run = context.output(&["run", "--rehearse", "--json", HOSTILE], b"");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let prompt = json!({"name": HOSTILE, "agentType": HOSTILE});
    let call = json!({"jsonrpc": "2.0", "id": HOSTILE, "method": HOSTILE});
    let context = context.file("assemble.jsonl", format!("{prompt}\n{HOSTILE}\n"));
    let context = context.file("calls.jsonl", format!("{call}\n{HOSTILE}\n"));
    shows_text_only(&context, context.path(), IN_PROJECT);
    shows_text_only(&context, &context.path().join(HOSTILE), BELOW);
}

#[test]
fn output_of_programs_cannot_control_the_terminal() {
    let context = with_programs();
    shows_text_only(&context, context.path(), WITH_PROGRAMS);
}

#[test]
fn what_a_workspace_holds_arrives_as_text() {
    let team = "[[member]]\nname = \"max\"\nagent = \"claude\"\nworkspace = \"own\"\n";
    let context = with_programs().file("convoke.toml", team);
    shows_text_only(&context, context.path(), &[&["run", HOSTILE]]);
    let context = context.file(&format!("{HOSTILE}+/x"), format!("mine {HOSTILE}\n"));
    shows_text_only(&context, context.path(), WITH_WORKSPACE);
}

#[test]
fn the_text_of_a_model_cannot_control_the_terminal() {
    let answers = [Answer::say(HOSTILE), Answer::say(HOSTILE), Answer::say(HOSTILE)];
    let model = Model::new(answers);
    let context = repository(&model).file("AGENTS.md", HOSTILE);
    shows_text_only(&context, context.path(), WITH_MODEL);
    assert_eq!(model.bodies().len(), 3);
}

/// The full screen sends many control sequences of its own; none of them begins like those of the text.
#[test]
fn the_full_screen_shows_only_text() {
    let context = context();
    let run = context.output(&["run", "--rehearse", "--json", HOSTILE], b"");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut chat = terminal(&context, context.path(), &["chat", "--rehearse", "--session", "last"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script, of the package bsdutils");
    let (mut keys, mut screen) = (chat.stdin.take().unwrap(), chat.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut chunk = [0; 4096];
    let mut leaves = false;
    loop {
        let count = screen.read(&mut chunk).unwrap();
        if count == 0 {
            break;
        }
        shown.extend_from_slice(&chunk[..count]);
        if !leaves && String::from_utf8_lossy(&shown).contains("your turn") {
            leaves = true;
            // Ctrl-D.
            keys.write_all(b"\x04").unwrap();
        }
    }
    chat.wait().unwrap();
    let shown = String::from_utf8(shown).expect("a terminal is sent UTF-8");
    assert!(shown.contains("evil"), "{shown:?}");
    for hostile in ["\u{1b}]", "\u{1b}P", "\u{7}", "\u{9b}", "\u{202e}", "\u{200b}", "\u{e0041}"] {
        assert!(!shown.contains(hostile), "{hostile:?} in {shown:?}");
    }
}

/// A command that is new, or its `--json`, cannot be forgotten above.
#[test]
fn every_command_is_tried_on_a_terminal() {
    let tried = [IN_PROJECT, BELOW, WITH_PROGRAMS, WITH_WORKSPACE, WITH_MODEL].concat();
    let mut missing = BTreeSet::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = waiting.pop() {
        let help = help(&command);
        let below = subcommands(&help);
        let has_json = help.lines().any(|line| line.trim_start().starts_with("--json"));
        let is_tried = |option: Option<&str>| {
            tried.iter().any(|row| {
                let begins =
                    command.iter().map(String::as_str).eq(row.iter().copied().take(command.len()));
                begins && option.is_none_or(|option| row.contains(&option))
            })
        };
        if below.is_empty() {
            if !is_tried(None) {
                missing.insert(command.join(" "));
            }
            if has_json && !is_tried(Some("--json")) {
                missing.insert(format!("{} --json", command.join(" ")));
            }
        }
        waiting.extend(below.into_iter().map(|name| [&command[..], &[name]].concat()));
    }
    assert!(missing.is_empty(), "not tried on a terminal: {missing:?}");
}

fn help(command: &[String]) -> String {
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let output = TestContext::new().output(&arguments, b"");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the commands that a help lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // The description of a command may go on in a line that is indented further.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn a_pipe_gets_the_exact_bytes() {
    let context = context();
    let output = context.output(&["prompt", "--for", "max", "--system"], b"");
    let prompt = String::from_utf8(output.stdout).unwrap();
    assert!(prompt.contains(HOSTILE), "{prompt:?}");
}
