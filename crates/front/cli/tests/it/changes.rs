//! `convoke changes` and `convoke undo`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
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
fn an_undo_that_cannot_be_reported_is_said_to_be_done() {
    for form in [&["--yes"][..], &["--yes", "--json"]] {
        let project = project(EDITS);
        project.run(&["run", "Go"]);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = project.command(&[&["undo"], form].concat()).stdout(full).output().unwrap();
        assert!(!project.path().join("new").exists());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let why = "is undone, but not reported: cannot write to standard output: No space left";
        assert!(said.contains(why), "{said}");
    }
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
    let again = project.run(&["undo", "last", "--turn", "1", "--yes"]);
    assert!(again.contains("turn 1 is undone already; `redo` with its number"), "{again}");
    insta::assert_snapshot!("redo", project.run(&["redo", "last", "--turn", "1", "--yes"]));
    assert_eq!(fs::read_to_string(project.path().join("new/b")).unwrap(), "hi\n");
}

/// A panic over a path that is shorter than the name of a submodule was once a record without changes.
#[test]
fn a_turn_among_many_files_with_a_submodule_is_recorded_and_undone() {
    let project = project("echo changed > a; echo changed > vendor/library/inside; echo done");
    for number in 0..300 {
        fs::write(project.path().join(format!("src/file{number}")), format!("{number}\n")).unwrap();
    }
    fs::write(project.path().join("a"), "short\n").unwrap();
    let library = project.path().join("vendor/library");
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("inside"), "inside\n").unwrap();
    let git = |directory: &Path, arguments: &[&str]| {
        let user = ["-c", "user.name=u", "-c", "user.email=u@example.org"];
        let local = ["-c", "protocol.file.allow=always"];
        let mut git = Command::new("git");
        git.args(user).args(local).args(arguments).current_dir(directory);
        assert!(git.status().unwrap().success(), "{arguments:?}");
    };
    for directory in [&library, project.path()] {
        git(directory, &["init", "-q"]);
        if directory != library.as_path() {
            git(directory, &["submodule", "--quiet", "add", "./vendor/library", "vendor/library"]);
        }
        git(directory, &["add", "-A"]);
        git(directory, &["commit", "-q", "-m", "first"]);
    }
    assert!(project.path().join(".gitmodules").exists());
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("  done\n  changed 2 files, +2 −2\n"), "{run}");
    let listed = project.run(&["changes"]);
    assert!(
        listed.contains("  modified a  ") && listed.contains("vendor/library/inside"),
        "{listed}"
    );
    let undone = project.run(&["undo", "--yes"]);
    assert!(undone.contains("exit code: 0"), "{undone}");
    assert_eq!(fs::read_to_string(project.path().join("a")).unwrap(), "short\n");
    assert_eq!(fs::read_to_string(library.join("inside")).unwrap(), "inside\n");
}

#[test]
fn a_turn_whose_recording_panics_is_said_to_be_beyond_undo() {
    let project = project(EDITS).env("CONVOKE_PANIC_IN", "recording");
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("are not recorded and cannot be undone: the recording stopped"), "{run}");
    let undone = project.run(&["undo", "--yes"]);
    assert!(undone.contains("was not recorded and cannot be undone: "), "{undone}");
}

#[test]
fn files_of_another_directory_are_changed_only_by_the_id_of_its_session() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let merge = &["changes", "apply", "max", "--yes"][..];
    for arguments in [&["undo", "--yes"][..], &["undo", "last", "--yes"], merge] {
        let output = project.command(arguments).current_dir(elsewhere.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("no session belongs to this directory"), "{arguments:?}: {error}");
        assert!(project.path().join("new/b").exists(), "{arguments:?}");
    }
    let id = json(&project, &["sessions", "list", "--json"])["sessions"][0]["id"].to_string();
    let undo = ["undo", id.trim_matches('"'), "--yes"];
    let output = project.command(&undo).current_dir(elsewhere.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!project.path().join("new").exists());
}

