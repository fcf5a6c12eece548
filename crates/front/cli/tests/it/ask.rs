//! `convoke ask` against a rehearsed model.

use std::process::Stdio;

use convoke_rehearsal::{Answer, End, Reply, Script};
use serde_json::{Value, json};

use crate::context::TestContext;
use crate::model::{Model, answer, repository};

#[test]
fn the_answer_is_streamed_and_the_thread_can_be_continued() {
    let model = Model::new([
        Reply::default().think("Hm.").say("For").say("ty.").into(),
        Answer::say("Two."),
    ]);
    let context = repository(&model);
    let first = context.output(&["ask", "How many?"], b"");
    let stderr = String::from_utf8(first.stderr).expect("UTF-8");
    assert_eq!((first.stdout, first.status.code()), (b"Forty.\n".to_vec(), Some(0)), "{stderr}");
    let thread = stderr.trim().strip_prefix("thread ").expect("the thread's name").to_owned();

    let second = context.output(&["ask", "--thread", &thread, "--explain", "And then?"], b"");
    assert_eq!(second.stdout, b"Two.\n");
    let bodies = model.bodies();
    assert!(bodies[0].contains("Answer in one word.") && bodies[0].contains("How many?"));
    let shared = bodies[0].find("],\"tools\":").expect("items");
    assert_eq!(bodies[0][..shared], bodies[1][..shared]);
    let account = String::from_utf8(second.stderr).expect("UTF-8");
    let grouped = |bytes: usize| format!("{},{:03}", bytes / 1000, bytes % 1000);
    let (same, all) = (grouped(shared), grouped(bodies[1].len()));
    let told = format!("unchanged since the previous request: {same} of {all} bytes");
    assert!(account.contains("POST /responses") && account.contains(&told), "{account}");
    let table: Vec<&str> = account.lines().filter(|line| line.ends_with("thread")).collect();
    let sections = table.iter().map(|line| line.split_whitespace().next().expect("a section"));
    let mut sections: Vec<_> = sections.collect();
    sections.dedup();
    let expected =
        ["instructions", "permissions", "user-instructions", "environment", "user", "model"];
    assert_eq!(sections, expected, "{account}");
    assert!(table[0].ends_with("  from the thread"), "{account}");
    assert!(!account.contains("correct-horse"));
}

#[test]
fn a_secret_is_not_shown_though_it_comes_in_pieces() {
    let key = "correct-horse-battery";
    let (one, other) = key.split_at(9);
    let model = Model::new([Reply::default().say("It is ").say(one).say(other).say(".").into()]);
    let context = repository(&model);
    let answered = context.output(&["ask", "What is my key?"], b"");
    assert_eq!(String::from_utf8_lossy(&answered.stdout), "It is [redacted].\n");
}

#[test]
fn the_wire_and_the_rest_can_be_named_and_the_question_comes_from_standard_input() {
    let model = Model::new([]);
    let context = repository(&model);
    let arguments = ["ask", "--wire", "chat", "--model", "other", "Review this:", "-"];
    let output = context.output(&arguments, b"fn main() {}\n");
    assert_eq!(output.status.code(), Some(0));
    context.output(&["ask"], b"only this");
    let body: Value = serde_json::from_str(&model.bodies()[0]).expect("JSON");
    let asked = &body["messages"].as_array().expect("messages").last().expect("one")["content"];
    assert_eq!(*asked, "Review this:\n\nfn main() {}\n");
    assert_eq!(body["model"], "other");
    assert_eq!(body["tools"], json!([]));
    assert!(model.bodies()[1].contains("only this"));
}

#[test]
fn the_sent_body_is_that_of_the_request_command() {
    let model = Model::new([]);
    let context = repository(&model);
    for wire in ["responses", "chat"] {
        let asked = answer(&context, &["--wire", wire, "What is here?"]);
        let home = context.home().join("config").display().to_string();
        let shown = context.output(
            &["request", "--codex-home", &home, "--model", "m", "--wire", wire, "What is here?"],
            b"",
        );
        let thread = asked["thread"].as_str().expect("a thread");
        let shown = String::from_utf8(shown.stdout).expect("UTF-8");
        let shown = shown.replace("00000000-0000-7000-8000-000000000000", thread);
        assert_eq!(shown, *model.bodies().last().expect("a request"), "{wire}");
    }
}

