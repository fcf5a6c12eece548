//! The options of every command, the documentation and the completions.

use crate::context::TestContext;

const TEAM: &str = "[[member]]\nname = \"max\"\nagent = \"claude\"\n\n[[member]]\nname = \"mia\"\nagent = \"gemini\"\n";

#[test]
fn a_quiet_run_shows_what_was_said() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    insta::assert_snapshot!(project.run(&["run", "-q", "--rehearse", "Hello"]));
}

#[test]
fn colours_are_chosen() {
    let project = TestContext::new().file("convoke.toml", TEAM).env("NO_COLOR", "1");
    let shown = |choice: &str| project.on_a_terminal(&["docs", "--color", choice], "");
    let Some(never) = shown("never") else { return };
    assert!(!never.contains('\u{1b}'), "{never:?}");
    assert!(!shown("auto").unwrap().contains('\u{1b}'), "NO_COLOR counts");
    assert!(shown("always").unwrap().contains('\u{1b}'));
    let piped = project.output(&["docs", "--color", "always"], b"").stdout;
    assert!(!piped.contains(&0x1b), "a pipe gets the exact bytes");
}

#[test]
fn the_documentation_is_part_of_the_program() {
    let project = TestContext::new();
    let list = project.run(&["docs"]);
    assert!(list.contains("team-file") && list.contains("tutorial"), "{list}");
    let page = project.output(&["docs", "trust"], b"").stdout;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trust.md");
    assert_eq!(page, std::fs::read(file).unwrap());
    let unknown = project.run(&["docs", "tem-file"]);
    assert!(unknown.starts_with("exit code: 2"), "{unknown}");
    assert!(unknown.contains("did you mean `team-file`?"), "{unknown}");
}

#[test]
fn shells_complete_commands_members_and_sessions() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    project.output(&["run", "--rehearse", "Hello"], b"");
    for (shell, mark) in
        [("bash", "complete -o"), ("zsh", "#compdef convoke"), ("fish", "complete --keep-order")]
    {
        let script = project.run(&["completions", shell]);
        assert!(script.starts_with("exit code: 0") && script.contains(mark), "{script}");
    }
    let completed = |words: &[&str]| {
        let output = project
            .command(&[&["--", "convoke"], words].concat())
            .env("COMPLETE", "fish")
            .output()
            .expect("the command runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(completed(&["sess"]).starts_with("sessions\t"));
    let members = completed(&["prompt", "--for", "m"]);
    assert_eq!(members.lines().collect::<Vec<_>>(), ["max", "mia"]);
    let sessions = completed(&["sessions", "show", ""]);
    let lines: Vec<&str> = sessions.lines().collect();
    assert!(lines[0].starts_with("last\t") && lines[1].ends_with(", 1 turn"), "{sessions}");
}

#[test]
fn manual_pages_are_written() {
    let project = TestContext::new();
    let page = project.run(&["man"]);
    assert!(page.contains(".TH convoke 1"), "{page}");
    project.run(&["man", "--output", "pages"]);
    let page =
        std::fs::read_to_string(project.path().join("pages/convoke-sessions-show.1")).unwrap();
    assert!(page.contains("\\-\\-prompt"), "{page}");
}

#[test]
fn a_prompt_on_a_terminal_has_its_system_text_beside_it() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    let Some(shown) = project.on_a_terminal(&["prompt", "--for", "max"], "") else { return };
    let system = shown.find("──── system text, ").expect("a heading");
    let prompt = shown.find("──── prompt, 0 bytes").expect("a heading");
    assert!(system < prompt, "{shown}");
    let piped = project.output(&["prompt", "--for", "max"], b"").stdout;
    assert_eq!(piped, b"", "a pipe gets the prompt alone");
}

#[test]
fn a_rehearsal_of_a_new_team_begins_by_itself() {
    let project = TestContext::new().env("PATH", "/usr/bin:/bin").env("USER", "kim");
    project.run(&["init"]);
    let said = project.run(&["run", "--rehearse"]);
    assert!(said.starts_with("exit code: 0") && said.contains("introduce yourself"), "{said}");
}

#[test]
fn names_at_the_beginning_of_a_task_address_it() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    let run = |task: &str| project.run(&["run", "--rehearse", task]);
    let said = run("@mia: Is it safe?");
    assert!(said.contains("user → mia\n  Is it safe?\n"), "{said}");
    let said = run("@all Is it safe?");
    assert!(said.contains("user → max, mia\n  Is it safe?\n"), "{said}");
    let said = run("@nobody Is it safe?");
    assert!(said.contains("user → max\n  @nobody Is it safe?\n"), "{said}");
}

#[test]
fn a_marker_that_calls_nobody_is_a_failure() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    let said = project.run(&["run", "--rehearse", "Hello [NEXT: nobody]"]);
    assert!(said.starts_with("exit code: 1"), "{said}");
    assert!(said.contains("No member was addressed"), "{said}");
}
