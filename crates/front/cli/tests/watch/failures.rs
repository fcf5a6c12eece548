//! What cannot be watched is refused, and a failing record never holds the program up.

use std::time::{Duration, Instant};

use crate::person::Person;

fn refused(person: &Person, arguments: &[&str]) -> String {
    let command = person.command(env!("CARGO_BIN_EXE_convoke"), arguments);
    let output = crate::person::output(command, b"");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(person.take_calls().len(), 0);
    error
}

#[test]
fn what_cannot_be_recorded_is_not_started_and_the_reason_is_said() {
    let mut person = Person::new("send one");
    let error = refused(&person, &["watch", "--store", "postgres://a@b/c", "--", "claude"]);
    assert!(error.contains("on this machine only"), "{error}");
    let error = refused(&person, &["watch", "--", "gemini"]);
    assert!(error.contains("`gemini` was not found"), "{error}");
    let error = refused(&person, &["watch", "--", "/bin/cat"]);
    assert!(error.contains("Convoke can watch claude, codex, gemini"), "{error}");
    let error = refused(&person, &["watch", "--max-disk", "much", "--", "claude"]);
    assert!(error.contains("a number with a unit"), "{error}");
    person.env.push(("CLAUDE_CODE_USE_BEDROCK", "1".to_owned()));
    let error = refused(&person, &["watch", "--", "claude"]);
    assert!(error.contains("Amazon Bedrock signs its requests"), "{error}");
    assert!(!person.convoke(&["sessions", "list"]).contains("claude"), "no session was begun");
}

#[test]
fn a_broken_record_is_said_and_requests_are_forwarded_all_the_same() {
    let mut person = Person::new("send one; send two; exit 4");
    person.env.push(("CONVOKE_PANIC_IN", "watch".to_owned()));
    let watched = person.watch(&[], b"");
    let error = String::from_utf8(watched.stderr).unwrap();
    assert_eq!(watched.status.code(), Some(4), "{error}");
    assert_eq!(person.take_calls().len(), 2);
    assert!(error.contains("requests were forwarded and not recorded"), "{error}");
}

#[test]
fn a_program_whose_relay_is_gone_fails_at_once() {
    let script = "send one; kill -KILL $PPID; sleep 0.2; send two; echo \"sent: $?\" >result";
    let person = Person::new(script);
    person.watch(&[], b"");
    let result = person.project.path().join("result");
    let began = Instant::now();
    while !result.exists() {
        assert!(began.elapsed() < Duration::from_secs(10), "the program hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(std::fs::read_to_string(result).unwrap(), "sent: 1\n");
    let calls = person.take_calls();
    assert_eq!(calls.len(), 1);
    // The request before is stored; the session is readable.
    let shown = person.command(env!("CARGO_BIN_EXE_convoke"), &["sessions", "show", "last"]);
    assert!(crate::person::output(shown, b"").status.success());
}

#[test]
fn requests_of_other_programs_are_forwarded_with_a_note() {
    let person = Person::new("send one; AGENT=python send two");
    let watched = person.watch(&[], b"");
    let error = String::from_utf8(watched.stderr).unwrap();
    assert_eq!(person.take_calls().len(), 2);
    assert!(error.contains("1 request of other programs"), "{error}");
    assert!(error.contains("claude sent 1 request:"), "{error}");
}
