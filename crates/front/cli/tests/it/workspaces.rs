//! `workspace = "own"`, `convoke changes apply` and `convoke changes discard`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::context::TestContext;

/// A project with an ignored file, whose agents run scripts.
fn project(team: &str, scripts: &[(&str, &str)]) -> TestContext {
    let lines: Vec<String> = (1..=9).map(|line| format!("line {line}\n")).collect();
    let people = "\n[[member]]\nname = \"kailai\"\nhuman = true\n";
    let project = TestContext::new()
        .file("convoke.toml", format!("{team}{people}"))
        .file("text", lines.concat())
        .file(".gitignore", ".env\n")
        .file(".env", "KEY=1\n")
        .env("PATH", "/usr/bin:/bin");
    let config = project.home().join("config");
    fs::create_dir_all(&config).unwrap();
    let agents: Vec<String> = scripts
        .iter()
        .map(|(name, script)| {
            format!(
                "[agent.{name}]\nkind = \"plain\"\ncommand = \"/bin/sh\"\npermissions = \"edit\"\n\
                 args = [\"-c\", '''{script}''']\n"
            )
        })
        .collect();
    fs::write(config.join("agents.toml"), agents.concat()).unwrap();
    project
}

const OWN: &str = "[[member]]\nname = \"max\"\nagent = \"mine\"\nworkspace = \"own\"\n";
const EDITS: &str = "sed -i 's/line 2/max 2/' text; echo new > added; pwd; echo done";

fn read(project: &TestContext, name: &str) -> String {
    fs::read_to_string(project.path().join(name)).unwrap()
}

/// Masks the name of the project's store, and of the directory in a path.
fn masked(project: &TestContext, text: &str) -> String {
    let name = project.path().file_name().unwrap().to_str().unwrap();
    let text = text.replace(name, "PROJECT");
    let stores = fs::read_dir(project.home().join("data/workspaces")).into_iter().flatten();
    let names = stores.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.fold(text, |text, store| text.replace(&store, "STORE"))
}

fn workspace(project: &TestContext) -> PathBuf {
    let output = project.output(&["changes", "--json"], b"");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    PathBuf::from(json["workspaces"][0]["directory"].as_str().unwrap())
}

#[test]
fn a_member_works_in_a_copy_and_its_changes_are_merged_and_undone() {
    let project = project(OWN, &[("mine", EDITS)]);
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("changed 2 files, +2 −1"), "{run}");
    assert!(run.contains("workspace.created") && run.contains("; it lacks .env"), "{run}");
    assert!(!project.path().join("added").exists(), "{run}");
    let shown = |arguments: &[&str]| masked(&project, &project.run(arguments));
    insta::assert_snapshot!("list", shown(&["changes"]));
    insta::assert_snapshot!("dry_run", shown(&["changes", "apply", "max", "--dry-run"]));
    assert!(!project.path().join("added").exists());
    fs::write(project.path().join("text"), read(&project, "text").replace("line 8", "my 8"))
        .unwrap();
    insta::assert_snapshot!("apply", shown(&["changes", "apply", "max"]));
    let text = read(&project, "text");
    assert!(text.contains("max 2\n") && text.contains("my 8\n"), "{text}");
    insta::assert_snapshot!("list_after", shown(&["changes"]));
    insta::assert_snapshot!("undo", shown(&["undo", "--yes"]));
    assert!(!project.path().join("added").exists());
    assert!(read(&project, "text").contains("line 2\n"));
    let merge = shown(&["redo", "--merge", "max", "--yes"]);
    assert!(merge.contains("the merge of the workspace of max is redone"), "{merge}");
    assert!(project.path().join("added").exists());
    shown(&["undo", "--merge", "max", "--yes"]);
    let nobody = shown(&["undo", "--merge", "sam"]);
    assert!(nobody.contains("exit code: 2") && nobody.contains("no workspace of sam"), "{nobody}");
    let refused = shown(&["changes", "discard", "max"]);
    assert!(refused.contains("exit code: 2") && refused.contains("not merged"), "{refused}");
    insta::assert_snapshot!("discard", shown(&["changes", "discard", "max", "--yes"]));
    assert!(shown(&["changes", "discard", "max"]).contains("max has no workspace"));
    let diff = shown(&["changes", "--turn", "1"]);
    assert!(diff.contains("+max 2"), "{diff}");
}

