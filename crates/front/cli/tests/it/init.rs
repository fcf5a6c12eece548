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

/// Runs the command with a limit on the size of files, which fails as a full disk does.
fn on_a_full_disk(context: &TestContext, blocks: u32, arguments: &str) -> std::process::Output {
    std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec {} {arguments}",
            env!("CARGO_BIN_EXE_convoke")
        ))
        .current_dir(context.path())
        .env_clear()
        .env("HOME", context.home())
        .output()
        .unwrap()
}

#[test]
fn a_full_disk_leaves_no_empty_file() {
    let context = TestContext::new();
    let output = on_a_full_disk(&context, 0, "init");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("cannot write") && error.contains("convoke.toml"), "{error}");
    assert_eq!(std::fs::read_dir(context.path()).unwrap().count(), 0, "{error}");
}

#[test]
fn a_directory_whose_path_is_not_utf8_is_refused_with_that_reason() {
    use std::os::unix::ffi::OsStrExt as _;

    let context = TestContext::new();
    let directory = context.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(
        directory.join("convoke.toml"),
        "[[member]]\nname = \"ada\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"claude\"\n",
    )
    .unwrap();
    for arguments in [&["init"][..], &["run", "--rehearse", "hello"], &["trust", "--yes"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(arguments)
            .current_dir(&directory)
            .env_clear()
            .env("HOME", context.home())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains("is not UTF-8; rename the directory"), "{arguments:?}: {error}");
    }
}

#[test]
fn an_error_of_the_store_says_that_the_disk_is_full_only_if_it_is() {
    let context = TestContext::new();
    let whole = on_a_full_disk(&context, 1 << 20, "run --rehearse hello");
    assert_eq!(whole.status.code(), Some(0));
    // The file cannot grow, but the disk has room.
    let output = on_a_full_disk(&context, 60, "run --rehearse hello");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("sessions.db: the disk could not be read or written"), "{error}");
    assert!(!error.contains("full") && !error.contains("damaged"), "{error}");
}
