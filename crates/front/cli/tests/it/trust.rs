//! `convoke trust`, and its effects.

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
fn a_line_break_in_the_name_of_a_directory_is_spelled_out() {
    let project = TestContext::new()
        .file("a\nb is trusted/convoke.toml", TEAM)
        .file("a\nb is trusted/work/.keep", "");
    for arguments in [&["--yes"][..], &["--revoke"]] {
        let said = project.run(&[&["trust", "a\nb is trusted"], arguments].concat());
        assert!(said.contains("/a\\nb is trusted"), "{said}");
        assert!(!said.contains("\nb is trusted"), "{said}");
    }
}

#[test]
fn a_directory_is_trusted_listed_and_revoked() {
    let project = project();
    let said = [
        project.run(&["trust", "--list"]),
        project.run(&["trust"]),
        project.run(&["trust", "--json"]),
        project.run(&["trust", "--yes"]),
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
    project.output(&["trust", "--yes"], b"");
    insta::assert_snapshot!("after", project.run(&["run"]));
}

#[test]
fn a_team_file_that_asks_for_more_must_be_trusted_again() {
    let project = project();
    project.output(&["trust", "--yes"], b"");
    let path = project.path().join("convoke.toml");
    let trusted = std::fs::read_to_string(&path).unwrap();
    let change = |from: &str, to: &str| std::fs::write(&path, trusted.replace(from, to)).unwrap();
    change("Say hello", "Say goodbye");
    assert!(project.run(&["trust"]).contains("is trusted; the team file asks for"));
    // Arguments that are left out make another command of it.
    for (from, to) in [("\"-x\"", "\"-c\""), ("args = [\"-x\"]\n", ""), ("hello", "bye")] {
        change(from, to);
        let run = project.run(&["run"]);
        let told =
            "the team file asks for more than you trusted; `convoke trust [DIRECTORY]` shows";
        assert!(run.contains("agent.setting-refused") && run.contains(told), "{run}");
    }
    change("args = [\"-x\"]", "args = [\"-c\", \"rm\"]");
    let difference = project.run(&["trust"]);
    let again = project.run(&["trust", "--yes"]);
    assert!(project.run(&["run"]).contains("exit code: 0"));
    // An earlier grant no longer counts.
    std::fs::write(&path, &trusted).unwrap();
    insta::assert_snapshot!([difference, again, project.run(&["trust"])].join("\n"));
}

/// A program that speaks the protocol of Claude Code, and stores its arguments.
const CLAUDE: &str = r#"#!/bin/sh
read message
echo "$@" >>arguments
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Fine."}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Fine.","session_id":"s1"}'
"#;

/// Returns a team of a program that may edit, which runs a script, and Claude Code with wider permissions.
fn team_of_low_and_high(script: &str) -> String {
    format!(
        r#"
[[member]]
name = "kim"
human = true

[[member]]
name = "low"
agent = "plain"
command = "/bin/sh"
args = ["-c", "{script}"]
sandbox = "edit"

[[member]]
name = "high"
agent = "claude"
sandbox = "edit-and-network"
"#
    )
}

