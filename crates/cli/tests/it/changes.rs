//! `convoke changes` and `convoke undo`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::context::TestContext;

const TEAM: &str = r#"
[[member]]
name = "kailai"
human = true

[[member]]
name = "max"
agent = "mine"
"#;

/// Returns a project whose only agent runs a script.
fn project(script: &str) -> TestContext {
    let project = TestContext::new()
        .file("convoke.toml", TEAM)
        .file("src/a.rs", "one\ntwo\nthree\n")
        .file("gone", "gone\n")
        .env("PATH", "/usr/bin:/bin");
    let config = project.home().join("config");
    fs::create_dir_all(&config).unwrap();
    let agent = format!(
        "[agent.mine]\nkind = \"plain\"\ncommand = \"/bin/sh\"\npermissions = \"edit\"\nargs = [\"-c\", '''{script}''']\n"
    );
    fs::write(config.join("agents.toml"), agent).unwrap();
    project
}

/// Edits, adds and deletes a file.
const EDITS: &str = "printf 'one\\n2\\nthree\\nfour\\n' > src/a.rs; mkdir -p new; echo hi > new/b; \
                     rm -f gone; echo done";

fn json(project: &TestContext, arguments: &[&str]) -> Value {
    let output = project.output(arguments, b"");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_a_turn_changed_is_shown_listed_and_undone() {
    let project = project(EDITS);
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("  done\n  changed 3 files, +3 −2\n"), "{run}");
    insta::assert_snapshot!("list", project.run(&["changes"]));
    insta::assert_snapshot!(
        "diff",
        project.run(&["sessions", "show", "last", "--turn", "1", "--changes"])
    );
    insta::assert_snapshot!("undo_without_a_terminal", project.run(&["undo"]));
    assert_eq!(fs::read_to_string(project.path().join("new/b")).unwrap(), "hi\n");
    insta::assert_snapshot!("undo", project.run(&["undo", "--yes"]));
    assert!(!project.path().join("new").exists());
    assert_eq!(fs::read_to_string(project.path().join("gone")).unwrap(), "gone\n");
    assert_eq!(fs::read_to_string(project.path().join("src/a.rs")).unwrap(), "one\ntwo\nthree\n");
    insta::assert_snapshot!("undo_of_undo", project.run(&["undo", "last", "--turn", "1", "--yes"]));
    assert_eq!(fs::read_to_string(project.path().join("new/b")).unwrap(), "hi\n");
}

#[test]
fn json_tells_agents_from_people() {
    let project = project("echo x >> log; echo done");
    project.run(&["run", "Go"]);
    fs::write(project.path().join("mine"), "mine\n").unwrap();
    let events = project.run(&["run", "--session", "last", "--json", "Again"]);
    let changed: Vec<&str> =
        events.lines().filter(|line| line.contains("\"files-changed\"")).collect();
    assert!(
        changed[0].contains("\"by\":\"person\",\"files\":1,\"added\":1,\"removed\":0"),
        "{events}"
    );
    assert!(
        changed[1].contains("\"by\":\"agent\",\"files\":1,\"added\":1,\"removed\":0"),
        "{events}"
    );
    let changes = json(&project, &["changes", "last", "--json"]);
    let turns: Vec<String> = changes["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| {
            let file = &turn["files"][0];
            let field = |name: &str| file[name].to_string().replace('"', "");
            format!(
                "{} {} {}: {} {} +{} -{} {}",
                turn["turn"],
                turn["member"],
                turn["by"],
                field("status"),
                field("path"),
                field("added"),
                field("removed"),
                field("bytes")
            )
        })
        .collect();
    assert_eq!(
        turns,
        [
            "1 \"max\" \"agent\": added log +1 -0 2",
            "2 null \"person\": added mine +1 -0 5",
            "2 \"max\" \"agent\": modified log +1 -0 4"
        ]
    );
    let one = json(&project, &["changes", "--turn", "1", "--json"]);
    assert_eq!(one["turns"].as_array().unwrap().len(), 1);
}

