//! Codes and signals are the program's.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::person::Person;

/// Starts a program under `watch`, in a process group of its own, and waits until it is ready.
fn started(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn signal(name: &str, target: &str) {
    assert!(Command::new("kill").args([name, "--", target]).status().unwrap().success());
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

#[test]
fn the_exit_code_is_the_programs() {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -INT $$; sleep 9", 130),
    ] {
        let watched = Person::new(script).watch(&["--quiet"], b"");
        assert_eq!(code(watched.status), Some(expected), "{script}");
    }
}

#[test]
fn a_signal_that_ends_convoke_reaches_the_program_which_decides() {
    for (name, trap, expected) in [
        ("-TERM", "trap 'exit 42' TERM", 42),
        ("-HUP", "trap 'exit 43' HUP", 43),
        ("-TERM", "", 143),
    ] {
        let script = format!("{trap}\necho ready; while :; do sleep 0.05; done");
        let person = Person::new(&script);
        let mut child = started(person.watching(&[]));
        signal(name, &child.id().to_string());
        assert_eq!(code(child.wait().unwrap()), Some(expected), "{name} {trap}");
    }
}

#[test]
fn an_interrupt_of_the_group_is_the_programs_to_handle() {
    let script = "trap 'again=1; trap \"exit 9\" INT' INT\necho ready\n\
                  while [ -z \"$again\" ]; do sleep 0.05; done; send after; kill -INT 0; sleep 5";
    let person = Person::new(script);
    let mut child = started(person.watching(&[]));
    signal("-INT", &format!("-{}", child.id()));
    assert_eq!(code(child.wait().unwrap()), Some(9));
    assert_eq!(person.take_calls().len(), 1, "the relay survives");
    assert!(person.convoke(&["sessions", "show", "last", "--request"]).contains("after"));
}

#[test]
fn what_was_ignored_stays_ignored() {
    let person = Person::new("kill -HUP $$; kill -INT $$; exit 5");
    let convoke = env!("CARGO_BIN_EXE_convoke");
    let script = format!("trap '' HUP INT; exec {convoke} watch -- claude");
    let output = crate::person::output(person.command("/bin/sh", &["-c", &script]), b"");
    assert_eq!(code(output.status), Some(5));
}
