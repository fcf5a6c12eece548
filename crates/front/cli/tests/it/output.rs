//! The options of every command, the documentation and the completions.

use crate::context::{TestContext, check_ledgers};

const TEAM: &str = "[[member]]\nname = \"max\"\nagent = \"claude\"\n\n[[member]]\nname = \"mia\"\nagent = \"gemini\"\n";

#[test]
fn a_quiet_run_shows_only_replies() {
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
    let piped = |choice: &str| project.output(&["docs", "--color", choice], b"").stdout;
    assert!(piped("always").contains(&0x1b), "also in a pipe");
    assert!(!piped("auto").contains(&0x1b), "else a pipe gets the exact bytes");
}

/// Each run of a command in these tests checks the ledgers that it writes; these are the commands that do.
#[test]
fn every_ledger_that_a_command_writes_is_as_its_schema_says() {
    let message = r#"{"content":"Hi","speaker":{"roleId":"k","roleName":"K","type":"human"}}"#;
    let project = TestContext::new().file("convoke.toml", TEAM).file("messages.jsonl", message);
    assert!(project.output(&["run", "--rehearse", "Hello [NEXT: max]"], b"").status.success());
    let input = r#"{"agent":"codex","input":{"currentMessage":"Ho"}}"#;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"assemblePrompt","params":["codex",{"currentMessage":"Ho"}]}"#;
    let commands: [(&[&str], &str); 5] = [
        (&["prompt", "--for", "max", "--messages", "messages.jsonl", "--json"], ""),
        (&["assemble"], input),
        (&["rpc"], call),
        (&["request", "hello", "--json"], ""),
        (&["sessions", "show", "last", "--turn", "1", "--json"], ""),
    ];
    for (arguments, input) in commands {
        let output = project.output(arguments, input.as_bytes());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(check_ledgers(&output.stdout), 1, "{arguments:?}: {error}");
    }
}

#[test]
fn the_documentation_is_part_of_the_program() {
    let project = TestContext::new();
    let list = project.run(&["docs"]);
    assert!(list.contains("team-file") && list.contains("tutorial"), "{list}");
    let page = project.output(&["docs", "trust"], b"").stdout;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/trust.md");
    assert_eq!(page, std::fs::read(file).unwrap());
    let unknown = project.run(&["docs", "tem-file"]);
    assert!(unknown.starts_with("exit code: 2"), "{unknown}");
    assert!(unknown.contains("did you mean `team-file`?"), "{unknown}");
}

#[test]
fn shells_complete_commands_members_and_sessions() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    project.output(&["run", "--rehearse", "--to", "max", "Hello"], b"");
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
fn a_rehearsal_without_a_task_begins_with_a_greeting() {
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
    for (task, hint) in
        [("@mxa Is it safe?", "did you mean `max`?"), ("@nobody, hello", "members: max, mia")]
    {
        let said = run(task);
        assert!(said.starts_with("exit code: 2"), "{said}");
        assert!(said.contains("no member or file has that name") && said.contains(hint), "{said}");
    }
    for text in ["`@nobody` is no member", "@angular/core fails", "what does @param mean?"] {
        let said = run(text);
        assert!(said.contains(&format!("user → max\n  {text}\n")), "{said}");
    }
}

#[test]
fn a_marker_that_names_no_member_is_a_failure() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    let said = project.run(&["run", "--rehearse", "Hello [NEXT: nobody]"]);
    assert!(said.starts_with("exit code: 1"), "{said}");
    assert!(said.contains("No member was addressed"), "{said}");
}

/// A team of stand-ins with the replies of the user's file.
fn replying(reply: &str) -> TestContext {
    let project = TestContext::new().file(
        "convoke.toml",
        "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"stand-in\"\n",
    );
    let config = project.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    let agents = format!("[agent.stand-in]\nreplies = [{reply:?}]\n");
    std::fs::write(config.join("agents.toml"), agents).unwrap();
    project
}

