//! Programs in a directory of the project that is on the `PATH`, where an agent could have put them.

use std::os::unix::fs::PermissionsExt as _;

use crate::context::TestContext;

const NAMES: [&str; 7] = ["claude", "codex", "gemini", "git", "node", "sh", "xdg-open"];

/// A project whose `bin` is the first directory of the `PATH`. Each program there leaves a file beside it.
fn project() -> TestContext {
    let team = "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"codex\"\n";
    let mut project = TestContext::new().file("convoke.toml", team);
    for name in NAMES {
        project = project.file(&format!("bin/{name}"), "#!/bin/sh\ntouch \"$0.ran\"\n");
        let path = project.path().join("bin").join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", project.path().join("bin").display());
    let home = project.home().join("home");
    std::fs::create_dir(&home).unwrap();
    project.env("PATH", &path).env("HOME", &home.display().to_string())
}

#[test]
fn a_program_in_the_project_is_never_run_by_name() {
    let project = project();
    for (arguments, told) in [
        (&["request", "--agent", "codex", "Hello"][..], "where an agent could have put it"),
        (&["explain", "--verify", "--agent", "claude"], "where an agent could have put it"),
        (&["capture", "--", "codex", "Hello"], "where an agent could have put it"),
        (&["capture", "--live", "--", "claude", "Hello"], "where an agent could have put it"),
        (&["doctor"], "doctor.in-project"),
        (&["doctor", "--verify"], "doctor.in-project"),
        (&["run", "Hello"], "where an agent could have put it"),
        (&["run", "--rehearse=cli", "Hello"], "`codex` is not installed"),
    ] {
        let shown = project.run(arguments);
        assert!(shown.replace("\n  ", " ").contains(told), "{arguments:?}: {shown}");
        for name in NAMES {
            let ran = project.path().join("bin").join(format!("{name}.ran"));
            assert!(!ran.exists(), "{arguments:?} ran {name}: {shown}");
        }
    }
}

/// A program outside whose interpreter is found by the `PATH`.
#[test]
fn an_interpreter_in_the_project_is_not_run_outside_of_the_sandbox() {
    let project = project();
    let elsewhere = project.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let codex = elsewhere.join("codex");
    std::fs::write(&codex, "#!/usr/bin/env node\n").unwrap();
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        format!("{}:{}:/usr/bin:/bin", project.path().join("bin").display(), elsewhere.display());
    let project = project.env("PATH", &path);
    for arguments in
        [&["request", "--agent", "codex", "Hello"][..], &["doctor"], &["doctor", "--ask"]]
    {
        let shown = project.run(arguments);
        assert!(!project.path().join("bin/node.ran").exists(), "{arguments:?}: {shown}");
    }
}

#[test]
fn a_browser_in_the_project_is_not_opened() {
    let project = project();
    let bin = project.path().join("bin");
    let project = project.env("PATH", &bin.display().to_string());
    let shown = project.run(&["serve", "--open", "--port", "0"]);
    assert!(shown.contains("--open: cannot run xdg-open"), "{shown}");
    assert!(!bin.join("xdg-open.ran").exists());
}