#[test]
fn json_is_written_at_the_end() {
    let model = Model::new([Answer::call("read_file", json!({"path": "AGENTS.md"}))]);
    let context = repository(&model);
    let value = answer(&context, &["--tools", "read", "What are the rules?"]);
    assert_eq!(value["reply"], Script::DEFAULT_TEXT);
    assert_eq!(value["outcome"], json!({"verdict": "done"}));
    let requests = value["requests"].as_array().expect("requests");
    for (request, body) in requests.iter().zip(model.bodies()) {
        assert_eq!(request["bytes"], body.len());
        assert_eq!(request["ledger"]["usedBytes"], body.len());
    }
    assert_eq!(requests.len(), 2);
    assert!(requests[1]["unchangedPrefixBytes"].as_u64() > Some(1000));
}

#[test]
fn an_attempt_that_failed_leaves_no_trace_in_the_answer() {
    let cut = |text: &str| Answer::from(Reply::default().say(text).end(End::Cut));
    let model = Model::new([cut("The answ"), Answer::say("The answer is 42.")]);
    let output = repository(&model).output(&["ask", "What?"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "The answer is 42.\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("attempt 1 of 4 failed"));
    let model = Model::new([cut("Perhaps"), Answer::say("It is 42.")]);
    let output = repository(&model).output(&["ask", "What?"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Perhaps\n\nIt is 42.\n");
}

#[test]
fn failures_have_hints_and_exit_codes() {
    let model = Model::new([Answer::error(401)]);
    let context = repository(&model);
    insta::assert_snapshot!(context.run(&["ask", "Hello"]), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    the requests are stored: convoke ask --thread [SESSION 1] --request
    convoke: not signed in: rehearsed error 401 (status 401)
    ");
    insta::assert_snapshot!(context.run(&["ask", "--thread", "nope", "Hello"]), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: --thread: no thread nope
    ");
    insta::assert_snapshot!(context.run(&["ask", "--key-env", "OTHER_KEY", "Hello"]), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: the variable `OTHER_KEY`, which `key-env` names, is not set
    ");
    insta::assert_snapshot!(context.run(&["ask", "--base-url", "nonsense", "Hello"]), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: `base-url` is not an address: relative URL without a base; write it like https://api.example.com/v1
    ");
    insta::assert_snapshot!(context.run(&["ask", "--agent", "appi", "Hello"]), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: --agent: no api agent has the name `appi`; did you mean `api`?
    ");
    let empty = TestContext::new();
    let home = empty.path().display().to_string();
    let empty = empty.env("HOME", &home);
    insta::assert_snapshot!(empty.run(&["ask", "Hello"]), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: no endpoint configured; set OPENAI_API_KEY, pass --base-url URL, or set it for the agent in agents.toml
    ");
    let value = answer(&context, &["--deny", "thread.compacted", "Hello"]);
    assert_eq!(value["outcome"]["verdict"], "done");
}

#[test]
fn openais_variables_or_one_option_are_enough() {
    let model = Model::new([]);
    let bare = || {
        let context = TestContext::new();
        let home = context.path().display().to_string();
        context.env("HOME", &home)
    };
    let context = bare()
        .env("OPENAI_API_KEY", "hunter2-key")
        .env("OPENAI_BASE_URL", &format!("{}/v1", model.server().base_url()));
    let value = answer(&context, &["Hello"]);
    assert_eq!(value["reply"], Script::DEFAULT_TEXT);
    let value =
        answer(&bare(), &["--base-url", &format!("{}/v1", model.server().base_url()), "Hello"]);
    assert_eq!(value["reply"], Script::DEFAULT_TEXT);
    let body: Value = serde_json::from_str(&model.bodies()[0]).expect("JSON");
    assert!(body["model"].as_str().is_some_and(|name| !name.is_empty()), "{body}");
}

#[test]
fn a_thread_is_named_by_the_beginning_of_its_id_or_as_the_last() {
    let model = Model::new([]);
    let context = repository(&model);
    let thread = answer(&context, &["First"])["thread"].as_str().expect("a thread").to_owned();
    let prefix = &thread[..thread.len() - 3];
    for name in [prefix, "last"] {
        assert_eq!(answer(&context, &["--thread", name, "Again"])["thread"], thread.as_str());
    }
    answer(&context, &["Second"]);
    let several = context.run(&["ask", "--thread", &thread[..1], "Which?"]);
    assert!(several.contains("matches several threads"), "{several}");
}

#[test]
fn a_thread_is_compacted_and_restored_by_hand() {
    let model = Model::new([Answer::say("One."), Answer::say("SUMMARY"), Answer::say("Two.")]);
    let context = repository(&model);
    let thread = answer(&context, &["First"])["thread"].as_str().expect("a thread").to_owned();
    let compacted = context.output(&["ask", "--thread", &thread, "--compact"], b"");
    let said = "SUMMARY\n\nthe thread continues from this summary; --undo-compaction restores the earlier items\n";
    assert_eq!(String::from_utf8_lossy(&compacted.stdout), said);
    assert_eq!(compacted.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&compacted.stderr).contains("thread.compacted"));
    let undo = ["ask", "--thread", &thread, "--undo-compaction"];
    let undone = String::from_utf8(context.output(&undo, b"").stdout).expect("UTF-8");
    let beginning = "compaction of the thread undone: 5 items (";
    assert!(undone.starts_with(beginning) && undone.ends_with(" bytes) restored\n"), "{undone}");
    assert!(context.run(&undo).contains("has no compaction to undo"));
    answer(&context, &["--thread", &thread, "Second"]);
    let body = &model.bodies()[2];
    assert!(body.contains("One.") && !body.contains("SUMMARY"));
}

#[test]
fn a_model_is_a_member_of_a_team_and_its_thread_is_compacted_by_hand() {
    let words = ["First answer.", "SUMMARY", "Second answer.", "Third answer."];
    let model = Model::new(words.map(Answer::say));
    let team = "briefing = false\n[[member]]\nname = \"kim\"\nhuman = true\n\n\
                [[member]]\nname = \"mo\"\nagent = \"api\"\n";
    let context = repository(&model).file("convoke.toml", team);
    let run = |arguments: &[&str]| {
        let output = context.output(arguments, b"");
        let (out, err) = (output.stdout, output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&err));
        String::from_utf8(out).expect("UTF-8")
    };
    assert!(run(&["run", "One?"]).contains("First answer."));
    assert!(run(&["sessions", "compact", "last", "mo"]).starts_with("SUMMARY"));
    assert!(run(&["run", "--session", "last", "Two?"]).contains("Second answer."));
    let undone = run(&["sessions", "compact", "last", "mo", "--undo", "--json"]);
    let undone: Value = serde_json::from_str(&undone).expect("JSON");
    let summary = undone["undone"]["summary"].as_str().expect("a summary");
    assert!(undone["summary"].is_null() && summary.ends_with("SUMMARY"), "{undone}");
    assert!(undone["undone"]["items"].as_u64() > Some(3), "{undone}");
    assert!(run(&["run", "--session", "last", "Three?"]).contains("Third answer."));

    let bodies = model.bodies();
    assert!(bodies[2].contains("SUMMARY") && !bodies[2].contains("First answer.\",\"type"));
    assert!(bodies[3].contains("First answer.") && bodies[3].contains("Three?"));
    let person = context.run(&["sessions", "compact", "last", "kim"]);
    let listed: Value = serde_json::from_str(&run(&["sessions", "list", "--json"])).unwrap();
    let thread = format!("{}-mo", listed["sessions"][0]["id"].as_str().expect("an id"));
    run(&["sessions", "rm", "--purge", "last", "--yes"]);
    let gone = context.run(&["ask", "--thread", &thread, "Hello"]);
    assert!(gone.contains("no thread"), "{gone}");
    assert!(person.contains("exit code: 2") && person.contains("no agent of the team"), "{person}");
}

/// Kills the command during each of a turn's requests. Afterwards the thread is as
/// it was before the turn, and the turn sends the same bytes when it is taken again.
#[test]
fn a_turn_killed_at_any_step_leaves_no_trace() {
    let call = || Answer::call("list_files", json!({"path": "."}));
    let hang = || Answer::from(Reply::default().say("I am wri").end(End::Hang));
    let scripts = [
        vec![hang(), call(), call(), Answer::say("Done.")],
        vec![call(), hang(), call(), call(), Answer::say("Done.")],
        vec![call(), call(), hang(), call(), call(), Answer::say("Done.")],
    ];
    for (step, script) in scripts.into_iter().enumerate() {
        let model = Model::new(std::iter::once(Answer::say("Ready.")).chain(script));
        let context = repository(&model);
        let thread = answer(&context, &["Ready?"])["thread"].as_str().expect("one").to_owned();
        let arguments = ["ask", "--json", "--tools", "read", "--thread", &thread, "Look"];
        let mut child = context
            .command(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        model.wait_for(2 + step);
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let again = answer(&context, &arguments[2..]);
        assert_eq!(again["reply"], "Done.", "killed at request {step}: {again}");
        let bodies = model.bodies();
        let (killed, taken) = (&bodies[1..2 + step], &bodies[2 + step..]);
        assert_eq!(killed[0], taken[0], "killed at request {step}");
        assert_eq!(taken.len(), 3);
    }
}

/// The same during a compaction: before a turn that would fill the thread, and in the middle
/// of one that did.
#[test]
fn a_killed_compaction_leaves_no_trace() {
    let look = || Answer::call("read_file", json!({"path": "big.txt"}));
    let hang = || Answer::from(Reply::default().say("What was sai").end(End::Hang));
    let ends = || [Answer::say("SUMMARY"), Answer::say("Done.")];
    let long = format!("Look at this: {}", "a line of mine\n".repeat(600));
    let cases: [(&str, Vec<Answer>); 2] = [
        (&long, vec![hang()].into_iter().chain(ends()).collect()),
        ("Look", vec![look(), hang(), look()].into_iter().chain(ends()).collect()),
    ];
    for wire in ["responses", "chat"] {
        for (question, script) in &cases {
            let model = Model::new(std::iter::once(Answer::say("Ready.")).chain(script.clone()));
            let big = "A line of a rather big file.\n".repeat(400);
            let context = repository(&model).file("big.txt", big);
            let thread = answer(&context, &["--wire", wire, "Ready?"])["thread"]
                .as_str()
                .unwrap()
                .to_owned();
            let options = ["--tools", "read", "--context-window", "4000", "--wire", wire];
            let arguments = [&options[..], &["--thread", &thread, question]].concat();
            let mut child = context
                .command(&[&["ask"], &arguments[..]].concat())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the command starts");
            let steps = script.len() - 3;
            let until_killed = if steps == 0 { 2 } else { 3 };
            model.wait_for(until_killed);
            child.kill().expect("it is killed");
            child.wait().expect("it ends");
            let again = answer(&context, &arguments);
            assert_eq!(again["reply"], "Done.", "{wire}: {again}");
            let bodies = model.bodies();
            let (killed, taken) = (&bodies[1..until_killed], &bodies[until_killed..]);
            assert_eq!(killed[0], taken[0], "{wire}");
            let last = bodies.last().expect("a request");
            assert!(last.contains("SUMMARY") && !last.contains("Ready.\""), "{wire}: {last}");
            let shown = context.output(&["ask", "--thread", &thread, "--request", "--json"], b"");
            let shown = String::from_utf8(shown.stdout).expect("UTF-8");
            assert_eq!(shown.lines().count(), bodies.len(), "{wire}");
        }
    }
}

#[test]
fn a_link_out_of_a_project_that_is_not_trusted_is_not_sent() {
    let model = Model::new([]);
    let team = "[[member]]\nname = \"mo\"\nagent = \"api\"\nbase-url = \"http://127.0.0.1:9/v1\"\n";
    let context = repository(&model).file("convoke.toml", team);
    let outside = TestContext::new().file("secret.md", "The secret.");
    let link = context.path().join("AGENTS.md");
    std::fs::remove_file(&link).expect("it was there");
    std::os::unix::fs::symlink(outside.path().join("secret.md"), &link).expect("a link");

    let asked = context.run(&["ask", "Hello"]);
    assert!(asked.contains("project-file.outside"), "{asked}");
    assert!(asked.contains("is a link out of a project that is not trusted"), "{asked}");
    let run = context.run(&["run", "Hello"]);
    assert!(run.contains("project-file.outside"), "{run}");
    let expected =
        "`member.mo.base-url` needs trust and was left out: run `convoke trust [DIRECTORY]`";
    assert!(run.contains(expected), "{run}");
    assert!(model.bodies().iter().all(|body| !body.contains("The secret.")));
    // Printing alone follows Codex.
    let home = context.home().join("config").display().to_string();
    let shown = context.run(&["request", "--codex-home", &home, "--model", "m", "Hello"]);
    assert!(shown.contains("The secret."), "{shown}");

    assert!(context.run(&["trust", "--yes"]).contains("exit code: 0"));
    context.run(&["ask", "Hello"]);
    assert!(model.bodies().last().expect("a request").contains("The secret."));
}

#[test]
fn a_note_begins_on_a_new_line_if_both_streams_are_the_same() {
    let cut = Answer::from(Reply::default().say("The answ").end(End::Cut));
    let model = Model::new([cut, Answer::say("The answer is 42.")]);
    let context = repository(&model);
    let path = context.path().join("both.txt");
    let file = std::fs::File::create(&path).expect("a file");
    let mut command = context.command(&["ask", "What?"]);
    command.stdin(Stdio::null()).stdout(file.try_clone().expect("a copy")).stderr(file);
    assert!(command.status().expect("it ends").success());
    let both = std::fs::read_to_string(path).expect("a text");
    let lines: Vec<&str> = both.lines().collect();
    assert_eq!((lines[0], lines[2]), ("The answ", "er is 42."), "{both}");
    assert!(lines[1].starts_with("attempt 1 of 4 failed: "), "{both}");
}

#[test]
fn a_long_reply_is_written_once() {
    let piece = "A line of a rather long reply.\n".repeat(1 << 13);
    let reply = (0..24).fold(Reply::default(), |reply, _| reply.say(&*piece));
    let model = Model::new([reply.into()]);
    let output = repository(&model).output(&["ask", "--wire", "chat", "Write"], b"");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("agent.reply-truncated"), "{err}");
    let (out, all) = (String::from_utf8(output.stdout).expect("UTF-8"), piece.repeat(24));
    assert!(out.len() <= all.len() + 1 && out.len() > 4 << 20, "{} bytes", out.len());
    assert!(all.starts_with(out.trim_end()));
}

#[test]
fn a_closed_output_cancels_the_turn_with_an_error() {
    use std::io::Read as _;
    let second = std::time::Duration::from_millis(200);
    let reply = (0..60).fold(Reply::default(), |reply, _| reply.say("More. ").wait(second));
    let model = Model::new([reply.end(End::Hang).into()]);
    let context = repository(&model);
    let mut child = context
        .command(&["ask", "Talk"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut out = child.stdout.take().expect("standard output");
    out.read_exact(&mut [0; 5]).expect("a beginning");
    drop(out);
    let output = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the output was closed; the turn was cancelled"), "{err}");
    assert!(err.contains("thread "), "{err}");
}

#[test]
fn events_of_a_compaction_are_reported_like_those_of_an_answer() {
    let model = Model::new([
        Answer::say("One."),
        Answer::error(503),
        Answer::say("SUMMARY"),
        Answer::say("Two."),
        Answer::error(503),
        Answer::say("SUMMARY"),
        Answer::error(401),
        Answer::error(401),
    ]);
    let team = "briefing = false\n[[member]]\nname = \"kim\"\nhuman = true\n\n\
                [[member]]\nname = \"mo\"\nagent = \"api\"\n";
    let context = repository(&model).file("convoke.toml", team);
    let ran = |arguments: &[&str]| {
        let output = context.output(arguments, b"");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let thread = answer(&context, &["First"])["thread"].as_str().expect("a thread").to_owned();
    let (code, _, err) = ran(&["ask", "--thread", &thread, "--compact"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("attempt 1 of 4 failed: "), "{err}");
    // The outcome of a request is shown beside its bytes.
    let (_, out, err) = ran(&["ask", "--thread", &thread, "--request=2"]);
    assert_eq!(out, model.bodies()[1]);
    assert!(err.contains("attempt 1 failed: "), "{err}");

    assert_eq!(ran(&["run", "Second?"]).0, Some(0));
    let compact = ["sessions", "compact", "last", "mo"];
    let (code, out, err) = ran(&[&compact[..], &["--deny", "thread.compacted"]].concat());
    assert_eq!(code, Some(3), "{err}");
    assert!(out.starts_with("SUMMARY") && err.contains("attempt 1 of 4 failed: "), "{err}");
    assert!(err.contains("denied: thread.compacted (1)"), "{err}");
    let (code, _, err) = ran(&compact);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("thread.compaction-failed: ") && err.contains("not signed in"), "{err}");
    let (code, out, _) = ran(&[&compact[..], &["--json"]].concat());
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &value["outcome"]["verdict"]), (Some(1), &json!("failed")));
    assert_eq!(value["diagnostics"][0]["code"], "thread.compaction-failed", "{value}");
    assert!(value["thread"].as_str().is_some_and(|it| it.ends_with("-mo")), "{value}");
}