#[test]
fn a_marker_of_a_reply_that_names_no_member_is_a_failure() {
    let said = replying("I am done. [NEXT: bob]").run(&["run", "Hello"]);
    assert!(said.starts_with("exit code: 1"), "{said}");
    assert!(said.contains("A marker named no member; waiting for kim."), "{said}");
    assert!(said.contains("[NEXT: bob]: no member has that name"), "{said}");
    let said = replying("I am done. [NEXT: kim, bob]").run(&["run", "Hello"]);
    assert!(said.starts_with("exit code: 0"), "one of the names is right: {said}");
}

#[test]
fn quiet_output_of_one_agent_is_its_reply() {
    let output = replying("Forty-two.").output(&["run", "-q", "Hello"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Forty-two.\n");
}

#[test]
fn verbose_output_logs_what_is_done() {
    let project = replying("Forty-two.");
    let logged = |option: &[&str]| {
        let arguments = [&["run", "Hello"], option].concat();
        String::from_utf8(project.output(&arguments, b"").stderr).unwrap()
    };
    assert_eq!(logged(&[]), "");
    let log = logged(&["-v"]);
    for words in ["opening the store", "read the team", "turn 1 of max", "ended: done"] {
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[test]
fn help_fits_a_screen() {
    let project = TestContext::new();
    for command in [
        "",
        "run",
        "chat",
        "sessions",
        "sessions show",
        "serve",
        "changes",
        "undo",
        "redo",
        "check",
        "trust",
        "explain",
        "prompt",
        "request",
        "ask",
        "assemble",
        "rpc",
        "acp",
        "capture",
        "doctor",
        "docs",
    ] {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let help = project.output(&arguments, b"").stdout;
        let lines = String::from_utf8(help).unwrap().lines().count();
        assert!((5..=50).contains(&lines), "{command}: {lines} lines");
    }
    let whole = project.output(&["help", "request"], b"").stdout;
    assert!(
        String::from_utf8(whole).unwrap().contains("--output-schema"),
        "`help` has all options"
    );
}

#[test]
fn a_ledger_that_is_all_there_is_goes_to_standard_output() {
    let project = replying("Forty-two.");
    project.run(&["run", "Hello"]);
    let output = project.output(&["sessions", "show", "last", "--turn", "1", "--explain"], b"");
    assert!(String::from_utf8_lossy(&output.stdout).contains("MESSAGE"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let output =
        project.output(&["sessions", "show", "last", "--turn", "1", "--prompt", "--explain"], b"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("MESSAGE"), "{output:?}");
}

#[test]
fn long_output_goes_through_the_pager() {
    let project = TestContext::new().env("TERM", "xterm").env("PAGER", "sed s/^/paged:/");
    let Some(shown) = project.on_a_terminal_of(80, &["docs", "trust"]) else { return };
    assert!(shown.contains("paged:") && shown.contains("trust"), "{shown}");
    let shown = project.on_a_terminal_of(80, &["docs"]).unwrap();
    assert!(!shown.contains("paged:"), "it fits the screen: {shown}");
    let piped = project.output(&["docs", "trust"], b"").stdout;
    assert!(!String::from_utf8(piped).unwrap().contains("paged:"));
}

#[test]
fn errors_point_to_pages_of_the_program() {
    let project = TestContext::new().file("convoke.toml", TEAM);
    let said = project.run(&["init", "--help"]) + &project.run(&["explain", "--help"]);
    assert!(!said.contains("docs/"), "{said}");
}

#[test]
fn the_sample_belongs_to_another_directory() {
    let project = TestContext::new();
    project.run(&["run", "--rehearse"]);
    let listed = project.run(&["sessions", "list"]);
    assert!(listed.contains("No sessions of this directory"), "{listed}");
    assert!(listed.contains("1 session of other directories: `--all` lists them"), "{listed}");
    let last = project.output(&["sessions", "show", "last"], b"");
    let said = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(said.starts_with("the last session belongs to another directory: "), "{said}");
    assert!(String::from_utf8_lossy(&last.stdout).contains("sample review"));
}
