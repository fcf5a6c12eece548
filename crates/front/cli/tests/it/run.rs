//! `convoke run`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use serde_json::Value;

use crate::context::TestContext;
use crate::mask;

const TEAM: &str = r#"
name = "review"

[[member]]
name = "kailai"
human = true

[[member]]
name = "max"
agent = "claude"

[[member]]
name = "sarah"
agent = "codex"
"#;

fn project() -> TestContext {
    TestContext::new().file("convoke.toml", TEAM)
}

/// Returns a team whose agents are programs of this test, which the user has configured.
fn programs(max: &str, sarah: &str) -> TestContext {
    let team = TEAM.replace("\"claude\"", "\"mine\"").replace("\"codex\"", "\"yours\"");
    let project = TestContext::new().file("convoke.toml", team);
    let agent = |name: &str, script: &str| {
        format!(
            "[agent.{name}]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{script}''']\n"
        )
    };
    let config = project.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("agents.toml"), agent("mine", max) + &agent("yours", sarah))
        .unwrap();
    project.env("PATH", "/usr/bin:/bin")
}

fn events(project: &TestContext, arguments: &[&str]) -> Vec<Value> {
    let output = project.output(arguments, b"");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_sample_needs_no_team_file_no_account_and_no_network() {
    insta::assert_snapshot!(TestContext::new().run(&["run", "--rehearse"]));
}

/// `scripts/check-install` does the same with the installed program.
#[test]
fn a_task_that_panics_fails_its_turn_and_stores_no_empty_reply() {
    let project = project().env("CONVOKE_PANIC_IN", "redaction");
    let output = project.output(&["run", "--rehearse", "--json", "hello"], b"");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = events.iter().any(|it| it["diagnostic"]["code"] == "agent.redaction-failed");
    assert!(told, "{text}");
    let shown = project.output(&["sessions", "show", "last", "--json"], b"").stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(shown["turns"][0]["state"], "failed", "{shown}");
    assert_eq!(shown["turns"][0]["reply"], Value::Null, "{shown}");
    let messages = shown["messages"].as_array().unwrap();
    assert!(messages.iter().all(|it| it["message"]["content"] == "hello"), "{shown}");
}

#[test]
fn a_team_is_rehearsed_with_stand_ins() {
    insta::assert_snapshot!(project().run(&["run", "--rehearse", "Hello [NEXT: max, sarah]"]));
}

#[test]
fn to_applies_if_the_text_addresses_no_member() {
    let project = project();
    let said = [
        project.run(&["run", "--rehearse", "Hello"]),
        project.run(&["run", "--rehearse", "--to", "Sarah", "Hello"]),
        project.run(&["run", "--rehearse", "--to", "all", "Hello"]),
        project.run(&["run", "--rehearse", "--to", "max", "Hello [NEXT: sarah]"]),
    ];
    let calls: Vec<&str> = said
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("kailai → "))
        .collect();
    assert_eq!(calls, ["kailai → max", "kailai → sarah", "kailai → max, sarah", "kailai → sarah"]);
}

#[test]
fn programs_address_each_other() {
    let project = programs(
        "if grep -q granted; then echo thanks; else echo 'ask her [NEXT: sarah]'; fi",
        "echo 'granted [NEXT: max]'",
    );
    insta::assert_snapshot!(project.run(&["run", "Is it right?"]));
}

#[test]
fn a_conversation_stops_at_an_addressed_person() {
    let project = programs("echo 'Which one? [NEXT: kailai]'", "true");
    let asked = project.run(&["run", "Take one"]);
    let answered = project.run(&["run", "--session", "last", "The red one [NEXT: sarah]"]);
    insta::assert_snapshot!([asked, answered].join("\n"));
}

#[test]
fn no_agent_can_draw_on_the_screen() {
    let project =
        programs("printf 'a\\033[2Jb\\r\\033]0;title\\007c'", "printf '\\033[31mbad' >&2; exit 1");
    let mut shown = project.run(&["run", "Go [NEXT: max, sarah]"]);
    shown += &project.run(&["sessions", "show", "last"]);
    shown += &project.run(&["sessions", "list"]);
    assert!(!shown.contains(['\u{1b}', '\r', '\u{7}']), "{shown:?}");
    assert!(shown.contains("a[2Jb]0;titlec"), "{shown}");
}