#[test]
fn json_distinguishes_agents_from_people() {
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
    let refused = project.output(&["undo", "--yes", "--json"], b"");
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((&report["refused"], &report["done"]), (&true.into(), &false.into()), "{report}");
    assert_eq!(
        (report["conflicts"][0]["path"].as_str(), refused.status.code()),
        (Some("new/b"), Some(1))
    );
    assert_eq!(fs::read_to_string(project.path().join("new/b")).unwrap(), "mine\n");
    assert!(!project.path().join("gone").exists());
}

#[test]
fn a_turn_goes_on_where_nothing_can_be_recorded() {
    let project = project(EDITS).env("PATH", "/nowhere");
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("changes.off") && run.contains("`git` was not found"), "{run}");
    says_that_turn_1_is_not_recorded(&project, "`git` was not found");
}

/// Checks that no command takes a turn that is not recorded for one that changed nothing.
fn says_that_turn_1_is_not_recorded(project: &TestContext, why: &str) {
    for (arguments, code) in [
        (&["undo", "--yes"][..], 2),
        (&["undo", "--turn", "1", "--yes"], 2),
        (&["changes"], 0),
        (&["changes", "--turn", "1"], 2),
        (&["sessions", "show", "last", "--turn", "1", "--changes"], 2),
    ] {
        let shown = project.run(arguments);
        assert!(shown.contains("not recorded") && shown.contains(why), "{arguments:?}: {shown}");
        assert!(
            shown.contains("turn 1") && shown.contains(&format!("exit code: {code}")),
            "{shown}"
        );
    }
    let chat = project.run_with_input(&["chat", "--session", "last"], b"/undo\n/quit\n");
    assert!(chat.contains("turn 1 (max) was not recorded") && chat.contains(why), "{chat}");
    let turn = json(project, &["changes", "--json"])["turns"][0].clone();
    assert_eq!((&turn["turn"], &turn["recorded"]), (&1.into(), &false.into()), "{turn}");
    assert!(turn["reason"].as_str().unwrap().contains(why), "{turn}");
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
    says_that_turn_1_is_not_recorded(&project, "");
    assert!(fs::read(project.path().join("moved")).unwrap() == noise, "nothing is lost");
    // With room again, a turn is recorded whole, as soon as the file is copied: no turn waits for that.
    let again = || {
        fs::rename(project.path().join("moved"), project.path().join("large")).unwrap();
        fs::write(project.path().join("src/a.rs"), "one\ntwo\nthree\n").unwrap();
        project.run(&["run", "--session", "last", "Again"])
    };
    let mut runs = std::iter::repeat_with(again).take(20);
    let run = runs.find(|run| !run.contains("changes.incomplete")).unwrap();
    assert!(run.contains("changed 2 files") && !run.contains("changes.off"), "{run}");
    let undo = project.run(&["undo", "--yes"]);
    assert!(undo.contains("exit code: 0"), "{undo}");
    assert!(fs::read(project.path().join("large")).unwrap() == noise);
    let restored = fs::read_to_string(project.path().join("src/a.rs")).unwrap();
    assert_eq!(restored, "one\ntwo\nthree\n");
}

#[test]
fn chat_undoes_after_it_showed_what_would_change() {
    let project = project(EDITS);
    let lines =
        "Go\n/undo\n/undo 1 yes\n/undo soon\n/undo\n/redo\n/redo 1 yes\n/redo 1 2 yes\n/quit\n";
    let chat = project.run_with_input(&["chat"], lines.as_bytes());
    assert!(
        chat.contains("this would undo turn 1 (max)") && chat.contains("/undo 1 yes does it"),
        "{chat}"
    );
    assert!(chat.contains("turn 1 (max) is undone"), "{chat}");
    assert!(chat.contains("a turn number is 1 or more"), "{chat}");
    // The second `/undo` does not offer the undone turn again.
    assert!(chat.contains("every turn that changed a file is undone; `redo` redoes"), "{chat}");
    assert!(
        chat.contains("this would redo turn 1 (max)") && chat.contains("/redo 1 yes does it"),
        "{chat}"
    );
    assert!(chat.contains("turn 1 (max) is redone; `undo` reverses it"), "{chat}");
    assert!(chat.contains("write /redo [N] [yes]"), "{chat}");
    assert!(!project.path().join("gone").exists());
}