#[test]
fn an_undo_is_refused_where_a_file_changed_since() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    fs::write(project.path().join("new/b"), "mine\n").unwrap();
    insta::assert_snapshot!(project.run(&["undo", "--yes"]));
    assert_eq!(fs::read_to_string(project.path().join("new/b")).unwrap(), "mine\n");
    assert!(!project.path().join("gone").exists());
}

#[test]
fn a_turn_goes_on_where_nothing_can_be_recorded() {
    let project = project(EDITS).env("PATH", "/nowhere");
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("changes.off") && run.contains("`git` was not found"), "{run}");
    let nothing = project.run(&["undo", "--yes"]);
    assert!(
        nothing.contains("exit code: 2") && nothing.contains("no turn of this session"),
        "{nothing}"
    );
}

/// Returns a command that cannot let a file grow over 2 MiB, as on a full disk.
fn limited(command: &Command) -> Command {
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\"";
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", script]).arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap()).env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

#[test]
fn a_turn_goes_on_when_the_disk_is_full() {
    let mut random = 7_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random.to_be_bytes()[0]
    })
    .take(5 << 20)
    .collect();
    let project = project("mv large moved; echo more >> src/a.rs; echo done");
    fs::write(project.path().join("large"), &noise).unwrap();
    let output = limited(&project.command(&["run", "Go"])).output().unwrap();
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && shown.contains("  done\n"), "{shown}");
    assert!(shown.contains("changes.off") && shown.contains("cannot be undone"), "{shown}");
    let nothing = project.run(&["undo", "--yes"]);
    assert!(nothing.contains("no turn of this session changed a file"), "{nothing}");
    assert!(fs::read(project.path().join("moved")).unwrap() == noise, "nothing is lost");
    // With room again, a turn is recorded whole, as soon as the file is copied: no turn waits for that.
    let again = || {
        fs::rename(project.path().join("moved"), project.path().join("large")).unwrap();
        fs::write(project.path().join("src/a.rs"), "one\ntwo\nthree\n").unwrap();
        project.run(&["run", "--session", "last", "Again"])
    };
    let mut runs = std::iter::repeat_with(again).take(20);
    let run = runs.find(|run| !run.contains("changes.incomplete")).unwrap();
    assert!(run.contains("changed 3 files") && !run.contains("changes.off"), "{run}");
    let undo = project.run(&["undo", "--yes"]);
    assert!(undo.contains("exit code: 0"), "{undo}");
    assert!(fs::read(project.path().join("large")).unwrap() == noise);
    let restored = fs::read_to_string(project.path().join("src/a.rs")).unwrap();
    assert_eq!(restored, "one\ntwo\nthree\n");
}

#[test]
fn chat_undoes_after_it_showed_what_would_change() {
    let project = project(EDITS);
    let lines = "Go\n/undo\n/undo 1 yes\n/undo soon\n/quit\n";
    let chat = project.run_with_input(&["chat"], lines.as_bytes());
    assert!(
        chat.contains("this would undo turn 1 (max)") && chat.contains("/undo yes does it"),
        "{chat}"
    );
    assert!(chat.contains("turn 1 (max) is undone"), "{chat}");
    assert!(chat.contains("a turn is a number, from 1"), "{chat}");
    assert!(project.path().join("gone").exists());
}

