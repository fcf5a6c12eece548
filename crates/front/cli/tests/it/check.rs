//! `convoke check`: bad team files, each with its line and its fix.

mod members;
mod syntax;
mod unknown_settings;
mod values;

use serde_json::Value;

use crate::context::TestContext;

/// A valid member, for files with errors elsewhere.
const MAX: &str = "[[member]]\nname = \"max\"\nagent = \"claude\"\n";

/// The line, the code without its prefix, and words of one error.
type Expected = (usize, &'static str, &'static str);

/// A bad team file: a description, the text, and its errors. `MAX` in the text stands for a valid member of three lines.
type BadFile = (&'static str, &'static str, &'static [Expected]);

#[test]
fn every_error_is_shown_with_its_line_and_its_fix() {
    let bad = [members::BAD, syntax::BAD, unknown_settings::BAD, values::BAD].concat();
    assert!(bad.len() >= 100);
    for (what, text, expected) in bad {
        let context = TestContext::new().file("bad.toml", text.replace("MAX", MAX));
        let output = context.output(&["check", "bad.toml", "--json"], b"");
        assert_eq!(output.status.code(), Some(2), "{what}");
        let report = String::from_utf8(output.stderr).expect("UTF-8");
        let starts = report.lines().filter(|line| line.starts_with("bad.toml:"));
        let starts: Vec<&str> = starts.collect();
        assert_eq!(starts.len(), expected.len(), "{what}: {report}");
        assert_eq!(report.matches("= fix: ").count(), expected.len(), "{what}: {report}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["file"], "bad.toml");
        for (index, (line, code, words)) in expected.iter().enumerate() {
            let start = format!("bad.toml:{line}: ");
            assert!(starts[index].starts_with(&start), "{what}: {report}");
            let error = &json["errors"][index];
            assert_eq!(error["line"], *line, "{what}: {json}");
            assert!(error["column"].as_u64().is_some_and(|column| column > 0), "{what}: {json}");
            let found = error["code"].as_str().expect("a code");
            assert!(code.is_empty() || found == format!("team.{code}"), "{what}: {report}");
            let told = format!("{} {}", error["message"], error["fix"]).replace("\\\"", "\"");
            assert!(told.contains(words), "{what}: {report}");
        }
    }
}

#[test]
fn an_error_is_shown_below_its_place() {
    let text = format!("{MAX}\n[context]\nwindow = \"five\"\n\n[limit]\nturns = 5\n");
    let context = TestContext::new().file("convoke.toml", text);
    insta::assert_snapshot!(context.run(&["check"]));
}

#[test]
fn run_chat_prompt_and_doctor_give_the_same_report() {
    let context =
        TestContext::new().file("convoke.toml", format!("{MAX}modle = \"x\"\nwindow = \"\"\n"));
    let report = context.output(&["check"], b"");
    assert_eq!(report.status.code(), Some(2));
    for arguments in [&["run", "Hi"][..], &["chat"], &["prompt", "--for", "max"], &["doctor"]] {
        let output = context.output(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&report.stderr),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_valid_file_has_no_errors() {
    let context = TestContext::new().file("sub/convoke.toml", MAX);
    insta::assert_snapshot!(
        [
            context.run(&["check", "sub/convoke.toml"]),
            context.run(&["check", "sub/convoke.toml", "--json"]),
        ]
        .join("\n")
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let large = format!("{MAX}# {}\n", "x".repeat(1 << 20));
    let context = TestContext::new()
        .file("large.toml", large)
        .file("latin.toml", b"name = \"a\"\ntask = \"caf\xe9\"\n")
        .file("utf16.toml", b"\xff\xfen\0a\0m\0e\0")
        .file("d/x", "");
    let said = ["gone.toml", "large.toml", "latin.toml", "utf16.toml", "d"]
        .map(|file| context.run(&["check", file]));
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_team_file_that_is_not_a_file_is_an_error_of_every_command() {
    let context = TestContext::new();
    let made =
        std::process::Command::new("mkfifo").arg(context.path().join("convoke.toml")).status();
    assert!(made.unwrap().success());
    for arguments in [&["check"][..], &["run", "--rehearse", "Hi"], &["chat"], &["doctor"]] {
        let shown = context.run(arguments);
        assert!(shown.contains("exit code: 2"), "{arguments:?}: {shown}");
        assert!(
            shown.contains("convoke.toml:1: cannot read the team file"),
            "{arguments:?}: {shown}"
        );
    }
}

#[test]
fn a_key_in_the_file_is_not_repeated() {
    let key = "sk-0123456789abcdefghijklmnop";
    for setting in [
        format!("key-env = \"{key}\""),
        format!("key-env = {key}"),
        format!("key = \"{key}\""),
        format!("env = {{ A = 1, OPENAI_API_KEY = \"{key}\" }}"),
        format!("api-key = \"{key}\""),
    ] {
        let text = format!("[[member]]\nname = \"x\"\nagent = \"api\"\n{setting}\n");
        let context = TestContext::new().file("convoke.toml", text);
        let report = context.run(&["check", "--json"]);
        assert!(report.contains("convoke.toml:4: ") && !report.contains("0123"), "{report}");
    }
}

#[test]
fn the_users_own_files_are_reported_in_the_same_form() {
    for (file, text, line, fix) in [
        ("agents.toml", "[agent.claude]\nmodl = \"x\"\n", 2, "write `model`"),
        ("permissions.toml", "[[directory]]\npath = \"shop\"\n", 2, "write `path = "),
        ("agents.toml", "[agent.claude\n", 1, "close the header with `]`"),
    ] {
        let context = TestContext::new().file("convoke.toml", MAX);
        let config = context.home().join("config");
        std::fs::create_dir_all(&config).expect("a directory");
        std::fs::write(config.join(file), text).expect("a file");
        let start = format!("{}:{line}: ", config.join(file).display());
        for arguments in [&["check"][..], &["run", "Hi"], &["chat"], &["prompt", "--for", "max"]] {
            let output = context.output(arguments, b"");
            let report = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {report}");
            assert!(report.starts_with(&start) && report.contains(fix), "{report}");
        }
        let doctor = context.output(&["doctor"], b"");
        let report = String::from_utf8_lossy(&doctor.stdout).into_owned()
            + &String::from_utf8_lossy(&doctor.stderr);
        assert!(report.contains(&format!("{file}:{line}: ")), "{report}");
        let json = context.output(&["check", "--json"], b"").stdout;
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["errors"][0]["line"], line, "{json}");
    }
}