/// A member that may edit plants settings, and a member with wider permissions has the next turn.
#[test]
fn settings_that_a_member_planted_are_not_followed_until_they_are_trusted() {
    let team = team_of_low_and_high(
        r#"mkdir -p .claude; echo '{\"hooks\": {}}' >.claude/settings.json; echo '[NEXT: high]'"#,
    );
    let project = TestContext::new().file("convoke.toml", team).program("claude", CLAUDE);
    let arguments = || {
        let arguments = std::fs::read_to_string(project.path().join("arguments")).unwrap();
        arguments.lines().last().unwrap().to_owned()
    };
    project.output(&["trust", "--yes"], b"");
    let first = project.run(&["run", "Hello"]);
    assert!(first.starts_with("exit code: 0"), "{first}");
    let told = ".claude/settings.json: changed since you trusted the directory";
    assert!(first.contains("agent.commands-changed") && first.contains(told), "{first}");
    assert!(arguments().contains("--setting-sources user --strict-mcp-config"), "{}", arguments());

    let shown = project.run(&["trust"]);
    assert!(
        shown.starts_with("exit code: 2") && shown.contains("+ .claude/settings.json"),
        "{shown}"
    );
    let json = project.run(&["trust", "--json"]);
    assert!(json.contains(r#""changedCommandFiles":[".claude/settings.json"]"#), "{json}");
    let again = project.run(&["trust", "--yes"]);
    assert!(again.contains("is trusted now"), "{again}");
    let second = project.run(&["run", "Hello"]);
    assert!(!second.contains("agent.commands-changed"), "{second}");
    assert!(arguments().contains("--setting-sources user,project,local"), "{}", arguments());

    std::fs::write(project.path().join(".claude/settings.json"), "{}").unwrap();
    let shown = project.run(&["trust"]);
    assert!(shown.contains("~ .claude/settings.json"), "{shown}");
}

/// While a member that may edit works in the same directory, it could plant settings after those of another were compared.
#[test]
fn settings_are_not_followed_beside_a_member_that_may_change_them() {
    for (workspace, sources) in [("shared", "user"), ("own", "user,project,local")] {
        let members = team_of_low_and_high("echo Fine.");
        let team = format!("workspace = \"{workspace}\"\n[limits]\nparallel = true\n{members}");
        let arguments = TestContext::new();
        let program =
            CLAUDE.replace(">>arguments", &format!(">>{}/arguments", arguments.path().display()));
        let own = format!("[agent.claude]\nwritable = [{:?}]\n", arguments.path());
        let project = TestContext::new().file("convoke.toml", &team).program("claude", &program);
        std::fs::create_dir_all(project.home().join("config")).unwrap();
        std::fs::write(project.home().join("config/agents.toml"), own).unwrap();
        project.output(&["trust", "--yes"], b"");
        let run = project.run(&["run", "Hello [NEXT: low, high]"]);
        assert!(run.starts_with("exit code: 0"), "{run}");
        assert_eq!(run.contains("agent.commands-shared"), workspace == "shared", "{run}");
        let given = std::fs::read_to_string(arguments.path().join("arguments")).unwrap();
        assert!(given.contains(&format!("--setting-sources {sources} ")), "{workspace}: {given}");
    }
}

#[test]
fn directories_trusted_by_an_earlier_version_are_asked_about_again() {
    let project = project();
    let list = format!("{{\"version\":1,\"directories\":[{:?}]}}", project.path());
    std::fs::create_dir_all(project.home().join("data")).unwrap();
    std::fs::write(project.home().join("data/trusted.json"), list).unwrap();
    let shown = project.run(&["trust"]);
    assert!(shown.contains("exit code: 2") && shown.contains("+ max: command = "), "{shown}");

    // The second version had no files.
    let project = project.file(".mcp.json", "{}");
    project.output(&["trust", "--yes"], b"");
    let path = project.home().join("data/trusted.json");
    let mut list: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    list["version"] = 2.into();
    for grant in list["directories"].as_object_mut().unwrap().values_mut() {
        *grant = grant["members"].take();
    }
    std::fs::write(&path, list.to_string()).unwrap();
    let shown = project.run(&["trust"]);
    assert!(shown.contains("exit code: 2") && shown.contains("+ .mcp.json"), "{shown}");
}

#[test]
fn a_person_is_asked_before_trust_is_granted() {
    for (answer, code, is_trusted) in [("n\n", "1", false), ("\n", "1", false), ("y\n", "0", true)]
    {
        let project = project();
        let Some(said) = project.on_a_terminal(&["trust"], answer) else { return };
        assert!(said.contains("max: command = ") && said.contains("Trust it? [y/N]"), "{said}");
        assert!(said.trim_end().ends_with(&format!("exit code: {code}")), "{said}");
        let list = project.run(&["trust", "--list"]);
        assert_eq!(list.contains("[DIRECTORY]"), is_trusted, "{list}");
    }
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
    let trusted = project.run(&["trust", "--yes"]);
    assert!(trusted.contains("max: env.MY_API_KEY = [redacted]"), "{trusted}");
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
fn a_rehearsal_refuses_an_unknown_agent() {
    let team = TEAM.replace("\"plain\"", "\"claud\"");
    let project = TestContext::new().file("convoke.toml", team);
    for arguments in [&["run", "Hello"][..], &["run", "--rehearse", "Hello"]] {
        let output = project.run(arguments);
        assert!(
            output.contains("no agent has the name `claud`; did you mean `claude`?"),
            "{output}"
        );
        assert!(output.contains("exit code: 2"), "{output}");
    }
}

#[test]
fn trust_does_not_cover_directories_below() {
    let project = project();
    project.output(&["trust", "--yes"], b"");
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
    project.output(&["trust", "--yes"], b"");
    project.output(&["run", "--rehearse"], b"");
    // An imported session has another team file than the trusted one.
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
    // The marks below the path are as long as the name of the temporary directory makes it.
    let marks = "^".repeat(file.as_os_str().len() + "\"\"".len());
    let shown = |project: &TestContext| {
        outside
            .masked(&project.run(&["prompt", "--for", "max"]))
            .replace("[DIRECTORY]/max.md", "[OUTSIDE]/max.md")
            .replace(&marks, &"^".repeat(24))
    };
    let before = shown(&project);
    project.output(&["trust", "--yes"], b"");
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
    for broken in ["[]", "{\"version\":9,\"directories\":{}}"] {
        std::fs::create_dir_all(project.home().join("data")).unwrap();
        std::fs::write(project.home().join("data/trusted.json"), broken).unwrap();
        said.push(project.run(&["trust"]));
    }
    insta::assert_snapshot!(said.join("\n"));
}