#[test]
fn purged_sessions_leave_no_recorded_contents() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    let stores = project.home().join("data/changes/stores");
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 1);
    project.run(&["sessions", "rm", "last", "--yes"]);
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 1, "it can be restored");
    project.run(&["sessions", "restore", "last"]);
    let removed = fs::read_dir(project.home().join("data/changes/sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let id = removed.file_name().into_string().unwrap();
    project.run(&["sessions", "rm", &id, "--purge", "--yes"]);
    assert_eq!(fs::read_dir(&stores).unwrap().count(), 0);
}

#[test]
fn a_teammate_is_told_what_changed_since_its_last_turn() {
    let team = |changes: &str| {
        format!(
            "[context]\nchanges = \"{changes}\"\n{TEAM}\n[[member]]\nname = \"sam\"\nagent = \"mine\"\n"
        )
    };
    for (form, expected) in [
        ("stat", "files changed by max (turn 1):\ndeleted  gone  +0 −1"),
        ("diff", "+++ /dev/null\n@@ -1 +0,0 @@\n-gone"),
    ] {
        let project = project(EDITS).file("convoke.toml", team(form));
        project.run(&["run", "Go [NEXT: max, sam]"]);
        let first = project.run(&["sessions", "show", "last", "--turn", "1", "--prompt"]);
        assert!(!first.contains("files changed"), "{first}");
        let second = project.run(&["sessions", "show", "last", "--turn", "2", "--prompt"]);
        assert!(
            second.contains("files changed by max (turn 1)") && second.contains(expected),
            "{second}"
        );
        let explained = project.run(&["sessions", "show", "last", "--turn", "2", "--explain"]);
        assert!(explained.contains("context.changes"), "{explained}");
        let replay = project.run(&["sessions", "replay", "--verify", "last"]);
        assert!(replay.contains("exit code: 0"), "{replay}");
    }
    let wrong = project("true").file("convoke.toml", team("all")).run(&["check"]);
    assert!(wrong.contains("convoke.toml:2:"), "{wrong}");
}

#[test]
fn a_fork_has_the_changes_of_its_turns_and_an_archive_has_none() {
    let project = project("echo x >> log; echo done");
    project.run(&["run", "Go"]);
    project.run(&["run", "--session", "last", "Again"]);
    let turns = |id: &str| {
        let changes = json(&project, &["changes", id, "--json"]);
        let turns = changes["turns"].as_array().unwrap().clone();
        turns.into_iter().map(|turn| turn["turn"].to_string()).collect::<Vec<_>>()
    };
    let id = json(&project, &["changes", "--json"])["session"].as_str().unwrap().to_owned();
    assert_eq!(turns(&id), ["1", "2"]);
    let fork = |arguments: &[&str]| {
        let output = project.output(&[&["sessions", "fork", &id], arguments].concat(), b"");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let early = fork(&["--after", "2"]);
    assert_eq!(turns(&early), ["1"]);
    let copy = fork(&[]);
    assert_eq!(turns(&copy), turns(&id));
    // What a session changed is undone in its copy; the other refuses to do it again.
    assert!(project.run(&["undo", &copy, "--yes"]).contains("is undone"));
    assert_eq!(fs::read_to_string(project.path().join("log")).unwrap(), "x\n");
    let exported = project.run(&["sessions", "export", &copy, "--all"]);
    assert!(exported.contains("changes.not-exported"), "{exported}");
}

/// The kernel keeps it from writing, so that nothing is recorded around its turns.
#[test]
fn a_turn_that_may_only_read_is_not_recorded() {
    let project = project("echo x > new; echo done");
    let agents = project.home().join("config/agents.toml");
    let text = fs::read_to_string(&agents).unwrap();
    fs::write(&agents, text.replace("\"edit\"", "\"read-only\"")).unwrap();
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("  done\n") && !run.contains("changed"), "{run}");
    assert!(!project.path().join("new").exists());
    assert!(!project.home().join("data/changes").exists());

    // Where the user lets it change something, it is recorded.
    let text = fs::read_to_string(&agents).unwrap();
    let writable = format!("writable = [{:?}]\n", project.path());
    fs::write(&agents, text + &writable).unwrap();
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("  done\n  changed 1 file, +1 −0\n"), "{run}");
}

#[test]
fn json_tells_what_an_undo_does_and_whether_it_was_done() {
    let project = project("echo x > new; echo done");
    project.run(&["run", "Go"]);
    let shown = json(&project, &["undo", "--json"]);
    assert_eq!(
        (&shown["done"], &shown["turn"], &shown["member"]),
        (&false.into(), &1.into(), &"max".into())
    );
    assert_eq!(shown["files"][0]["path"], "new", "{shown}");
    assert!(project.path().join("new").exists(), "nothing is done without --yes");
    let done = json(&project, &["undo", "--json", "--yes"]);
    assert_eq!(done["done"], true, "{done}");
    assert!(!project.path().join("new").exists());
}