#[test]
fn conflicts_are_shown_and_nothing_is_merged() {
    let project = project(OWN, &[("mine", EDITS)]);
    project.run(&["run", "Go"]);
    fs::write(project.path().join("text"), read(&project, "text").replace("line 2", "my 2"))
        .unwrap();
    insta::assert_snapshot!(masked(&project, &project.run(&["changes", "apply", "max"])));
    assert!(!project.path().join("added").exists());
    let json = project.output(&["changes", "apply", "max", "--json"], b"");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["merged"], &json["conflicts"][0]["path"]), (&false.into(), &"text".into()));
    assert_eq!(json["refused"], true);
    let discard = project.output(&["changes", "discard", "max", "--json"], b"");
    let json: Value = serde_json::from_slice(&discard.stdout).unwrap();
    let error = json["error"].as_str().unwrap();
    assert!(error.contains("nothing was removed") && discard.status.code() == Some(2), "{json}");
    let fork = project.run(&["sessions", "fork", "last"]);
    assert!(fork.contains("not copied: the workspaces of max"), "{fork}");
    let undo = project.run(&["undo", "--turn", "1", "--yes"]);
    assert!(undo.contains("a workspace of the session that this one was copied from"), "{undo}");
    // The next turn continues in a copy.
    project.run(&["run", "--session", "last", "Again"]);
    assert!(read(&project, "text").contains("my 2"));
    let discard = project.output(&["changes", "discard", "max", "--yes", "--json"], b"");
    let json: Value = serde_json::from_slice(&discard.stdout).unwrap();
    assert_eq!(json["member"], "max", "{json}");
    assert!(!PathBuf::from(json["directory"].as_str().unwrap()).exists());
}

#[test]
fn the_sandbox_is_that_of_the_workspace() {
    let before = TestContext::new();
    let outside = before.path().join("x").display().to_string();
    let script = format!(
        "echo a > a; echo evil > {outside} || echo refused 1; echo evil > \"$(cat project)/evil\" || echo refused 2; \
         git add -A && git commit -q -m mine || echo no commit; \
         echo evil > ../workspace.json || echo refused 3; \
         echo evil > \"$(cat .git/objects/info/alternates)/evil\" || echo refused 4; \
         git log --format=%s; cat .env || echo no env; echo done"
    );
    let project = project(OWN, &[("mine", &script)]);
    let root = project.path().display().to_string();
    let project = project.file("project", root);
    let run = project.run(&["run", "Go"]);
    for expected in ["refused 1", "refused 2", "refused 3", "refused 4", "mine\n", "no env"] {
        assert!(run.contains(expected), "{expected}: {run}");
    }
    assert!(!run.contains("no commit"), "{run}");
    assert!(!project.path().join("evil").exists() && !before.path().join("x").exists());
    let log = Command::new("git")
        .args(["log", "--format=%s"])
        .current_dir(workspace(&project))
        .output()
        .unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    assert_eq!(log, "Turn 1 of max\nmine\nState of the working directory before turn 1\n");
}

#[test]
fn teammates_are_told_where_a_workspace_is_and_what_it_holds() {
    let team = format!("{OWN}[[member]]\nname = \"sam\"\nagent = \"reads\"\n");
    let reads = "cat > prompt; f=$(grep -o '/[^ ]*workspaces/[^ ]*' prompt | head -1); cat \"${f%.}/added\"";
    let project = project(&team, &[("mine", EDITS), ("reads", reads)]);
    let run = project.run(&["run", "Go [NEXT: max, sam]"]);
    assert!(run.contains("  new\n"), "sam reads the workspace of max: {run}");
    let prompt = |turn: &str| {
        masked(&project, &project.run(&["sessions", "show", "last", "--turn", turn, "--prompt"]))
    };
    let (first, second) = (prompt("1"), prompt("2"));
    assert!(first.contains("You work in your own copy of") && first.contains(".env"), "{first}");
    assert!(
        second.contains("max works in a copy of [DIRECTORY]")
            && second.contains("added    added  +1 −0\nmodified text  +1 −1"),
        "{second}"
    );
    let explained = project.run(&["sessions", "show", "last", "--turn", "2", "--explain"]);
    assert!(explained.contains("workspace"), "{explained}");
    let replay = project.run(&["sessions", "replay", "--verify", "last"]);
    assert!(replay.contains("exit code: 0"), "{replay}");
}

#[test]
fn members_that_run_at_the_same_time_have_workspaces_unless_the_team_insists() {
    let team = |more: &str| {
        format!(
            "{more}[limits]\nparallel = true\n[[member]]\nname = \"max\"\nagent = \"mine\"\n\
             [[member]]\nname = \"sam\"\nagent = \"mine\"\n"
        )
    };
    let script = "echo x >> shared; echo done";
    let own = project(&team(""), &[("mine", script)]);
    let run = own.run(&["run", "Go [NEXT: max, sam]"]);
    assert!(!own.path().join("shared").exists(), "{run}");
    assert!(run.matches("workspace.created").count() >= 2, "{run}");
    assert!(own.run(&["changes", "apply", "max"]).contains("exit code: 0"));
    assert!(own.run(&["changes", "apply", "sam"]).contains("exit code: 0"), "the same file");
    assert_eq!(read(&own, "shared"), "x\n");
    let shared = project(&team("workspace = \"shared\"\n"), &[("mine", script)]);
    let run = shared.run(&["run", "Go [NEXT: max, sam]"]);
    assert!(shared.path().join("shared").exists() && !run.contains("workspace."), "{run}");
}

