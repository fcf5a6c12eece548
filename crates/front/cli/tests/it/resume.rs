//! Resumed sessions: the speaker, the recipients, and the partial output of interrupted turns.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::context::TestContext;

const TEAM: &str = r#"
[[member]]
name = "kailai"
human = true

[[member]]
name = "lee"
human = true

[[member]]
name = "max"
agent = "mine"

[[member]]
name = "sarah"
agent = "yours"
"#;

/// Returns a team of two programs that the user has configured.
fn programs(max: &str, sarah: &str) -> TestContext {
    let agent = |name: &str, script: &str| {
        format!(
            "[agent.{name}]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{script}''']\n"
        )
    };
    let project = TestContext::new().file("convoke.toml", TEAM);
    let config = project.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("agents.toml"), agent("mine", max) + &agent("yours", sarah))
        .unwrap();
    project.env("PATH", "/usr/bin:/bin")
}

/// Returns who spoke to whom in a run.
fn headings(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.contains(" → ") && !line.starts_with(' ')).collect()
}

fn sessions(project: &TestContext) -> usize {
    let listed = project.output(&["sessions", "list", "--json"], b"").stdout;
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    listed["sessions"].as_array().unwrap().len()
}

#[test]
fn a_real_session_gets_no_made_up_replies() {
    let project = programs("echo really", "true");
    project.run(&["run", "Hello"]);
    for command in ["run", "chat"] {
        let refused = project.run(&[command, "--session", "last", "--rehearse"]);
        assert!(refused.starts_with("exit code: 2"), "{refused}");
        assert!(refused.contains("is not a rehearsal") && refused.contains("sessions fork"));
    }
    let copy = project.output(&["sessions", "fork", "last", "--rehearse"], b"").stdout;
    let copy = String::from_utf8(copy).unwrap();
    let rehearsed = project.run(&["run", "--session", copy.trim(), "Hello, copy"]);
    assert!(rehearsed.contains("I was sent a prompt"), "{rehearsed}");
    assert!(!rehearsed.contains("counted"), "a stand-in counts no tokens: {rehearsed}");
}

#[test]
fn a_rehearsed_session_stays_a_rehearsal_unless_the_user_chooses_otherwise() {
    let project = programs("echo really", "true");
    let began = project.run(&["run", "--rehearse", "Hello"]);
    assert!(began.contains("I was sent a prompt"), "{began}");
    let went_on = project.run(&["run", "--session", "last", "Hello again"]);
    assert!(went_on.contains("I was sent a prompt") && !went_on.contains("really"), "{went_on}");
    assert!(went_on.contains("--rehearse=no runs the real agents"), "{went_on}");
    let copy = project.output(&["sessions", "fork", "last"], b"").stdout;
    let copy = String::from_utf8(copy).unwrap();
    let of_copy = project.run(&["sessions", "resume", copy.trim(), "Hello, copy"]);
    assert!(!of_copy.contains("really"), "{of_copy}");
    let real = project.run(&["run", "--session", "last", "--rehearse=no", "For good"]);
    assert!(real.contains("really"), "{real}");
    assert!(real.contains("convoke run --rehearse=no --session"), "{real}");
    let listed = project.run(&["sessions", "list"]);
    assert!(listed.contains("  rehearsal  "), "{listed}");
}