#[test]
fn json_has_one_event_per_line() {
    let project = project();
    let output = project.run(&["run", "--rehearse", "--json", "Hello [NEXT: max, nobody]"]);
    insta::assert_snapshot!(output);
}

/// An event that a run prints is the one that is stored. Pieces of a text, and the last line, are not in the log.
#[test]
fn the_log_has_what_the_runs_printed() {
    let project = project();
    let mut printed =
        events(&project, &["run", "--rehearse", "--json", "Hello [NEXT: max, sarah]"]);
    printed.extend(events(&project, &["run", "--session", "last", "--json", "Again"]));
    printed.retain(|event| !event["number"].is_null());
    for event in printed.iter_mut().filter(|event| event["type"] == "opened") {
        event.as_object_mut().unwrap().remove("rehearsal");
    }
    let log = project.output(&["sessions", "export", "last", "--log"], b"").stdout;
    let log: Vec<Value> = log
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(log[0]["type"], "created");
    let numbers: Vec<u64> = log.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=log.len() as u64), "{numbers:?}");
    assert_eq!(printed, log);
}

#[test]
fn a_resumed_session_has_the_earlier_messages_as_context() {
    let project = project();
    project.output(&["run", "--rehearse", "Hello"], b"");
    insta::assert_snapshot!(project.run(&[
        "run",
        "--rehearse",
        "--session",
        "last",
        "--to",
        "sarah",
        "And you?"
    ]));
}

#[test]
fn a_task_comes_from_the_team_file_or_standard_input() {
    let project = project();
    let with_task = TestContext::new().file("convoke.toml", format!("task = \"Greet\"\n{TEAM}"));
    let said = [
        with_task.run(&["run", "--rehearse"]),
        project.run_with_input(&["run", "--rehearse", "-"], b"From a pipe"),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_persons_message_is_sent_verbatim() {
    let project = project();
    let written = "\u{feff}    fn main() {\n        let a = 1;\n    }";
    project.run(&["run", "--rehearse", &format!("{written}\n[NEXT: max]")]);
    let arguments = ["sessions", "show", "last", "--turn", "1", "--prompt"];
    let sent = project.output(&arguments, b"").stdout;
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.ends_with(&format!("[MESSAGE]\n{written}")), "{sent:?}");
    let piped = format!("{written}\n[NEXT: max]\n");
    project.run_with_input(&["chat", "--rehearse"], b"   indented [NEXT: max]\n");
    let sent = project.output(&arguments, b"").stdout;
    assert!(sent.ends_with(b"[MESSAGE]\n   indented"), "{}", String::from_utf8_lossy(&sent));
    project.run_with_input(&["run", "--rehearse", "-"], piped.as_bytes());
    let sent = project.output(&arguments, b"").stdout;
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.ends_with(&format!("[MESSAGE]\n{written}")), "{sent:?}");
}

#[test]
fn a_failed_turn_stops_the_conversation_and_can_be_retried() {
    let project = programs("echo half; exit 3", "true");
    let failed = project.run(&["run", "Go"]);
    let config = project.home().join("config/agents.toml");
    let mended =
        std::fs::read_to_string(&config).unwrap().replace("echo half; exit 3", "echo whole");
    std::fs::write(config, mended).unwrap();
    let again = project.run(&["run", "--session", "last", "--retry"]);
    let nothing_left = project.run(&["run", "--session", "last", "--retry"]);
    insta::assert_snapshot!([failed, again, nothing_left].join("\n"));
}

#[test]
fn a_denied_diagnostic_is_exit_code_3() {
    insta::assert_snapshot!(project().run(&[
        "run",
        "--rehearse",
        "--deny",
        "marker.unresolved",
        "Hello [NEXT: max, sarha]"
    ]));
}

#[test]
fn limits_stop_an_endless_conversation() {
    let project = programs("echo 'your turn [NEXT: sarah]'", "echo 'no, yours [NEXT: max]'");
    let output = project.output(&["run", "Begin", "--json"], b"");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let stop = text.lines().find(|line| line.contains("\"type\":\"stopped\"")).unwrap();
    insta::assert_snapshot!(mask::times(&mask::session_ids(stop)));
}

