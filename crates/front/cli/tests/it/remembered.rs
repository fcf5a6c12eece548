//! Threads of a session: copied, exported, imported and removed with it.

use std::process::Stdio;

use convoke_rehearsal::{Answer, End, Reply};
use serde_json::Value;

use crate::context::TestContext;
use crate::model::{Model, repository};

const TEAM: &str = "briefing = false\n[context]\nwindow = 0\n\n[[member]]\nname = \"kim\"\n\
    human = true\n\n[[member]]\nname = \"mo\"\nagent = \"api\"\n";

/// Runs a command that must succeed, and returns its output.
fn run(context: &TestContext, arguments: &[&str]) -> String {
    let output = context.output(arguments, b"");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A project in which a model has answered two questions.
fn talked(more: &[&str]) -> (Model, TestContext) {
    let words = ["First answer.", "Second answer."].iter().chain(more);
    let model = Model::new(words.map(|text| Answer::say(*text)));
    let context = repository(&model).file("convoke.toml", TEAM);
    run(&context, &["run", "One?"]);
    run(&context, &["run", "--session", "last", "Two?"]);
    (model, context)
}

/// Returns the conversation of a request, which a provider caches.
fn conversation(body: &str) -> &str {
    &body[..body.find("],\"tools\":").expect("a request")]
}

#[test]
fn a_fork_and_its_original_continue_with_separate_threads() {
    let (model, context) = talked(&["Third answer.", "Fourth answer."]);
    let copy = run(&context, &["sessions", "fork", "last"]);
    let list: Value =
        serde_json::from_str(&run(&context, &["sessions", "list", "--json"])).expect("JSON");
    let ids = list["sessions"].as_array().expect("a list").iter();
    let original = ids.filter_map(|it| it["id"].as_str()).find(|id| *id != copy.trim());
    run(&context, &["run", "--session", copy.trim(), "Three?"]);
    run(&context, &["run", "--session", original.expect("two"), "Four?"]);
    let bodies = model.bodies();
    assert!(bodies[2].starts_with(conversation(&bodies[1])), "the prefix stays as it was");
    assert!(bodies[2].contains("Second answer.") && bodies[2].contains("Three?"));
    assert!(bodies[3].contains("Second answer.") && !bodies[3].contains("Three?"));
}

#[test]
fn a_fork_at_an_earlier_message_has_only_the_thread_items_up_to_it() {
    let (model, context) = talked(&["Another answer."]);
    let copy = run(&context, &["sessions", "fork", "last", "--after", "2"]);
    run(&context, &["run", "--session", copy.trim(), "Another?"]);
    let body = &model.bodies()[2];
    assert!(body.starts_with(conversation(&model.bodies()[0])));
    assert!(body.contains("First answer.") && !body.contains("Two?") && body.contains("Another?"));
    let forked =
        run(&context, &["sessions", "fork", "last", "--json", "--deny", "thread.forgotten"]);
    assert!(forked.contains("\"diagnostics\":[]"), "{forked}");
}

#[test]
fn a_compaction_is_undone_in_the_copy_alone() {
    let (model, context) = talked(&["SUMMARY", "Third answer.", "Fourth answer."]);
    run(&context, &["sessions", "compact", "last", "mo"]);
    let original = run(&context, &["sessions", "list", "--json"]);
    let original: Value = serde_json::from_str(&original).expect("JSON");
    let original = original["sessions"][0]["id"].as_str().expect("an id");
    let copy = run(&context, &["sessions", "fork", "last"]);
    run(&context, &["sessions", "compact", copy.trim(), "mo", "--undo"]);
    run(&context, &["run", "--session", copy.trim(), "Three?"]);
    run(&context, &["run", "--session", original, "Four?"]);
    let bodies = model.bodies();
    assert!(bodies[3].contains("First answer.") && !bodies[3].contains("SUMMARY"));
    assert!(!bodies[4].contains("First answer.") && bodies[4].contains("SUMMARY"));
}

#[test]
fn an_exported_session_is_imported_completely() {
    let (model, context) = talked(&["SUMMARY", "Third answer.", "Fourth answer."]);
    run(&context, &["sessions", "compact", "last", "mo"]);
    run(&context, &["run", "--session", "last", "Three?"]);
    let all = run(&context, &["sessions", "export", "last", "--all"]);
    assert!(all.contains("SUMMARY") && all.matches("{\"threadLine\":").count() > 10, "{all}");

    let other = repository(&model).file("convoke.toml", TEAM).file("all.jsonl", &all);
    run(&other, &["sessions", "import", "all.jsonl"]);
    let again = run(&other, &["sessions", "export", "last", "--all"]);
    let (header, rest) = all.split_once('\n').expect("lines");
    let (header_again, rest_again) = again.split_once('\n').expect("lines");
    assert_eq!(rest_again, rest);
    // It works in the directory of the import, whatever the file says.
    let directory = |context: &TestContext| context.path().display().to_string();
    assert_eq!(header_again, header.replace(&directory(&context), &directory(&other)));

    // Every request is stored to the byte, also that for the summary.
    let sent =
        |context: &TestContext| run(context, &["sessions", "show", "last", "--request", "--json"]);
    assert_eq!(sent(&other), sent(&context));
    let bodies = sent(&other);
    let bodies = bodies.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let bodies: Vec<_> = bodies.map(|it| it["body"].as_str().expect("a body").to_owned()).collect();
    assert_eq!(bodies, model.bodies());

    run(&other, &["sessions", "compact", "last", "mo", "--undo"]);
    run(&other, &["run", "--session", "last", "Four?"]);
    let body = &model.bodies()[4];
    for text in ["First answer.", "Second answer.", "Third answer.", "Four?"] {
        assert!(body.contains(text), "{text}: {body}");
    }
    assert!(!body.contains("SUMMARY"));
}

#[test]
fn an_invalid_request_is_refused_with_its_line_and_nothing_is_imported() {
    let (_model, context) = talked(&[]);
    let all = run(&context, &["sessions", "export", "last", "--all"]);
    let at = all.lines().position(|line| line.starts_with("{\"request\":")).expect("a line") + 1;
    let with = |from: &str, to: &str| {
        let (before, requests) = all.split_at(all.find("{\"request\":").expect("a request"));
        assert!(requests.contains(from), "{from}: {requests}");
        format!("{before}{}", requests.replacen(from, to, 1))
    };
    let about = "\"about\":\"{\\\"at\\\":";
    let outcome = "\"outcome\":\"{\\\"failed\\\":[]";
    let cases = [
        (with(about, "\"about\":\"{\\\"when\\\":"), "about", "missing field `at`"),
        (with("\\\"bytes\\\":", "\\\"bytes\\\":1"), "about", "bytes, but"),
        (with(outcome, "\"outcome\":\"{\\\"failed\\\":7"), "outcome", "invalid type: integer `7`"),
        (with("One?", "Two?"), "body", "the text does not have the hash"),
        (with("\"fromStart\":0", "\"fromStart\":9"), "body", "the delta refers to bytes outside"),
    ];
    for (text, field, why) in cases {
        let other = TestContext::new().file("all.jsonl", text);
        let said = other.run(&["sessions", "import", "all.jsonl"]);
        let place =
            format!("all.jsonl: line {at}: request 1 of the thread `mo`: the field `{field}`: ");
        let is_told = said.contains(&place) && said.contains(why);
        assert!(said.contains("exit code: 2") && is_told, "{place}{why}: {said}");
        let list = run(&other, &["sessions", "list", "--json"]);
        assert!(list.contains("\"sessions\":[]"), "{list}");
    }
}

#[test]
fn an_invalid_thread_is_refused_with_its_line_and_nothing_is_imported() {
    let (_model, context) = talked(&[]);
    let all = run(&context, &["sessions", "export", "last", "--all"]);
    let usage = "\"line\":\"{\\\"usage\\\"";
    let at = all.lines().position(|line| line.contains(usage)).expect("a line") + 1;
    let with = |other: &str| all.replacen(usage, &format!("\"line\":\"{other}"), 1);
    let cases = [
        (with("{\\\"usages\\\""), "not a line of a thread: unknown kind `usages`"),
        (with("\\\"usage\\\""), "not a line of a thread: trailing characters"),
        (with("{\\\"undone\\\":0,\\\"x\\\""), "undoes line 0 of the thread"),
    ];
    for (text, why) in cases {
        let other = TestContext::new().file("all.jsonl", text);
        let said = other.run(&["sessions", "import", "all.jsonl"]);
        let expected = format!("convoke: all.jsonl: line {at}: the thread `mo`: {why}");
        assert!(said.contains("exit code: 2") && said.contains(&expected), "{said}");
        let list = run(&other, &["sessions", "list", "--json"]);
        assert!(list.contains("\"sessions\":[]"), "{list}");
    }
}

#[test]
fn a_thread_is_not_compacted_while_its_session_is_open() {
    let hang = Reply::default().end(End::Hang);
    let model = Model::new([Answer::say("First answer."), hang.into()]);
    let context = repository(&model).file("convoke.toml", TEAM);
    run(&context, &["run", "One?"]);
    let mut command = context.command(&["run", "--session", "last", "Two?"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    model.wait_for(2);
    let said = context.run(&["sessions", "compact", "last", "mo"]);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert!(said.contains("exit code: 1") && said.contains("is held by process"), "{said}");
}