#[test]
fn the_partial_output_of_a_turn_survives_a_kill() {
    let script = "if [ -e again ]; then echo whole; else touch again; echo 'one [NEXT: sarah]'; \
                  echo two; exec sleep 600; fi";
    let project = programs(script, "echo never");
    let mut child = project
        .command(&["run", "Go"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let partial = ["sessions", "show", "last", "--turn", "1", "--partial"];
    let began = Instant::now();
    while !project.run(&partial).contains("two") {
        assert!(began.elapsed() < Duration::from_mins(1), "{}", project.run(&partial));
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let went_on = project.run(&["run", "--session", "last"]);
    assert!(went_on.contains("turn 1 was interrupted; retrying"), "{went_on}");
    assert!(went_on.contains("whole") && !went_on.contains("never"), "{went_on}");
    let first = project.output(&[&partial[..], &["--attempt", "1"]].concat(), b"");
    assert_eq!(String::from_utf8(first.stdout).unwrap().trim_end(), "one [NEXT: sarah]\ntwo");
    let turn = project.run(&["sessions", "show", "last", "--turn", "1"]);
    assert!(turn.contains("Convoke was interrupted during this attempt"), "{turn}");
    let none = project.run(&partial);
    assert!(none.contains("no unfinished reply"), "{none}");
    let replayed = project.run(&["sessions", "replay", "--verify", "last"]);
    assert!(replayed.contains("2 of 2 prompts"), "{replayed}");
}

#[test]
fn the_addressed_person_answers_the_asking_agent() {
    let project = programs(
        "echo 'not me'",
        "if grep -q red; then echo thanks; else echo 'Which? [NEXT: lee]'; fi",
    );
    let asked = project.run(&["run", "Take one [NEXT: sarah]"]);
    assert!(asked.contains("answer as lee                convoke run --session"), "{asked}");
    let answered = project.run(&["run", "--session", "last", "The red one"]);
    assert_eq!(headings(&answered), ["lee → sarah"], "{answered}");
    assert!(answered.contains("thanks"), "{answered}");
}

#[test]
fn an_unknown_name_is_not_replaced_by_another_member() {
    let project = programs("echo 'not me'", "true");
    let said = project.run(&["run", "Hello [NEXT: sarha]"]);
    assert!(said.contains("did you mean `sarah`?"), "{said}");
    assert!(said.contains("No member was addressed; waiting for kailai."), "{said}");
    assert!(!said.contains("not me"), "{said}");
}

#[test]
fn a_failed_turn_is_offered_for_retry_when_the_session_is_resumed() {
    let project = programs("exit 3", "true");
    project.run(&["run", "Go"]);
    let later = project.run(&["run", "--session", "last"]);
    assert!(later.contains("retry the last turn          convoke run --session"), "{later}");
}

#[test]
fn a_session_reports_that_its_team_file_differs_from_the_directorys() {
    let project = programs("echo hello", "true");
    project.run(&["run", "Go"]);
    let same = project.run(&["run", "--session", "last", "Again"]);
    assert!(!same.contains("its own copy"), "{same}");
    let project = project.file("convoke.toml", TEAM.to_owned() + "# changed\n");
    let changed = project.run(&["run", "--session", "last", "Again"]);
    assert!(changed.contains("The session uses its own copy of the team file"), "{changed}");
}

#[test]
fn a_refused_run_leaves_no_session() {
    let project = programs("echo hello", "true")
        .file("empty.jsonl", "")
        .file("broken.jsonl", "{\"format\":\"convoke-session\",\"version\":1}\n");
    for arguments in [
        &["run", "--to", "nobody", "Hello"][..],
        &["run", ""],
        &["run"],
        &["sessions", "import", "broken.jsonl"],
        &["sessions", "import", "empty.jsonl"],
    ] {
        let refused = project.run(arguments);
        assert!(refused.starts_with("exit code: 2"), "{refused}");
        assert_eq!(sessions(&project), 0, "{arguments:?}");
    }
    project.run(&["run", "Hello"]);
    let whole = project.output(&["sessions", "export", "--all", "last"], b"").stdout;
    let whole = String::from_utf8(whole).unwrap();
    let no_team = whole.replacen("[[member]]", "[[membre]]", 1);
    let second = "\"message\":{\"id\":\"msg-2\"";
    let line = 1 + whole.lines().position(|line| line.contains(second)).unwrap();
    let doubled = whole.replacen(second, "\"message\":{\"id\":\"msg-1\"", 1);
    let twice = format!("doubled.jsonl: line {line}: event");
    let project = project.file("no-team.jsonl", no_team).file("doubled.jsonl", doubled);
    for (file, why) in [
        ("no-team.jsonl", "no-team.jsonl: line 1: the field `team` is not a team file"),
        ("doubled.jsonl", &twice),
        ("doubled.jsonl", "message 2 has the `id` of an earlier one: msg-1"),
    ] {
        let refused = project.run(&["sessions", "import", file]);
        assert!(refused.starts_with("exit code: 2") && refused.contains(why), "{refused}");
        assert_eq!(sessions(&project), 1, "{file}");
    }
}
