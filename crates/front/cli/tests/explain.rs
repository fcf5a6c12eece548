//! `convoke explain` from outside: what a person sees, and the exit codes that scripts rely on.

#![expect(clippy::unwrap_used, reason = "a test may stop, and say so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A home directory with a repository `shop` in it.
struct Home {
    directory: TempDir,
}

impl Home {
    fn with(files: &[(&str, &str)]) -> Self {
        // Gemini is sent the paths of its files: they are to be of one length, wherever TMPDIR lies.
        let home = Self { directory: tempfile::tempdir_in("/tmp").unwrap() };
        home.write("shop/.git/HEAD", "ref: refs/heads/main\n");
        for (path, text) in files {
            home.write(path, text);
        }
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs the command in a directory of the home, and shows all that comes of it.
    fn explain(&self, cwd: &str, arguments: &[&str]) -> String {
        self.explain_as(cwd, arguments, &[("GEMINI_CLI_TRUST_WORKSPACE", "true")])
    }

    fn explain_as(&self, cwd: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .arg("explain")
            .args(arguments)
            .current_dir(self.path(cwd))
            .env_clear()
            .env("HOME", self.path(""))
            .env("COLUMNS", "80")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let place = self.path("").display().to_string();
        let place = place.trim_end_matches('/');
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(place, "[HOME]");
        let mut shown = format!("exit code {}\n", output.status.code().unwrap());
        for (title, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                shown = format!("{shown}----- {title}\n{}", text(bytes));
            }
        }
        shown
    }
}

/// The tree of the guided tour: a trap of every kind that newcomers meet first.
fn shop() -> Home {
    Home::with(&[
        (".claude/CLAUDE.md", "Answer briefly.\n"),
        (".codex/AGENTS.md", "Answer briefly.\n"),
        ("CLAUDE.md", "Notes for all my projects.\n"),
        ("shop/AGENTS.md", &"All prices are in cents.\n".repeat(2_000)),
        ("shop/CLAUDE.md", "# Shop\n@AGENTS.md\n@docs/style.md\nSee (@docs/style.md).\n"),
        ("shop/docs/style.md", "Short sentences.\n"),
        ("shop/GEMINI.md", "Ask @alice about taxes.\n"),
        ("shop/.cursorrules", "Use tabs.\n"),
        ("shop/api/AGENTS.md", "Never log tokens.\n"),
        ("shop/api/CLAUDE.md", "Never log tokens.\n"),
    ])
}

#[test]
fn a_repository_with_traps() {
    insta::assert_snapshot!(shop().explain("shop/api", &[]));
}

