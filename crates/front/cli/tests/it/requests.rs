//! Stored requests are shown to the byte, whatever their outcome.

use std::process::Stdio;

use convoke_rehearsal::{Answer, End, Reply, Usage};
use serde_json::{Value, json};

use crate::context::TestContext;
use crate::model::{Model, answer, repository};

const TEAM: &str = "briefing = false\n[[member]]\nname = \"kim\"\nhuman = true\n\n\
                    [[member]]\nname = \"mo\"\nagent = \"api\"\n";

fn run(context: &TestContext, arguments: &[&str]) -> String {
    let output = context.output(arguments, b"");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_requests_of_a_session_are_shown_to_the_byte_with_their_ledgers() {
    let usage = Usage { input: 3000, cached: 1200, output: 40 };
    let counted = |text: &str| Answer::from(Reply::default().say(text).with_usage(usage));
    let model = Model::new([counted("One."), counted("Two."), counted("SUMMARY"), counted("3.")]);
    let context = repository(&model).file("convoke.toml", TEAM);
    run(&context, &["run", "First?"]);
    let second = run(&context, &["run", "--session", "last", "Second?"]);
    run(&context, &["sessions", "compact", "last", "mo"]);
    run(&context, &["run", "--session", "last", "Third?"]);
    let bodies = model.bodies();

    // Of one turn, to the byte; of all, in their order, the summary that was asked for by hand too.
    for (turn, body) in [("1", &bodies[0]), ("2", &bodies[1]), ("3", &bodies[3])] {
        let shown = run(&context, &["sessions", "show", "last", "--turn", turn, "--request"]);
        assert_eq!(shown, *body, "turn {turn}");
    }
    let all = json_lines(&run(&context, &["sessions", "show", "last", "--request", "--json"]));
    assert_eq!(all.iter().map(|it| it["body"].as_str().unwrap()).collect::<Vec<_>>(), bodies);
    let purposes: Vec<_> = all.iter().map(|it| (&it["purpose"], &it["turn"])).collect();
    let (answer, null) = (json!("answer"), Value::Null);
    let turns = [json!(1), json!(2), json!(3)];
    assert_eq!(
        purposes,
        [
            (&answer, &turns[0]),
            (&answer, &turns[1]),
            (&json!("compaction"), &null),
            (&answer, &turns[2])
        ]
    );

    // Each reports the exact size of the part that a provider's cache can serve.
    let same = |one: &str, other: &str| {
        one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
    };
    for (index, request) in all.iter().enumerate() {
        let unchanged =
            index.checked_sub(1).map_or(0, |before| same(&bodies[before], &bodies[index]));
        assert_eq!(request["unchangedBytes"], unchanged, "request {index}");
        assert_eq!(request["ledger"]["unchangedBytes"], unchanged);
        assert_eq!(request["ledger"]["usedBytes"], bodies[index].len());
        assert_eq!(request["usage"]["input"], 3000);
        assert_eq!(request["ended"], "answered");
    }
    assert!(all[1]["unchangedBytes"].as_u64() > Some(5000));
    let headings = run(&context, &["sessions", "show", "last", "--request"]);
    assert!(headings.contains("──── mo: request 3, compaction, "), "{headings}");
    let explained =
        context.output(&["sessions", "show", "last", "--turn", "2", "--request", "--explain"], b"");
    assert_eq!(String::from_utf8_lossy(&explained.stdout), bodies[1]);
    let ledger = String::from_utf8_lossy(&explained.stderr).into_owned();
    assert!(ledger.contains("unchanged since the previous request: "), "{ledger}");
    assert!(
        ledger.contains("the provider counted 3,000 tokens in (1,200 from its cache), 40 out"),
        "{ledger}"
    );

    // And so does the run itself.
    assert!(second.contains("of them unchanged ("), "{second}");
    assert!(second.contains("tokens in  from cache  tokens out"), "{second}");
    assert!(!second.contains("tokens, about"), "{second}");
    let turn = run(&context, &["sessions", "show", "last", "--turn", "2"]);
    assert!(turn.contains("  request 2, answer, "), "{turn}");
}

#[test]
fn every_request_and_attempt_of_a_turn_is_stored() {
    let model = Model::new([
        Answer::call("list_files", json!({"path": "."})),
        Answer::error(503),
        Answer::say("Done."),
    ]);
    let context = repository(&model).file("convoke.toml", TEAM);
    let agents = context.home().join("config/agents.toml");
    let settings = std::fs::read_to_string(&agents).unwrap() + "tools = \"read\"\n";
    std::fs::write(agents, settings).unwrap();
    run(&context, &["run", "Look"]);
    let bodies = model.bodies();
    let shown = ["sessions", "show", "last", "--turn", "1", "--request"];
    let requests = json_lines(&run(&context, &[&shown[..], &["--json"]].concat()));
    assert_eq!(requests.len(), 2);
    assert_eq!((bodies.len(), &bodies[1]), (3, &bodies[2]));
    assert_eq!(requests[0]["body"], bodies[0]);
    assert_eq!(requests[1]["body"], bodies[1]);
    let failed = requests[1]["failedAttempts"].as_array().expect("attempts");
    assert!(failed.len() == 1 && failed[0].as_str().unwrap().contains("503"), "{failed:?}");
    let both = run(&context, &shown);
    assert!(both.contains("turn 1, mo: request 2, answer, "), "{both}");
    assert!(both.contains("attempt 1 failed: "), "{both}");
    let one = run(&context, &["sessions", "show", "last", "--turn", "1", "--request=2"]);
    assert_eq!(one, bodies[1]);
    let missing = context.run(&["sessions", "show", "last", "--turn", "1", "--request=9"]);
    assert!(missing.contains("turn 1 has no request 9; it has 1, 2"), "{missing}");
}

#[test]
fn a_request_is_stored_before_it_is_sent() {
    let hang = Answer::from(Reply::default().say("I am wri").end(End::Hang));
    let model = Model::new([hang, Answer::say("Done.")]);
    let context = repository(&model).file("convoke.toml", TEAM);
    let mut command = context.command(&["run", "Hello"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    model.wait_for(1);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    let shown = ["sessions", "show", "last", "--request", "--json"];
    let killed = json_lines(&run(&context, &shown));
    assert_eq!(killed[0]["body"], model.bodies()[0]);
    assert_eq!(killed[0]["ended"], Value::Null);
    run(&context, &["run", "--session", "last"]);
    let all = json_lines(&run(&context, &shown));
    assert_eq!((all.len(), &all[1]["ended"]), (2, &json!("answered")));
    assert_eq!((&all[0]["attempt"], &all[1]["attempt"]), (&json!(1), &json!(2)));
    let again = run(&context, &["sessions", "show", "last", "--turn", "1", "--request"]);
    assert_eq!(again, model.bodies()[1]);
}

#[test]
fn stored_requests_are_shown_without_the_key() {
    let model = Model::new([Answer::say("One."), Answer::say("Two.")]);
    let context = repository(&model);
    let question = "Is my key correct-horse-battery?";
    let thread = answer(&context, &[question])["thread"].as_str().expect("a thread").to_owned();
    answer(&context, &["--thread", &thread, "And now?"]);
    let first = run(&context, &["ask", "--thread", &thread, "--request=1"]);
    assert_eq!(first, model.bodies()[0]);
    assert!(first.contains("Is my key [redacted]?"), "{first}");
    let database = std::fs::read(context.home().join("data/sessions.db")).expect("a file");
    for file in std::fs::read_dir(context.home().join("data")).expect("a directory") {
        let bytes = std::fs::read(file.expect("a file").path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("correct-horse"));
    }
    assert!(!database.is_empty());
    let unknown = context.run(&["ask", "--thread", "nope", "--request"]);
    assert!(unknown.contains("exit code: 2") && unknown.contains("nope"), "{unknown}");
}

#[test]
fn a_member_that_sends_its_own_requests_says_so() {
    let team = "[[member]]\nname = \"max\"\nagent = \"claude\"\n";
    let context = TestContext::new().file("convoke.toml", team);
    run(&context, &["run", "--rehearse", "Hello"]);
    let shown = context.run(&["sessions", "show", "last", "--turn", "1", "--request"]);
    assert!(shown.contains("exit code: 2") && shown.contains("`--record wire`"), "{shown}");
    let alone = context.run(&["sessions", "show", "last", "--request=1"]);
    assert!(alone.contains("--request=N needs --turn N"), "{alone}");
}

#[test]
fn a_run_distinguishes_the_prompt_of_a_model_from_its_requests() {
    let model = Model::new([
        Answer::call("list_files", json!({"path": "."})),
        Answer::say("Done."),
        Answer::error(401),
    ]);
    let context = repository(&model).file("convoke.toml", TEAM);
    let shown = run(&context, &["run", "Look"]);
    let sent: usize = model.bodies().iter().map(String::len).sum();
    let grouped = format!("{},{:03}", sent / 1000, sent % 1000);
    assert_eq!(model.bodies().len(), 2, "{shown}");
    assert!(shown.contains("mo  turn 1, answers kim · a prompt of "), "{shown}");
    assert!(shown.contains(&format!("2 requests, {grouped} bytes, ")), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("mo      ")).expect("a row");
    assert_eq!(row.split_whitespace().nth(2), Some(&*grouped), "{shown}");
    assert!(shown.contains("show every request"), "{shown}");
    assert!(shown.contains(" --request\n") && !shown.contains(" --prompt\n"), "{shown}");
}