#[test]
fn members_addressed_together_run_at_the_same_time_if_the_team_allows_it() {
    // Each waits for the other to be at work.
    let meeting = |mine: &str, other: &str, says: &str| {
        format!("touch {mine}; while [ ! -e {other} ]; do sleep .05; done; echo {says}")
    };
    let project = programs(&meeting("max", "sarah", "one"), &meeting("sarah", "max", "two"));
    let team = std::fs::read_to_string(project.path().join("convoke.toml")).unwrap();
    let project = project.file(
        "convoke.toml",
        team.replace(
            "[[member]]\nname = \"kailai\"",
            "workspace = \"shared\"\n[limits]\nparallel = true\n[[member]]\nname = \"kailai\"",
        ),
    );
    let shown = project.run(&["run", "Go [NEXT: max, sarah]"]);
    for said in ["  one\n", "  two\n"] {
        assert!(shown.contains(said), "{shown}");
    }
}

#[test]
fn bad_input_is_named_and_explained() {
    let team = |text: &str| TestContext::new().file("convoke.toml", text);
    let cases = [
        ("no team file", TestContext::new().run(&["run", "x"])),
        ("a named one that is not there", project().run(&["run", "--team", "other.toml", "x"])),
        ("a broken one", team("[[member]]\nnam = \"x\"\n").run(&["run", "x"])),
        (
            "no such agent",
            team("[[member]]\nname = \"x\"\nagent = \"cluade\"\n").run(&["run", "x"]),
        ),
        (
            "no such sandbox",
            team("[[member]]\nname = \"x\"\nagent = \"codex\"\nsandbox = \"wide\"\n")
                .run(&["run", "x"]),
        ),
        ("nothing to do", project().run(&["run"])),
        ("an empty task", project().run(&["run", "--rehearse", " "])),
        ("nobody of that name", project().run(&["run", "--rehearse", "--to", "sarha", "x"])),
        ("no agents", team("[[member]]\nname = \"x\"\nhuman = true\n").run(&["run", "x"])),
        ("no such session", project().run(&["run", "--session", "abc", "x"])),
        ("--retry without a session", project().run(&["run", "--retry"])),
        ("an unknown way to rehearse", project().run(&["run", "--rehearse=none", "x"])),
        ("an unknown code", project().run(&["run", "--deny", "marker.unresolvd", "x"])),
    ];
    let cases = cases.map(|(name, said)| format!("## {name}\n{said}"));
    insta::assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn a_users_own_agents_that_cannot_be_read_are_named() {
    let project = project();
    std::fs::create_dir_all(project.home().join("config")).unwrap();
    std::fs::write(project.home().join("config/agents.toml"), "[agent.max]\n").unwrap();
    insta::assert_snapshot!(project.run(&["run", "x"]));
}

#[test]
fn a_store_of_another_version_is_refused_and_unchanged() {
    let project = project();
    std::fs::create_dir_all(project.home().join("data")).unwrap();
    std::fs::write(project.home().join("data/sessions.db"), "not a database").unwrap();
    insta::assert_snapshot!(project.run(&["run", "--rehearse", "x"]));
    let there = std::fs::read(project.home().join("data/sessions.db")).unwrap();
    assert_eq!(there, b"not a database");
}

/// Starts a run, and reads its output until the agent has begun.
fn begun(project: &TestContext) -> (Child, impl Iterator<Item = String>) {
    let mut command = project.command(&["run", "Go"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line.contains("begun")).unwrap();
    (child, lines)
}

#[test]
fn an_interrupt_cancels_the_turn_and_a_second_one_leaves_and_both_save() {
    for (interrupts, stopped) in
        [(1, "Cancelled; waiting for kailai."), (2, "Stopped; the session is saved.")]
    {
        // An agent that cannot be asked to stop.
        let project = programs("trap '' INT TERM; echo begun; sleep 1000; echo never", "true");
        let (mut child, mut lines) = begun(&project);
        for _ in 0..interrupts {
            let process = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
            nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).unwrap();
            // Two signals that come together are one.
            lines.find(|line| line.contains("Ctrl-C again quits")).unwrap();
        }
        let rest: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert!(rest.iter().any(|line| line.contains(stopped)), "{rest:?}");
        let shown = project.run(&["sessions", "show", "last", "--turn", "1"]);
        assert!(shown.contains("turn 1: max answers message 1: cancelled"), "{shown}");
        assert!(shown.contains("bytes of a reply"), "{shown}");
    }
}

#[test]
fn a_closed_pipe_stops_the_run_which_says_so_and_everything_is_saved() {
    let speaks_on =
        "echo begun; while [ ! -e gone ]; do sleep .05; done; echo nobody hears; sleep 1000";
    let project = programs(&format!("[ ! -e gone ] || exec echo done; {speaks_on}"), "true");
    let (child, lines) = begun(&project);
    drop(lines);
    let project = project.file("gone", "");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the conversation was stopped; continue it with `"), "{said}");
    assert!(said.contains("--retry`: cannot write to standard output: "), "{said}");
    let later = events(&project, &["run", "--session", "last", "--retry", "--json"]);
    assert!(later.iter().any(|event| event["type"] == "stopped" && event["reason"] == "idle"));
}

fn said(events: &[Value]) -> Vec<(String, String)> {
    let messages = events.iter().filter(|event| event["type"] == "message");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    messages.map(|event| (text(&event["from"]), text(&event["text"]))).collect()
}

/// Reads lines from a command that gets no further than a page ahead: then its writing waits, and it with it.
fn in_step(stdout: ChildStdout) -> impl Iterator<Item = String> {
    fcntl(&stdout, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    BufReader::with_capacity(64, stdout).lines().map_while(Result::ok)
}

/// Runs the command and kills it when an event says so. Returns the events before that one, and whether
/// it was killed.
fn killed_at(
    project: &TestContext,
    arguments: &[&str],
    mut when: impl FnMut(&Value) -> bool,
) -> (Vec<Value>, bool) {
    let mut command = project.command(arguments);
    let mut child =
        command.env("CONVOKE_REHEARSAL_PACE", "yes").stdout(Stdio::piped()).spawn().unwrap();
    let lines = in_step(child.stdout.take().unwrap());
    let mut seen = Vec::new();
    for line in lines {
        let event: Value = serde_json::from_str(&line).unwrap();
        if when(&event) {
            child.kill().unwrap();
            child.wait().unwrap();
            return (seen, true);
        }
        seen.push(event);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    (seen, false)
}

/// Checks that a session of the sample came to its end, and that nothing in it is doubled.
fn assert_whole(project: &TestContext) {
    let shown = project.output(&["sessions", "show", "last", "--json"], b"").stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    let states = shown["turns"].as_array().unwrap().iter().map(|turn| &turn["state"]);
    assert!(states.clone().all(|state| state == "done"), "{shown}");
    assert_eq!(states.count(), 5);
    let checked = project.output(&["sessions", "replay", "--verify", "last"], b"");
    assert!(checked.status.success(), "{checked:?}");
}

const SAMPLE: [&str; 3] = ["run", "--rehearse", "--json"];
const GO_ON: [&str; 4] = ["run", "--session", "last", "--json"];

/// The end of the process at any moment loses nothing that was acknowledged.
#[test]
fn a_run_killed_during_a_turn_is_completed_later() {
    let whole = said(&events(&TestContext::new(), &SAMPLE));
    assert_eq!(whole.len(), 6);
    // Turns with more to say than the command can get ahead.
    for turn in [2, 4, 5] {
        let project = TestContext::new();
        let mut turns = 0;
        let (acknowledged, killed) = killed_at(&project, &SAMPLE, |event| {
            turns += u32::from(event["type"] == "turn-started");
            // When the agent has begun to speak.
            turns == turn && event["event"]["event"]["kind"] == "text"
        });
        assert!(killed);
        let later = events(&project, &GO_ON);
        let opened = later.iter().find(|event| event["type"] == "opened").unwrap();
        assert_eq!(opened["interrupted"].as_array().unwrap().len(), 1, "{opened}");
        let mut all = said(&acknowledged);
        all.extend(said(&later));
        assert_eq!(all, whole, "killed in turn {turn}");
        assert_whole(&project);
    }
}

#[test]
fn a_retry_after_a_crash_names_the_command_that_resumes() {
    let project = TestContext::new();
    let (_, killed) =
        killed_at(&project, &SAMPLE, |event| event["event"]["event"]["kind"] == "text");
    assert!(killed);
    let retried = project.output(&["run", "--session", "last", "--retry"], b"");
    assert_eq!(retried.status.code(), Some(2));
    let told = String::from_utf8(retried.stderr).unwrap();
    assert!(told.contains("nothing to retry"), "{told}");
    let (_, command) = told.trim_end().split_once("run the queued turns with: ").unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let resumed = project.output(&words, b"");
    assert!(resumed.status.success(), "{command}: {resumed:?}");
    assert_whole(&project);
}

#[test]
fn a_run_that_is_killed_repeatedly_ends_like_an_undisturbed_one() {
    let whole = said(&events(&TestContext::new(), &SAMPLE));
    let project = TestContext::new();
    let mut seed = 20_261_115_u64;
    let mut times = 0;
    let mut arguments = &SAMPLE[..];
    let mut acknowledged: Vec<(String, String)> = Vec::new();
    loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut left = 5 + (seed >> 33) % 200;
        let (seen, killed) = killed_at(&project, arguments, |_| {
            left -= 1;
            left == 0
        });
        acknowledged.extend(said(&seen));
        if !killed {
            break;
        }
        times += 1;
        arguments = &GO_ON;
    }
    assert!(times > 2, "killed only {times} times");
    // A message may be stored just before its event is written; none is lost or repeated.
    let mut rest = whole.iter();
    assert!(acknowledged.iter().all(|one| rest.any(|other| other == one)), "{acknowledged:?}");
    assert_whole(&project);
    let shown = project.output(&["sessions", "show", "last", "--json"], b"").stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(shown["messages"].as_array().unwrap().len(), whole.len());
}

#[test]
fn a_session_is_open_in_one_process_only() {
    let project = TestContext::new();
    let mut first =
        project.command(&["run", "--rehearse", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    // The command has the session open until its output is read.
    let mut lines = in_step(first.stdout.take().unwrap());
    lines.find(|line| line.contains("\"turn-started\"")).unwrap();
    let second = project.run(&["run", "--rehearse", "--session", "last", "x"]);
    assert!(second.starts_with("exit code: 1\n"), "{second}");
    let held = format!("is held by process {} on ", first.id());
    assert!(second.contains(&held), "{second}");
    assert!(second.contains("hint: wait until that process has ended, or end it"), "{second}");
    first.kill().unwrap();
    first.wait().unwrap();
}

const ROUND: &str = "[[member]]\nname = \"kim\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"claude\"\nrole-summary = \"Max leads.\"\n[[member]]\nname = \"lin\"\nagent = \"codex\"\n";

#[test]
fn a_team_is_rehearsed_in_a_round_with_each_role() {
    let shown = TestContext::new().file("convoke.toml", ROUND).run(&["run", "--rehearse", "Go"]);
    let said = "  Max leads.\n\n  I was sent a prompt of ";
    assert!(shown.contains(said), "{shown}");
    assert!(shown.contains("lin, what do you say?"), "{shown}");
    assert!(shown.contains("lin  turn 2, answers max"), "{shown}");
    assert!(!shown.contains("turn 3"), "{shown}");
}

#[test]
fn a_rehearsal_says_the_lines_of_a_script() {
    let team = ROUND.replace("role-summary = \"Max leads.\"\n", "");
    let script = "max: I read it.\n[NEXT: lin]\nlin: It is fine.\nmax: Then we ship.\n";
    let project = TestContext::new().file("convoke.toml", team).file("lines.txt", script);
    let shown = project.run(&["run", "--rehearse", "--script", "lines.txt", "Go"]);
    assert!(shown.contains("  I read it.\n") && shown.contains("  It is fine.\n"), "{shown}");
    let shown =
        project.run(&["run", "--rehearse", "--script", "lines.txt", "--session", "last", "And?"]);
    assert!(shown.contains("  Then we ship.\n"), "the script goes on: {shown}");
}
