//! The threads of `convoke ask`: its own alone, found again, listed and removed.

use convoke_rehearsal::Answer;
use serde_json::Value;

use crate::context::TestContext;
use crate::model::{Model, answer, repository};

const TEAM: &str = "briefing = false\n[[member]]\nname = \"kim\"\nhuman = true\n\n\
                    [[member]]\nname = \"mo\"\nagent = \"api\"\n";

/// Runs the command, and returns its exit code and the output of both streams.
fn ran(context: &TestContext, arguments: &[&str]) -> (i32, String, String) {
    let output = context.output(arguments, b"");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

fn json(context: &TestContext, arguments: &[&str]) -> Value {
    let (code, out, err) = ran(context, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn the_thread_of_a_session_is_read_and_never_changed() {
    let model = Model::new([Answer::say("One.")]);
    let context = repository(&model).file("convoke.toml", TEAM);
    assert_eq!(ran(&context, &["run", "First?"]).0, 0);
    let sessions = json(&context, &["sessions", "list", "--json"]);
    let session = sessions["sessions"][0]["id"].as_str().expect("an id").to_owned();
    let (thread, short) = (format!("{session}-mo"), &session[24..32]);
    let refused = [
        (&["Hello"][..], format!("run --session {short} --to mo \"…\"`")),
        (&["--compact"], format!("sessions compact {short} mo`")),
        (&["--undo-compaction"], format!("sessions compact {short} mo --undo`")),
        (&["--forget"], format!("sessions rm {short}`")),
    ];
    for (what, command) in refused {
        let (code, _, err) = ran(&context, &[&["ask", "--thread", &thread], what].concat());
        assert_eq!(code, 2, "{what:?}: {err}");
        let whose = format!("{thread} belongs to session {short}");
        assert!(err.contains(&whose) && err.contains(&command), "{what:?}: {err}");
    }
    let (code, shown, _) = ran(&context, &["ask", "--thread", &thread, "--request"]);
    assert_eq!((code, shown), (0, model.bodies().remove(0)));
    assert_eq!(model.bodies().len(), 1);
    let listed = json(&context, &["ask", "--threads", "--json"]);
    assert_eq!(listed["threads"], Value::Array(Vec::new()));
}

#[test]
fn a_failed_first_turn_names_the_thread_of_its_requests() {
    let model = Model::new([Answer::error(401), Answer::error(401)]);
    let context = repository(&model);
    let (code, _, err) = ran(&context, &["ask", "Hello"]);
    let kept = err.lines().find_map(|line| line.strip_prefix("the requests are stored: "));
    let command: Vec<&str> = kept.expect("a command").split(' ').collect();
    let shown = ran(&context, &command[1..]);
    assert_eq!((code, shown.0, &shown.1), (1, 0, &model.bodies()[0]));
    let (code, _, err) = ran(&context, &["ask", "--thread", command[3], "Again"]);
    assert_eq!(code, 2);
    assert!(err.contains("the thread has no completed turn"), "{err}");

    let value = answer(&context, &["Hello"]);
    assert_eq!((&value["goesOn"], &value["outcome"]["verdict"]), (&false.into(), &"failed".into()));
    let thread = value["thread"].as_str().expect("a thread");
    let shown = ran(&context, &["ask", "--thread", thread, "--request"]);
    assert_eq!((shown.0, &shown.1), (0, &model.bodies()[1]));
}

#[test]
fn threads_are_listed_the_newest_first_and_removed_with_what_was_sent() {
    let model = Model::new([
        Answer::say("One."),
        Answer::error(401),
        Answer::say("Three."),
        Answer::say("Four."),
    ]);
    let context = repository(&model);
    assert!(ran(&context, &["ask", "--threads"]).1.contains("No threads yet"));
    let ask = |arguments: &[&str]| {
        answer(&context, arguments)["thread"].as_str().expect("a thread").to_owned()
    };
    let threads = [
        ask(&["The first\nquestion"]),
        ask(&["The second"]),
        ask(&["--wire", "chat", "The third"]),
    ];
    ask(&["--thread", &threads[0], "And then?"]);
    let listed = json(&context, &["ask", "--threads", "--json"]);
    let listed = listed["threads"].as_array().expect("threads");
    let told = listed.iter().map(|it| {
        assert!(it["bytes"].as_u64() > Some(1000) && it["lastRequestAt"].is_u64(), "{it}");
        let text = |field: &str| it[field].as_str().expect("a text").to_owned();
        (text("thread"), text("firstQuestion"), it["requests"].as_u64().expect("a number"))
    });
    let expected = [(0, "The first\nquestion", 2), (2, "The third", 1), (1, "The second", 1)];
    let expected = expected.map(|(index, text, many)| (threads[index].clone(), text.into(), many));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let (_, lines, _) = ran(&context, &["ask", "--threads"]);
    let lines = crate::mask::ages(&lines);
    let first = lines.lines().next().expect("a line");
    assert!(first.starts_with(&threads[0]) && first.ends_with("The first question"), "{lines}");
    assert!(first.contains("just now  2 requests, "), "{lines}");

    let (code, out, _) = ran(&context, &["ask", "--thread", &threads[1], "--forget"]);
    assert_eq!((code, out), (0, format!("removed thread {}\n", threads[1])));
    let removed = json(&context, &["ask", "--thread", &threads[0], "--forget", "--json"]);
    assert_eq!(removed["removed"], *threads[0]);
    for gone in &threads[..2] {
        for what in ["--forget", "--request", "Hello"] {
            let (code, _, err) = ran(&context, &["ask", "--thread", gone, what]);
            assert_eq!(code, 2, "{what}: {err}");
        }
    }
    let listed = json(&context, &["ask", "--threads", "--json"]);
    assert_eq!(listed["threads"].as_array().map(Vec::len), Some(1));
}
