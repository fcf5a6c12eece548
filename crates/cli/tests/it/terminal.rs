//! Hostile text through every command, on a real terminal: nothing but text and our own colours arrives.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::context::TestContext;

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

/// Returns the text with TOML escapes for what a string may not contain.
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

/// Runs the command on a terminal of its own and returns every byte that the terminal received.
fn on_terminal(context: &TestContext, directory: &Path, arguments: &[&str]) -> String {
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words = std::iter::once(env!("CARGO_BIN_EXE_convoke")).chain(arguments.iter().copied());
    let line: Vec<String> = words.map(quote).collect();
    let output = Command::new("script")
        .args(["-qefc", &line.join(" "), "/dev/null"])
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .env("HOME", context.home())
        .env("CONVOKE_DATA_DIR", context.home().join("data"))
        .env("CONVOKE_CONFIG_DIR", context.home().join("config"))
        .stdin(Stdio::null())
        .output()
        .expect("script, of the package bsdutils");
    String::from_utf8(output.stdout).expect("a terminal is sent UTF-8")
}

/// Returns what is left when the text and what we send ourselves are taken away.
fn foreign(shown: &str) -> Vec<char> {
    let mut text = shown.replace("\r\n", "\n");
    for ours in OURS {
        text = text.replace(ours, "");
    }
    text.chars().filter(|&c| c != '\n' && c != '\t' && convoke_chat::is_dangerous(c)).collect()
}

#[test]
fn no_command_sends_a_terminal_anything_but_text() {
    let context = context();
    let here = context.path().to_owned();
    let below = here.join(HOSTILE);
    let run = context.output(&["run", "--rehearse", "--json", HOSTILE], b"");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let commands: &[(&Path, &[&str])] = &[
        (&here, &["run", "--rehearse", HOSTILE]),
        (&here, &["run", "--rehearse", "--json", HOSTILE]),
        (&here, &["run", "--session", HOSTILE, HOSTILE]),
        (&below, &["run", "--rehearse", "hi"]),
        (&here, &["chat", "--session", HOSTILE]),
        (&here, &["prompt", "--for", "max", "--session", "last", "--system"]),
        (&here, &["prompt", "--for", "max", "--session", "last", "--explain"]),
        (&here, &["prompt", "--for", "max", "--session", "last", "--json"]),
        (&here, &["prompt", "--for", HOSTILE]),
        (&here, &["check"]),
        (&below, &["check"]),
        (&below, &["check", "--json"]),
        (&here, &["request", HOSTILE]),
        (&here, &["request", "--explain", HOSTILE]),
        (&here, &["explain"]),
        (&here, &["explain", "--json"]),
        (&below, &["explain"]),
        (&below, &["doctor"]),
        (&below, &["trust"]),
        (&here, &["trust"]),
        (&below, &["init"]),
        (&here, &["init"]),
        (&here, &["sessions", "list"]),
        (&here, &["sessions", "list", "--json"]),
        (&here, &["sessions", "show", "last"]),
        (&here, &["sessions", "show", "last", "--json"]),
        (&here, &["sessions", "show", "last", "--turn", "1"]),
        (&here, &["sessions", "show", "last", "--turn", "1", "--prompt"]),
        (&here, &["sessions", "show", "last", "--turn", "1", "--explain"]),
        (&here, &["sessions", "show", HOSTILE]),
        (&here, &["sessions", "export", "last"]),
        (&here, &["sessions", "fork", "last"]),
        (&here, &["sessions", "replay", "last", "--verify"]),
        (&here, &["sessions", "import", HOSTILE]),
        (&here, &["sessions", "rm", HOSTILE]),
        (&here, &["ask", "--base-url", HOSTILE, HOSTILE]),
        (&here, &["ask", "--threads"]),
        (&here, &["capture", "--", HOSTILE]),
        (&here, &["capture", "--", "/bin/echo", HOSTILE]),
        (&here, &[HOSTILE]),
    ];
    for (directory, arguments) in commands {
        let shown = on_terminal(&context, directory, arguments);
        assert!(!shown.is_empty(), "{arguments:?} shows nothing");
        assert_eq!(foreign(&shown), Vec::<char>::new(), "{arguments:?}\n{shown:?}");
    }
}

#[test]
fn a_pipe_gets_the_exact_bytes() {
    let context = context();
    let output = context.output(&["prompt", "--for", "max", "--system"], b"");
    let prompt = String::from_utf8(output.stdout).unwrap();
    assert!(prompt.contains(HOSTILE), "{prompt:?}");
}
