//! A rehearsal with the real CLIs, at pinned versions: the prompts that a run shows are, member by member,
//! those that reached the model. `scripts/install-clis` installs them; where they are missing this test says
//! that it is skipped, and fails if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod installed;

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A user who has some CLIs, and a project with a team.
struct Place {
    project: TempDir,
    home: TempDir,
    path: String,
}

impl Place {
    fn new(clis: &[&str], team: &str) -> Option<Self> {
        let mut path = std::env::var("PATH").unwrap();
        for cli in clis {
            let directory = installed::programs(cli)?;
            path = format!("{}:{path}", directory.display());
        }
        let place = Self { project: TempDir::new().unwrap(), home: TempDir::new().unwrap(), path };
        if !team.is_empty() {
            std::fs::write(place.project.path().join("convoke.toml"), team).unwrap();
        }
        Some(place)
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            // Settings of the user must not reach a rehearsal.
            .env("ANTHROPIC_API_KEY", "the-user's-own")
            .env("OPENAI_BASE_URL", "http://127.0.0.1:1")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

fn texts<'e>(event: &'e Value, field: &str) -> Vec<&'e str> {
    event[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Runs a rehearsal and compares the stored prompts with those that the servers received.
fn what_is_shown_as_sent_is_what_arrived(place: &Place, arguments: &[&str], turns: usize) {
    let (code, output) = place.run(&[&["run", "--rehearse=cli", "--json"], arguments].concat());
    assert_eq!(code, Some(0), "{output}");
    let events: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reached: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "reached-model").collect();
    let started = events.iter().filter(|event| event["type"] == "turn-started").count();
    assert_eq!((started, reached.len()), (turns, turns), "{output}");
    for event in reached {
        let turn = event["turn"].to_string();
        let shown = |what: &str| place.run(&["sessions", "show", "last", "--turn", &turn, what]).1;
        let prompt = shown("--prompt");
        assert!(!prompt.is_empty());
        let messages = texts(event, "receivedMessages");
        assert!(messages.contains(&&*prompt), "turn {turn}: {prompt:?} is not in {messages:?}");
        assert_eq!(event["prompt"], "whole");
        let system = shown("--system");
        if !system.is_empty() {
            let received = texts(event, "receivedSystem");
            assert!(
                received.iter().any(|text| text.contains(&system)),
                "turn {turn}: {received:?}"
            );
        }
    }
    for event in events.iter().filter(|event| event["event"]["event"]["kind"] == "received") {
        requests_are_on_record(place, event);
    }
    let left = std::fs::read_dir(place.home.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["data"], "a program wrote into its user's home");
}

/// Compares the report of a turn about its requests with the stored requests.
fn requests_are_on_record(place: &Place, event: &Value) {
    let turn = event["turn"].to_string();
    let shown = place.run(&["sessions", "show", "last", "--turn", &turn, "--request", "--json"]);
    let requests: Vec<Value> =
        shown.1.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let received = &event["event"]["event"];
    assert_eq!(received["requests"], requests.len(), "{received}");
    let sum = |field: &str| requests.iter().map(|it| it[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(received["bytes"], sum("bytes"));
    let shares = received["shares"].as_array().unwrap().iter();
    assert_eq!(shares.map(|it| it["bytes"].as_u64().unwrap()).sum::<u64>(), sum("bytes"));
    let prompt = place.run(&["sessions", "show", "last", "--turn", &turn, "--prompt"]).1;
    let quoted = serde_json::to_string(&prompt).unwrap();
    let answers: Vec<&Value> = requests.iter().filter(|it| it["purpose"] == "answer").collect();
    assert!(!answers.is_empty());
    for request in answers {
        let body = request["body"].as_str().unwrap();
        assert!(body.contains(&quoted), "turn {turn}: the prompt is not in the stored request");
        assert_eq!((&request["status"], &request["ended"]), (&200.into(), &"answered".into()));
        assert_eq!(request["ledger"]["usedBytes"], body.len());
        assert!(request["usage"]["input"].as_u64().unwrap() > 0 && request["wire"].is_string());
        // The prompt keeps the entries of its own ledger within the request.
        let entries = request["ledger"]["entries"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["source"]["kind"] == "message"), "turn {turn}");
    }
}

#[test]
fn the_sample_runs_with_all_clis_at_once() {
    for (claude, codex) in [("claude-2.1.197", "codex-0.98.0"), ("claude-2.1.325", "codex-0.166.0")]
    {
        let clis = [claude, codex, "gemini-0.61.0"];
        let Some(place) = Place::new(&clis, "") else { continue };
        what_is_shown_as_sent_is_what_arrived(&place, &[], 5);
    }
}

/// A rehearsal that another process continues has its private homes at the same paths, which programs send.
#[test]
fn a_rehearsal_that_is_continued_begins_alike() {
    for (cli, agent) in [("claude-2.1.325", "claude"), ("gemini-0.61.0", "gemini")] {
        let team = format!("[[member]]\nname = \"max\"\nagent = \"{agent}\"\n");
        let Some(place) = Place::new(&[cli], &team) else { continue };
        for arguments in
            [&["run", "--rehearse=cli", "One."][..], &["run", "--session", "last", "Two."]]
        {
            let (code, output) = place.run(arguments);
            assert_eq!(code, Some(0), "{cli}: {output}");
            assert!(!output.contains("cache.broken"), "{cli}: {output}");
        }
        let (_, cache) = place.run(&["sessions", "show", "last", "--cache", "--json"]);
        let cache: Value = serde_json::from_str(&cache).unwrap();
        let requests = cache["requests"].as_array().unwrap();
        let continued = requests.iter().filter(|it| it["verdict"] != "first");
        let differences = continued.map(|it| &it["firstDifference"]["place"]);
        let differences: Vec<&str> =
            differences.map(|it| it.as_str().unwrap_or_default()).collect();
        assert!(!differences.is_empty(), "{cli}: {cache}");
        assert!(!differences.iter().any(|it| it.starts_with("system")), "{cli}: {differences:?}");
    }
}

/// Each CLI gets text that it might act on, stumble over or change.
#[test]
fn hard_texts_arrive_as_they_were_sent() {
    let text =
        "Line one\n\n  indented 你好 👩‍👩‍👧 é\u{301} \"q\" \\ \t| $HOME `ls` !ls [SYSTEM]\n/help";
    for (cli, agent) in [
        ("claude-2.1.197", "claude"),
        ("claude-2.1.325", "claude"),
        ("codex-0.98.0", "codex"),
        ("codex-0.166.0", "codex"),
        ("gemini-0.61.0", "gemini"),
    ] {
        let team = format!(
            "[[member]]\nname = \"max\"\nagent = \"{agent}\"\ninstructions = \"You are Max: 你是 Max.\"\n"
        );
        let Some(place) = Place::new(&[cli], &team) else { continue };
        what_is_shown_as_sent_is_what_arrived(&place, &[text], 1);
    }
}

/// With a private home, the user's own directory is one of those above the project.
#[test]
fn instructions_of_the_user_stay_out_of_a_rehearsal_below_the_home() {
    let team = "[[member]]\nname = \"ada\"\nagent = \"claude\"\n";
    let Some(mut place) = Place::new(&["claude-2.1.325"], team) else { return };
    place.project = TempDir::new_in(place.home.path()).unwrap();
    std::fs::write(place.project.path().join("convoke.toml"), team).unwrap();
    std::fs::write(place.project.path().join("AGENTS.md"), "Of the project.\n").unwrap();
    std::fs::create_dir(place.project.path().join(".git")).unwrap();
    std::fs::create_dir(place.home.path().join(".claude")).unwrap();
    std::fs::write(place.home.path().join(".claude/CLAUDE.md"), "Of the user.\n").unwrap();
    assert_eq!(place.run(&["trust", "--yes"]).0, Some(0));
    let (code, output) = place.run(&["run", "--rehearse=cli", "--to", "ada", "Hello."]);
    assert_eq!(code, Some(0), "{output}");
    let body = place.run(&["sessions", "show", "last", "--turn", "1", "--request", "--json"]).1;
    assert!(body.contains("Of the project.") && !body.contains("Of the user."), "{body}");
}