#[test]
fn ignored_files_are_copied_and_linked_by_settings() {
    let team = format!("{OWN}workspace-copy = [\".env\"]\n");
    let project = project(&team, &[("mine", "cat .env; echo done")]);
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("KEY=1") && !run.contains("lacks"), "{run}");
    let check = |text: &str| project_with(text).run(&["check"]);
    let wrong = check("workspace-link = [\"../x\"]\nworkspace = \"mine\"\n");
    assert!(wrong.contains("convoke.toml:1:") && wrong.contains("convoke.toml:2:"), "{wrong}");
    let unused = check("[[member]]\nname = \"ada\"\nagent = \"stand-in\"\nworkspace = \"own\"\n");
    assert!(unused.contains("is not used by `stand-in`, which changes no files"), "{unused}");
    let misplaced = check("[limits]\nworkspace = \"own\"\n");
    assert!(misplaced.contains("is a setting of the top of the file"), "{misplaced}");
}

fn project_with(text: &str) -> TestContext {
    project(text, &[("mine", "true")])
}

#[test]
fn a_workspace_that_cannot_be_created_fails_the_turn() {
    let project = project(OWN, &[("mine", EDITS)]).env("PATH", "/nowhere");
    let run = project.run(&["run", "Go"]);
    assert!(run.contains("no workspace for max: the program `git` was not found"), "{run}");
    assert!(!project.path().join("added").exists());
}

#[test]
fn workspaces_of_purged_sessions_are_removed_and_leftovers_are_found() {
    let project = project(OWN, &[("mine", EDITS)]);
    project.run(&["run", "Go"]);
    let workspace = workspace(&project);
    let session = workspace.parent().unwrap().parent().unwrap();
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let doctor = |project: &TestContext| masked(project, &project.run(&["doctor"]));
    assert!(!doctor(&project).contains("workspace.leftover"));
    fs::create_dir(session.join("max.new-1")).unwrap();
    let found = doctor(&project);
    assert!(
        found.contains("max.new-1: its creation or removal was interrupted")
            && found.contains("remove it: rm -r "),
        "{found}"
    );
    project.run(&["sessions", "rm", "last", "--yes"]);
    assert!(workspace.exists(), "it can be restored");
    project.run(&["sessions", "restore", &id]);
    project.run(&["sessions", "rm", &id, "--purge", "--yes"]);
    assert!(!session.exists());
    fs::create_dir_all(session).unwrap();
    assert!(doctor(&project).contains("its session no longer exists"));
}

#[test]
fn a_name_with_a_blank_is_quoted_where_a_command_can_be_copied() {
    let team = OWN.replace("\"max\"", "\"Sam B\"");
    let project = project(&team, &[("mine", EDITS)]);
    project.run(&["run", "Go"]);
    let listed = project.run(&["changes"]);
    assert!(listed.contains("`convoke changes apply 'Sam B'` merges them"), "{listed}");
}

/// A file in place of a workspace hides neither the turns nor the workspaces of others.
#[test]
fn a_link_in_place_of_a_workspace_does_not_hide_the_list() {
    let team = format!("{OWN}{}", OWN.replace("\"max\"", "\"sam\""));
    let project = project(&team, &[("mine", EDITS)]);
    project.run(&["run", "Go [NEXT: max, sam]"]);
    let directory = workspace(&project);
    fs::rename(&directory, directory.with_file_name("moved")).unwrap();
    std::os::unix::fs::symlink(project.path(), &directory).unwrap();
    let listed = project.run(&["changes"]);
    for part in [
        "turn 1, max",
        "turn 2, sam",
        "workspace of max",
        "is no longer a directory",
        "workspace of sam",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(listed.contains("exit code: 0"), "{listed}");
}

/// Nothing records what git ignores.
#[test]
fn discard_names_the_ignored_files_of_a_workspace_and_asks() {
    let project = project(OWN, &[("mine", "echo KEY=2 > .env; echo done")]);
    project.run(&["run", "Go"]);
    let workspace = workspace(&project);
    let refused = project.run(&["changes", "discard", "max"]);
    assert!(
        refused.contains("files that git ignores, which cannot be restored:\n  .env"),
        "{refused}"
    );
    assert!(refused.contains("exit code: 2") && workspace.join(".env").exists(), "{refused}");
    let json = project.output(&["changes", "discard", "max", "--json"], b"");
    assert_eq!(json.status.code(), Some(2));
    project.run(&["changes", "discard", "max", "--yes"]);
    assert!(!workspace.exists());
}