#[test]
fn all_editions_side_by_side_in_a_wide_terminal() {
    let agents = ["--agent", "claude@2.1.197,claude@2.1.325,gemini,codex@0.98,codex@0.166"];
    let wide = [("COLUMNS", "120"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")];
    insta::assert_snapshot!(shop().explain_as("shop", &agents, &wide));
}

#[test]
fn a_repository_where_all_is_well() {
    let home = Home::with(&[("shop/AGENTS.md", "Use tabs.\n")]);
    for name in ["CLAUDE.md", "GEMINI.md"] {
        std::os::unix::fs::symlink("AGENTS.md", home.path("shop").join(name)).unwrap();
    }
    insta::assert_snapshot!(home.explain("shop", &[]));
}

#[test]
fn a_directory_without_any_instructions() {
    insta::assert_snapshot!(Home::with(&[]).explain("shop", &[]));
}

#[test]
fn a_folder_that_gemini_does_not_trust() {
    let home = Home::with(&[("shop/GEMINI.md", "Use tabs.\n")]);
    insta::assert_snapshot!(home.explain_as("shop", &["--agent", "gemini"], &[]));
}

#[test]
fn what_a_read_file_brings_and_arguments_of_the_agents() {
    let home = Home::with(&[
        ("shop/CLAUDE.md", "Root.\n"),
        ("shop/api/CLAUDE.md", "Api.\n"),
        ("shop/.claude/rules/ts.md", "---\npaths: \"**/*.ts\"\n---\nTypes.\n"),
        ("extra/CLAUDE.md", "Extra.\n"),
    ]);
    let read = ["--agent", "claude", "--reads", "api/a.ts", "--", "--add-dir", "../extra"];
    insta::assert_snapshot!(home.explain("shop", &read));
}

#[test]
fn the_report_as_json() {
    let home = Home::with(&[
        ("shop/AGENTS.md", "0123456789"),
        ("shop/sub/AGENTS.md", "lost"),
        (".codex/config.toml", "project_doc_max_bytes = 4\n"),
    ]);
    insta::assert_snapshot!(home.explain("shop/sub", &["--json"]));
}

#[test]
fn an_installed_version_newer_than_every_edition_is_explained_by_the_newest() {
    let home = Home::with(&[
        ("shop/AGENTS.md", "Use tabs.\n"),
        ("claude/claude", ""),
        ("claude/package.json", r#"{"name": "@anthropic-ai/claude-code", "version": "2.1.400"}"#),
    ]);
    let path = home.path("claude").display().to_string();
    let explained = |agent: &str, format: &[&str]| {
        let arguments = [&["--agent", agent], format].concat();
        home.explain_as("shop", &arguments, &[("PATH", &path)])
    };
    let text = explained("claude", &[]);
    let note = "Claude Code 2.1.400 is installed; the newest known rules are those of 2.1.325\n";
    assert!(text.contains(note), "{text}");
    let text = explained("claude@2.1.197", &[]);
    let note = "Claude Code 2.1.400 is installed; the rules of 2.1.197 were applied\n";
    assert!(text.contains(note), "{text}");
    let cases = [("claude", "2.1.400", "2.1.325"), ("claude@2.1.197", "2.1.197", "2.1.197")];
    for (agent, version, edition) in cases {
        let json = explained(agent, &["--json"]);
        let head = format!(
            "\"version\": \"{version}\",\n      \"rulesOf\": \"claude@{edition}\",\n      \"verified\": null,"
        );
        assert!(json.contains(&head), "{json}");
    }
}

#[test]
fn a_path_is_explained_from_elsewhere() {
    let home = Home::with(&[("shop/AGENTS.md", "Use tabs.\n")]);
    let from_inside = home.explain("shop", &["--json"]);
    assert_eq!(home.explain("", &["shop", "--json"]), from_inside);
    let home_flag = ["shop", "--json", "--home", "."];
    assert_eq!(
        home.explain_as(
            "",
            &home_flag,
            &[("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("HOME", "/nonexistent")]
        ),
        from_inside
    );
}

#[test]
fn a_denied_diagnostic_is_exit_code_three() {
    let home = Home::with(&[("shop/AGENTS.md", "Use tabs.\n")]);
    let denied = home.explain("shop", &["--json", "--deny", "names.unread"]);
    assert!(denied.starts_with("exit code 3\n"), "{denied}");
    assert!(denied.ends_with("convoke: denied: names.unread (1)\n"), "{denied}");
    let other = home.explain("shop", &["--json", "--deny", "agents-md.truncated"]);
    assert!(other.starts_with("exit code 0\n"), "{other}");
}

#[test]
fn bad_usage_is_exit_code_two_with_a_reason() {
    let home = Home::with(&[("shop/AGENTS.md", "Use tabs.\n")]);
    let cases: [&[&str]; 8] = [
        &["missing"],
        &["AGENTS.md"],
        &["--home", "missing"],
        &["--home", "AGENTS.md"],
        &["--agent", "cursor"],
        &["--agent", "codex@0.1"],
        &["--deny", "agents-md.cut"],
        &["--deny", "nonsense"],
    ];
    let shown: Vec<_> = cases.iter().map(|arguments| home.explain("shop", arguments)).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn settings_that_cannot_be_read_are_reported() {
    let home = Home::with(&[
        ("shop/AGENTS.md", "Use tabs.\n"),
        (".claude/settings.json", "{\"claudeMdExcludes\": [}"),
        (".gemini/settings.json", "[]"),
        ("shop/.gemini/settings.json/x", "a directory in the place of the file"),
        (
            ".codex/config.toml",
            "project_doc_max_bytes = 5\nproject_doc_fallback_filenames = oops\n",
        ),
    ]);
    insta::assert_snapshot!(home.explain("shop", &[]));
}

#[test]
fn hostile_trees_neither_hang_nor_panic_nor_reach_the_terminal() {
    let home =
        Home::with(&[("shop/sub/CLAUDE.md", "@./\u{1b}[31mred.md and @../../../../etc/passwd\n")]);
    let link = |target: &str, path: &str| {
        std::os::unix::fs::symlink(target, home.path(path)).unwrap();
    };
    link("GEMINI.md", "shop/GEMINI.md");
    link("/dev/zero", "shop/CLAUDE.md");
    link("/dev/stdin", "shop/AGENTS.md");
    std::fs::create_dir_all(home.path("shop/.claude/rules")).unwrap();
    link("..", "shop/.claude/rules/up");
    home.write("shop/sub/AGENTS.md", b"\xff\xfe\x00binary");
    for name in ["shop/sub/GEMINI.md", "shop/CLAUDE.local.md"] {
        let made = Command::new("mkfifo").arg(home.path(name)).status();
        assert!(made.is_ok_and(|status| status.success()));
    }
    let sparse = std::fs::File::create(home.path("shop/sub/CLAUDE.local.md")).unwrap();
    sparse.set_len(64 * 1024 * 1024 * 1024).unwrap();
    let odd = home.path("shop/sub/\u{1b}[2Jodd\n");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join("CLAUDE.md"), "x\n").unwrap();

    let started = std::time::Instant::now();
    let cwd = Path::new("shop/sub/\u{1b}[2Jodd\n");
    let shown = home.explain(cwd.to_str().unwrap(), &[]);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert!(shown.starts_with("exit code 0\n"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let json = home.explain(cwd.to_str().unwrap(), &["--json"]);
    assert!(json.starts_with("exit code 0\n"), "{json}");
}

#[test]
fn names_that_are_not_text_are_shown_as_far_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::with(&[]);
    let odd = home.path("shop").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join("CLAUDE.md"), "x\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
        .args(["explain", "--json"])
        .current_dir(&odd)
        .env("HOME", home.path(""))
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("caf\u{fffd}/CLAUDE.md"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = shop();
    let mut child = Command::new(env!("CARGO_BIN_EXE_convoke"))
        .args(["explain", "--json"])
        .current_dir(home.path("shop"))
        .env("HOME", home.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
