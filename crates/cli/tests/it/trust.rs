//! `convoke trust`, and what it changes.

use crate::context::TestContext;

const TEAM: &str = r#"
task = "Say hello"

[[member]]
name = "kailai"
human = true

[[member]]
name = "max"
agent = "plain"
command = "./agent.sh"
args = ["-x"]
env = { GREETING = "hello" }
cwd = "work"
sandbox = "edit"
"#;

fn project() -> TestContext {
    let project = TestContext::new()
        .file("convoke.toml", TEAM)
        .file("work/.keep", "")
        .file("agent.sh", "#!/bin/sh\necho \"$GREETING from $PWD\"\n");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let script = project.path().join("agent.sh");
    std::fs::set_permissions(&script, permissions).unwrap();
    let team = TEAM.replace("./agent.sh", &script.display().to_string());
    project.file("convoke.toml", team)
}

#[test]
fn a_directory_is_trusted_listed_and_revoked() {
    let project = project();
    let said = [
        project.run(&["trust", "--list"]),
        project.run(&["trust"]),
        project.run(&["trust", "."]),
        project.run(&["trust", "--list"]),
        project.run(&["trust", "--list", "--json"]),
        project.run(&["trust", "--revoke"]),
        project.run(&["trust", "--revoke", "--json"]),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_team_file_chooses_what_runs_only_when_it_is_trusted() {
    let project = project();
    insta::assert_snapshot!("before", project.run(&["run"]));
    project.output(&["trust"], b"");
    insta::assert_snapshot!("after", project.run(&["run"]));
}

#[test]
fn a_secret_in_a_team_file_is_neither_shown_nor_kept_and_the_agent_gets_it() {
    let secret = "supersecretvalue1";
    let project = project();
    let team = std::fs::read_to_string(project.path().join("convoke.toml")).unwrap();
    let team = team.replace("env = { ", &format!("env = {{ MY_API_KEY = \"{secret}\", "));
    let project = project.file("convoke.toml", team).file(
        "agent.sh",
        "#!/bin/sh\necho \"$GREETING, ${#MY_API_KEY} characters: $MY_API_KEY\"\n",
    );
    let trusted = project.run(&["trust"]);
    assert!(trusted.contains("max may use env.MY_API_KEY = [redacted]"), "{trusted}");
    let run = project.run(&["run"]);
    // The copy that the session keeps has no secret, and yet the agent gets it.
    let again = project.run(&["run", "--session", "last", "Again"]);
    let export = project.run(&["sessions", "export", "last", "--all"]);
    for text in [&run, &again] {
        assert!(text.contains("hello, 17 characters: [redacted]"), "{text}");
        assert!(text.contains("reply.redacted"), "{text}");
    }
    assert!(export.contains("MY_API_KEY"), "{export}");
    for text in [trusted, run, again, export] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_rehearsal_refuses_an_agent_that_nobody_knows() {
    let team = TEAM.replace("\"plain\"", "\"claud\"");
    let project = TestContext::new().file("convoke.toml", team);
    for arguments in [&["run", "Hello"][..], &["run", "--rehearse", "Hello"]] {
        let output = project.run(arguments);
        assert!(output.contains("no agent is called `claud`; did you mean `claude`?"), "{output}");
        assert!(output.contains("exit code: 2"), "{output}");
    }
}

#[test]
fn trust_is_for_the_directory_and_not_for_what_lies_below() {
    let project = project();
    project.output(&["trust"], b"");
    let below = TEAM.replace("cwd = \"work\"\n", "");
    let project = project.file("vendor/convoke.toml", below);
    insta::assert_snapshot!(project.run(&[
        "run",
        "--rehearse",
        "--team",
        "vendor/convoke.toml",
        "--deny",
        "agent.setting-refused"
    ]));
}

#[test]
fn a_session_does_not_bring_trust_with_it() {
    let project = project();
    project.output(&["trust"], b"");
    project.output(&["run", "--rehearse"], b"");
    // Somebody sends a session whose team file is another than the one that is trusted.
    let all = project.output(&["sessions", "export", "last", "--all"], b"").stdout;
    let all = String::from_utf8(all).unwrap().replace("agent.sh", "other.sh");
    let project = project.file("theirs.jsonl", all);
    let id = project.output(&["sessions", "import", "theirs.jsonl"], b"").stdout;
    let id = String::from_utf8(id).unwrap();
    insta::assert_snapshot!(project.run(&["run", "--rehearse", "--session", id.trim(), "Go on"]));
}

#[test]
fn instructions_outside_the_project_need_trust() {
    let outside = TestContext::new().file("max.md", "Be brief.");
    let file = outside.path().join("max.md");
    let team = format!(
        "[[member]]\nname = \"max\"\nagent = \"gemini\"\ninstructions-file = \"{}\"\n",
        file.display()
    );
    let project = TestContext::new().file("convoke.toml", team);
    let shown = |project: &TestContext| {
        outside
            .masked(&project.run(&["prompt", "--for", "max"]))
            .replace("[DIRECTORY]/max.md", "[OUTSIDE]/max.md")
    };
    let before = shown(&project);
    project.output(&["trust"], b"");
    insta::assert_snapshot!(format!("{before}\n\n{}", shown(&project)));
}

#[test]
fn bad_input_is_named_and_explained() {
    let project = TestContext::new().file("file", "");
    let mut said = vec![
        project.run(&["trust", "none"]),
        project.run(&["trust", "file"]),
        project.run(&["trust", "--list", "--revoke"]),
        project.run(&["trust", "--revoke", "/gone"]),
    ];
    for broken in ["[]", "{\"version\":2,\"directories\":[]}"] {
        std::fs::create_dir_all(project.home().join("data")).unwrap();
        std::fs::write(project.home().join("data/trusted.json"), broken).unwrap();
        said.push(project.run(&["trust"]));
    }
    insta::assert_snapshot!(said.join("\n"));
}
