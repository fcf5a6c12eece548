//! Questions of agents at a real terminal: answered in `run` by a word, in the chat by the keys of a card, or refused.

use std::cell::Cell;

use crate::chat::Terminal;
use crate::context::TestContext;

/// A program that speaks the protocol of Claude Code, asks twice before it runs a command, and reports the
/// answers.
const ASKING: &str = r#"#!/bin/sh
read message
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
said=
for command in x SECOND; do
    echo '{"type":"control_request","request_id":"q'$command$said'","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make '$command'"}}}'
    read answer
    case "$answer" in *'"behavior":"allow"'*) said="$said-allowed";; *) said="$said-refused";; esac
done
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I was'$said'."}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"I was'$said'.","session_id":"s1"}'
"#;

/// Opens a terminal with a team whose agent asks for `make x`, and then for another target.
fn terminal(second: &str, limits: &str) -> Option<Terminal> {
    let team = format!(
        "[[member]]\nname = \"kailai\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"claude\"\n\n{limits}"
    );
    let context = TestContext::new()
        .file("convoke.toml", team)
        .program("claude", &ASKING.replace("SECOND", second));
    let command = context.home().join("bin/claude");
    let command = command.display();
    let agents = format!("[agent.claude]\ncommand = '{command}'\npermissions = \"ask\"\n");
    Terminal::open_in(context.file("configuration/agents.toml", agents))
}

fn run(terminal: &Terminal, message: &str) {
    let program = env!("CARGO_BIN_EXE_convoke");
    // Everything stays on the screen.
    terminal.resize("120", "60");
    terminal.enter(&format!("clear; {program} run {message}; echo code $?"));
}

/// Waits until a number of questions was shown and the last one is open.
fn wait_for_question(terminal: &Terminal, number: usize) {
    terminal.wait_until("a question", |screen| questions(screen) == number);
}

fn questions(screen: &str) -> usize {
    screen.matches("once, session or never? (o/s/n)").count()
}

/// Types a line again and again until something is shown.
fn type_until(terminal: &Terminal, line: &str, is_shown: impl Fn(&str) -> bool) {
    let looks = Cell::new(0_u32);
    terminal.wait_until(line, |screen| {
        let is_there = is_shown(screen);
        looks.set(looks.get() + 1);
        // Not at every look: the screen follows a line.
        if !is_there && looks.get().is_multiple_of(40) {
            terminal.enter(line);
        }
        is_there
    });
}

#[test]
fn run_is_answered_by_a_word() {
    for (words, said) in [
        (&["once", "n"][..], "I was-allowed-refused."),
        // The second question is answered as the first was.
        (&["session"][..], "I was-allowed-allowed."),
        (&["never"][..], "I was-refused-refused."),
    ] {
        let Some(terminal) = terminal("x", "") else { return };
        run(&terminal, "yes");
        for (number, word) in words.iter().enumerate() {
            wait_for_question(&terminal, number + 1);
            let is_last = number + 1 == words.len();
            // A line counts when the question can have been read.
            type_until(&terminal, word, |screen| {
                if is_last { screen.contains(said) } else { questions(screen) > number + 1 }
            });
        }
    }
}

#[test]
fn another_word_is_not_an_answer_and_the_end_of_input_refuses() {
    let Some(terminal) = terminal("x", "") else { return };
    run(&terminal, "once");
    wait_for_question(&terminal, 1);
    terminal.enter("yes please");
    terminal.wait_for("not an answer; type once, session or never");
    terminal.press("C-d");
    let screen = terminal.wait_for("I was-refused-refused.");
    assert!(screen.contains("max was refused (never, person)"), "{screen}");
}

#[test]
fn a_question_without_an_answer_in_time_is_refused() {
    let Some(terminal) = terminal("x", "[limits]\nask-timeout = \"1s\"\n") else { return };
    run(&terminal, "yes");
    let screen = terminal.wait_for("I was-refused-refused.");
    assert_eq!(screen.matches("max was refused (never, timeout)").count(), 2, "{screen}");

    // The shell reads all further input.
    terminal.wait_for("code 0");
    terminal.begin("chat");
    terminal.enter("once");
    let screen = terminal.wait_for("I was-refused-refused.");
    assert!(screen.contains("max was refused: make x (no answer in time)"), "{screen}");
}

/// Presses a key until a text is shown: a card takes no key before it can have been read.
fn press_until(terminal: &Terminal, key: &str, text: &str) {
    let looks = Cell::new(0_u32);
    terminal.wait_until(text, |screen| {
        let is_there = screen.contains(text);
        looks.set(looks.get() + 1);
        // Not at every look: the screen follows a key.
        if !is_there && looks.get().is_multiple_of(40) {
            terminal.press(key);
        }
        is_there
    });
}

#[test]
fn a_card_of_the_chat_is_answered_by_its_keys() {
    for (second, keys, said) in [
        ("y", &["1", "3"][..], "I was-allowed-refused."),
        // The second question is answered as the first was.
        ("x", &["2"][..], "I was-allowed-allowed."),
        ("x", &["3"][..], "I was-refused-refused."),
    ] {
        let Some(terminal) = terminal(second, "") else { return };
        terminal.begin("chat");
        // A message is not an answer.
        terminal.enter("1 2 3 once session yes");
        let card = terminal.wait_for("max asks to use Bash");
        assert!(card.contains("make x"), "{card}");
        for key in ["y", "o", "s", "Enter"] {
            terminal.press(key);
        }
        if let [first, _] = keys {
            press_until(&terminal, first, "make y");
        }
        press_until(&terminal, keys[keys.len() - 1], said);
    }
}
