//! `convoke init`.

use crate::context::TestContext;

const NOTHING: &str = "#!/bin/sh\n";

#[test]
fn a_team_file_is_written_from_the_agents_that_are_installed() {
    let project = TestContext::new()
        .env("USER", "kailai")
        .program("claude", NOTHING)
        .program("gemini", NOTHING);
    let said = project.run(&["init"]);
    let file = std::fs::read_to_string(project.path().join("convoke.toml")).unwrap();
    let name = project.path().file_name().unwrap().to_string_lossy().into_owned();
    insta::assert_snapshot!(format!(
        "{said}\n----- convoke.toml -----\n{}",
        file.replace(&name, "[NAME]")
    ));
}

#[test]
fn the_written_team_can_be_rehearsed() {
    let project = TestContext::new().env("USER", "kailai");
    assert!(project.output(&["init"], b"").status.success());
    insta::assert_snapshot!(
        project
            .run(&["run", "--rehearse", "Say hello [NEXT: lead, reviewer]"])
            .replace(&*project.path().file_name().unwrap().to_string_lossy(), "[NAME]")
    );
}

#[test]
fn a_team_file_is_never_overwritten() {
    let project = TestContext::new().file("convoke.toml", "mine");
    insta::assert_snapshot!(project.run(&["init"]));
    assert_eq!(std::fs::read_to_string(project.path().join("convoke.toml")).unwrap(), "mine");
}

#[test]
fn json_names_the_written_file() {
    let project = TestContext::new().program("codex", NOTHING);
    insta::assert_snapshot!(project.run(&["init", "--json"]));
}