#[test]
fn undo_and_redo_go_through_the_turns_and_say_in_json_what_they_did() {
    let project = project("n=$(ls f* 2>/dev/null | wc -l); echo x > f$n; echo done");
    project.run(&["run", "Go"]);
    project.run(&["run", "--session", "last", "Again"]);
    let step = |command: &str, is_done: bool| {
        let arguments: &[&str] =
            if is_done { &[command, "--json", "--yes"] } else { &[command, "--json"] };
        let report = json(&project, arguments);
        assert_eq!(report["done"], is_done, "{report}");
        (report["turn"].as_u64(), report["redo"].as_bool())
    };
    assert_eq!(step("undo", false), (Some(2), Some(false)), "a preview changes nothing");
    assert_eq!(step("undo", true), (Some(2), Some(false)));
    assert_eq!(step("undo", true), (Some(1), Some(false)));
    let nothing = json(&project, &["undo", "--json", "--yes"]);
    assert!(nothing["error"].as_str().unwrap().starts_with("every turn"), "{nothing}");
    let undone = || {
        let turns = json(&project, &["changes", "--json"])["turns"].clone();
        turns.as_array().unwrap().iter().map(|turn| turn["undone"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(undone(), [Value::from(true), true.into(), Value::Null, Value::Null]);
    assert_eq!(step("redo", false), (Some(1), Some(true)));
    assert_eq!(step("redo", true), (Some(1), Some(true)));
    assert_eq!(step("redo", true), (Some(2), Some(true)));
    assert!(project.path().join("f0").exists() && project.path().join("f1").exists());
    let nothing = project.run(&["redo", "--yes"]);
    assert!(nothing.contains("exit code: 2"), "{nothing}");
    assert!(nothing.contains("no turn of this session is undone"), "{nothing}");
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
fn json_has_what_an_undo_does_and_whether_it_was_done() {
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

#[test]
fn json_has_the_error_too() {
    let project = project("echo done");
    project.run(&["run", "Go"]);
    for (arguments, expected) in [
        (&["undo", "--json"][..], "no turn of this session changed a file"),
        (&["changes", "nothing", "--json"], "nothing"),
        (&["changes", "apply", "max", "--json"], "max has no workspace"),
        (&["changes", "discard", "max", "--json"], "max has no workspace"),
    ] {
        let output = project.output(arguments, b"");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = report["error"].as_str().unwrap();
        assert!(error.contains(expected) && text.contains(error), "{arguments:?}: {error}: {text}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn modes_commits_and_stashes_are_shown() {
    let script = "chmod 755 gone; for n in 1 2 3; do echo $n >> src/a.rs; git commit -qam $n; done; \
                  echo 4 >> src/a.rs; chmod 600 src/a.rs; git stash -q; chmod 600 src/a.rs; echo done";
    let project = project(script);
    let agents = project.home().join("config/agents.toml");
    let text = fs::read_to_string(&agents).unwrap().replace("\"edit\"", "\"full\"");
    fs::write(&agents, text).unwrap();
    for name in ["gone", "src/a.rs"] {
        fs::set_permissions(project.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    for arguments in [
        &["init", "-q"][..],
        &["config", "user.name", "u"],
        &["config", "user.email", "u@example.org"],
        &["config", "core.fileMode", "false"],
        &["add", "-A"],
        &["commit", "-qm", "first"],
    ] {
        let git = Command::new("git").args(arguments).current_dir(project.path()).status();
        assert!(git.unwrap().success());
    }
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("  done\n"), "{run}");
    let listed = project.run(&["changes"]);
    assert!(listed.contains("turn 1, max  2 files, +3 −0, 3 commits, 1 stash\n"), "{listed}");
    assert!(listed.contains("  mode     gone  644 → 755\n"), "{listed}");
    assert!(listed.contains("  modified src/a.rs  +3 −0, mode 644 → 600\n"), "{listed}");
    let diff = project.run(&["sessions", "show", "last", "--turn", "1", "--changes"]);
    assert!(diff.contains(", by 3 commits; the stash of "), "{diff}");
    let turn = json(&project, &["changes", "--json"])["turns"][0].clone();
    assert_eq!((&turn["commits"], &turn["stashes"]), (&3.into(), &1.into()), "{turn}");
    assert_eq!(turn["files"][0]["modes"], serde_json::json!(["644", "755"]), "{turn}");
}

/// Both agents wait until the other has begun.
const AT_ONCE: &str = "touch started-$$; n=0; while [ $(ls started-* | wc -l) -lt 2 ] && [ $n -lt 900 ]; do \
                       n=$((n+1)); sleep 0.1; done; echo line >> gone; echo done";

#[test]
fn what_two_sessions_did_at_the_same_time_is_named_and_not_undone_without_a_word() {
    let project = project(AT_ONCE);
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let mut command = project.command(&["run", "Go"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(shown.contains("changes.shared"), "{shown}");
        assert!(shown.contains("turn 1 of max in session "), "{shown}");
    }
    let changes = json(&project, &["changes", "--json"]);
    let own = changes["session"].as_str().unwrap();
    let shared = &changes["turns"][0]["sharedWith"][0];
    let other = shared["session"].as_str().unwrap();
    assert!(other != own && shared["turn"] == 1 && shared["member"] == "max", "{changes}");
    let named = format!("turn 1 of max in session {}", &other[24..32]);
    let listed = project.output(&["changes"], b"");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("at the same time as {named}")), "{listed}");

    let state = || fs::read_to_string(project.path().join("gone")).unwrap();
    let refused = project.output(&["undo", "--yes"], b"");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&named) && text.contains("  gone\n") && text.contains("--shared"),
        "{text}"
    );
    let refused = json(&project, &["undo", "--yes", "--json"]);
    assert_eq!(
        (&refused["done"], &refused["sharedWith"][0]["session"]),
        (&false.into(), &other.into())
    );
    let files = refused["sharedWith"][0]["files"].as_array().unwrap();
    assert!(files.contains(&"gone".into()), "{refused}");
    // The flag is named only where it helps.
    fs::write(project.path().join("gone"), "gone\nline\nline\nmine\n").unwrap();
    let conflict = project.run(&["undo", own, "--yes"]);
    assert!(
        conflict.contains("nothing was undone\n") && !conflict.contains("--shared"),
        "{conflict}"
    );
    let files = json(&project, &["undo", own, "--json"])["sharedWith"][0]["files"].clone();
    assert!(files.as_array().unwrap().contains(&"gone".into()), "{files}");
    fs::write(project.path().join("gone"), "gone\nline\nline\n").unwrap();
    let chat = |line: &str| project.run_with_input(&["chat", "--session", own], line.as_bytes());
    let refused = chat("/undo yes\n/quit\n");
    assert!(
        refused.contains("ran at the same time") && refused.contains("/undo 1 shared"),
        "{refused}"
    );
    assert_eq!(state(), "gone\nline\nline\n");
    let done = chat("/undo shared\n/quit\n");
    assert!(done.contains("turn 1 (max) is undone"), "{done}");
    assert_eq!(state(), "gone\n");
    let nothing = project.run(&["undo", other, "--shared", "--yes"]);
    // Its own mark counts for both turns only if the first had not begun before it.
    let is_left = nothing.contains("the files are as they were before");
    assert!(is_left || (nothing.contains("started-") && !nothing.contains("gone")), "{nothing}");
    // What was taken back is redone without the flag.
    let redone = project.run(&["redo", own, "--yes"]);
    assert!(redone.contains("turn 1 (max) is redone"), "{redone}");
    assert_eq!(state(), "gone\nline\nline\n");
    let undone = project.run(&["undo", own, "--shared", "--yes"]);
    assert!(undone.contains("turn 1 (max) is undone"), "{undone}");
    assert_eq!(state(), "gone\n");
}

#[test]
fn an_undo_that_leaves_a_file_as_it_is_says_so_and_fails() {
    let project = project("echo more >> large; echo x > small; echo done");
    let large = fs::File::create(project.path().join("large")).unwrap();
    large.set_len(11 << 20).unwrap();
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("changes.large"), "{run}");
    let undo = project.run(&["undo", "--yes"]);
    assert!(undo.contains("exit code: 1"), "{undo}");
    assert!(undo.contains("  large: it is over the size limit"), "{undo}");
    assert!(undo.contains("turn 1 (max) is undone in ") && !undo.contains("would"), "{undo}");
    assert!(undo.contains(", in part: 1 of 2 files are restored\n"), "{undo}");
    assert!(!project.path().join("small").exists());
    let again = project.output(&["redo", "--json", "--yes"], b"");
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&report["redo"], &report["complete"]), (&true.into(), &true.into()), "{report}");
    let left = project.output(&["undo", "--json", "--turn", "1"], b"");
    let report: Value = serde_json::from_slice(&left.stdout).unwrap();
    assert_eq!((left.status.code(), &report["complete"]), (Some(1), &false.into()), "{report}");
}

#[test]
fn a_long_list_is_cut_with_a_count_unless_all_is_asked_for() {
    let project =
        project("i=10; while [ $i -lt 70 ]; do echo x > f$i; i=$((i+1)); done; echo done");
    project.run(&["run", "Go"]);
    for command in [&["changes"][..], &["undo"]] {
        let cut = project.run(command);
        assert!(cut.contains("f59  +") && cut.contains("\n  and 10 more\n"), "{cut}");
        assert!(!cut.contains("f60"), "{cut}");
        let all = project.run(&[command, &["--all"]].concat());
        assert!(all.contains("f69") && !all.contains("more\n"), "{all}");
    }
    let files = json(&project, &["undo", "--json"])["files"].as_array().unwrap().len();
    assert_eq!(files, 60);
}

#[test]
fn what_a_turn_creates_and_ignores_itself_is_listed_and_undone() {
    let project = project("mkdir out; echo 1 > out/1; echo out > .gitignore; echo done");
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("changed 2 files"), "{run}");
    let listed = project.run(&["changes"]);
    assert!(listed.contains("added    out/1  +1 −0"), "{listed}");
    project.run(&["undo", "--yes"]);
    assert!(!project.path().join("out").exists());
}

/// Waits until a condition holds.
fn wait_until(is_met: impl Fn() -> bool) {
    while !is_met() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Returns the only file of a kind in a directory of the only store.
fn store_file(
    project: &TestContext,
    directory: &str,
    extension: &str,
) -> Option<std::path::PathBuf> {
    let store = fs::read_dir(project.home().join("data/changes/stores")).ok()?.next()?.ok()?;
    let files = fs::read_dir(store.path().join(directory)).ok()?.flatten();
    files.map(|entry| entry.path()).find(|it| it.extension().is_some_and(|it| it == extension))
}

#[test]
fn after_a_killed_turn_a_persons_work_is_not_taken_for_the_agents() {
    let project = project("echo agent >> gone; echo x > own; sleep 600");
    let mut command = project.command(&["run", "Go"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    let own = project.path().join("own");
    wait_until(|| fs::read(&own).is_ok_and(|text| text == b"x\n"));
    let written = fs::metadata(&own).unwrap().modified().unwrap();
    // The turn is seen to run after its changes.
    wait_until(|| {
        let file = store_file(&project, "running", "json").unwrap();
        fs::metadata(file).unwrap().modified().unwrap() > written
    });
    run.kill().unwrap();
    run.wait().unwrap();
    fs::write(project.path().join("mine"), "hours\n").unwrap();
    let listed = project.run(&["changes"]);
    assert!(listed.contains("turn 1, max, interrupted"), "{listed}");
    let may_be_yours = "these changes may be yours, made after its end:";
    assert!(listed.contains(may_be_yours) && listed.contains("    mine\n"), "{listed}");
    let turn = json(&project, &["changes", "--json"])["turns"][0].clone();
    assert_eq!(
        (&turn["interrupted"], &turn["uncertain"]),
        (&true.into(), &serde_json::json!(["mine"]))
    );
    let undo = project.run(&["undo", "--yes"]);
    assert!(undo.contains("exit code: 1") && undo.contains(may_be_yours), "{undo}");
    assert!(undo.contains("nothing was undone; `--shared`"), "{undo}");
    assert!(own.exists() && project.path().join("mine").exists());
    assert_eq!(json(&project, &["undo", "--json"])["uncertain"], serde_json::json!(["mine"]));
    let undo = project.run(&["undo", "--yes", "--shared"]);
    assert!(undo.contains("turn 1 (max) is undone"), "{undo}");
    assert!(!own.exists() && !project.path().join("mine").exists());
    assert_eq!(fs::read_to_string(project.path().join("gone")).unwrap(), "gone\n");
}

/// Puts the project back into the middle of an undo whose process was killed.
fn interrupt_the_undo(project: &TestContext) {
    let sessions = project.home().join("data/changes/sessions");
    let session = fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    let undo = session.join("00000002.json");
    let record: Value = serde_json::from_slice(&fs::read(&undo).unwrap()).unwrap();
    assert!(!record["undoes"].is_null(), "{record}");
    let stores = fs::read_dir(project.home().join("data/changes/stores")).unwrap();
    let journal = stores.flatten().next().unwrap().path().join("journal");
    let text =
        serde_json::json!({"record": record, "staging": journal.join("staging"), "modes": []});
    fs::write(journal.join("undo.json"), text.to_string()).unwrap();
    fs::write(journal.join("committed"), "").unwrap();
    fs::remove_file(undo).unwrap();
    fs::write(project.path().join("new"), "x\n").unwrap();
}

#[test]
fn an_interrupted_undo_is_completed_and_not_reversed_by_the_same_command() {
    let project = project("echo x > new; echo done");
    project.run(&["run", "Go"]);
    let undo = ["undo", "--yes"];
    project.run(&undo);
    interrupt_the_undo(&project);
    let again = project.run(&undo);
    let completed = "the undo of turn 1 (max) was interrupted, and is complete now";
    assert!(again.contains(completed) && again.contains("exit code: 0"), "{again}");
    assert!(!project.path().join("new").exists(), "{again}");

    // A session that was named is named by the command that reverses it.
    interrupt_the_undo(&project);
    let sessions = fs::read_dir(project.home().join("data/changes/sessions")).unwrap();
    let id = sessions.flatten().next().unwrap().file_name().into_string().unwrap();
    let named = project.run(&["undo", &id, "--yes"]);
    assert!(named.contains(completed), "{named}");
    assert!(named.contains(" redo ") && named.contains("` reverses it"), "{named}");

    // Whatever command completes it, the next undo says so first.
    interrupt_the_undo(&project);
    project.run(&["sessions", "show", "last", "--turn", "1", "--changes"]);
    assert!(!project.path().join("new").exists());
    let report = json(&project, &["undo", "--yes", "--json"]);
    assert_eq!((&report["completed"], &report["done"]), (&true.into(), &true.into()), "{report}");
    assert_eq!((&report["redo"], &report["turn"]), (&false.into(), &1.into()), "{report}");
    assert!(!project.path().join("new").exists());

    interrupt_the_undo(&project);
    let listed = project.run(&["changes"]);
    assert!(listed.contains(completed), "{listed}");
    interrupt_the_undo(&project);
    let chat = project.run_with_input(&["chat", "--session", "last"], b"/undo yes\n/quit\n");
    assert!(chat.contains(completed), "{chat}");
    interrupt_the_undo(&project);
    let run = project.run(&["run", "--session", "last", "Again"]);
    assert!(run.contains("changes.completed") && run.contains(completed), "{run}");
}

#[test]
fn json_has_the_names_of_files_and_text_shows_them_apart() {
    let script = "echo 1 > \"$(printf 'a\\nb')\"; echo 2 > 'a\\nb'; echo 3 > \"$(printf 'bad\\377')\"; echo done";
    let project = project(script);
    project.run(&["run", "Go"]);
    let files = json(&project, &["changes", "--json"])["turns"][0]["files"].clone();
    let names: Vec<&str> =
        files.as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["a\nb", "a\\nb", "bad\u{fffd}"], "{files}");
    assert_eq!(
        (&files[0]["pathBytes"], &files[2]["pathBytes"]),
        (&Value::Null, &"626164ff".into())
    );
    let listed = project.output(&["changes"], b"");
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in ["\"a\\nb\"  +1", "\"a\\\\nb\"  +1", "\"bad\\377\"  +1"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    let plan = json(&project, &["undo", "--json"]);
    assert_eq!(plan["files"][0]["path"], "a\nb", "{plan}");
}

#[test]
fn a_turn_that_changes_what_its_repository_ignores_is_named() {
    let project = project(
        "if [ -e f ]; then echo evil > hidden; else echo hidden >> .git/info/exclude; echo > f; fi; echo done",
    );
    let git = Command::new("git").args(["init", "-q"]).current_dir(project.path()).status();
    assert!(git.unwrap().success());
    let run = project.run(&["run", "Go"]);
    let note = "ignores more files, by `info/exclude` or `core.excludesFile`: hidden";
    assert!(run.contains("changes.repository") && run.contains(note), "{run}");
    let second = project.run(&["run", "--session", "last", "Again"]);
    assert!(!second.contains("changes.repository"), "{second}");
    assert!(project.run(&["changes"]).contains(note));
    let undo = project.run(&["undo"]);
    assert!(undo.contains("the repository stays as it is") && undo.contains(note), "{undo}");
}

#[test]
fn a_turn_that_does_not_exist_is_not_called_one_without_changes() {
    let project = project("echo done");
    project.run(&["run", "Go"]);
    for command in ["undo", "changes"] {
        let none = project.run(&[command, "--turn", "7"]);
        assert!(none.contains("turn 7 is not recorded: there is no such turn"), "{none}");
        let empty = project.run(&[command, "--turn", "1"]);
        assert!(empty.contains("turn 1 changed no file"), "{empty}");
    }
}

#[test]
fn changes_in_a_prompt_count_towards_its_budget() {
    let team = format!(
        "[context]\nchanges = \"diff\"\nmax-bytes = \"1500\"\n{TEAM}\n[[member]]\nname = \"sam\"\nagent = \"mine\"\n"
    );
    let script =
        "i=0; while [ $i -lt 400 ]; do echo a long line $i; i=$((i+1)); done > large; echo done";
    let project = project(script).file("convoke.toml", team);
    let run = project.run(&["run", "Go [NEXT: max, sam]"]);
    assert!(run.contains("context.dropped"), "{run}");
    let prompt = project.output(&["sessions", "show", "last", "--turn", "2", "--prompt"], b"");
    let prompt = String::from_utf8_lossy(&prompt.stdout).into_owned();
    assert!(prompt.contains("Go") && !prompt.contains("a long line 399"), "{prompt}");
}

#[test]
fn one_file_of_a_turn_is_shown_undone_and_redone() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    let stat = project.run(&["changes", "--stat"]);
    assert!(stat.contains(" src/a.rs | 3 ++-\n"), "{stat}");
    assert!(stat.contains(" 3 files changed, 3 lines added, 2 lines removed\n"), "{stat}");
    let names = project.run(&["changes", "--name-only", "--", "src"]);
    assert!(names.contains("----- stdout -----\nsrc/a.rs\n\n"), "{names}");
    let dry = project.run(&["undo", "--dry-run", "--", "src/a.rs"]);
    assert!(
        dry.contains("exit code: 0") && dry.contains("this would undo a part of turn 1"),
        "{dry}"
    );
    let undone = project.run(&["undo", "--yes", "--", "src/a.rs"]);
    assert!(undone.contains("`convoke redo -- src/a.rs` reverses it"), "{undone}");
    let text = || fs::read_to_string(project.path().join("src/a.rs")).unwrap();
    assert_eq!(text(), "one\ntwo\nthree\n");
    assert!(!project.path().join("gone").exists(), "the rest of the turn stays");
    let list = project.run(&["changes"]);
    assert!(list.contains("undo of a part of turn 1  1 file, +1 −2\n"), "{list}");
    project.run(&["redo", "--yes", "--", "src/a.rs"]);
    assert_eq!(text(), "one\n2\nthree\nfour\n");
    let refused = project.run(&["undo", "--yes", "--", "elsewhere/x"]);
    assert!(
        refused.contains("no turn of this session changed anything at elsewhere/x"),
        "{refused}"
    );
}

#[test]
fn the_rest_of_a_turn_is_undone_when_one_file_has_changed_since() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    fs::write(project.path().join("src/a.rs"), "mine\n").unwrap();
    let refused = project.run(&["undo", "--yes"]);
    assert!(refused.contains("nothing was undone; `--rest` undoes the others"), "{refused}");
    let undone = project.run(&["undo", "--yes", "--rest"]);
    assert!(undone.contains("left as they are:\n  src/a.rs: changed since\n"), "{undone}");
    assert_eq!(fs::read_to_string(project.path().join("gone")).unwrap(), "gone\n");
    assert_eq!(fs::read_to_string(project.path().join("src/a.rs")).unwrap(), "mine\n");
}

#[test]
fn every_line_of_a_file_names_the_turn_that_wrote_it() {
    let project = project(EDITS);
    project.run(&["run", "Go"]);
    fs::write(project.path().join("src/a.rs"), "zero\none\n2\nthree\nfour\n").unwrap();
    let blame = project.run(&["changes", "blame", "src/a.rs"]);
    let expected = "you, since   1  zero\nbefore       2  one\nturn 1, max  3  2\nbefore       4  three\nturn 1, max  5  four\n";
    assert!(blame.contains(expected), "{blame}");
    let lines = json(&project, &["changes", "blame", "src/a.rs", "--json"]);
    assert_eq!(lines["lines"][2]["member"], "max");
    let none = project.run(&["changes", "blame", "convoke.toml"]);
    assert!(none.contains("no turn of this session changed convoke.toml"), "{none}");
}

#[test]
fn a_turn_is_committed_by_the_person_and_runs_no_hook() {
    let project = project(EDITS);
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).current_dir(project.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["config", "user.name", "Kailai"]);
    git(&["config", "user.email", "kailai@example.org"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let hook = project.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\ntouch hooked\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    project.run(&["run", "Go"]);
    fs::write(project.path().join("unrelated"), "mine\n").unwrap();
    let done = project.run(&["changes", "commit", "-m", "Count from two"]);
    assert!(
        done.contains("turn 1 is committed as ") && done.contains(": Count from two"),
        "{done}"
    );
    let log = git(&["log", "-1", "--format=%an <%ae> %s", "--name-status"]);
    let expected = "Kailai <kailai@example.org> Count from two\n\nD\tgone\nA\tnew/b\nM\tsrc/a.rs\n";
    assert_eq!(log, expected);
    assert!(!project.path().join("hooked").exists(), "an agent may have written the hook");
    assert_eq!(git(&["status", "--porcelain"]), "?? unrelated\n");
    let again = project.run(&["changes", "commit"]);
    assert!(again.contains("exit code: 1") || again.contains("exit code: 2"), "{again}");
}
