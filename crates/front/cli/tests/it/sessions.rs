//! `convoke sessions`.

use std::process::Command;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::context::TestContext;

const TEAM: &str = r#"
name = "review"
task = "Review"

[[member]]
name = "kailai"
human = true

[[member]]
name = "max"
agent = "claude"
instructions = "You are Max."

[[member]]
name = "sarah"
agent = "gemini"
"#;

/// A project in which a session of four messages was held.
fn talked() -> TestContext {
    let project = TestContext::new().file("convoke.toml", TEAM);
    for arguments in [
        &["run", "--rehearse", "Is the token safe? [NEXT: max]"][..],
        &["run", "--rehearse", "--session", "last", "And the tests? [NEXT: max]"],
    ] {
        assert!(project.output(arguments, b"").status.success());
    }
    project
}

#[test]
fn sessions_are_listed_with_the_newest_first() {
    let project = talked();
    project.output(
        &["run", "--rehearse", "A second one, whose first message is too long to show"],
        b"",
    );
    let said = [
        TestContext::new().run(&["sessions", "list"]),
        project.run(&["sessions", "list"]),
        project.run(&["sessions", "list", "--json"]),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn the_list_fits_the_terminal() {
    let project = talked();
    let mut lists = Vec::new();
    for columns in ["40", "80", "120"] {
        let output = project
            .command(&["sessions", "list"])
            .env("COLUMNS", columns)
            .output()
            .expect("the command runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        for line in text.lines() {
            assert!(line.chars().count() <= columns.parse().unwrap(), "{columns}: {line}");
        }
        lists.push(project.masked(&format!("{columns} columns\n{text}")));
    }
    insta::assert_snapshot!(lists.join("\n"));
}

#[test]
fn sessions_belong_to_directories() {
    let project = talked().file("other/convoke.toml", TEAM).file("below/x", "");
    let id = project.output(&["sessions", "list", "--json"], b"").stdout;
    let id: Value = serde_json::from_slice(&id).unwrap();
    let id = id["sessions"][0]["id"].as_str().unwrap();
    let run = |directory: &str, arguments: &[&str]| {
        let output = project
            .command(arguments)
            .current_dir(project.path().join(directory))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        format!("{}{}", text(output.stdout), text(output.stderr))
    };
    assert!(run("below", &["sessions", "list"]).contains(&id[24..32]), "a directory above counts");
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("convoke.toml"), TEAM).unwrap();
    let elsewhere = elsewhere.path().to_str().unwrap();
    let none = run(elsewhere, &["sessions", "list"]);
    assert_eq!(
        none,
        "No sessions of this directory; `convoke run` starts one.\n\
         1 session of other directories: `--all` lists them\n"
    );
    let json = run(elsewhere, &["sessions", "list", "--json"]);
    assert_eq!(json, "{\"version\":1,\"sessions\":[],\"total\":0,\"elsewhere\":1}\n");
    assert!(run(elsewhere, &["sessions", "list", "--all"]).contains(&id[24..32]));
    let last = run(elsewhere, &["sessions", "show", "last"]);
    assert!(last.contains("the last session belongs to another directory: "), "{last}");
    for command in ["run", "chat"] {
        let refused = run(elsewhere, &[command, "--session", "last"]);
        let why = format!("no session belongs to this directory; the last session, {id}, belongs");
        assert!(refused.contains(&why), "{refused}");
    }
    assert!(last.contains(id), "{last}");
}

#[test]
fn messages_are_searched() {
    let project = talked();
    let search = |more: &[&str]| project.run(&[&["sessions", "search"], more].concat());
    insta::assert_snapshot!(
        [
            search(&["tok", "safe"]),
            search(&["TESTS?", "--json"]),
            search(&["nowhere"]),
            search(&["?", "…"]),
        ]
        .join("\n")
    );
}

#[test]
fn a_search_says_whether_there_are_more_messages() {
    let project = talked();
    let all = project.run(&["sessions", "search", "the"]);
    assert!(!all.contains("More messages"), "{all}");
    let one = project.run(&["sessions", "search", "the", "--limit", "1"]);
    assert!(one.contains("More messages contain these words; `--limit` shows more."), "{one}");
    let is_complete = |arguments: &[&str]| {
        let found = project.output(arguments, b"").stdout;
        let found: Value = serde_json::from_slice(&found).unwrap();
        found["isComplete"].clone()
    };
    assert_eq!(is_complete(&["sessions", "search", "the", "--json"]), true);
    assert_eq!(is_complete(&["sessions", "search", "the", "--json", "--limit", "1"]), false);
    // Matches of other directories take no place of those of this one.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("convoke.toml"), TEAM).unwrap();
    let mut search = project.command(&["sessions", "search", "the", "--limit", "1"]);
    let output = search.current_dir(elsewhere.path()).output().unwrap();
    let none = String::from_utf8(output.stdout).unwrap();
    assert!(none.contains("No message contains these words"), "{none}");
    assert!(!none.contains("More messages"), "{none}");
}

#[test]
fn a_session_is_renamed() {
    let project = talked();
    let rename = |name| project.run(&["sessions", "rename", "last", name]);
    let said = [
        rename("token review"),
        rename(" "),
        rename("two\nlines"),
        project.run(&["sessions", "list"]),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_removed_session_is_restored() {
    let project = talked();
    let list = || project.output(&["sessions", "list", "--json"], b"").stdout;
    let before = list();
    let id: Value = serde_json::from_slice(&before).unwrap();
    let id = id["sessions"][0]["id"].as_str().unwrap();
    let said = [
        project.run(&["sessions", "rm", &id[24..27]]),
        project.run(&["sessions", "rm", &id[24..28]]),
        project.run(&["sessions", "show", id]),
        project.run(&["sessions", "restore"]),
        project.run(&["sessions", "restore", &id[24..28]]),
        project.run(&["sessions", "restore", &id[24..28]]),
    ];
    let said = said.join("\n").replace(&id[24..28], "[ID]").replace(&id[24..27], "[TOO SHORT]");
    insta::assert_snapshot!(said);
    assert_eq!(before, list(), "a restored session is what it was");
    for arguments in
        [&["sessions", "rm", "--purge", "last"][..], &["sessions", "rm", "--purge", "--json", id]]
    {
        let refused = project.run(arguments);
        assert!(refused.starts_with("exit code: 2") && refused.contains("`--yes`"), "{refused}");
    }
    assert_eq!(before, list(), "what cannot be restored is not deleted unasked");
    project.run(&["sessions", "rm", "--purge", "last", "--yes"]);
    let gone = project.run(&["sessions", "restore", id]);
    assert!(gone.starts_with("exit code: 2"), "{gone}");
}

#[test]
fn a_removal_on_a_terminal_asks_for_confirmation() {
    let project = talked();
    let Some(refused) = project.on_a_terminal(&["sessions", "rm", "last"], "n\n") else { return };
    assert!(
        refused.contains("Remove? [y/N]") && refused.contains("Nothing was removed."),
        "{refused}"
    );
    let agreed = project.on_a_terminal(&["sessions", "rm", "last"], "y\n").unwrap();
    assert!(agreed.contains("removed session"), "{agreed}");
}

#[test]
fn a_transcript_is_written_as_markdown() {
    let project = talked();
    let transcript = project.run(&["sessions", "export", "last", "--markdown"]);
    let (before, rest) = transcript.split_once("a rehearsal, ").expect("it says so");
    let (time, after) = rest.split_once(" UTC").expect("a time");
    assert_eq!(time.len(), "2026-11-15 10:42:07".len());
    insta::assert_snapshot!(format!("{before}a rehearsal, [TIME] UTC{after}"));
}

#[test]
fn a_conversation_is_shown() {
    let project = talked();
    insta::assert_snapshot!("conversation", project.run(&["sessions", "show", "last"]));
    insta::assert_snapshot!(
        "conversation_json",
        project.run(&["sessions", "show", "last", "--json"])
    );
}

#[test]
fn a_turn_is_shown_with_what_was_sent() {
    let project = talked();
    let show = |more: &[&str]| project.run(&[&["sessions", "show", "last"], more].concat());
    insta::assert_snapshot!("turn", show(&["--turn", "2"]));
    insta::assert_snapshot!("prompts", show(&["--prompt"]));
    insta::assert_snapshot!("prompt", show(&["--turn", "2", "--prompt"]));
    insta::assert_snapshot!("system", show(&["--turn", "2", "--system"]));
    insta::assert_snapshot!("explain", show(&["--turn", "2", "--explain"]));
    insta::assert_snapshot!("events", show(&["--turn", "2", "--events"]));
    insta::assert_snapshot!("turn_json", show(&["--turn", "2", "--json"]));
}

/// Another version of the engine may assemble another prompt; the ledger is of the one that was sent.
#[test]
fn the_ledger_of_a_turn_is_the_stored_one() {
    let project = talked();
    let explain = ["sessions", "show", "last", "--turn", "2", "--explain"];
    let all = project.output(&["sessions", "export", "last", "--all"], b"").stdout;
    let all = String::from_utf8(all).unwrap();
    let changed = all.lines().map(|line| {
        let is_message = line.contains("\"speaker\":");
        if is_message {
            line.replace("the token", "the other token") + "\n"
        } else {
            format!("{line}\n")
        }
    });
    let changed: String = changed.collect();
    assert_ne!(changed, all);
    let other = TestContext::new().file("all.jsonl", changed);
    let imported = other.output(&["sessions", "import", "all.jsonl"], b"");
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    assert_eq!(other.output(&explain, b"").stdout, project.output(&explain, b"").stdout);
}

/// The prompt that is shown for a turn is the one that the agent read, to the byte.
#[test]
fn the_shown_prompt_is_the_one_that_the_agent_received() {
    let team = "[[member]]\nname = \"max\"\nagent = \"mine\"\ninstructions = \"Be brief.\"\n";
    let project = TestContext::new().file("convoke.toml", team).env("PATH", "/usr/bin:/bin");
    let read = project.path().join("read");
    std::fs::create_dir_all(project.home().join("config")).unwrap();
    let agent = format!(
        "[agent.mine]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"cat > {}; echo done\"]\n",
        read.display()
    );
    std::fs::write(project.home().join("config/agents.toml"), agent).unwrap();
    let said = project.run(&["run", "Tab\tand \u{1f469}\u{200d}\u{1f469} and\n\n  spaces  "]);
    assert!(said.starts_with("exit code: 0"), "{said}");
    let shown =
        project.output(&["sessions", "show", "last", "--turn", "1", "--prompt"], b"").stdout;
    assert_eq!(shown, std::fs::read(read).unwrap());
}

#[test]
fn the_prompt_that_a_member_would_get_now_is_shown() {
    let project = talked();
    insta::assert_snapshot!(project.run(&[
        "prompt",
        "--for",
        "sarah",
        "--session",
        "last",
        "--explain"
    ]));
}

#[test]
fn a_session_is_resumed() {
    let project = talked();
    insta::assert_snapshot!(project.run(&[
        "sessions",
        "resume",
        "last",
        "--rehearse",
        "--to",
        "sarah",
        "And you?"
    ]));
}

#[test]
fn a_fork_is_independent_of_the_original() {
    let project = talked();
    let copy = String::from_utf8(
        project.output(&["sessions", "fork", "last", "--after", "2"], b"").stdout,
    )
    .unwrap();
    project.output(&["run", "--rehearse", "--session", copy.trim(), "Another question"], b"");
    insta::assert_snapshot!(
        [
            project.run(&["sessions", "show", copy.trim()]),
            project.run(&["sessions", "fork", copy.trim(), "--json"]),
            project.run(&["sessions", "list"]),
        ]
        .join("\n")
    );
}

#[test]
fn an_exported_session_can_be_imported() {
    let project = talked();
    let prompts = project.output(&["sessions", "show", "last", "--prompt"], b"").stdout;
    let snapshot = project.output(&["sessions", "export", "last"], b"").stdout;
    insta::assert_snapshot!(
        "snapshot",
        project.masked(&String::from_utf8(snapshot.clone()).unwrap())
    );
    assert!(
        project
            .output(&["sessions", "export", "last", "--all", "--output", "all.jsonl"], b"")
            .status
            .success()
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &project.path().join("all.jsonl").metadata().unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    let other = TestContext::new().file("convoke.toml", TEAM).file("snapshot.json", snapshot);
    let imported = other.run(&["sessions", "import", "snapshot.json"]);
    let shown = other.run(&["sessions", "show", "last"]);
    let other = other.file("all.jsonl", std::fs::read(project.path().join("all.jsonl")).unwrap());
    let all = other.output(&["sessions", "import", "all.jsonl", "--json"], b"").stdout;
    let all: Value = serde_json::from_slice(&all).unwrap();
    let id = all["session"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(
        "import",
        [imported, shown, other.run(&["sessions", "replay", "--verify", &id]),].join("\n")
    );
    let theirs = other.output(&["sessions", "show", &id, "--prompt"], b"").stdout;
    assert_eq!(String::from_utf8(theirs), String::from_utf8(prompts));
    let again = project.run(&["sessions", "export", "last", "--output", "all.jsonl"]);
    insta::assert_snapshot!("never_overwritten", again);
}

#[test]
fn every_prompt_is_reproduced() {
    let project = talked();
    insta::assert_snapshot!(
        [
            project.run(&["sessions", "replay", "--verify", "last"]),
            project.run(&["sessions", "replay", "--verify", "last", "--json"]),
        ]
        .join("\n")
    );
}

#[test]
fn a_prompt_that_cannot_be_reproduced_is_named() {
    let project = talked();
    let all =
        String::from_utf8(project.output(&["sessions", "export", "last", "--all"], b"").stdout)
            .unwrap();
    // Messages are untrusted text; prompts are stored by their hash.
    let change = |line: &str| {
        let is_message = line.starts_with("{\"type\":\"message\"");
        let to = if is_message { "Is the token fine?" } else { "Is the token safe?" };
        line.replace("Is the token safe?", to)
    };
    let changed = all.lines().map(change).collect::<Vec<_>>().join("\n");
    assert_ne!(all.trim_end(), changed);
    let other = TestContext::new().file("all.jsonl", changed);
    let imported = other.run(&["sessions", "import", "all.jsonl"]);
    assert!(imported.starts_with("exit code: 0"), "{imported}");
    let said = other.run(&["sessions", "replay", "--verify", "last"]);
    assert!(said.starts_with("exit code: 1"), "{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn a_log_is_imported_without_the_texts_of_its_prompts() {
    let project = talked();
    let log = project.output(&["sessions", "export", "last", "--log"], b"").stdout;
    let messages = |project: &TestContext| -> Value {
        let shown = project.output(&["sessions", "show", "last", "--json"], b"").stdout;
        let mut shown: Value = serde_json::from_slice(&shown).unwrap();
        json!([shown["messages"].take(), shown["turns"].take(), shown["task"].take()])
    };
    let other = TestContext::new().file("log.jsonl", String::from_utf8(log).unwrap());
    let imported = other.run(&["sessions", "import", "log.jsonl"]);
    assert!(imported.starts_with("exit code: 0"), "{imported}");
    assert_eq!(messages(&other), messages(&project));
}

#[test]
fn the_tables_of_a_session_are_rebuilt_from_its_log() {
    let project = talked();
    let verified = project.run(&["sessions", "verify"]);
    assert!(verified.starts_with("exit code: 0"), "{verified}");
    assert!(
        verified.contains("1 of 1 sessions were rebuilt as they are stored, from "),
        "{verified}"
    );
    let file = project.home().join("data/sessions.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
        let damage = "UPDATE turn SET state = 'failed' WHERE number = 2";
        sqlx::raw_sql(damage).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    let verified = project.run(&["sessions", "verify", "last"]);
    assert!(verified.starts_with("exit code: 1"), "{verified}");
    assert!(verified.contains(": turn 2 is not what the log tells"), "{verified}");
}

#[test]
fn two_prompts_are_compared() {
    let project = talked();
    insta::assert_snapshot!("diff", project.run(&["sessions", "diff", "last", "1", "2"]));
    let json = project.output(&["sessions", "diff", "last", "1", "2", "--json"], b"").stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    insta::assert_snapshot!(
        "diff_json",
        project.masked(&serde_json::to_string_pretty(&json).unwrap())
    );
}

#[test]
fn sessions_are_removed() {
    let project = talked();
    project.output(&["run", "--rehearse", "x"], b"");
    insta::assert_snapshot!(
        [
            project.run(&["sessions", "rm", "last", "nothing"]),
            project.run(&["sessions", "rm", "last"]),
            project.run(&["sessions", "rm", "last", "--json"]),
            project.run(&["sessions", "list"]),
        ]
        .join("\n")
    );
}

#[test]
fn bad_input_is_named_and_explained() {
    let project = talked();
    project.output(&["run", "--rehearse", "another"], b"");
    let both = project.output(&["sessions", "list", "--json"], b"").stdout;
    let both: Value = serde_json::from_slice(&both).unwrap();
    let first = both["sessions"][0]["id"].as_str().unwrap()[..4].to_owned();
    let project = project
        .file("broken.jsonl", "{\"format\":\"convoke-session\",\"version\":9}\n")
        .file("none.json", "[]")
        .file("text.json", "no json");
    let talked = both["sessions"][1]["id"].as_str().unwrap();
    let run = |arguments: &[&str]| project.run(&[&["sessions"], arguments].concat());
    let cases = [
        ("no such session", run(&["show", "zzz"])),
        ("too short an id", run(&["show", &first]).replace(&first, "[BEGINNING]")),
        ("no such turn", run(&["show", talked, "--turn", "9"])),
        ("turn 0", run(&["show", talked, "--turn", "0"])),
        ("no such attempt", run(&["show", talked, "--turn", "1", "--attempt", "2"])),
        ("a system text of no turn", run(&["show", talked, "--system"])),
        ("a file that is not there", run(&["import", "gone.json"])),
        ("another version", run(&["import", "broken.jsonl"])),
        ("no snapshot", run(&["import", "none.json"])),
        ("no JSON", run(&["import", "text.json"])),
        ("no such message", run(&["fork", talked, "--after", "9"])),
        ("no mode of replay", run(&["replay", talked])),
        ("one turn only", run(&["diff", talked, "1"])),
        ("a turn that is not there", run(&["diff", talked, "1", "9"])),
        ("no command", project.run(&["sessions", "sho"])),
        (
            "a snapshot without a team",
            TestContext::new()
                .file("s.json", "{\"version\":1,\"messages\":[]}")
                .run(&["sessions", "import", "s.json"]),
        ),
    ];
    let cases = cases.map(|(name, said)| format!("## {name}\n{said}"));
    insta::assert_snapshot!(cases.join("\n\n"));
}

#[test]
fn sessions_are_read_where_nothing_can_be_written() {
    let project = talked();
    let run = |arguments: &[&str]| {
        // No file may grow, as on a full disk.
        let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
        let command = project.command(arguments);
        let output = Command::new("/bin/sh")
            .args(["-c", full, env!("CARGO_BIN_EXE_convoke")])
            .args(command.get_args())
            .current_dir(project.path())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, listed) = run(&["sessions", "list"]);
    assert!(code == Some(0) && listed.contains("max"), "{listed}");
    let (code, shown) = run(&["sessions", "show", "last"]);
    assert!(code == Some(0) && shown.contains("And the tests?"), "{shown}");
    assert_eq!(run(&["sessions", "rename", "last", "new"]).0, Some(1));
}

#[test]
fn an_import_that_cannot_be_read_names_its_file() {
    let said = TestContext::new().run(&["sessions", "import", "/tmp"]);
    assert!(said.contains("convoke: cannot read /tmp: Is a directory"), "{said}");
}

#[test]
fn a_file_that_is_no_snapshot_is_refused_for_what_it_is() {
    let context = TestContext::new();
    for (text, problem) in [
        ("", "the file is empty"),
        ("garbage", "expected value"),
        ("{\"version\":2,\"messages\":[]}", "version"),
    ] {
        let output = context.run_with_input(&["sessions", "import", "-"], text.as_bytes());
        assert!(output.contains(problem) && !output.contains("names no team"), "{output}");
        assert!(output.contains("exit code: 2"), "{output}");
    }
}

#[test]
fn a_turn_interrupted_by_a_crash_shows_how_to_continue() {
    let team = "[[member]]\nname = \"kim\"\nhuman = true\n\n\
                [[member]]\nname = \"ada\"\nagent = \"busy\"\n";
    let busy = "[agent.busy]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\n\
                args = [\"-c\", \"exec sleep 1000\"]\n";
    let context = TestContext::new()
        .env("CONVOKE_DATA_DIR", "data")
        .env("CONVOKE_CONFIG_DIR", "configuration")
        .file("convoke.toml", team)
        .file("configuration/agents.toml", busy);
    let mut command = context.command(&["run", "--json", "Hello"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let lines = std::io::BufReader::new(child.stdout.take().expect("its output"));
    // Kept open until the kill: a closed output would cancel the turn.
    let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"type\":\"turn-started\"")));
    let shown = context.run(&["sessions", "show", "last"]);
    assert!(shown.contains("turn 1, ada: running\n"), "{shown}");
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    drop(lines);
    let shown = context.run(&["sessions", "show", "last"]);
    assert!(shown.contains("turn 1, ada: interrupted; `convoke run --session "), "{shown}");
    let beyond = context.run(&["sessions", "diff", "last", "1", "99"]);
    assert!(beyond.contains("no turn 99; the last turn is 1"), "{beyond}");
}
